//! Failures as fields of messages.

use gt_ir::codec::Reader;
use gt_ir::{Failure, FailureKind, OpError, SiteId};

use super::Wire;

/// In the order of their codes.
const KINDS: [FailureKind; 5] =
    [FailureKind::Index, FailureKind::Value, FailureKind::Memory, FailureKind::WorkerLost, FailureKind::Internal];

impl Wire<'_> for FailureKind {
    fn put(&self, out: &mut Vec<u8>) {
        // A kind that has no code yet is ours: it arrives as such.
        let code = KINDS.iter().position(|k| k == self).unwrap_or(KINDS.len() - 1);
        out.push(code as u8);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, OpError> {
        let code = r.byte()?;
        KINDS.get(code as usize).copied().ok_or_else(|| OpError::malformed(format!("no failure has code {code}")))
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

impl Wire<'_> for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        self.kind.put(out);
        self.message.put(out);
        self.op.put(out);
        self.ins.put(out);
        self.worker.put(out);
        self.site.put(out);
        self.holders.put(out);
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
        })
    }
}
