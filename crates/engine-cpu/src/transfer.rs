//! Memory that others write for the engine: blocks of its own allocator, which become values where they lie.
//!
//! LENT-1: a lent block counts from the moment it is a value until whoever wrote it, its readers and all values that became of it
//!         are gone (HOST-3, HOST-4).
//! LENT-2: a value that was a lent block is not written while somebody has the bytes: they hold the same storage (BUFFER-1).
//! LENT-3: a forked child gives nothing back: the lock may be held by a thread that it does not have.

use std::sync::Arc;

use gt_engine::{HostMemory, Memory, Quota, Transfer};
use gt_ir::{Bytes, DType, Failure, HostBlock, HostBuffer, TensorType};

use crate::alloc::{Allocator, Storage};
use crate::buffer::CpuBuffer;
use crate::layout::Layout;

/// Lends blocks of the engine's memory, and counts what others hold.
pub(crate) struct CpuTransfer(pub Arc<Allocator>);

impl HostMemory for CpuTransfer {
    fn charge(&self, len_bytes: u64) -> Result<(), Failure> {
        self.0.charge(len_bytes)
    }
    fn give_back(&self, len_bytes: u64) {
        self.0.give_back(len_bytes);
    }
    fn limit_bytes(&self) -> u64 {
        self.0.memory().limit_bytes
    }
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        let storage = Some(Arc::new(self.0.lend(len_bytes)?));
        Ok(HostBuffer::new(Arc::new(Lent { storage, process: std::process::id() })))
    }
}

impl Transfer<CpuBuffer> for CpuTransfer {
    fn upload(&self, ty: TensorType, payload: &Bytes, quota: Option<&Arc<Quota>>) -> Option<CpuBuffer> {
        if payload.len() != ty.bytes() {
            return None;
        }
        adopted(ty, payload, |storage| self.0.adopt_for(storage, quota.cloned()))
    }
    fn memory(&self) -> Option<Memory> {
        Some(self.0.memory())
    }
}

/// A block in the hands of somebody else.
struct Lent {
    /// None once it was given back.
    storage: Option<Arc<Storage>>,
    process: u32,
}

impl HostBlock for Lent {
    fn bytes(&self) -> &[u8] {
        self.storage.as_ref().map_or(&[], |storage| storage.bytes())
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.as_mut().and_then(Arc::get_mut).map_or_else(Default::default, Storage::bytes_mut)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // LENT-3.
            std::mem::forget(self.storage.take());
        }
    }
}

/// A payload of this type as a value where it lies, if that is a block which `charge` allows. Otherwise it has to be copied: that
/// says why not, if there is no room. It is the engine's own memory, written by whoever made the payload (LENT-2).
pub(crate) fn adopted(
    ty: TensorType,
    payload: &Bytes,
    charge: impl FnOnce(&Storage) -> Result<(), Failure>,
) -> Option<CpuBuffer> {
    let storage = payload.block::<Lent>()?.storage.as_ref().filter(|_| has_only_bools(ty, payload))?;
    charge(storage).ok()?;
    Some(CpuBuffer::new(storage.clone(), Layout::packed(ty)))
}

/// Whether every byte of a bool is 0 or 1, whatever came by wire.
pub(crate) fn has_only_bools(ty: TensorType, payload: &[u8]) -> bool {
    ty.dtype != DType::Bool || payload.iter().fold(0, |most, &b| most.max(b)) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_the_value_where_it_lies() {
        let allocator = Allocator::new(1 << 20);
        let mut buffer = CpuTransfer(allocator.clone()).allocate(1000).unwrap();
        buffer.bytes_mut().fill(7);
        let payload = buffer.freeze();
        let ty = TensorType { dtype: DType::U8, shape: gt_ir::Shape::new(&[1000]) };
        let adopted = |payload: &Bytes, by: &Arc<Allocator>| CpuTransfer(by.clone()).upload(ty, payload, None);
        let mut storage = adopted(&payload, &allocator).unwrap().storage;
        assert_eq!(storage.ptr().cast_const(), payload.as_ptr());
        assert!(Arc::get_mut(&mut storage).is_none(), "the payload has it too (LENT-2)");
        assert!(adopted(&payload, &Allocator::new(1 << 20)).is_none(), "another engine copies it");
        assert!(adopted(&Bytes::from(vec![7; 1000]), &allocator).is_none());
        drop(payload);
        assert!(Arc::get_mut(&mut storage).is_some_and(|storage| storage.bytes() == [7; 1000]));
        drop(storage);
        assert_eq!(allocator.memory().live_bytes, 0);
    }

    #[test]
    fn a_forked_child_gives_nothing_back() {
        let storage = Arc::new(Allocator::new(1 << 20).lend(1000).unwrap());
        let own = std::process::id();
        drop(Lent { storage: Some(storage.clone()), process: own });
        assert_eq!(Arc::strong_count(&storage), 1);
        drop(Lent { storage: Some(storage.clone()), process: own + 1 });
        assert_eq!(Arc::strong_count(&storage), 2, "the child's handle stays");
    }
}
