//! Ordinary memory beside the buffers of an engine: what was read ahead for it lies there until it is uploaded.
//!
//! HOST-1: what is charged counts as the engine's own: against its limit, and in [`crate::Memory::live_bytes`].
//! HOST-2: memory for payloads comes from the engine they are for. An engine beside the processor gives memory that its device
//!         copies from by itself (page-locked); one on the processor gives memory that becomes the value as it is.
//! HOST-3: what is allocated here counts for nobody's limit: whoever has it answers for it (a loader does, by HOST-1), until an
//!         upload makes a value of it, which is charged as any value is. So what is read ahead never keeps a run from the memory
//!         it would have had.
//! HOST-4: it goes back when the last who holds it lets go (BYTES-2), values that became of it included. The engine may keep it
//!         for the next request: a loader asks for the same sizes step after step, and fresh pages cost as much as what is
//!         written into them.
//! HOST-5: any payload can be uploaded, wherever it lies: that it came from here only spares copies.

use gt_ir::{Failure, HostBuffer};

/// The engine's ordinary memory: gives it, and counts what others have of it. For any thread.
pub trait HostMemory: Send + Sync {
    /// Takes so many bytes.
    ///
    /// # Errors
    /// When the engine's limit does not allow them; nothing has changed then.
    fn charge(&self, len_bytes: u64) -> Result<(), Failure>;
    /// Gives back what was taken.
    fn give_back(&self, len_bytes: u64);
    /// The most there may be, buffers included.
    fn limit_bytes(&self) -> u64;
    /// Memory for a payload (HOST-2), aligned to a cache line at least.
    ///
    /// # Errors
    /// When the system has no more of it.
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        Ok(HostBuffer::ordinary(len_bytes))
    }
}

/// For engines that have no limit of their own.
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
