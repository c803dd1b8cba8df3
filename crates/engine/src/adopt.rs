//! Payloads that become values where they lie, without a plan and without the thread that runs plans.
//!
//! ADOPT-1: a value that was adopted is what an upload of its payload would be: the same elements, charged to the same account.

use std::sync::Arc;

use gt_ir::{Bytes, TensorType};

use crate::engine::Memory;
use crate::quota::Quota;

/// Makes values of payloads in an engine's own memory ([`crate::HostMemory::allocate`]). For any thread.
pub trait Adopt<B>: Send + Sync {
    /// The payload as a value of this type, charged to `quota` beside the engine's own limit. None where it has to be copied, or
    /// cannot be had: an upload does the one, and says why for the other.
    fn adopt(&self, ty: TensorType, payload: &Bytes, quota: Option<&Arc<Quota>>) -> Option<B>;
    /// What the engine has allocated.
    fn memory(&self) -> Memory;
}
