//! Holds a tile program to its invariants.

use gt_ir::{AxisSet, DType, TensorType, broadcast};

use super::{Level, Spot, TileFn, TileOp, TileProgram, register_type};
use crate::{Plan, Slot, Step};

impl TileProgram {
    /// Checks PROGRAM-1 to PROGRAM-4 for the step that the program belongs to; says what is broken.
    pub fn verify(&self, plan: &Plan, step: &Step) -> Result<(), String> {
        self.verify_interface(plan, step).map_err(|message| format!("PROGRAM-4: {message}"))?;
        let mut checker = Checker {
            program: self,
            levels: vec![None; self.registers.len()],
            written: vec![false; self.outs.len()],
            placed: Vec::new(),
        };
        for (at, op) in self.ops.iter().enumerate() {
            checker.op(op).map_err(|message| format!("operation {at} ({:?}): {message}", op.f))?;
        }
        for fold in &self.folds {
            checker.read(fold.source, Level::Full)?;
            let source = TensorType { dtype: self.dtype(fold.source), shape: self.space };
            let is_folded = |dtype: DType| folds_to(source.dtype, dtype);
            let kept = [fold.axes.flatten_in(&self.space), fold.axes.remove_from(&self.space)];
            if !is_folded(fold.ty.dtype) || !kept.contains(&fold.ty.shape) {
                return Err(format!("PROGRAM-2: a fold of {source} makes {}", fold.ty));
            }
        }
        match checker.written.iter().position(|&written| !written) {
            Some(o) => Err(format!("PROGRAM-4: output {o} is never written")),
            None => Ok(()),
        }
    }

    /// The slots that are read and made.
    fn verify_interface(&self, plan: &Plan, step: &Step) -> Result<(), String> {
        let ty = |slot: Slot| plan.types[slot as usize];
        for (i, input) in self.ins.iter().enumerate() {
            let again = self.ins[..i].iter().any(|other| (other.slot, other.level) == (input.slot, input.level));
            let extents = self.checked_extents(input.level)?;
            if again
                || broadcast(&ty(input.slot).shape, &extents) != Some(extents)
                || ty(input.slot).dtype != input.dtype
            {
                return Err(format!("input {i} is not %{} as it is read", input.slot));
            }
        }
        let mut read: Vec<Slot> = self.ins.iter().map(|input| input.slot).collect();
        let mut listed = step.ins.clone();
        read.sort_unstable();
        listed.sort_unstable();
        read.dedup();
        if read != listed {
            return Err(format!("reads {read:?}, but the step reads {listed:?}"));
        }
        let outs = self.outs.iter().map(|o| (o.slot, o.instr, o.ty));
        let made: Vec<_> = outs.chain(self.folds.iter().map(|f| (f.slot, f.instr, f.ty))).collect();
        for &(slot, instr, made) in &made {
            let from = &plan.instrs[instr as usize];
            if made != ty(slot) || from.outs[0].0 != u64::from(slot) || !step.instrs.contains(&instr) {
                return Err(format!("makes %{slot} as {made} from instruction {instr}"));
            }
        }
        for (o, out) in self.outs.iter().enumerate() {
            // A fold may drop its axes: the elements are the same.
            let dropped = self.row_axes.filter(|_| out.level == Level::Row).map(|axes| axes.remove_from(&self.space));
            let fits = self.checked_extents(out.level)? == out.ty.shape || dropped == Some(out.ty.shape);
            if matches!(out.level, Level::Part(_)) || !fits {
                return Err(format!("output {o} is {} at level {:?}", out.ty, out.level));
            }
        }
        let mut slots: Vec<Slot> = made.iter().map(|made| made.0).collect();
        let mut listed = step.outs.clone();
        slots.sort_unstable();
        listed.sort_unstable();
        if slots != listed {
            return Err(format!("makes {slots:?}, but the step makes {listed:?}"));
        }
        Ok(())
    }

    /// [`TileProgram::extents`], of levels that exist.
    fn checked_extents(&self, level: Level) -> Result<gt_ir::Shape, String> {
        let exists = match level {
            Level::Full => true,
            Level::Row => self.row_axes.is_some_and(|axes| are_last(axes, self.space.rank())),
            Level::Part(part) => usize::from(part) < self.parts.len(),
        };
        if exists { Ok(self.extents(level)) } else { Err(format!("there is no level {level:?}")) }
    }
}

/// Whether the axes are the last ones of so many.
fn are_last(axes: AxisSet, rank: usize) -> bool {
    let folded = axes.len();
    (1..=rank).contains(&folded) && (rank - folded..rank).all(|axis| axes.contains(axis))
}

/// Whether a fold of elements of one type makes elements of the other: halves leave f32 registers as they are stored.
fn folds_to(from: DType, to: DType) -> bool {
    from == register_type(from) && register_type(to) == from
}

struct Checker<'a> {
    program: &'a TileProgram,
    /// The level of each register that is written.
    levels: Vec<Option<Level>>,
    /// Which outputs are written.
    written: Vec<bool>,
    /// Which parts of which register are placed so far; gone once all are.
    placed: Vec<(Spot, Vec<u8>)>,
}

impl Checker<'_> {
    fn op(&mut self, op: &TileOp) -> Result<(), String> {
        self.program.checked_extents(op.level)?;
        let read_at = op.read_level();
        let crosses = match op.f {
            TileFn::Fold(_) => op.level == Level::Row,
            TileFn::Spread | TileFn::Place(_) => op.level == Level::Full,
            _ => true,
        };
        self.program.checked_extents(read_at)?;
        if !crosses {
            return Err(format!("PROGRAM-3: it writes at level {:?}", op.level));
        }
        op.args.iter().try_for_each(|&arg| self.read(arg, read_at))?;
        self.types(op)?;
        self.write(op)
    }

    /// PROGRAM-1 and PROGRAM-3 of an operand.
    fn read(&self, spot: Spot, level: Level) -> Result<(), String> {
        let of = |count: usize, at: u16| usize::from(at) < count;
        let program = self.program;
        let found = match spot {
            Spot::Const(c) => return if of(program.consts.len(), c) { Ok(()) } else { Err(format!("no {spot:?}")) },
            Spot::In(i) => program.ins.get(usize::from(i)).map(|input| input.level),
            Spot::Out(o) if self.written.get(usize::from(o)) == Some(&true) => Some(program.outs[usize::from(o)].level),
            Spot::Reg(r) => self.levels.get(usize::from(r)).copied().flatten(),
            Spot::Out(_) => None,
        };
        match found {
            None => Err(format!("PROGRAM-1: reads {spot:?}, which is not written")),
            Some(_) if self.placed.iter().any(|(whole, _)| *whole == spot) => {
                Err(format!("PROGRAM-1: reads {spot:?} before all its parts are there"))
            }
            Some(own) if own != level => Err(format!("PROGRAM-3: reads {spot:?} of level {own:?} at {level:?}")),
            Some(_) => Ok(()),
        }
    }

    /// PROGRAM-2.
    fn types(&self, op: &TileOp) -> Result<(), String> {
        let args: Vec<DType> = op.args.iter().map(|&arg| self.program.dtype(arg)).collect();
        let have = match op.dst {
            Spot::Out(o) if usize::from(o) < self.program.outs.len() => self.program.dtype(op.dst),
            Spot::Reg(r) if usize::from(r) < self.program.registers.len() => self.program.dtype(op.dst),
            spot => return Err(format!("PROGRAM-1: writes {spot:?}")),
        };
        let is_half = |dtype: DType| register_type(dtype) != dtype;
        let held = !is_half(have) && !args.iter().any(|&arg| is_half(arg));
        let fits = match (op.f, &args[..]) {
            (TileFn::Unary(kind), &[x]) => {
                let makes = if kind.row().to_bool { DType::Bool } else { x };
                held && kind.row().accepts.takes(x) && have == makes
            }
            (TileFn::Binary(kind), &[x, y]) => held && kind.row().accepts.takes(x) && x == y && have == x,
            (TileFn::Compare(_), &[x, y]) => held && x == y && have == DType::Bool,
            (TileFn::Select, &[condition, x, y]) => held && condition == DType::Bool && x == y && have == x,
            (TileFn::Cast, &[x]) => held && have != x,
            (TileFn::Copy | TileFn::Spread | TileFn::Place(_), &[x]) => held && have == x,
            (TileFn::Splat, &[x]) => held && have == x && matches!(op.args[0], Spot::Const(_)),
            (TileFn::Widen, &[x]) => is_half(x) && have == DType::F32,
            (TileFn::Narrow, &[x]) => is_half(have) && x == DType::F32,
            (TileFn::Round(half), &[x]) => is_half(half) && x == DType::F32 && have == DType::F32,
            (TileFn::Fold(_), &[x]) => folds_to(x, have),
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("PROGRAM-2: makes {have} of {args:?}")) }
    }

    /// PROGRAM-1 and PROGRAM-4 of a result.
    fn write(&mut self, op: &TileOp) -> Result<(), String> {
        let (before, level) = match op.dst {
            Spot::Out(o) => {
                let o = usize::from(o);
                (std::mem::replace(&mut self.written[o], true), self.program.outs[o].level)
            }
            Spot::Reg(r) => (self.levels[usize::from(r)].replace(op.level).is_some(), op.level),
            Spot::In(_) | Spot::Const(_) => return Err(format!("PROGRAM-1: writes {:?}", op.dst)),
        };
        if level != op.level {
            return Err(format!("PROGRAM-3: writes {:?} of level {level:?}", op.dst));
        }
        let open = self.placed.iter().position(|(whole, _)| *whole == op.dst);
        let TileFn::Place(part) = op.f else {
            return if before { Err(format!("PROGRAM-1: writes {:?} again", op.dst)) } else { Ok(()) };
        };
        let open = match (before, open) {
            (false, None) => {
                self.placed.push((op.dst, Vec::new()));
                self.placed.len() - 1
            }
            (true, Some(open)) => open,
            _ => return Err(format!("PROGRAM-1: places part {part} in {:?} again", op.dst)),
        };
        let parts = &mut self.placed[open].1;
        parts.push(part);
        if parts.windows(2).any(|pair| pair[0].checked_add(1) != Some(pair[1])) {
            return Err(format!("PROGRAM-1: part {part} is not the next one of {:?}", op.dst));
        }
        // Parts of one concatenation lie side by side, from the start of the period to its end.
        let of = |part: u8| &self.program.parts[usize::from(part)];
        if of(part).start + of(part).len == of(part).period {
            if of(parts[0]).start != 0 {
                return Err(format!("PROGRAM-1: the first part of {:?} is missing", op.dst));
            }
            self.placed.remove(open);
        }
        Ok(())
    }
}
