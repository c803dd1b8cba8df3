//! From a tile program to loops: which kernel runs an operation, and which constants become tiles.

use std::sync::Arc;

use gt_ir::rows::BinaryKind;
use gt_ir::{DType, TensorType};
use gt_plan::tile::{Level, Spot, TileFn, TileOp, TileProgram};
use gt_plan::{Plan, Step};

use super::binary::{self, Const};
use super::kernel::{self, Kernel, TileType};
use super::pairs::PairOp;
use super::{ConstSpec, Fused, FusedIn, FusedOut, Reduction, Work, convert, unary};
use crate::Layout;
use crate::reduce::reduce_kernels;

/// An operation before registers are assigned.
#[derive(Clone, Copy)]
pub(super) struct DraftOp {
    pub work: Work,
    /// None once another operation does its work.
    pub dst: Option<Spot>,
    pub operands: [Option<Spot>; 3],
    /// The row, if it is one that pairs are made of.
    pub pairable: Option<BinaryKind>,
}

/// A program whose places are not assigned yet.
pub(super) struct Draft<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub program: &'a TileProgram,
    pub ins: Vec<FusedIn>,
    pub outs: Vec<FusedOut>,
    pub consts: Vec<ConstSpec>,
    pub ops: Vec<DraftOp>,
    pub reductions: Vec<(Reduction, Spot)>,
    pub picos: usize,
}

impl Fused {
    /// The loops of a step that computes `program`.
    ///
    /// # Panics
    /// If the program has a function of types that the function does not take: verified plans have none.
    pub fn compile(plan: &Plan, step: &Step, program: &TileProgram) -> Fused {
        let mut draft = Draft {
            plan,
            step,
            program,
            ins: Vec::new(),
            outs: Vec::new(),
            consts: Vec::new(),
            ops: Vec::new(),
            reductions: Vec::new(),
            picos: 0,
        };
        draft.interface();
        program.ops.iter().for_each(|op| draft.op(op));
        for fold in &program.folds {
            draft.costs(Level::Full, flops(2, TileType::of(fold.ty.dtype).size()));
            draft.reads_tile(fold.source);
            let kernels = reduce_kernels(fold.kind, fold.ty.dtype);
            let layout = Arc::new(Layout::packed(fold.ty));
            let reduction = Reduction { slot: fold.slot, instr: fold.instr, ty: fold.ty, layout, source: 0, kernels };
            draft.reductions.push((reduction, fold.source));
        }
        draft.pair_up();
        draft.assign()
    }
}

/// The time that so many operations on an element of this size take, about, in picoseconds.
fn flops(flops: u64, size: usize) -> usize {
    (20 + 20 * flops as usize) * size / 4
}

impl Draft<'_> {
    /// What is read from outside, what is made, what each run brings.
    fn interface(&mut self) {
        let program = self.program;
        for input in &program.ins {
            let size = input.dtype.size();
            self.costs(input.level, 10 * size);
            self.ins.push(FusedIn { slot: input.slot, level: input.level, size, tile: 0, only_placed: false });
        }
        for out in &program.outs {
            let TensorType { dtype, .. } = out.ty;
            self.picos += if out.level == Level::Full { 15 * dtype.size() } else { 0 };
            self.outs.push(FusedOut {
                slot: out.slot,
                level: out.level,
                instr: out.instr,
                ty: out.ty,
                bytes: out.ty.bytes(),
                layout: Arc::new(Layout::packed(out.ty)),
                tile: 0,
            });
        }
        for constant in &program.consts {
            let scalar = self.plan.scalar_starts[constant.instr as usize] as usize + usize::from(constant.nth);
            self.consts.push(ConstSpec { scalar, dtype: constant.dtype, rounded: constant.rounded, tile: None });
        }
    }

    /// Adds to the estimate of the time a position takes; what runs over rows hardly counts.
    fn costs(&mut self, level: Level, picos: usize) {
        if level != Level::Row {
            self.picos += picos;
        }
    }

    fn tile_type(&self, spot: Spot) -> TileType {
        TileType::of(self.program.dtype(spot))
    }

    /// The number that a run brings as an operand of arithmetic. What is rounded is an element like any other.
    fn is_operand(&self, spot: Spot) -> bool {
        matches!(spot, Spot::Const(c) if !self.program.consts[usize::from(c)].rounded)
    }

    /// Makes a tile of a constant.
    fn reads_tile(&mut self, spot: Spot) {
        if let Spot::Const(c) = spot {
            self.consts[usize::from(c)].tile = Some(0);
        }
    }

    fn op(&mut self, op: &TileOp) {
        let (args, level) = (&op.args[..], op.level);
        let size = self.tile_type(op.dst).size();
        let mut operands = [0, 1, 2].map(|k| args.get(k).copied());
        let mut pairable = None;
        // Where a loop reads one element for all positions, that is: no tile.
        let mut by_element = None;
        let looped = |kernel: Kernel| Work::Loop(kernel, level);
        let work = match op.f {
            TileFn::Unary(kind) => {
                let ty = self.tile_type(args[0]);
                self.costs(level, flops(kind.row().flops, ty.size()));
                looped(unary::unary(kind, ty).expect("a verified program"))
            }
            TileFn::Binary(kind) => {
                self.costs(level, flops(kind.row().flops, size));
                let ty = self.tile_type(args[0]);
                let side = match (self.is_operand(args[0]), self.is_operand(args[1])) {
                    (true, _) => Const::Left,
                    (_, true) => Const::Right,
                    _ => Const::None,
                };
                let with_const = binary::binary_const(kind, ty, side);
                if with_const.is_some() {
                    by_element = Some(if side == Const::Left { 0 } else { 1 });
                }
                pairable = Some(kind).filter(|&kind| ty == TileType::F32 && PairOp::of(kind, false).is_some());
                looped(with_const.or_else(|| binary::binary(kind, ty)).expect("a verified program"))
            }
            TileFn::Compare(kind) => {
                let ty = self.tile_type(args[0]);
                self.costs(level, flops(1, ty.size()));
                let (left, right) = (self.is_operand(args[0]), self.is_operand(args[1]));
                if left {
                    operands.swap(0, 1);
                }
                by_element = (left || right).then_some(1);
                let kind = if left { binary::flipped(kind) } else { kind };
                looped(binary::compare(kind, ty, left || right))
            }
            TileFn::Select => {
                self.costs(level, flops(1, size));
                looped(kernel::choose(size))
            }
            TileFn::Cast => {
                self.costs(level, flops(1, size));
                let kernel = convert::cast(self.tile_type(args[0]), self.tile_type(op.dst));
                looped(kernel.expect("a verified program"))
            }
            TileFn::Copy => looped(convert::identity(self.tile_type(op.dst))),
            TileFn::Splat => {
                by_element = Some(0);
                looped(kernel::splat(size))
            }
            TileFn::Widen => {
                // What a reduction leaves is widened row by row.
                self.costs(level, 60);
                looped(half(self.program.dtype(args[0])).widen)
            }
            TileFn::Narrow => {
                self.costs(level, 60);
                looped(half(self.program.dtype(op.dst)).narrow)
            }
            TileFn::Round(dtype) => {
                self.costs(level, 100);
                looped(half(dtype).round)
            }
            TileFn::Spread => {
                self.costs(level, 10 * size);
                Work::Spread(size)
            }
            TileFn::Place(part) => {
                // Once a concatenation.
                let own = &self.program.parts[usize::from(part)];
                self.costs(level, if own.start == 0 { 40 * size } else { 0 });
                Work::Place(part, size)
            }
            TileFn::Fold(kind) => {
                let dtype = self.program.dtype(op.dst);
                // It reads every position.
                self.costs(Level::Full, flops(2, TileType::of(dtype).size()));
                Work::Fold(reduce_kernels(kind, dtype))
            }
        };
        for (k, operand) in operands.iter().enumerate() {
            if let Some(spot) = operand.filter(|_| by_element != Some(k)) {
                self.reads_tile(spot);
            }
        }
        self.ops.push(DraftOp { work, dst: Some(op.dst), operands, pairable });
    }
}

/// The kernels of a half dtype.
fn half(dtype: DType) -> convert::Half {
    convert::half(dtype).expect("a verified program")
}
