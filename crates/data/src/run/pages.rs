//! Memory for the blocks of a run: large pages of the system's, used again for the next block when one is dropped.
//!
//! Blocks come and go from several threads. Left to the allocator, each thread's heap would keep the holes that others' blocks
//! leave, and memory would grow over epochs. And a pool is read at random: with small pages nearly every sample costs the
//! processor a walk through its page tables.
//!
//! PAGES-1: what was taken goes back to the system once its owner, who may lend it to run after run, and the last block are
//!          gone.
//! PAGES-2: a stretch belongs to one block at a time; what was in it before is never read, as a block is written whole.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use arrow_buffer::Buffer;
use gt_ir::HostAllocator;
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::account::MemoryAccount;

/// Sizes are multiples of this share of the next smaller power of two, so that blocks of about one size fit each other's place.
const STEPS: usize = 8;
const PAGE_BYTES: usize = 4096;
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// What is asked of the system at once.
const REGION_BYTES: usize = 2 * LARGE_PAGE_BYTES;

/// Memory for the blocks and batches of runs that follow each other: what one took, the next uses again. Clones are the same
/// memory.
#[derive(Clone, Default)]
pub struct PoolMemory {
    pub(super) pages: Arc<Pages>,
    /// Who counts what runs take.
    pub(super) account: Option<Arc<dyn MemoryAccount>>,
    /// Where batches lie.
    pub(super) allocator: Option<Arc<dyn HostAllocator>>,
}

impl PoolMemory {
    /// Memory that somebody counts, who may refuse more.
    pub fn charged_to(account: Arc<dyn MemoryAccount>) -> PoolMemory {
        PoolMemory { account: Some(account), ..PoolMemory::default() }
    }

    /// The same, with batches in memory that somebody else gives (BUFFERS-1).
    #[must_use]
    pub fn with_allocator(&self, allocator: Arc<dyn HostAllocator>) -> PoolMemory {
        PoolMemory { allocator: Some(allocator), ..self.clone() }
    }

    /// The same account and allocator, and pages of its own.
    #[must_use]
    pub fn with_new_pages(&self) -> PoolMemory {
        PoolMemory { pages: Arc::default(), ..self.clone() }
    }
}

/// Stretches that no block has at the moment.
#[derive(Debug, Default)]
pub(super) struct Pages {
    free: Mutex<Vec<Stretch>>,
}

/// Memory as the system gave it.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a region is memory of the process, which any thread may use and unmap.
unsafe impl Send for Region {}
// SAFETY: a region itself is never read or written; its stretches are, each by its one owner.
unsafe impl Sync for Region {}

impl Region {
    /// New memory that begins at a large page, if the system has it: where it begins, and who keeps it.
    fn new(len_bytes: usize) -> Option<(NonNull<u8>, Arc<Region>)> {
        let whole = len_bytes.checked_add(LARGE_PAGE_BYTES)?;
        let (protect, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping touches no memory that is in use.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, protect, how) }.ok()?;
        let start = NonNull::new(start.cast::<u8>())?;
        let region = Arc::new(Region { start, len_bytes: whole });
        let before = start.as_ptr().align_offset(LARGE_PAGE_BYTES);
        // SAFETY: the first large page begins less than one large page after the start, and the mapping is longer by one.
        let aligned = unsafe { start.add(before) };
        // A wish: without large pages everything works the same.
        // SAFETY: the range lies in the mapping, and the advice does not change what is in it.
        let _ = unsafe { madvise(aligned.as_ptr().cast(), len_bytes, Advice::LinuxHugepage) };
        Some((aligned, region))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region was mapped by `new`, and no stretch of it is left: each keeps the region.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}

/// Part of a region, with one owner.
#[derive(Debug)]
struct Stretch {
    start: NonNull<u8>,
    len_bytes: usize,
    _region: Arc<Region>,
}

// SAFETY: a stretch is memory that it alone refers to.
unsafe impl Send for Stretch {}
// SAFETY: through a shared stretch memory is only read.
unsafe impl Sync for Stretch {}

/// Memory that one block has; it goes back when the block is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    /// None once it went back.
    stretch: Option<Stretch>,
    /// A panic leaves the list of free stretches whole: it changes by one entry at a time.
    home: AssertUnwindSafe<Weak<Pages>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let (Some(home), Some(stretch)) = (self.home.upgrade(), self.stretch.take()) {
            home.free.lock().push(stretch);
        }
    }
}

impl Pages {
    /// At least so many bytes, with anything in them. None where the system has no more.
    pub(super) fn take(self: &Arc<Self>, len_bytes: usize) -> Option<Taken> {
        let len_bytes = rounded(len_bytes);
        let mut free = self.free.lock();
        // One that is a little too large will do.
        let fits = |s: &Stretch| s.len_bytes >= len_bytes && s.len_bytes - len_bytes <= len_bytes / 4;
        let best = (0..free.len()).rev().filter(|&i| fits(&free[i])).min_by_key(|&i| free[i].len_bytes);
        let stretch = match best.map(|at| free.swap_remove(at)) {
            Some(stretch) => stretch,
            None => {
                let count = (REGION_BYTES / len_bytes).max(1);
                let (start, region) = Region::new((count * len_bytes).next_multiple_of(LARGE_PAGE_BYTES))?;
                let part = |i: usize| {
                    // SAFETY: the region has room for `count` stretches.
                    let start = unsafe { start.add(i * len_bytes) };
                    Stretch { start, len_bytes, _region: region.clone() }
                };
                free.extend((1..count).rev().map(part));
                part(0)
            }
        };
        drop(free);
        Some(Taken { stretch: Some(stretch), home: AssertUnwindSafe(Arc::downgrade(self)) })
    }
}

impl Taken {
    /// Its bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.stretch {
            // SAFETY: the stretch is mapped and initialised, by the system or by an earlier block; `self` is its one owner.
            Some(s) => unsafe { std::slice::from_raw_parts_mut(s.start.as_ptr(), s.len_bytes) },
            None => &mut [],
        }
    }

    /// The same as a buffer, which nobody writes any more.
    pub(super) fn freeze(self) -> Buffer {
        let Some((start, len_bytes)) = self.stretch.as_ref().map(|s| (s.start, s.len_bytes)) else {
            return Buffer::from_vec(Vec::<u8>::new());
        };
        // SAFETY: the stretch is mapped as long as its owner lives, which the buffer keeps.
        unsafe { Buffer::from_custom_allocation(start, len_bytes, Arc::new(self)) }
    }
}

fn rounded(len_bytes: usize) -> usize {
    let step = (len_bytes.max(1).next_power_of_two() / 2 / STEPS).max(PAGE_BYTES);
    len_bytes.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_once_its_block_is_gone() {
        let pages = Arc::new(Pages::default());
        let mut one = pages.take(500_000).unwrap();
        one.bytes_mut().fill(7);
        let start = one.bytes_mut().as_ptr();
        let buffer = one.freeze();
        assert!(buffer.len() >= 500_000 && buffer.iter().all(|&b| b == 7));
        let mut others: Vec<Taken> = (0..20).map(|_| pages.take(500_000).unwrap()).collect();
        for (i, other) in others.iter_mut().enumerate() {
            other.bytes_mut().fill(i as u8);
        }
        assert!(buffer.iter().all(|&b| b == 7));
        assert!(others.iter_mut().enumerate().all(|(i, o)| o.bytes_mut().iter().all(|&b| b == i as u8)));
        drop(buffer);
        let mut again = pages.take(499_000).unwrap();
        assert_eq!(again.bytes_mut().as_ptr(), start);
        drop(pages);
        again.bytes_mut().fill(1);
    }

    #[test]
    fn little_is_wasted() {
        for len in [1, 4096, 4097, 500_000, 1 << 20, (1 << 20) + 1, 300_000_000] {
            let rounded = rounded(len);
            assert!(rounded >= len && rounded - len <= (len / 8).max(PAGE_BYTES), "{len} became {rounded}");
        }
    }
}
