//! Windows that only hand payloads over: their values are published as they lie, without a plan.
//!
//! A loader's batches differ in shape, so that a plan for each window of them would be made, run once and forgotten. And where
//! nothing is on its way to the device, whoever sends such a window does all that is to be done: the device's thread is not woken,
//! and what the window frees can be written again at once, while it is in the processor's cache.
//!
//! HANDOVER-1: the values are those of the window's plan (HOST-6). A window with a payload that cannot be uploaded so is run.
//! HANDOVER-2: values are freed in the order of messages. Who sends may free them if everything sent before is done: nothing that
//! is sent later names them (LANE-2).

use std::sync::Arc;

use gt_engine::{Buffer, Transfer};
use gt_ir::{Op, TensorId, TensorType};
use gt_stream::Occurrence;

use crate::device::count;
use crate::inbox::{Message, Queued};
use crate::session::Session;
use crate::table::Entry;

/// Publishes the values of a window that does nothing but define them by payloads in the engine's memory; whether it could. Its
/// frees are left to the caller.
pub(crate) fn publish<B: Buffer>(
    session: &Arc<Session<B>>,
    occurrence: &Occurrence,
    transfer: &dyn Transfer<B>,
) -> bool {
    let Some(values) = values(session, occurrence, transfer) else { return false };
    values.into_iter().for_each(|(id, entry)| session.publish(id, entry));
    true
}

/// The values of such a window.
fn values<B: Buffer>(
    session: &Session<B>,
    occurrence: &Occurrence,
    transfer: &dyn Transfer<B>,
) -> Option<Vec<(TensorId, Entry<B>)>> {
    // Whoever logs instructions, or cuts windows shorter, has them run one by one.
    let config = &session.config;
    let plain = session.journal.is_none() && config.batch_limit.is_none() && config.lost.is_none();
    let (recipe, payloads) = (occurrence.recipe(), &occurrence.bindings().uploads);
    if !plain || recipe.is_empty() || recipe.uploads().len() != recipe.len() || payloads.len() != recipe.len() {
        return None;
    }
    let value = |(at, (instr, payload)): (usize, (&gt_ir::Instr, &gt_ir::Payload))| {
        let Op::Upload(upload) = &instr.op else { return None };
        payload.bytes.settle();
        let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
        let buffer = transfer.upload(ty, &payload.bytes, session.quota.as_ref())?;
        Some((occurrence.defined(at), Entry { value: Ok(buffer), ty: Some(ty), site: occurrence.sites()[at] }))
    };
    recipe.instrs().iter().zip(payloads).enumerate().map(value).collect()
}

/// Does on the sender's thread what a message asks for, if it is such a window and nothing is before it (HANDOVER-2). Otherwise
/// gives it back, to be sent.
pub(crate) fn give<B: Buffer>(session: &Arc<Session<B>>, queued: Queued, transfer: &dyn Transfer<B>) -> Option<Queued> {
    let Message::Run(occurrence) = &queued.message else { return Some(queued) };
    if !queued.is_whole() || !session.is_done() || !publish(session, occurrence, transfer) {
        return Some(queued);
    }
    count(session, occurrence, &[], 0, false);
    // Payloads go before the values that became of them: the last of both gives the memory back.
    let frees: Vec<TensorId> = occurrence.frees().collect();
    drop(queued);
    drop(session.table.forget(&frees));
    if let Some(memory) = transfer.memory() {
        *session.worker.memory.lock() = memory;
    }
    None
}
