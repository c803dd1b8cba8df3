//! The extension's allocator. A tensor costs a handful of small allocations; the system's allocator would take most of an
//! op's time for them, and mimalloc's aligned entry point, which its own wrapper always takes, a good part of the rest.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// What plain `mi_malloc` aligns to.
const NATURAL: usize = 16;

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: every block comes from mimalloc with at least the size and alignment asked for, and goes back to it.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes and alignments of a `Layout` are valid.
        unsafe {
            if layout.align() <= NATURAL && layout.align() <= layout.size() {
                mi::mi_malloc(layout.size()).cast()
            } else {
                mi::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of this allocator.
        unsafe { mi::mi_free(ptr.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        unsafe {
            if layout.align() <= NATURAL && layout.align() <= layout.size() {
                mi::mi_zalloc(layout.size()).cast()
            } else {
                mi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller passes a block of this allocator.
        unsafe {
            if layout.align() <= NATURAL {
                mi::mi_realloc(ptr.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(ptr.cast(), size, layout.align()).cast()
            }
        }
    }
}
