//! The types a tile program is made of.

use gt_ir::ops::ReduceKind;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Shape, TensorType};
use smallvec::SmallVec;

use super::register_type;
use crate::{Part, Slot};

/// What a fused step computes; see the module's page.
#[derive(Clone, Debug, PartialEq)]
pub struct TileProgram {
    /// The extents that [`Level::Full`] runs over.
    pub space: Shape,
    /// The axes that [`TileFn::Fold`] folds: always the last ones. `None` in a program without row folds.
    pub row_axes: Option<AxisSet>,
    /// What [`Level::Part`] runs over.
    pub parts: Vec<Part>,
    /// What is read from outside. Values are broadcast to the extents of their level.
    pub ins: Vec<TileIn>,
    /// Elementwise results, and those of row folds.
    pub outs: Vec<TileOut>,
    /// Numbers that each run brings.
    pub consts: Vec<TileConst>,
    /// The type of each register: a half only for the result of a fold that is not widened yet.
    pub registers: Vec<DType>,
    /// In the order of the instructions they come from.
    pub ops: Vec<TileOp>,
    /// Folds whose results the step does not read.
    pub folds: Vec<TileFold>,
}

/// What an operation runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The positions of the space.
    Full,
    /// Its rows: what is left of the space when the row axes are folded.
    Row,
    /// The positions of the part of this number.
    Part(u8),
}

/// Where an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The input of this number.
    In(u16),
    /// The output of this number.
    Out(u16),
    /// The constant of this number.
    Const(u16),
    /// The register of this number.
    Reg(u16),
}

/// A value read from outside the step, at one level. A value read at two levels is two of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileIn {
    /// The value.
    pub slot: Slot,
    /// What it is read for.
    pub level: Level,
    /// Its elements, as they are stored.
    pub dtype: DType,
}

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOut {
    /// The value.
    pub slot: Slot,
    /// What it has elements for.
    pub level: Level,
    /// The instruction that it comes from.
    pub instr: u32,
    /// Its type, as it is stored.
    pub ty: TensorType,
}

/// A number that is the same for all elements of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileConst {
    /// The instruction whose scalar it is.
    pub instr: u32,
    /// Which of the instruction's scalars.
    pub nth: u8,
    /// The dtype it is a number of.
    pub dtype: DType,
    /// Whether it is rounded to the dtype, as the elements of a value are, or only to the precision that the dtype is
    /// computed in: an operand of arithmetic.
    pub rounded: bool,
}

/// One function applied to every element of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct TileOp {
    /// What is computed.
    pub f: TileFn,
    /// Where the result goes.
    pub dst: Spot,
    /// The operands.
    pub args: SmallVec<[Spot; 3]>,
    /// The level of the result.
    pub level: Level,
}

impl TileOp {
    /// The level of the operands (PROGRAM-3).
    pub fn read_level(&self) -> Level {
        match self.f {
            TileFn::Fold(_) => Level::Full,
            TileFn::Spread => Level::Row,
            TileFn::Place(part) => Level::Part(part),
            _ => self.level,
        }
    }
}

/// What an operation computes. The types are those of its operands and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileFn {
    /// A row of one number.
    Unary(UnaryKind),
    /// A row of two numbers.
    Binary(BinaryKind),
    /// A comparison.
    Compare(CompareKind),
    /// The second operand where the first one is true, else the third one.
    Select,
    /// A number of another type. From and to f32 where it is a half's.
    Cast,
    /// The same bits.
    Copy,
    /// A constant for every position.
    Splat,
    /// A half as f32.
    Widen,
    /// An f32 as a half: to nearest, ties to even.
    Narrow,
    /// The nearest f32 that this half dtype has, ties to even.
    Round(DType),
    /// Each row's element for all positions of its row.
    Spread,
    /// The elements of the part of this number at their positions of the space.
    Place(u8),
    /// All positions of a row to one element, in the order of REDUCE-1.
    Fold(ReduceKind),
}

/// A fold whose results are complete when the whole space has been walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileFold {
    /// The value it makes.
    pub slot: Slot,
    /// The instruction that it comes from.
    pub instr: u32,
    /// How elements are combined.
    pub kind: ReduceKind,
    /// The axes that are folded.
    pub axes: AxisSet,
    /// What is folded: a value of the space.
    pub source: Spot,
    /// The type of the result, as it is stored.
    pub ty: TensorType,
}

impl TileProgram {
    /// The extents that a level runs over.
    pub fn extents(&self, level: Level) -> Shape {
        match level {
            Level::Full => self.space,
            Level::Row => self.row_axes.unwrap_or_default().flatten_in(&self.space),
            Level::Part(part) => self.parts[usize::from(part)].shape,
        }
    }

    /// The type of the elements at a spot.
    pub fn dtype(&self, spot: Spot) -> DType {
        match spot {
            Spot::In(i) => self.ins[usize::from(i)].dtype,
            Spot::Out(o) => self.outs[usize::from(o)].ty.dtype,
            Spot::Const(c) => register_type(self.consts[usize::from(c)].dtype),
            Spot::Reg(r) => self.registers[usize::from(r)],
        }
    }
}
