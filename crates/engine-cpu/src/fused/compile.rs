//! From a step to a tile program.

use std::sync::Arc;

use gt_ir::ops::{Binary, Compare, Select, Side};
use gt_ir::rows::BinaryKind;
use gt_ir::{DType, Instr, Op, Shape, TensorId, TensorType};
use gt_plan::{Parts, Plan, Slot, Step, parts_of};

use super::binary::{self, Const};
use super::kernel::{self, Kernel, TileType};
use super::pairs::PairOp;
use super::{ConstSpec, Fused, FusedIn, FusedOut, Level, Reduction, Work, convert, unary};
use crate::Layout;
use crate::reduce::{ReduceKernels, reduce_kernels};

/// Where a loop reads or writes, before registers are assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spot {
    In(usize),
    Out(usize),
    Const(usize),
    Reg(usize),
    Unused,
}

#[derive(Clone, Copy)]
pub(super) struct DraftOp {
    pub work: Work,
    pub dst: Spot,
    pub operands: [Spot; 3],
    /// The row, if it is one that pairs are made of.
    pub pairable: Option<BinaryKind>,
}

/// A program whose places are not assigned yet.
pub(super) struct Draft<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub ins: Vec<FusedIn>,
    pub outs: Vec<FusedOut>,
    pub consts: Vec<ConstSpec>,
    pub ops: Vec<DraftOp>,
    /// Element sizes of the virtual registers.
    pub register_sizes: Vec<usize>,
    /// Where the tile of a slot is read.
    pub values: Vec<(Slot, Level, Spot)>,
    pub reductions: Vec<(Reduction, Spot)>,
    /// Whether the step reads the results of its reductions (FUSED-5).
    pub whole_rows: bool,
    /// What it concatenates (FUSED-6).
    pub parts: Parts,
    /// That of the instruction at hand.
    pub level: Level,
    pub picos: usize,
}

impl Fused {
    /// The tile program of a step over `space`.
    ///
    /// # Panics
    /// If an instruction is neither elementwise nor a reduction nor a concatenation that belongs, or one that `infer`
    /// refuses: plans have no such steps.
    pub fn compile(plan: &Plan, step: &Step, space: Shape) -> Fused {
        let mut draft = Draft {
            plan,
            step,
            ins: Vec::new(),
            outs: Vec::new(),
            consts: Vec::new(),
            ops: Vec::new(),
            register_sizes: Vec::new(),
            values: Vec::new(),
            reductions: Vec::new(),
            whole_rows: reads_own_reduction(plan, step),
            parts: parts_of(&plan.instrs, &plan.types, &step.instrs).expect("plans are verified"),
            level: Level::Full,
            picos: 0,
        };
        let mut axes = None;
        for &at in &step.instrs {
            let instr = &plan.instrs[at as usize];
            let reduces = if let Op::Reduce(reduce) = &instr.op {
                axes = Some(reduce.axes);
                true
            } else {
                false
            };
            if step.outs.contains(&slot_of(instr.outs[0])) && (draft.whole_rows || !reduces) {
                let ty = plan.types[instr.outs[0].0 as usize];
                let level = if reduces || (draft.whole_rows && ty.shape != space) { Level::Row } else { Level::Full };
                draft.picos += if level == Level::Full { 15 * ty.dtype.size() } else { 0 };
                let (slot, layout) = (slot_of(instr.outs[0]), Arc::new(Layout::packed(ty)));
                draft.outs.push(FusedOut { slot, level, instr: at, ty, bytes: ty.bytes(), layout, tile: 0 });
            }
        }
        for (nth, &at) in step.instrs.iter().enumerate() {
            let instr = &plan.instrs[at as usize];
            if let Op::Concat(_) = instr.op {
                draft.concat(nth, instr);
                continue;
            }
            let over_rows = draft.whole_rows
                && !matches!(instr.op, Op::Reduce(_))
                && plan.types[instr.outs[0].0 as usize].shape != space;
            let whole = if over_rows { Level::Row } else { Level::Full };
            draft.level = draft.parts.of(nth).map_or(whole, |part| Level::Part(part as u8));
            draft.instr(at);
        }
        draft.pair_up();
        draft.assign(space, axes)
    }
}

/// Whether an instruction of the step reads a reduction of the step.
fn reads_own_reduction(plan: &Plan, step: &Step) -> bool {
    let instrs = || step.instrs.iter().map(|&at| &plan.instrs[at as usize]);
    let folded = |id: &TensorId| instrs().any(|i| matches!(i.op, Op::Reduce(_)) && i.outs[0] == *id);
    instrs().any(|instr| instr.ins.iter().any(folded))
}

fn slot_of(id: TensorId) -> Slot {
    id.0 as Slot
}

impl Draft<'_> {
    fn ty(&self, id: TensorId) -> TensorType {
        self.plan.types[id.0 as usize]
    }

    fn register(&mut self, size: usize) -> Spot {
        self.register_sizes.push(size);
        Spot::Reg(self.register_sizes.len() - 1)
    }

    fn emit(&mut self, kernel: Kernel, dst: Spot, operands: [Spot; 3]) {
        self.ops.push(DraftOp { work: Work::Loop(kernel, self.level), dst, operands, pairable: None });
    }

    /// Adds to the estimate of the time a position takes; what runs over rows hardly counts.
    fn costs(&mut self, picos: usize) {
        if self.level != Level::Row {
            self.picos += picos;
        }
    }

    /// The tile of a value, widened if it is a half from outside.
    fn read(&mut self, id: TensorId) -> Spot {
        let slot = slot_of(id);
        if let Some(&(_, _, spot)) = self.values.iter().find(|(s, level, _)| *s == slot && *level == self.level) {
            return spot;
        }
        // What is known at the other level: a row's element can be spread; positions of a value from outside say nothing of
        // its rows, which are read by themselves.
        if self.level == Level::Full
            && let Some(&(_, _, row)) = self.values.iter().find(|(s, level, _)| *s == slot && *level == Level::Row)
        {
            let size = TileType::of(self.ty(id).dtype).size();
            let spread = self.register(size);
            self.costs(10 * size);
            let operands = [row, Spot::Unused, Spot::Unused];
            self.ops.push(DraftOp { work: Work::Spread(size), dst: spread, operands, pairable: None });
            self.values.push((slot, Level::Full, spread));
            return spread;
        }
        let operand = self.ins.len();
        let size = self.ty(id).dtype.size();
        self.costs(10 * size);
        self.ins.push(FusedIn { slot, level: self.level, size, tile: 0, only_placed: false });
        let spot = match convert::half(self.ty(id).dtype) {
            None => Spot::In(operand),
            Some(half) => {
                let register = self.register(4);
                self.costs(60);
                self.emit(half.widen, register, [Spot::In(operand), Spot::Unused, Spot::Unused]);
                register
            }
        };
        self.values.push((slot, self.level, spot));
        spot
    }

    /// Defines a value by one loop, or as the tile of its first operand where there is none, rounding and narrowing halves
    /// as their dtype asks.
    fn define(&mut self, id: TensorId, kernel: Option<Kernel>, operands: [Spot; 3], exact: bool) {
        let (slot, dtype) = (slot_of(id), self.ty(id).dtype);
        let out = self.outs.iter().position(|o| o.slot == slot).map(Spot::Out);
        let only = |spot: Spot| [spot, Spot::Unused, Spot::Unused];
        let Some(half) = convert::half(dtype) else {
            let spot = match (kernel, out) {
                (None, None) => operands[0],
                (kernel, out) => {
                    let dst = out.unwrap_or_else(|| self.register(dtype.size()));
                    self.emit(kernel.unwrap_or_else(|| convert::identity(TileType::of(dtype))), dst, operands);
                    dst
                }
            };
            self.values.push((slot, self.level, spot));
            return;
        };
        let mut spot = operands[0];
        if let Some(kernel) = kernel {
            spot = self.register(4);
            self.emit(kernel, spot, operands);
        }
        // Narrowing rounds by itself, so the tile is rounded only if the step reads it again.
        let plan = self.plan;
        let read_again = self.step.instrs.iter().any(|&at| plan.instrs[at as usize].ins.contains(&id));
        if !exact && (read_again || out.is_none()) {
            let rounded = self.register(4);
            self.costs(100);
            self.emit(half.round, rounded, only(spot));
            spot = rounded;
        }
        if let Some(out) = out {
            self.costs(60);
            self.emit(half.narrow, out, only(spot));
        }
        self.values.push((slot, self.level, spot));
    }

    /// A scalar of an instruction as a constant of `dtype`.
    fn constant(&mut self, at: u32, nth: usize, dtype: DType, rounded: bool, as_tile: bool) -> Spot {
        let scalar = self.plan.scalar_starts[at as usize] as usize + nth;
        self.consts.push(ConstSpec { scalar, dtype, rounded, tile: as_tile.then_some(0) });
        Spot::Const(self.consts.len() - 1)
    }

    fn instr(&mut self, at: u32) {
        let plan = self.plan;
        let instr = &plan.instrs[at as usize];
        let out = instr.outs[0];
        let flops = |flops: u64, size: usize| (20 + 20 * flops as usize) * size / 4;
        let size = TileType::of(self.ty(out).dtype).size();
        match &instr.op {
            Op::Fill(fill) => {
                let is_out = self.outs.iter().any(|o| o.slot == slot_of(out));
                let constant = self.constant(at, 0, fill.dtype, true, !is_out);
                if is_out {
                    self.define(out, Some(kernel::splat(size)), [constant, Spot::Unused, Spot::Unused], true);
                } else {
                    self.values.push((slot_of(out), self.level, constant));
                }
            }
            Op::Unary(op) => {
                let ty = TileType::of(self.ty(instr.ins[0]).dtype);
                let kernel = unary::unary(op.kind, ty).expect("infer refuses other dtypes");
                let operand = self.read(instr.ins[0]);
                self.costs(flops(op.kind.row().flops, ty.size()));
                self.define(out, Some(kernel), [operand, Spot::Unused, Spot::Unused], unary::is_exact(op.kind));
            }
            Op::Binary(op) => {
                self.costs(flops(op.kind.row().flops, size));
                self.binary(at, instr, op);
            }
            Op::Compare(op) => {
                self.costs(flops(1, TileType::of(self.ty(instr.ins[0]).dtype).size()));
                self.compare(at, instr, op);
            }
            Op::Select(op) => {
                self.costs(flops(1, size));
                self.select(at, instr, op);
            }
            Op::Cast(op) => {
                self.costs(flops(1, size));
                self.cast(instr, op.dtype);
            }
            Op::Reduce(op) => {
                let ty = self.ty(out);
                let kernels = reduce_kernels(op.kind, ty.dtype);
                let source = self.read(instr.ins[0]);
                self.costs(flops(2, TileType::of(ty.dtype).size()));
                if self.whole_rows {
                    return self.fold(slot_of(out), ty.dtype, kernels, source);
                }
                let reduction = Reduction {
                    slot: slot_of(out),
                    instr: at,
                    ty,
                    layout: Arc::new(Layout::packed(ty)),
                    source: 0,
                    kernels,
                };
                self.reductions.push((reduction, source));
            }
            Op::Iota(_)
            | Op::Random(_)
            | Op::Upload(_)
            | Op::ArgReduce(_)
            | Op::Scan(_)
            | Op::Sort(_)
            | Op::Matmul(_)
            | Op::Reshape(_)
            | Op::Permute(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::UpdateSlice(_)
            | Op::Pad(_)
            | Op::Concat(_)
            | Op::Take(_)
            | Op::Put(_)
            | Op::Gather(_)
            | Op::Scatter(_)
            | Op::Write(_)
            | Op::Check(_)
            | Op::Attention(_)
            | Op::AttentionGrad(_)
            | Op::CrossEntropy(_)
            | Op::CrossEntropyGrad(_)
            | Op::Update(_) => {
                unreachable!("{} is never fused", instr.op.display_name())
            }
        }
    }

    /// Puts the operands of a concatenation together; each is read as the part it is.
    fn concat(&mut self, nth: usize, instr: &Instr) {
        let dtype = self.ty(instr.outs[0]).dtype;
        let size = TileType::of(dtype).size();
        let whole = self.register(size);
        for (k, &id) in instr.ins.iter().enumerate() {
            let part = self.parts.read_for(nth, k).expect("an operand of a concatenation is a part of it") as u8;
            self.level = Level::Part(part);
            let operands = [self.read(id), Spot::Unused, Spot::Unused];
            self.ops.push(DraftOp { work: Work::Place(part, size), dst: whole, operands, pairable: None });
        }
        self.level = Level::Full;
        self.costs(40 * size);
        self.define(instr.outs[0], None, [whole, Spot::Unused, Spot::Unused], true);
    }

    /// A reduction whose results the step may read.
    fn fold(&mut self, slot: Slot, dtype: DType, kernels: ReduceKernels, source: Spot) {
        let out = self.outs.iter().position(|o| o.slot == slot).map(Spot::Out);
        let dst = out.unwrap_or_else(|| self.register(dtype.size()));
        let only = |spot: Spot| [spot, Spot::Unused, Spot::Unused];
        self.ops.push(DraftOp { work: Work::Fold(kernels), dst, operands: only(source), pairable: None });
        self.level = Level::Row;
        let spot = match convert::half(dtype) {
            None => dst,
            Some(half) => {
                let wide = self.register(4);
                self.emit(half.widen, wide, only(dst));
                wide
            }
        };
        self.values.push((slot, Level::Row, spot));
    }

    fn binary(&mut self, at: u32, instr: &Instr, op: &Binary) {
        let dtype = self.ty(instr.ins[0]).dtype;
        let ty = TileType::of(dtype);
        let side = match op.scalar {
            Side::None => Const::None,
            Side::Left => Const::Left,
            Side::Right => Const::Right,
        };
        let with_const = binary::binary_const(op.kind, ty, side);
        let kernel = with_const.or_else(|| binary::binary(op.kind, ty)).expect("infer refuses other dtypes");
        let (a, b) = if side == Const::None {
            (self.read(instr.ins[0]), self.read(instr.ins[1]))
        } else {
            let tensor = self.read(instr.ins[0]);
            let constant = self.constant(at, 0, dtype, false, with_const.is_none());
            if side == Const::Left { (constant, tensor) } else { (tensor, constant) }
        };
        // A scalar is not rounded to a half dtype, so even the larger of two needs rounding then.
        let exact = binary::is_exact(op.kind) && side == Const::None;
        self.define(instr.outs[0], Some(kernel), [a, b, Spot::Unused], exact);
        if dtype == DType::F32 && PairOp::of(op.kind, false).is_some() {
            self.ops.last_mut().expect("just defined").pairable = Some(op.kind);
        }
    }

    fn compare(&mut self, at: u32, instr: &Instr, op: &Compare) {
        let dtype = self.ty(instr.ins[0]).dtype;
        let ty = TileType::of(dtype);
        let a = self.read(instr.ins[0]);
        let (kind, b) = match op.scalar {
            Side::None => (op.kind, self.read(instr.ins[1])),
            Side::Right => (op.kind, self.constant(at, 0, dtype, false, false)),
            Side::Left => (binary::flipped(op.kind), self.constant(at, 0, dtype, false, false)),
        };
        let kernel = binary::compare(kind, ty, op.scalar != Side::None);
        self.define(instr.outs[0], Some(kernel), [a, b, Spot::Unused], true);
    }

    fn select(&mut self, at: u32, instr: &Instr, op: &Select) {
        let condition = self.read(instr.ins[0]);
        let (mut tensors, mut scalars) = (1, 0);
        let mut operand = |draft: &mut Self, is_scalar: bool| {
            if is_scalar {
                scalars += 1;
                draft.constant(at, scalars - 1, op.dtype, true, true)
            } else {
                tensors += 1;
                draft.read(instr.ins[tensors - 1])
            }
        };
        let a = operand(self, op.a_scalar);
        let b = operand(self, op.b_scalar);
        let kernel = kernel::choose(TileType::of(op.dtype).size());
        self.define(instr.outs[0], Some(kernel), [condition, a, b], true);
    }

    fn cast(&mut self, instr: &Instr, to: DType) {
        let from = self.ty(instr.ins[0]).dtype;
        let (source, target) = (TileType::of(from), TileType::of(to));
        let operand = self.read(instr.ins[0]);
        // Widening a half, or casting to the same dtype, leaves the tile as it is.
        let exact = from == to || convert::half(to).is_none() || from == DType::Bool;
        self.define(instr.outs[0], convert::cast(source, target), [operand, Spot::Unused, Spot::Unused], exact);
    }
}
