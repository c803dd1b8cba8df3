//! Pass 3, compiled plans only: leaves out instructions whose results nobody can see and that compute nothing.
//!
//! DEAD-1: arithmetic always runs, also when its result is dropped: `synchronize` promises that what was recorded has
//! happened, and a program that times its work must find it done. What goes are views and constants.

use gt_ir::Op;

use crate::draft::Draft;

/// Whether leaving the op out spares nobody any work that was asked for.
fn computes_nothing(op: &Op) -> bool {
    matches!(op, Op::Reshape(_) | Op::Permute(_) | Op::Broadcast(_) | Op::Slice(_) | Op::Fill(_) | Op::Iota(_))
}

/// Clears `kept` for dead instructions; gives back how many there are.
pub(crate) fn drop_dead(draft: &mut Draft) -> usize {
    let mut wanted = draft.outlives.clone();
    let mut dropped = 0;
    for (at, instr) in draft.instrs.iter().enumerate().rev() {
        let seen = instr.outs.iter().any(|id| wanted[id.0 as usize]);
        if seen || !computes_nothing(&instr.op) {
            instr.ins.iter().for_each(|id| wanted[id.0 as usize] = true);
        } else {
            draft.kept[at] = false;
            dropped += 1;
        }
    }
    dropped
}
