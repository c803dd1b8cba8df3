//! Memory that a step works with besides its results.
//!
//! ROOM-1: everything in this crate whose size follows from a tensor's extents is a [`Storage`] or a [`Room`]: both count against
//! the limit and the session's quota, and where there is none left the step fails. A vector would end the process instead. The
//! lints in `lib.rs` refuse the functions that make vectors by size.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use gt_ir::Failure;

use super::{Allocator, Storage};

/// A type of which any bytes are a value.
///
/// # Safety
/// Every bit pattern of its size is valid, and it is aligned to a cache line at most.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: a number, or several.
        unsafe impl Plain for $t {}
    )*};
}
plain!(u8, u16, u32, u64, i8, i32, i64, half::f16, half::bf16, f32, f64, [u64; 2]);

/// Elements to work with. What is in them at first is arbitrary.
pub struct Room<T> {
    storage: Storage,
    len: usize,
    element: PhantomData<T>,
}

impl Allocator {
    /// Room for `len` elements.
    pub fn room<T: Plain>(self: &Arc<Self>, len: usize) -> Result<Room<T>, Failure> {
        let storage = self.allocate_written(len.saturating_mul(size_of::<T>()))?;
        Ok(Room { storage, len, element: PhantomData })
    }
}

impl<T: Plain> Deref for Room<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the storage is so long, aligned to a cache line, and every byte of it was written (ALLOC-5); any bytes are a value.
        unsafe { std::slice::from_raw_parts(self.storage.ptr().cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; the storage has no other handle.
        unsafe { std::slice::from_raw_parts_mut(self.storage.ptr().cast(), self.len) }
    }
}
