//! What becomes of a window that cannot be run.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Failure, FailureKind, Instr, Op, SkippedWrite};
use gt_plan::PlanError;

use crate::session::Session;
use crate::table::Entry;

/// The failure that a refused window leaves in its values.
fn failure<B: Buffer>(session: &Session<B>, instrs: &[Instr], error: &PlanError) -> Arc<Failure> {
    if let PlanError::UnknownInput { id, .. } = error {
        // The input may have come from a refused window itself: then its failure is the cause.
        if let Some(Entry { value: Err(cause), .. }) = session.table.lock().get(*id) {
            return cause.clone();
        }
    }
    let mut failure =
        Failure::new(FailureKind::Internal, format!("a worker rejected the recorded instructions: {error}"));
    failure.worker = session.worker.name.clone();
    if let Some(instr) = instrs.get(error.instr().unwrap_or_default() as usize) {
        failure.op = instr.op.display_name().to_string();
        failure.site = instr.site;
    }
    Arc::new(failure)
}

/// Poisons all that these instructions were to define, except that cells keep their old values where they are known.
pub(crate) fn poison<B: Buffer>(session: &Arc<Session<B>>, instrs: &[Instr], error: &PlanError) {
    let failure = failure(session, instrs, error);
    session.report(&failure);
    instrs.iter().for_each(|instr| poison_instr(session, instr, &failure));
}

/// Poisons what one instruction was to define. A write to values that are known is skipped instead, and says so before its
/// values can be read.
pub(crate) fn poison_instr<B: Buffer>(session: &Arc<Session<B>>, instr: &Instr, failure: &Arc<Failure>) {
    let old = |k: usize| match (&instr.op, instr.ins.get(k)) {
        (Op::Write(_), Some(&old)) => session.table.lock().get(old).cloned().filter(|e| e.value.is_ok()),
        _ => None,
    };
    let olds: Vec<Option<Entry<B>>> = (0..instr.outs.len()).map(old).collect();
    if olds.iter().any(Option::is_some) {
        let kept = olds.iter().filter_map(|old| old.as_ref()?.ty).collect();
        session.table.skipped(SkippedWrite { site: instr.site, kept }, failure);
    }
    for (&id, old) in instr.outs.iter().zip(olds) {
        let poisoned = || Entry { value: Err(failure.clone()), ty: None, site: instr.site };
        session.publish(id, old.unwrap_or_else(poisoned));
    }
}
