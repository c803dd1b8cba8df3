//! A tile program as text, for tests and messages: one line for each thing that it reads, does and makes.
//!
//! ```text
//! in0 = %0 full bf16
//! r0 = widen in0 full f32
//! o0 = exp r0 full f32 -> %1
//! %2 = sum r0 axes=[1] f32[4]
//! ```

use std::fmt;

use super::{Level, Spot, TileFn, TileProgram};

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Full => f.write_str("full"),
            Level::Row => f.write_str("row"),
            Level::Part(part) => write!(f, "part{part}"),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::In(i) => write!(f, "in{i}"),
            Spot::Out(o) => write!(f, "o{o}"),
            Spot::Const(c) => write!(f, "c{c}"),
            Spot::Reg(r) => write!(f, "r{r}"),
        }
    }
}

impl fmt::Display for TileFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TileFn::Unary(kind) => f.write_str(kind.name()),
            TileFn::Binary(kind) => f.write_str(kind.name()),
            TileFn::Compare(kind) => f.write_str(kind.name()),
            TileFn::Select => f.write_str("select"),
            TileFn::Cast => f.write_str("cast"),
            TileFn::Copy => f.write_str("copy"),
            TileFn::Splat => f.write_str("splat"),
            TileFn::Widen => f.write_str("widen"),
            TileFn::Narrow => f.write_str("narrow"),
            TileFn::Round(half) => write!(f, "round[{half}]"),
            TileFn::Spread => f.write_str("spread"),
            TileFn::Place(part) => write!(f, "place[{part}]"),
            TileFn::Fold(kind) => write!(f, "fold[{}]", kind.name()),
        }
    }
}

impl fmt::Display for TileProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, input) in self.ins.iter().enumerate() {
            writeln!(f, "in{i} = %{} {} {}", input.slot, input.level, input.dtype)?;
        }
        for (c, constant) in self.consts.iter().enumerate() {
            let rounded = if constant.rounded { " rounded" } else { "" };
            writeln!(f, "c{c} = scalar {} of {} {}{rounded}", constant.nth, constant.instr, constant.dtype)?;
        }
        for op in &self.ops {
            write!(f, "{} = {}", op.dst, op.f)?;
            op.args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
            write!(f, " {} {}", op.level, self.dtype(op.dst))?;
            match op.dst {
                Spot::Out(o) => writeln!(f, " -> %{}", self.outs[usize::from(o)].slot)?,
                Spot::In(_) | Spot::Const(_) | Spot::Reg(_) => writeln!(f)?,
            }
        }
        for fold in &self.folds {
            let axes: Vec<usize> = fold.axes.iter().collect();
            writeln!(f, "%{} = {} {} axes={axes:?} {}", fold.slot, fold.kind.name(), fold.source, fold.ty)?;
        }
        Ok(())
    }
}
