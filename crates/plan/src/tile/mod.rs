//! Tile programs: what a fused step computes for each position of its space, as data.
//!
//! A program is made once, with the plan (`make`). An engine maps it to its own loops: the CPU engine to kernels, a GPU
//! engine prints C from it ([`c_source`]), the reference engine interprets it with the rows' own functions. So what one
//! engine prints, another has tested.
//!
//! A program is a list of operations on *registers*. A register holds one element for each position of its [`Level`]. How
//! many of them an engine works on at a time, and in what order, is the engine's choice: elements of one level do not
//! depend on each other, except through folds.
//!
//! PROGRAM-1: a register or an output is written before it is read, and by one operation. Only what [`TileFn::Place`] puts
//! together is written by several, one for each part, all of them before it is read.
//! PROGRAM-2: registers hold f32 for the halves. A half from outside is widened before anything else reads it, and narrowed
//! when it is written. Between, [`TileFn::Round`] gives each result the precision of its dtype, unless the function gives a
//! number of the dtype anyway.
//! PROGRAM-3: an operation reads and writes at its own level, with three exceptions: a fold reads positions and writes rows,
//! a spread reads rows and writes positions, a placement reads a part and writes positions. Constants have no level.
//! PROGRAM-4: each output is written once. The inputs' slots are those that the step reads; the slots of outputs and folds
//! together are those that it makes.
//! PROGRAM-5: operations and folds round once, to the type of what they write. An engine may merge or split loops, but it
//! must not contract a product and a sum to one rounding, nor fold in another order than REDUCE-1.
//!
//! What a program can hold besides what the planner makes today:
//! - *Folds over other axes than the rows'.* Each of [`TileProgram::folds`] names its axes. Its results are complete when the
//!   whole space has been walked, so the step cannot read them, but it may have row folds besides: the gradient of a norm
//!   folds rows for the gradient of its input, and columns for the gradient of its weight.
//! - *Longer rows.* Nothing in a program bounds the length of a row: the bound is the engine's
//!   ([`crate::EngineLimits::max_row_len`]). An engine that cannot hold a whole row walks it once for each row fold and
//!   computes again what leads to it; the blocks of REDUCE-1 are then the steps of that walk.

pub mod c_source;
mod make;
mod program;
mod text;
mod verify;

pub use program::{Level, Spot, TileConst, TileFn, TileFold, TileIn, TileOp, TileOut, TileProgram};

pub(crate) use make::write_programs;

/// What elements of a dtype are inside a register: halves are held as f32 (PROGRAM-2).
pub fn register_type(dtype: gt_ir::DType) -> gt_ir::DType {
    use gt_ir::DType::*;
    match dtype {
        F16 | BF16 => F32,
        Bool | U8 | I8 | I32 | I64 | F32 | F64 => dtype,
    }
}
