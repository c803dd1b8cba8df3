//! Pass 2: elementwise instructions read what was broadcast, not the broadcast.
//!
//! Gradients of reductions are broadcast by an instruction of their own, although the product or sum that follows would
//! broadcast by itself. Read past it, the chain stays one step; the view that nobody reads any more costs nothing.
//!
//! UNBROADCAST-1: an operand is replaced only where another tensor operand has the extents of the result, so no type
//! changes.

use gt_ir::{Op, TensorId};

use crate::draft::{Draft, Role, role};

/// Replaces operands that were broadcast by what they were broadcast from.
pub(crate) fn unbroadcast(draft: &mut Draft) {
    let mut sources: Vec<(TensorId, TensorId)> = Vec::new();
    for at in 0..draft.instrs.len() {
        let (op, out) = (&draft.instrs[at].op, draft.instrs[at].outs[0]);
        if let Op::Broadcast(_) = op {
            let from = draft.instrs[at].ins[0];
            let from = source(&sources, from).unwrap_or(from);
            sources.push((out, from));
            continue;
        }
        if sources.is_empty() || role(op) != Role::Elementwise {
            continue;
        }
        let shape = draft.ty(out).shape;
        for k in 0..draft.instrs[at].ins.len() {
            let ins = &draft.instrs[at].ins;
            let carried = ins.iter().enumerate().any(|(other, &id)| other != k && draft.ty(id).shape == shape);
            if carried && let Some(from) = source(&sources, ins[k]) {
                draft.instrs[at].ins[k] = from;
            }
        }
    }
}

fn source(sources: &[(TensorId, TensorId)], id: TensorId) -> Option<TensorId> {
    sources.iter().rev().find(|(out, _)| *out == id).map(|(_, from)| *from)
}
