//! Ordinary memory beside the buffers of an engine: what was read ahead for it lies there until it is uploaded.
//!
//! HOST-1: what is taken counts as the engine's own: against its limit, and in [`crate::Memory::live_bytes`].

use gt_ir::Failure;

/// The engine's account of ordinary memory. For any thread.
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
