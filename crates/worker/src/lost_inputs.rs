//! What a window of a session that lost values can still do: only what depends on a lost value fails.
//!
//! LOST-INPUTS-1: an instruction is taken out of its window if it reads a value that is not here, or that has no type because it
//! was taken out itself. The rest runs as it would have.
//! LOST-INPUTS-2: a write whose new values are here gives them, whatever became of the old ones: a program recovers by writing.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Failure, IdMap, Op, TensorId, Window};

use crate::inbox::Lost;
use crate::table::TableState;

/// Why a value from outside the window cannot be planned with, if so.
fn why_not<B: Buffer>(state: &TableState<B>, id: TensorId) -> Option<Arc<Failure>> {
    match state.get(id) {
        Some(entry) if entry.ty.is_some() => None,
        Some(entry) => entry.value.as_ref().err().cloned(),
        // A session that lost nothing has no business with it: who plans the window refuses it.
        None => state.lost.clone(),
    }
}

/// The instructions that cannot run, ascending; changes writes that can (LOST-INPUTS-2).
pub(crate) fn find<B: Buffer>(state: &TableState<B>, window: &mut Window) -> Vec<Lost> {
    let first = window.instrs.first().and_then(|instr| instr.outs.first()).map_or(0, |id| id.0);
    let mut defined = 0u64;
    // What was taken out, or is not here, and why.
    let mut gone: IdMap<Arc<Failure>> = IdMap::default();
    let mut out = Vec::new();
    for (at, instr) in window.instrs.iter_mut().enumerate() {
        for &id in &instr.ins {
            let inside = id.0.wrapping_sub(first) < defined;
            if !inside
                && !gone.contains_key(&id)
                && let Some(failure) = why_not(state, id)
            {
                gone.insert(id, failure);
            }
        }
        defined += instr.outs.len() as u64;
        if gone.is_empty() {
            continue;
        }
        let half = instr.ins.len() / 2;
        let needed = if let Op::Write(_) = &instr.op { &instr.ins[half..] } else { &instr.ins[..] };
        if let Some(failure) = needed.iter().find_map(|id| gone.get(id)).cloned() {
            instr.outs.iter().for_each(|&id| {
                gone.insert(id, failure.clone());
            });
            out.push(Lost { instr: at as u32, failure });
        } else if let Op::Write(_) = &instr.op {
            for k in 0..half {
                if gone.contains_key(&instr.ins[k]) {
                    instr.ins[k] = instr.ins[half + k];
                }
            }
        }
    }
    out
}

/// Whether all that the window reads from outside is here.
pub(crate) fn is_whole<B: Buffer>(state: &TableState<B>, window: &Window) -> bool {
    let first = window.instrs.first().and_then(|instr| instr.outs.first()).map_or(0, |id| id.0);
    let mut defined = 0u64;
    window.instrs.iter().all(|instr| {
        let here = |id: &TensorId| {
            id.0.wrapping_sub(first) < defined || state.get(*id).is_some_and(|entry| entry.ty.is_some())
        };
        let whole = instr.ins.iter().all(here);
        defined += instr.outs.len() as u64;
        whole
    })
}
