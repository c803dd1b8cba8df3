//! Takes in values that lie elsewhere in this process.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Op, Payload, TensorType};
use gt_stream::Occurrence;

use crate::inbox::Lost;
use crate::moved::Departing;
use crate::session::Session;
use crate::table::Entry;

/// Publishes the value of a window that does nothing but define it, as it lies: no plan, no memory, no copy. Whether it
/// could (MOVED-2, MOVED-3).
pub(crate) fn publish<B: Buffer>(
    session: &Arc<Session<B>>,
    occurrence: &Occurrence,
    moved: &[(u32, Departing)],
) -> bool {
    let ([instr], [(0, value)]) = (occurrence.recipe().instrs(), moved) else { return false };
    let Op::Upload(upload) = &instr.op else { return false };
    let (id, site) = (occurrence.defined(0), occurrence.sites()[0]);
    let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
    let Some(buffer) = value.as_buffer::<B>().filter(|_| value.ty() == ty) else { return false };
    session.publish(id, Entry { value: Ok(buffer), ty: Some(ty), site });
    true
}

/// Makes payloads of copies of them.
pub(crate) fn copy(occurrence: &mut Occurrence, moved: Vec<(u32, Departing)>, lost: &mut Vec<Lost>) {
    if moved.is_empty() {
        return;
    }
    for (instr, value) in moved {
        match value.to_bytes() {
            Ok(bytes) => {
                let added = occurrence.add_payload(Payload { instr, bytes });
                lost.extend(added.err().map(|error| Lost::misfit(instr, &error)));
            }
            Err(failure) => lost.push(Lost { instr, failure: Arc::new(failure) }),
        }
    }
    lost.sort_by_key(|lost| lost.instr);
    lost.dedup_by_key(|lost| lost.instr);
}
