//! Where the tensors of a batch are written.
//!
//! BUFFERS-1: every tensor of a batch lies in memory of the allocator that the run was given, which is the engine's that will
//!            compute with it: made there, it need not be copied. In a program that reads its own files, what the allocator does not
//!            have lies in ordinary memory: a batch that has begun is finished. If the memory is counted, it is an error.
//! BUFFERS-2: a tensor takes memory only out of what was reserved for its batch (ACCOUNT-3), which stays counted with its bytes.

use gt_ir::{Bytes, HostAllocator, HostBuffer};

use crate::error::{DataError, Result};
use crate::run::{BatchCharge, Reserved};

/// What a tensor takes beside its bytes.
const TENSOR_BYTES: u64 = 512;

/// Memory for the tensors of batches.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    allocator: Option<&'a dyn HostAllocator>,
    reserved: &'a Reserved,
}

/// Room for a tensor.
pub(super) struct Buffer {
    memory: HostBuffer,
    charge: Option<BatchCharge>,
}

impl<'a> Buffers<'a> {
    /// Of an allocator, or ordinary memory.
    pub fn new(allocator: Option<&'a dyn HostAllocator>, reserved: &'a Reserved) -> Buffers<'a> {
        Buffers { allocator, reserved }
    }

    /// What was reserved for the batch.
    pub(super) fn reserved(self) -> &'a Reserved {
        self.reserved
    }

    /// Room for a tensor, with anything in it.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn take(self, len_bytes: usize) -> Result<Buffer> {
        let lacking = |failure: gt_ir::Failure| DataError::Memory(failure.message);
        let charge = self.reserved.split(Buffer::counts(len_bytes))?;
        let memory = match self.allocator.map(|allocator| allocator.allocate(len_bytes)) {
            Some(Ok(given)) => given,
            Some(Err(failure)) if self.reserved.is_counted() => return Err(lacking(failure)),
            Some(Err(_)) | None => HostBuffer::ordinary(len_bytes).map_err(lacking)?,
        };
        Ok(Buffer { memory, charge })
    }
}

impl Buffer {
    /// The bytes that a tensor of this size is charged for.
    pub(super) fn counts(len_bytes: usize) -> u64 {
        (len_bytes as u64).saturating_add(TENSOR_BYTES)
    }

    /// The memory, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// What was written, for good.
    pub(super) fn freeze(self) -> Bytes {
        let bytes = self.memory.freeze();
        match self.charge {
            Some(charge) => bytes.accompanied_by(Box::new(charge)),
            None => bytes,
        }
    }
}
