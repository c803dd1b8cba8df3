//! Values: a block of memory and where the elements lie in it.
//!
//! BUFFER-1: storage that several handles share is never written. The engine writes storage it has just allocated,
//! or of which it holds the only handle.

use std::sync::Arc;

use gt_engine::Buffer;
use gt_ir::{Failure, HostTensor, TensorType};

use crate::Layout;
use crate::alloc::Storage;
use crate::fused::Walk;
use crate::kernels::{Dst, Src};

/// A value of the CPU engine. Views share storage.
#[derive(Clone)]
pub struct CpuBuffer {
    pub(crate) storage: Arc<Storage>,
    /// Shared: values move from hand to hand many times, and a layout is much larger than they are without it.
    pub(crate) layout: Arc<Layout>,
}

impl CpuBuffer {
    /// Elements of a storage.
    pub(crate) fn new(storage: Arc<Storage>, layout: Layout) -> Self {
        CpuBuffer { storage, layout: Arc::new(layout) }
    }

    /// Other elements of the same storage.
    pub(crate) fn with_layout(self, layout: Layout) -> Self {
        CpuBuffer::new(self.storage, layout)
    }

    /// As a kernel reads it.
    pub(crate) fn src(&self) -> Src {
        Src { ptr: self.storage.ptr(), layout: *self.layout }
    }

    /// As a kernel writes it.
    pub(crate) fn dst(&self) -> Dst {
        Dst { ptr: self.storage.ptr(), layout: *self.layout }
    }

    /// Where the first element lies.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        let offset_bytes = self.layout.offset * self.layout.dtype.size();
        // SAFETY: a layout's offset lies inside its storage, or is 0 for an empty one.
        unsafe { self.storage.ptr().add(offset_bytes) }
    }
}

impl Buffer for CpuBuffer {
    fn ty(&self) -> TensorType {
        self.layout.ty()
    }
    fn bytes(&self) -> usize {
        self.storage.len_bytes()
    }
    fn storage(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        let ty = self.layout.ty();
        let mut bytes = gt_ir::vec_for_bytes(ty.bytes())?;
        // SAFETY: the walk writes exactly `ty.bytes()` bytes, all of the layout's elements, which lie in the storage.
        unsafe {
            Walk::row_major(&self.layout).copy(self.first(), ty.dtype.size(), 0, ty.numel(), bytes.as_mut_ptr());
            bytes.set_len(ty.bytes());
        }
        Ok(HostTensor { ty, bytes })
    }
    fn packed(&self) -> Option<&[u8]> {
        // SAFETY: a packed layout's elements lie behind its first one, in storage that lives as long as this handle and
        // that nobody writes while it is shared (BUFFER-1).
        self.layout.is_packed().then(|| unsafe { std::slice::from_raw_parts(self.first(), self.layout.ty().bytes()) })
    }
}
