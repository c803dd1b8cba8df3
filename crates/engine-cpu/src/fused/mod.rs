//! Fused steps: elementwise instructions and the reductions that end them, run tile by tile.
//!
//! The step's space is walked in tiles of [`TILE`] elements. Every instruction is one loop over a tile, compiled ahead of time
//! for its function and type; between instructions a tile stays in the first-level cache. So the cost of interpreting is
//! one indirect call per instruction and tile, and nothing is compiled at run time.
//!
//! - `compile` maps a step's [`TileProgram`](gt_plan::tile::TileProgram) to loops and `assign` these to a [`Fused`] program:
//!   places, registers. They know types, not layouts.
//! - `bind` looks at the layouts of one run: how each operand is read, where each result goes; and runs it.
//! - `run` walks the space, on one thread or several; `frame` is what each of them has at hand.
//!
//! FUSED-1: a tile is a run of consecutive positions of the iteration order. Operands packed in that order are read where
//! they lie; one element for all is a constant tile; everything else is copied into a tile by its [`Walk`]. What comes again
//! after so many positions (a bias, a table of positions) is copied once if all tiles are alike then, and read where it
//! lies if they are cuts of it.
//! FUSED-2: every result is packed in the iteration order, so it is written where it will lie. Where that order is not
//! row-major (a reduction of middle axes, operands that are all permuted alike) the result's layout says so.
//! FUSED-3: a result may take over the storage of an operand that dies. It is written directly when the operand was read
//! before by every loop that needs it, and by way of a tile of its own otherwise.
//! FUSED-4: everything that can fail happens before the walk begins.
//! FUSED-5: a step that reads the results of its own reductions is walked in whole rows, several to a tile. Its loops run over
//! positions or over rows ([`Level`]), in the order of the instructions.
//! FUSED-6: what leads to a concatenation inside the step is computed for the positions of its part alone, which lie side by
//! side in the part's own order ([`Level::Part`]), and then put among those of the other parts. Such a step is walked
//! in row-major order.

mod assign;
pub mod binary;
mod bind;
mod columns;
mod compile;
pub mod convert;
mod frame;
pub mod kernel;
mod own;
mod pairs;
mod place;
mod run;
mod unary;
mod walk;

use std::sync::Arc;

use gt_ir::{AxisSet, Shape, TensorType};
use gt_plan::tile::Level;
use gt_plan::{Part, Slot};

use crate::Layout;
use crate::reduce::ReduceKernels;
use kernel::Kernel;

pub(crate) use bind::Slots;
pub use walk::Walk;
pub(crate) use walk::copy_neighbours;

/// Elements of a tile: a block of a reduction, and few enough that a dozen tiles stay near the core.
pub const TILE: usize = gt_ir::ops::Reduce::BLOCK;

/// Bytes after each tile of scratch memory, so that tiles do not all start at the same place of a page: loads
/// would wait for unrelated stores whose addresses end alike.
const STAGGER: usize = 64;

/// A step made ready; see the module's page.
pub struct Fused {
    pub(crate) ins: Vec<FusedIn>,
    pub(crate) outs: Vec<FusedOut>,
    pub(crate) reductions: Vec<Reduction>,
    space: Shape,
    numel: usize,
    /// The iteration order of a step with reductions: which axis of the space comes outermost, and so on.
    order: Vec<u8>,
    /// Whether `order` is row-major.
    natural: bool,
    /// One element a row, where loops run over rows too.
    rows: Shape,
    /// Those that loops run over (FUSED-6).
    parts: Vec<Part>,
    loops: Loops,
    consts: Vec<ConstSpec>,
    /// Of a step whose loops all run over positions.
    ops: Vec<TileOp>,
    /// Of any other.
    level_ops: Vec<LevelOp>,
    /// Where each register starts in scratch memory.
    registers: Vec<usize>,
    /// Bytes of scratch memory for registers, operands' tiles, constants' tiles, results' tiles.
    tiles_bytes: usize,
    takes: Vec<Take>,
    /// Stands for the step in failures that no single instruction is to blame for.
    first_instr: u32,
    /// Estimated time on one core.
    picos_per_element: usize,
}

/// A value read from outside the step, at one level: a value read at both is two of these.
pub(crate) struct FusedIn {
    pub slot: Slot,
    level: Level,
    size: usize,
    /// Its tile in scratch memory, for when it must be copied.
    tile: usize,
    /// Whether all that is done with it is to put it into a concatenation.
    only_placed: bool,
}

/// An elementwise result, or that of a reduction which the step reads itself.
pub(crate) struct FusedOut {
    pub slot: Slot,
    level: Level,
    instr: u32,
    ty: TensorType,
    bytes: usize,
    layout: Arc<Layout>,
    /// Its tile in scratch memory, for FUSED-3.
    tile: usize,
}

/// A reduction that ends the step.
pub(crate) struct Reduction {
    pub slot: Slot,
    instr: u32,
    ty: TensorType,
    layout: Arc<Layout>,
    /// The place of what is reduced.
    source: u16,
    kernels: ReduceKernels,
}

/// How the space is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loops {
    /// Position by position.
    Flat,
    /// `rows` outputs of `len` consecutive positions each.
    Rows { rows: usize, len: usize },
    /// The same, and the step reads the outputs (FUSED-5).
    WholeRows { rows: usize, len: usize },
    /// `outer` times: `rows` rows of `width` positions, reduced to `width` outputs.
    Columns { outer: usize, rows: usize, width: usize },
}

/// One tile loop and the places it works on.
#[derive(Clone, Copy)]
struct TileOp {
    kernel: Kernel,
    dst: u16,
    a: u16,
    b: u16,
    c: u16,
}

/// What an operation of a step with loops over several levels does.
#[derive(Clone, Copy)]
enum Work {
    /// A loop over positions, rows or a part.
    Loop(Kernel, Level),
    /// Rows to their reductions.
    Fold(ReduceKernels),
    /// Each row's element, of this size, to all positions of its row.
    Spread(usize),
    /// A part's elements, of this size, to its positions.
    Place(u8, usize),
}

/// An operation of a step with loops over several levels, and the places it works on.
#[derive(Clone, Copy)]
struct LevelOp {
    work: Work,
    dst: u16,
    a: u16,
    b: u16,
    c: u16,
}

/// A number that is the same for all elements of one run.
struct ConstSpec {
    /// Its position in the run's flat list of scalars.
    scalar: usize,
    dtype: gt_ir::DType,
    /// Rounded to the dtype (what `fill` writes) rather than in the precision the dtype is computed in.
    rounded: bool,
    /// Where its tile lies in scratch memory, when a loop reads it as one.
    tile: Option<usize>,
}

/// A result that may take over an operand's storage.
struct Take {
    out: u16,
    operand: u16,
    /// Whether the result may be written while the tile is still being worked on.
    direct: bool,
}

impl Fused {
    /// The loops for reductions of `axes`, and the order of axes they walk.
    fn loops(space: &Shape, axes: Option<AxisSet>) -> (Loops, Vec<u8>) {
        let rank = space.rank();
        let all = || (0..rank as u8).collect::<Vec<u8>>();
        let Some(axes) = axes else { return (Loops::Flat, all()) };
        let product = |of: &[u8]| of.iter().map(|&a| space[a as usize]).product::<usize>();
        let reduced: Vec<u8> = all().into_iter().filter(|&a| axes.contains(a as usize)).collect();
        let kept: Vec<u8> = all().into_iter().filter(|&a| !axes.contains(a as usize)).collect();
        // Kept axes behind the last reduced one are columns, if there are enough of them to fill vectors.
        let last_reduced = reduced.iter().copied().filter(|&a| space[a as usize] != 1).max();
        let first_column = last_reduced.map_or(rank as u8, |a| a + 1);
        let (outer, columns): (Vec<u8>, Vec<u8>) = kept.iter().partition(|&&a| a < first_column);
        let width = product(&columns);
        if last_reduced.is_some() && width >= MIN_COLUMNS {
            let loops = Loops::Columns { outer: product(&outer), rows: product(&reduced), width };
            return (loops, [outer, reduced, columns].concat());
        }
        (Loops::Rows { rows: product(&kept), len: product(&reduced) }, [kept, reduced].concat())
    }
}

/// Fewer columns than this are gathered into rows instead.
const MIN_COLUMNS: usize = 8;
