//! Failures as fields of messages.

use gt_ir::codec::Reader;
use gt_ir::{Cause, Failure, FailureKind, OpError, SiteId, SkippedWrite, TensorId};

use super::Wire;

/// A kind's code; the match has no catch-all, so that a new kind gets one.
fn code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Index => 0,
        FailureKind::Value => 1,
        FailureKind::Memory => 2,
        FailureKind::WorkerLost => 3,
        FailureKind::Internal => 4,
        FailureKind::Domain => 5,
    }
}

impl Wire<'_> for FailureKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(code(*self));
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let found = r.byte()?;
        let kinds = FailureKind::ALL;
        kinds
            .into_iter()
            .find(|&k| code(k) == found)
            .ok_or_else(|| OpError::malformed(format!("unknown failure code {found}")))
    }
}

impl Wire<'_> for SiteId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        u32::get(r).map(SiteId)
    }
}

impl Wire<'_> for SkippedWrite {
    fn put(&self, out: &mut Vec<u8>) {
        self.site.put(out);
        self.kept.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        Ok(SkippedWrite { site: Wire::get(r)?, kept: Wire::get(r)? })
    }
}

impl Wire<'_> for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        self.kind.put(out);
        self.message.put(out);
        self.op.put(out);
        self.ins.put(out);
        self.worker.put(out);
        self.site.put(out);
        self.holders.put(out);
        self.bad_value().put(out);
        self.skipped.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        Ok(Failure {
            kind: Wire::get(r)?,
            message: Wire::get(r)?,
            op: Wire::get(r)?,
            ins: Wire::get(r)?,
            worker: Wire::get(r)?,
            site: Wire::get(r)?,
            holders: Wire::get(r)?,
            cause: Option::<TensorId>::get(r)?.map(Cause::Value),
            skipped: Wire::get(r)?,
        })
    }
}
