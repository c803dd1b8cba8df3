//! Pass 9: from the instructions of a fused step to its tile program.

use gt_ir::ops::{Binary, Compare, Reduce, Select, Side};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, Instr, Op, Shape, TensorId, TensorType};
use smallvec::{SmallVec, smallvec};

use super::{Level, Spot, TileConst, TileFn, TileFold, TileIn, TileOp, TileOut, TileProgram, register_type};
use crate::draft::{Draft, slot};
use crate::fuse::{Grouping, group_space};
use crate::parts::{Parts, parts_of};
use crate::{Slot, Step, StepKind};

/// Gives each fused step its program.
pub(crate) fn write_programs(draft: &Draft, grouping: &Grouping, steps: &mut [Step]) {
    for (step, group) in steps.iter_mut().zip(&grouping.groups).filter(|(_, group)| group.fused) {
        let space = group_space(draft, &group.instrs);
        let program = TileProgram::of(&draft.instrs, &draft.types, &step.instrs, &step.outs, space);
        step.kind = StepKind::Fused { program: Box::new(program) };
    }
}

impl TileProgram {
    /// The program of the step with these of a plan's instructions, which makes these of their results.
    ///
    /// # Panics
    /// If an instruction does not belong in a fused step over `space`: plans have no such steps.
    pub fn of(all: &[Instr], types: &[TensorType], step: &[u32], outs: &[Slot], space: Shape) -> TileProgram {
        let mut maker = Maker {
            all,
            types,
            step,
            program: TileProgram {
                space,
                row_axes: row_axes(all, step),
                parts: Vec::new(),
                ins: Vec::new(),
                outs: Vec::new(),
                consts: Vec::new(),
                registers: Vec::new(),
                ops: Vec::with_capacity(step.len()),
                folds: Vec::new(),
            },
            values: Vec::with_capacity(2 * step.len()),
            level: Level::Full,
        };
        let parts = parts_of(all, types, step).unwrap_or_else(|message| panic!("a plan's parts are valid: {message}"));
        maker.outs(outs);
        for (nth, &at) in step.iter().enumerate() {
            maker.level = parts.of(nth).map_or_else(|| maker.whole_level(at), |part| Level::Part(part as u8));
            match all[at as usize].op {
                Op::Concat(_) => maker.concat(&parts, nth, at),
                _ => maker.instr(at),
            }
        }
        maker.program.parts = parts.parts;
        maker.program
    }
}

/// The axes of the reductions whose results the step reads, if it reads one.
fn row_axes(all: &[Instr], step: &[u32]) -> Option<AxisSet> {
    let instrs = || step.iter().map(|&at| &all[at as usize]);
    instrs().find_map(|instr| match &instr.op {
        Op::Reduce(reduce) if instrs().any(|other| other.ins.contains(&instr.outs[0])) => Some(reduce.axes),
        _ => None,
    })
}

struct Maker<'a> {
    all: &'a [Instr],
    types: &'a [TensorType],
    step: &'a [u32],
    program: TileProgram,
    /// Where the elements of a slot are, at a level.
    values: Vec<(Slot, Level, Spot)>,
    /// That of the instruction at hand.
    level: Level,
}

impl Maker<'_> {
    fn ty(&self, id: TensorId) -> TensorType {
        self.types[id.0 as usize]
    }

    /// The level of an instruction that is computed for no part.
    fn whole_level(&self, at: u32) -> Level {
        let instr = &self.all[at as usize];
        let reduces = matches!(instr.op, Op::Reduce(_));
        let over_rows = !reduces && self.ty(instr.outs[0]).shape != self.program.space;
        if over_rows && self.program.row_axes.is_some() { Level::Row } else { Level::Full }
    }

    /// Whether a reduction folds the rows that others in the step read results of.
    fn folds_rows(&self, reduce: &Reduce) -> bool {
        self.program.row_axes == Some(reduce.axes)
    }

    /// Lists the outputs; a fold that nothing in the step reads has its own list.
    fn outs(&mut self, outs: &[Slot]) {
        for &at in self.step {
            let instr = &self.all[at as usize];
            let id = instr.outs[0];
            let level = match &instr.op {
                Op::Reduce(reduce) if self.folds_rows(reduce) => Level::Row,
                Op::Reduce(_) => continue,
                _ => self.whole_level(at),
            };
            if outs.contains(&slot(id)) {
                self.program.outs.push(TileOut { slot: slot(id), level, instr: at, ty: self.ty(id) });
            }
        }
    }

    fn register(&mut self, dtype: DType) -> Spot {
        self.program.registers.push(dtype);
        Spot::Reg((self.program.registers.len() - 1) as u16)
    }

    fn emit(&mut self, f: TileFn, dst: Spot, args: &[Spot]) {
        self.program.ops.push(TileOp { f, dst, args: SmallVec::from_slice(args), level: self.level });
    }

    fn out_of(&self, slot: Slot) -> Option<Spot> {
        self.program.outs.iter().position(|o| o.slot == slot).map(|o| Spot::Out(o as u16))
    }

    /// The elements of a value, widened if they are halves from outside.
    fn read(&mut self, id: TensorId) -> Spot {
        let (slot, level) = (slot(id), self.level);
        let known = |values: &[(Slot, Level, Spot)], level: Level| {
            values.iter().find(|(s, l, _)| *s == slot && *l == level).map(|&(_, _, spot)| spot)
        };
        if let Some(spot) = known(&self.values, level) {
            return spot;
        }
        let dtype = self.ty(id).dtype;
        // A row's element can be spread. The positions of a value from outside say nothing of its rows: these are read by
        // themselves.
        let spot = if let (Level::Full, Some(row)) = (level, known(&self.values, Level::Row)) {
            let spread = self.register(register_type(dtype));
            self.emit(TileFn::Spread, spread, &[row]);
            spread
        } else {
            let operand = Spot::In(self.program.ins.len() as u16);
            self.program.ins.push(TileIn { slot, level, dtype });
            self.widened(dtype, operand)
        };
        self.values.push((slot, level, spot));
        spot
    }

    /// Elements of a dtype as registers hold them.
    fn widened(&mut self, dtype: DType, spot: Spot) -> Spot {
        if register_type(dtype) == dtype {
            return spot;
        }
        let wide = self.register(DType::F32);
        self.emit(TileFn::Widen, wide, &[spot]);
        wide
    }

    /// Defines a value by one function, or as its first operand where there is none; rounds and narrows halves. `exact`:
    /// the function gives numbers of the dtype anyway.
    fn define(&mut self, id: TensorId, f: Option<TileFn>, args: &[Spot], exact: bool) {
        let (slot, dtype) = (slot(id), self.ty(id).dtype);
        let out = self.out_of(slot);
        let spot = match (f, out) {
            _ if register_type(dtype) != dtype => self.define_half(id, f, args, exact),
            (None, None) => args[0],
            (f, out) => {
                let dst = out.unwrap_or_else(|| self.register(dtype));
                self.emit(f.unwrap_or(TileFn::Copy), dst, args);
                dst
            }
        };
        self.values.push((slot, self.level, spot));
    }

    fn define_half(&mut self, id: TensorId, f: Option<TileFn>, args: &[Spot], exact: bool) -> Spot {
        let (out, mut spot) = (self.out_of(slot(id)), args[0]);
        if let Some(f) = f {
            spot = self.register(DType::F32);
            self.emit(f, spot, args);
        }
        // Narrowing rounds by itself, so the register is rounded only if the step reads it again.
        let read_again = self.step.iter().any(|&at| self.all[at as usize].ins.contains(&id));
        if !exact && (read_again || out.is_none()) {
            let rounded = self.register(DType::F32);
            self.emit(TileFn::Round(self.ty(id).dtype), rounded, &[spot]);
            spot = rounded;
        }
        if let Some(out) = out {
            self.emit(TileFn::Narrow, out, &[spot]);
        }
        spot
    }

    /// A scalar of an instruction.
    fn constant(&mut self, instr: u32, nth: u8, dtype: DType, rounded: bool) -> Spot {
        self.program.consts.push(TileConst { instr, nth, dtype, rounded });
        Spot::Const((self.program.consts.len() - 1) as u16)
    }

    fn instr(&mut self, at: u32) {
        let instr = &self.all[at as usize];
        let out = instr.outs[0];
        match &instr.op {
            Op::Fill(fill) => {
                let constant = self.constant(at, 0, fill.dtype, true);
                match self.out_of(slot(out)) {
                    Some(_) => self.define(out, Some(TileFn::Splat), &[constant], true),
                    None => self.values.push((slot(out), self.level, constant)),
                }
            }
            Op::Unary(op) => {
                let operand = self.read(instr.ins[0]);
                self.define(out, Some(TileFn::Unary(op.kind)), &[operand], is_exact_unary(op.kind));
            }
            Op::Binary(op) => self.binary(at, op),
            Op::Compare(op) => self.compare(at, op),
            Op::Select(op) => self.select(at, op),
            Op::Cast(op) => {
                let (from, to) = (self.ty(instr.ins[0]).dtype, op.dtype);
                let operand = self.read(instr.ins[0]);
                // Widening a half, or casting to the same dtype, leaves the elements as they are.
                let exact = from == to || register_type(to) == to || from == DType::Bool;
                let f = (register_type(from) != register_type(to)).then_some(TileFn::Cast);
                self.define(out, f, &[operand], exact);
            }
            Op::Reduce(op) => {
                let source = self.read(instr.ins[0]);
                if self.folds_rows(op) {
                    return self.row_fold(out, TileFn::Fold(op.kind), source);
                }
                let (slot, ty) = (slot(out), self.ty(out));
                self.program.folds.push(TileFold { slot, instr: at, kind: op.kind, axes: op.axes, source, ty });
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
            | Op::Update(_) => unreachable!("{} is never fused", instr.op.display_name()),
        }
    }

    /// Puts the operands of a concatenation together; each is read as the part it is.
    fn concat(&mut self, parts: &Parts, nth: usize, at: u32) {
        let instr = &self.all[at as usize];
        let whole = self.register(register_type(self.ty(instr.outs[0]).dtype));
        for (k, &id) in instr.ins.iter().enumerate() {
            let part = parts.read_for(nth, k).expect("an operand of a concatenation is a part of it") as u8;
            self.level = Level::Part(part);
            let operand = self.read(id);
            self.level = Level::Full;
            self.emit(TileFn::Place(part), whole, &[operand]);
        }
        self.define(instr.outs[0], None, &[whole], true);
    }

    /// A fold whose results the step may read.
    fn row_fold(&mut self, id: TensorId, f: TileFn, source: Spot) {
        let (slot, dtype) = (slot(id), self.ty(id).dtype);
        self.level = Level::Row;
        let dst = self.out_of(slot).unwrap_or_else(|| self.register(dtype));
        self.emit(f, dst, &[source]);
        let spot = self.widened(dtype, dst);
        self.values.push((slot, Level::Row, spot));
    }

    fn binary(&mut self, at: u32, op: &Binary) {
        let instr = &self.all[at as usize];
        let first = self.read(instr.ins[0]);
        let args = match op.scalar {
            Side::None => [first, self.read(instr.ins[1])],
            Side::Left => [self.constant(at, 0, self.ty(instr.ins[0]).dtype, false), first],
            Side::Right => [first, self.constant(at, 0, self.ty(instr.ins[0]).dtype, false)],
        };
        // A scalar is not rounded to a half dtype, so even the larger of two needs rounding then.
        let exact = is_exact_binary(op.kind) && op.scalar == Side::None;
        self.define(instr.outs[0], Some(TileFn::Binary(op.kind)), &args, exact);
    }

    fn compare(&mut self, at: u32, op: &Compare) {
        let instr = &self.all[at as usize];
        let first = self.read(instr.ins[0]);
        let args = match op.scalar {
            Side::None => [first, self.read(instr.ins[1])],
            Side::Left => [self.constant(at, 0, self.ty(instr.ins[0]).dtype, false), first],
            Side::Right => [first, self.constant(at, 0, self.ty(instr.ins[0]).dtype, false)],
        };
        self.define(instr.outs[0], Some(TileFn::Compare(op.kind)), &args, true);
    }

    fn select(&mut self, at: u32, op: &Select) {
        let instr = &self.all[at as usize];
        let mut args: SmallVec<[Spot; 3]> = smallvec![self.read(instr.ins[0])];
        let (mut tensors, mut scalars) = (instr.ins[1..].iter(), 0..);
        for is_scalar in [op.a_scalar, op.b_scalar] {
            args.push(match is_scalar {
                true => self.constant(at, scalars.next().unwrap_or(0), op.dtype, true),
                false => self.read(*tensors.next().expect("infer counts the operands")),
            });
        }
        self.define(instr.outs[0], Some(TileFn::Select), &args, true);
    }
}

/// Whether the result of a row on a number of a half dtype is again one of the dtype, so that rounding it is idle.
fn is_exact_unary(kind: UnaryKind) -> bool {
    use UnaryKind::*;
    matches!(
        kind,
        Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite
    )
}

/// The same for two numbers.
fn is_exact_binary(kind: BinaryKind) -> bool {
    use BinaryKind::*;
    matches!(kind, Max | Min | And | Or | Xor | Shl | Shr)
}
