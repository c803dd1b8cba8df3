//! Pass 2, compiled plans only: leaves out instructions whose results nobody can see.
//!
//! DEAD-1: a `write` always stays: that it was skipped is seen by the next read even when its result is not.
//! A failing instruction may go like any other, since its error shows only in values that are read.

use gt_ir::Op;

use crate::draft::Draft;

/// Clears `kept` for dead instructions; gives back how many there are.
pub(crate) fn drop_dead(draft: &mut Draft) -> usize {
    let mut wanted = draft.outlives.clone();
    let mut dropped = 0;
    for (at, instr) in draft.instrs.iter().enumerate().rev() {
        let seen = instr.outs.iter().any(|id| wanted[id.0 as usize]);
        if seen || matches!(instr.op, Op::Write(_)) {
            instr.ins.iter().for_each(|id| wanted[id.0 as usize] = true);
        } else {
            draft.kept[at] = false;
            dropped += 1;
        }
    }
    dropped
}
