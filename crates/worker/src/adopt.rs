//! Takes in values that lie elsewhere in this process.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Op, Payload, TensorType, Window};

use crate::inbox::Lost;
use crate::moved::Departing;
use crate::session::Session;
use crate::table::Entry;

/// Publishes the value of a window that does nothing but define it, as it lies: no plan, no memory, no copy. Whether it
/// could (MOVED-2, MOVED-3).
pub(crate) fn publish<B: Buffer>(session: &Arc<Session<B>>, window: &Window, moved: &[(u32, Departing)]) -> bool {
    let ([instr], [(0, value)]) = (window.instrs.as_slice(), moved) else { return false };
    let (Op::Upload(upload), Some(&id)) = (&instr.op, instr.outs.first()) else { return false };
    let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
    let Some(buffer) = value.as_buffer::<B>().filter(|_| value.ty() == ty) else { return false };
    session.publish(id, Entry { value: Ok(buffer), ty: Some(ty), site: instr.site });
    true
}

/// Makes payloads of copies of them.
pub(crate) fn copy(window: &mut Window, moved: Vec<(u32, Departing)>, lost: &mut Vec<Lost>) {
    if moved.is_empty() {
        return;
    }
    for (instr, value) in moved {
        match value.to_bytes() {
            Ok(bytes) => window.uploads.push(Payload { instr, bytes }),
            Err(failure) => lost.push(Lost { instr, failure: Arc::new(failure) }),
        }
    }
    window.uploads.sort_by_key(|payload| payload.instr);
    lost.sort_by_key(|lost| lost.instr);
    lost.dedup_by_key(|lost| lost.instr);
}
