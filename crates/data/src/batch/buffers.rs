//! Where the tensors of a batch are written.
//!
//! BUFFERS-1: every tensor of a batch lies in memory of the allocator that the run was given, which is the engine's that will
//!            compute with it: made there, it need not be copied. What the allocator does not have lies in ordinary memory: a
//!            batch that was begun is finished.
//! BUFFERS-2: the run counts its batches, wherever they lie, until they are given (ACCOUNT-1).

use gt_ir::{HostAllocator, HostBuffer};

/// Memory for the tensors of batches.
#[derive(Clone, Copy, Default)]
pub struct Buffers<'a>(Option<&'a dyn HostAllocator>);

impl<'a> Buffers<'a> {
    /// Of an allocator, or ordinary memory.
    pub fn new(allocator: Option<&'a dyn HostAllocator>) -> Buffers<'a> {
        Buffers(allocator)
    }

    /// Room for a tensor, with anything in it.
    pub(super) fn take(self, len_bytes: usize) -> HostBuffer {
        let given = self.0.and_then(|allocator| allocator.allocate(len_bytes).ok());
        given.unwrap_or_else(|| HostBuffer::ordinary(len_bytes))
    }
}
