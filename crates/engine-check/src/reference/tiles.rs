//! Fused steps, computed as their tile programs say.
//!
//! What other engines compile from a program is what is computed here, so a program that says something else than its
//! instructions is found by comparing this with [`super::evaluate`].
//!
//! An operation is its row's function, applied to all elements of its level and rounded once to the type that it
//! writes (PROGRAM-5). So the results have the bits of the instructions, evaluated one by one (REFERENCE-1), but for those of a NaN.

use std::borrow::Cow;

use gt_ir::ops::{Binary, Compare, Reduce, Select, Side, Unary};
use gt_ir::{HostTensor, Scalar, TensorType};
use gt_plan::tile::{Level, Spot, TileFn, TileOp, TileProgram};
use gt_plan::{Part, Slot};

use super::{elementwise, movement, reduce};
use crate::numbers;

/// What a run brings to a program.
pub(super) struct Bound<'a> {
    pub program: &'a TileProgram,
    /// The value of each input, in the program's order.
    pub ins: Vec<&'a HostTensor>,
    /// Each constant.
    pub consts: Vec<Scalar>,
}

/// The memory that computing takes, about: every register is there until the end, and an operation works with the numbers of
/// its operands and of its result.
pub(super) fn work_bytes(program: &TileProgram) -> u64 {
    let bytes = |level: Level, each: u64| (program.extents(level).numel() as u64).saturating_mul(each);
    let size = |spot: Spot| program.dtype(spot).size() as u64;
    let operand = |spot: Spot, level: Level| match spot {
        Spot::In(_) => bytes(level, size(spot) + super::WORK_BYTES_PER_ELEMENT),
        Spot::Out(_) | Spot::Reg(_) => bytes(level, super::WORK_BYTES_PER_ELEMENT),
        Spot::Const(_) => 0,
    };
    let op = |op: &TileOp| {
        let args = op.args.iter().map(|&arg| operand(arg, op.read_level()));
        args.fold(bytes(op.level, super::WORK_BYTES_PER_ELEMENT), u64::saturating_add)
    };
    let held = program.ops.iter().map(|op| bytes(op.level, size(op.dst)));
    let ops = program.ops.iter().map(op);
    let folds =
        program.folds.iter().map(|fold| operand(fold.source, Level::Full).saturating_add(fold.ty.bytes() as u64));
    held.fold(ops.chain(folds).max().unwrap_or(0), u64::saturating_add)
}

impl Bound<'_> {
    /// The results of the program, with their slots.
    pub(super) fn run(&self) -> Vec<(Slot, HostTensor)> {
        let program = self.program;
        let mut values =
            Values { registers: vec![None; program.registers.len()], outs: vec![None; program.outs.len()] };
        for op in &program.ops {
            let value = self.op(&values, op);
            *values.place(op.dst) = Some(value);
        }
        let folds = program.folds.iter().map(|fold| {
            let source = self.read(&values, fold.source, Level::Full);
            (fold.slot, reduce::reduce(&Reduce { kind: fold.kind, axes: fold.axes, keepdim: true }, &source, fold.ty))
        });
        let folds: Vec<_> = folds.collect();
        let outs = program.outs.iter().zip(values.outs).map(|(out, value)| {
            // A fold may have dropped its axes.
            (
                out.slot,
                HostTensor { ty: out.ty, bytes: value.expect("an output is written before the program ends").bytes },
            )
        });
        outs.chain(folds).collect()
    }

    /// All elements of a spot, for a level.
    fn read<'v>(&'v self, values: &'v Values, spot: Spot, level: Level) -> Cow<'v, HostTensor> {
        let ty = TensorType { dtype: self.program.dtype(spot), shape: self.program.extents(level) };
        match spot {
            Spot::In(i) => match self.ins[usize::from(i)] {
                tensor if tensor.ty == ty => Cow::Borrowed(tensor),
                tensor => Cow::Owned(movement::repeat(tensor, ty)),
            },
            Spot::Const(c) => {
                let element =
                    numbers::register_element(self.consts[usize::from(c)], &self.program.consts[usize::from(c)]);
                Cow::Owned(movement::repeat(&element, ty))
            }
            Spot::Out(_) | Spot::Reg(_) => Cow::Borrowed(values.written(spot)),
        }
    }

    fn op(&self, values: &Values, op: &TileOp) -> HostTensor {
        let ty = TensorType { dtype: self.program.dtype(op.dst), shape: self.program.extents(op.level) };
        let arg = |k: usize, level: Level| self.read(values, op.args[k], level);
        let own = |k: usize| arg(k, op.level);
        match op.f {
            TileFn::Unary(kind) => elementwise::unary(&Unary { kind }, &own(0), ty),
            TileFn::Binary(kind) => {
                let binary = Binary { kind, scalar: Side::None };
                elementwise::binary(&binary, &[&own(0), &own(1)], &[], ty)
            }
            TileFn::Compare(kind) => {
                let compare = Compare { kind, scalar: Side::None };
                elementwise::compare(&compare, &[&own(0), &own(1)], &[], ty)
            }
            TileFn::Select => {
                let select = Select { a_scalar: false, b_scalar: false, dtype: ty.dtype };
                elementwise::select(&select, &[&own(0), &own(1), &own(2)], &[], ty)
            }
            TileFn::Cast => elementwise::cast(&own(0), ty),
            TileFn::Copy | TileFn::Splat => own(0).into_owned(),
            TileFn::Widen | TileFn::Narrow => numbers::from_floats(ty, &numbers::floats(&own(0))),
            TileFn::Round(half) => {
                let narrow = numbers::from_floats(ty.with_dtype(half), &numbers::floats(&own(0)));
                numbers::from_floats(ty, &numbers::floats(&narrow))
            }
            TileFn::Spread => movement::repeat(&arg(0, Level::Row), ty),
            TileFn::Place(part) => {
                let whole = values.find(op.dst).cloned();
                let mut whole = whole.unwrap_or_else(|| HostTensor { ty, bytes: vec![0; ty.bytes()] });
                place(&self.program.parts[usize::from(part)], &arg(0, Level::Part(part)), &mut whole);
                whole
            }
            TileFn::Fold(kind) => {
                let axes = self.program.row_axes.expect("a row fold writes rows");
                reduce::reduce(&Reduce { kind, axes, keepdim: true }, &arg(0, Level::Full), ty)
            }
        }
    }
}

/// What is written so far.
struct Values {
    registers: Vec<Option<HostTensor>>,
    outs: Vec<Option<HostTensor>>,
}

impl Values {
    fn find(&self, spot: Spot) -> Option<&HostTensor> {
        match spot {
            Spot::Reg(r) => self.registers[usize::from(r)].as_ref(),
            Spot::Out(o) => self.outs[usize::from(o)].as_ref(),
            Spot::In(_) | Spot::Const(_) => None,
        }
    }

    fn written(&self, spot: Spot) -> &HostTensor {
        self.find(spot).expect("PROGRAM-1: a register is written before it is read")
    }

    fn place(&mut self, spot: Spot) -> &mut Option<HostTensor> {
        match spot {
            Spot::Reg(r) => &mut self.registers[usize::from(r)],
            Spot::Out(o) => &mut self.outs[usize::from(o)],
            Spot::In(_) | Spot::Const(_) => unreachable!("PROGRAM-1: only registers and outputs are written"),
        }
    }
}

/// Copies the elements of a part to their positions of the whole.
fn place(part: &Part, from: &HostTensor, whole: &mut HostTensor) {
    let size = whole.ty.dtype.size();
    let (period, start, len) = (part.period * size, part.start * size, part.len * size);
    if len > 0 {
        for (to, from) in whole.bytes.chunks_exact_mut(period).zip(from.bytes.chunks_exact(len)) {
            to[start..start + len].copy_from_slice(from);
        }
    }
}
