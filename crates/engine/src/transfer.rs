//! How payloads get into an engine's memory, and what ordinary memory beside its buffers counts for.
//!
//! HOST-1: what is charged counts as the engine's own: against its limit, and in [`Memory::live_bytes`].
//! HOST-2: memory for payloads comes from the engine they are for. An engine for another device gives memory that the device can
//!         copy from (page-locked); one on the processor gives memory that becomes the value without a copy.
//! HOST-3: allocated memory counts against no limit: its holder answers for it (a loader does, by HOST-1) until an upload makes a
//!         value of it, which is charged as any value is. So reading ahead never takes memory from a run.
//! HOST-4: allocated memory goes back with its last holder (BYTES-2), values made of it included. The engine may keep it for the
//!         next request: a loader asks for the same sizes step after step, and fresh pages cost as much as writing them.
//! HOST-5: any payload can be uploaded, wherever it is: memory from here only saves copies.
//! HOST-6: a value made by `upload` is what an upload instruction would make: the same elements, charged to the same account.

use std::sync::Arc;

use gt_ir::{Bytes, Failure, HostBuffer, TensorType};

use crate::engine::Memory;
use crate::quota::Quota;

/// The engine's ordinary memory: allocates payloads, and counts what others hold. Any thread may call it.
pub trait HostMemory: Send + Sync {
    /// Counts so many bytes as the engine's.
    ///
    /// # Errors
    /// When the engine's limit does not allow them; nothing has changed then.
    fn charge(&self, len_bytes: u64) -> Result<(), Failure>;
    /// Gives charged bytes back.
    fn give_back(&self, len_bytes: u64);
    /// The most there may be, buffers included.
    fn limit_bytes(&self) -> u64;
    /// Memory for a payload (HOST-2), aligned to a cache line at least.
    ///
    /// # Errors
    /// When the system has no more of it.
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        HostBuffer::ordinary(len_bytes)
    }
}

/// That, and uploads without a plan and without the device thread.
pub trait Transfer<B>: HostMemory {
    /// The payload as a value of this type, charged to `quota` beside the engine's own limit (HOST-6). None where only an upload
    /// instruction can make the value, or say why there is none.
    fn upload(&self, ty: TensorType, payload: &Bytes, quota: Option<&Arc<Quota>>) -> Option<B>;
    /// What the engine has allocated now, if any thread can tell.
    fn memory(&self) -> Option<Memory>;
}

/// For engines with no limit, whose values are made by plans only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncounted;

impl HostMemory for Uncounted {
    fn charge(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }
    fn give_back(&self, _: u64) {}
    fn limit_bytes(&self) -> u64 {
        u64::MAX
    }
}

impl<B> Transfer<B> for Uncounted {
    fn upload(&self, _: TensorType, _: &Bytes, _: Option<&Arc<Quota>>) -> Option<B> {
        None
    }
    fn memory(&self) -> Option<Memory> {
        None
    }
}
