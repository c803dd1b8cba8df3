//! From loops over named spots to loops over places: pairs are joined, registers assigned, scratch memory laid out.

#![allow(clippy::disallowed_macros, reason = "sized by a program's registers and operands")]

use gt_ir::{Shape, TensorType};
use gt_plan::tile::{Level, Spot};

use super::compile::{Draft, DraftOp};
use super::kernel::TileType;
use super::pairs::{self, Half, PairOp};
use super::{Fused, LevelOp, Loops, Reduction, STAGGER, TILE, Take, TileOp, Work};
use crate::Layout;

impl Draft<'_> {
    /// Joins an operation whose result only one other reads with its reader, where both are of the kind that pairs are made of.
    pub(super) fn pair_up(&mut self) {
        let mut readers = vec![0; self.program.registers.len()];
        let spots = self.ops.iter().flat_map(|op| op.operands).flatten().chain(self.reductions.iter().map(|r| r.1));
        for spot in spots {
            if let Spot::Reg(r) = spot {
                readers[usize::from(r)] += 1;
            }
        }
        for at in 0..self.ops.len() {
            let second = self.ops[at];
            let (Some(kind), Work::Loop(_, level)) = (second.pairable, second.work) else { continue };
            let pick = (0..2).find_map(|side| {
                let made @ Spot::Reg(r) = second.operands[side]? else { return None };
                let maker = self.ops[..at].iter().position(|op| op.dst == Some(made))?;
                let first = self.ops[maker];
                (readers[usize::from(r)] == 1 && matches!(first.work, Work::Loop(_, own) if own == level))
                    .then_some(())?;
                let first_kind = first.pairable?;
                // The tile comes first, the constant second.
                let swapped = self.is_constant(first.operands[0]);
                let [a, b] = if swapped {
                    [first.operands[1], first.operands[0]]
                } else {
                    [first.operands[0], first.operands[1]]
                };
                let c = second.operands[1 - side];
                let half = |op, spot| Some(Half { op, constant: self.is_constant(spot) });
                let first = half(PairOp::of(first_kind, swapped)?, b)?;
                let second = half(PairOp::of(kind, side == 1)?, c)?;
                Some((maker, pairs::pair(first, second), [a, b, c]))
            });
            if let Some((maker, kernel, operands)) = pick {
                self.ops[at] = DraftOp { work: Work::Loop(kernel, level), operands, pairable: None, ..second };
                self.ops[maker].dst = None;
                self.ops[maker].pairable = None;
            }
        }
        self.ops.retain(|op| op.dst.is_some());
    }

    /// Whether a loop reads one element of the spot for all positions.
    fn is_constant(&self, spot: Option<Spot>) -> bool {
        matches!(spot, Some(Spot::Const(c)) if self.consts[usize::from(c)].tile.is_none())
    }

    /// Assigns registers and places.
    pub(super) fn assign(mut self) -> Fused {
        let (program, space) = (self.program, self.program.space);
        let end = self.ops.len();
        let mut last_read = vec![0; program.registers.len()];
        let mut in_last_read = vec![0; self.ins.len()];
        let mut out_written = vec![end; self.outs.len()];
        let mut read = |spot: Spot, at: usize| match spot {
            Spot::Reg(r) => last_read[usize::from(r)] = at,
            Spot::In(i) => in_last_read[usize::from(i)] = at,
            Spot::Out(_) | Spot::Const(_) => {}
        };
        for (at, op) in self.ops.iter().enumerate() {
            op.operands.iter().flatten().for_each(|&spot| read(spot, at));
            if let Some(Spot::Out(o)) = op.dst {
                out_written[usize::from(o)] = at;
            }
        }
        self.reductions.iter().for_each(|&(_, spot)| read(spot, end));

        let mut tiles_bytes = 0;
        let mut tile = |size: usize| {
            let at = tiles_bytes;
            tiles_bytes += TILE * size + STAGGER;
            at
        };
        // A register is free again after its last reader; never before the reader has its own (TILE-1).
        let mut registers: Vec<usize> = Vec::new();
        let mut sizes: Vec<usize> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut assigned = vec![usize::MAX; program.registers.len()];
        for (at, op) in self.ops.iter().enumerate() {
            // What is put together of parts is written by several.
            if let Some(Spot::Reg(r)) = op.dst
                && assigned[usize::from(r)] == usize::MAX
            {
                let size = program.registers[usize::from(r)].size();
                let reused = free.iter().rposition(|&f| sizes[f] == size).map(|i| free.swap_remove(i));
                assigned[usize::from(r)] = reused.unwrap_or_else(|| {
                    registers.push(tile(size));
                    sizes.push(size);
                    registers.len() - 1
                });
            }
            for (k, &spot) in op.operands.iter().enumerate() {
                match spot {
                    Some(Spot::Reg(r)) if last_read[usize::from(r)] == at && !op.operands[..k].contains(&spot) => {
                        free.push(assigned[usize::from(r)]);
                    }
                    _ => {}
                }
            }
        }

        let mut takes = Vec::new();
        for &slot in &self.step.takes {
            let mut read_as = self.ins.iter().enumerate().filter(|(_, i)| i.slot == slot).map(|(at, _)| at);
            // Read at two levels it is read in two orders.
            let (Some(operand), None) = (read_as.next(), read_as.next()) else { continue };
            let ty = self.plan.types[slot as usize];
            for (o, out) in self.outs.iter().enumerate() {
                let fits = ty.dtype.size() == out.ty.dtype.size() && ty.numel() == out.ty.numel();
                if fits && self.ins[operand].level == out.level {
                    let direct = in_last_read[operand] < out_written[o];
                    takes.push(Take { out: o as u16, operand: operand as u16, direct });
                }
            }
        }
        for (i, input) in self.ins.iter_mut().enumerate() {
            input.tile = tile(input.size);
            let mut readers = self.ops.iter().filter(|op| op.operands.contains(&Some(Spot::In(i as u16))));
            input.only_placed = readers.all(|op| matches!(op.work, Work::Place(..)));
        }
        self.outs.iter_mut().for_each(|o| o.tile = tile(o.ty.dtype.size()));
        for constant in self.consts.iter_mut().filter(|c| c.tile.is_some()) {
            constant.tile = Some(tile(TileType::of(constant.dtype).size()));
        }

        let (outs_at, consts_at) = (self.ins.len(), self.ins.len() + self.outs.len());
        let registers_at = consts_at + self.consts.len();
        let place = |spot: Option<Spot>| match spot {
            Some(Spot::In(i)) => i,
            Some(Spot::Out(o)) => outs_at as u16 + o,
            Some(Spot::Const(c)) => consts_at as u16 + c,
            Some(Spot::Reg(r)) => (registers_at + assigned[usize::from(r)]) as u16,
            // Loops ignore operands that they do not have.
            None => 0,
        };
        let one_level = program.row_axes.is_none() && program.parts.is_empty();
        let (mut ops, mut level_ops) = (Vec::new(), Vec::new());
        for op in &self.ops {
            let (dst, [a, b, c]) = (place(op.dst), op.operands.map(place));
            match op.work {
                Work::Loop(kernel, Level::Full) if one_level => ops.push(TileOp { kernel, dst, a, b, c }),
                work => level_ops.push(LevelOp { work, dst, a, b, c }),
            }
        }
        let reductions = self
            .reductions
            .into_iter()
            .map(|(reduction, spot)| Reduction { source: place(Some(spot)), ..reduction })
            .collect();
        // The planner makes no program whose folds go over several sets of axes.
        let axes = program.folds.first().map(|fold| fold.axes);
        let (mut loops, mut order) = Fused::loops(&space, axes);
        let rows = program.extents(Level::Row);
        if program.row_axes.is_some() {
            // The last axes are folded: rows lie one after the other.
            let count = rows.numel();
            loops = Loops::WholeRows { rows: count, len: space.numel() / count.max(1) };
            order = (0..space.rank() as u8).collect();
        }
        let natural = loops == Loops::Flat || is_row_major(&space, &order);
        let mut outs = self.outs;
        for out in outs.iter_mut().filter(|_| !natural) {
            out.layout = packed_in(out.ty, &order).into();
        }
        Fused {
            ins: self.ins,
            outs,
            reductions,
            space,
            numel: space.numel(),
            order,
            natural,
            rows,
            parts: program.parts.clone(),
            loops,
            consts: self.consts,
            ops,
            level_ops,
            registers,
            tiles_bytes,
            takes,
            first_instr: self.step.instrs[0],
            picos_per_element: self.picos.max(1),
        }
    }
}

/// Whether walking the axes in this order is walking row-major: axes of extent 1 may stand anywhere.
fn is_row_major(space: &Shape, order: &[u8]) -> bool {
    let wide: Vec<u8> = order.iter().copied().filter(|&a| space[a as usize] != 1).collect();
    wide.is_sorted()
}

/// The layout of a value packed in the given order of axes.
pub(super) fn packed_in(ty: TensorType, order: &[u8]) -> Layout {
    let mut layout = Layout::packed(ty);
    let mut stride = 1;
    for &axis in order.iter().rev() {
        layout.strides[axis as usize] = stride;
        stride *= ty.shape[axis as usize].max(1) as i64;
    }
    layout
}
