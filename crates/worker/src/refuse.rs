//! What becomes of a window that cannot be run.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Failure, FailureKind, Op, Window};
use gt_plan::PlanError;

use crate::shared::Shared;
use crate::table::{Entry, Table};

/// The failure that a refused window leaves in its values.
pub(crate) fn failure<B: Buffer>(window: &Window, error: &PlanError, table: &Table<B>, worker: &str) -> Arc<Failure> {
    let at = match error {
        PlanError::NotConsecutive { instr, .. }
        | PlanError::NoOuts { instr, .. }
        | PlanError::NotYetDefined { instr, .. }
        | PlanError::Payload { instr, .. }
        | PlanError::Malformed { instr, .. } => *instr as usize,
        PlanError::UnknownInput { instr, id } => {
            // The input may have come from a refused window itself: then its failure is the cause.
            if let Some(Entry { value: Err(cause), .. }) = table.lock().get(*id) {
                return cause.clone();
            }
            *instr as usize
        }
        PlanError::FreedUndefined { .. } | PlanError::Panicked { .. } | PlanError::TooLong { .. } => 0,
    };
    let mut failure = Failure::new(FailureKind::Internal, format!("a window was refused: {error}"));
    failure.worker = worker.to_string();
    if let Some(instr) = window.instrs.get(at) {
        failure.op = instr.op.display_name().to_string();
        failure.site = instr.site;
    }
    Arc::new(failure)
}

/// Poisons all that the window was to define, except that cells keep their old values where they are known.
pub(crate) fn poison<B: Buffer>(window: &Window, failure: Arc<Failure>, table: &Table<B>, shared: &Shared) {
    shared.debug.print(|| format!("{failure}"));
    if let Some(journal) = &shared.journal {
        journal.error(&failure);
    }
    gt_observe::Counters::add(&shared.counters.failures, 1);
    let mut skipped = false;
    for instr in &window.instrs {
        for (k, &id) in instr.outs.iter().enumerate() {
            let old = match (&instr.op, instr.ins.get(k)) {
                (Op::Write(_), Some(&old)) => table.lock().get(old).cloned().filter(|e| e.value.is_ok()),
                _ => None,
            };
            skipped |= old.is_some();
            let poisoned = || Entry { value: Err(failure.clone()), ty: None, site: instr.site };
            table.insert(id, old.unwrap_or_else(poisoned));
        }
    }
    if skipped {
        table.skipped(failure);
    }
}
