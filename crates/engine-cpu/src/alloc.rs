//! Memory under a limit, kept for reuse.
//!
//! Sizes are rounded up to classes an eighth apart, so a block that comes back fits the next request of its like.
//!
//! ALLOC-1: `live + cached` never exceeds the limit; `live` counts whole blocks.
//! ALLOC-2: a block is in the hands of one [`Storage`], or in one class's list, never both.
//! ALLOC-3: blocks start at multiples of [`ALIGN`], large ones at multiples of [`APART`], and are not cleared: who takes one
//! writes all of it.
//! ALLOC-4: a block is charged to the quota that holds when it is allocated, and given back to that one when it is freed.

use std::alloc::{Layout as Block, LayoutError, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use gt_engine::{HostMemory, Memory, Quota};
use gt_ir::{Failure, FailureKind};
use parking_lot::Mutex;

/// Where blocks start: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// The distance of the places in a page where large blocks start, one after the other. A loop over several blocks that were a line
/// apart there would wait at each load for the store before it, whose address ends alike; over blocks at the same place of
/// everything it would find their lines in one another's way. Either takes twice as long.
pub const APART: usize = 1024;
const PAGE: usize = 4096;
/// The smallest block that is called large; it has a page more than it says.
const LARGE: usize = 16 * PAGE;

/// Steps between one power of two and the next.
const STEPS: usize = 8;
/// The smallest block.
const SMALLEST: usize = 64;
/// What may lie cached however little was ever live.
const CACHE_FLOOR: u64 = 64 << 20;

/// Gives out blocks and takes them back, from any thread.
pub struct Allocator {
    limit_bytes: u64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    live: u64,
    peak: u64,
    cached: u64,
    /// What allocations are charged to just now.
    quota: Option<Arc<Quota>>,
    /// How many large blocks were ever made.
    made: usize,
    /// Free blocks by class.
    free: Vec<Vec<NonNull<u8>>>,
}

// SAFETY: the pointers in `free` are owned blocks that nobody else refers to (ALLOC-2).
unsafe impl Send for Inner {}

/// A block of memory with one owner; it goes back to its allocator when dropped.
pub struct Storage {
    ptr: NonNull<u8>,
    len_bytes: usize,
    class: u32,
    owner: Arc<Allocator>,
    quota: Option<Arc<Quota>>,
}

// SAFETY: a block is plain memory; who may write it is decided by who holds the only handle (see `buffer`).
unsafe impl Send for Storage {}
// SAFETY: as above; shared storage is only read.
unsafe impl Sync for Storage {}

/// The class of a size, and the bytes of its blocks.
fn class_of(len_bytes: usize) -> Option<(u32, usize)> {
    if len_bytes <= SMALLEST {
        return Some((0, SMALLEST));
    }
    if len_bytes > isize::MAX as usize / 2 {
        return None;
    }
    // Between 2^k (excluded) and 2^(k+1) lie STEPS classes; small ones stay multiples of the alignment.
    let k = (len_bytes - 1).ilog2();
    let step = ((1usize << k) / STEPS).max(ALIGN);
    let steps = (len_bytes - (1 << k)).div_ceil(step);
    let class = (k - SMALLEST.ilog2()) as usize * STEPS + steps;
    Some((class as u32, (1 << k) + steps * step))
}

impl Allocator {
    /// An allocator that never holds more than `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<Allocator> {
        Arc::new(Allocator { limit_bytes, inner: Mutex::new(Inner::default()) })
    }

    /// A block for `len_bytes`, with whatever it held before.
    pub fn allocate(self: &Arc<Self>, len_bytes: usize) -> Result<Storage, Failure> {
        if len_bytes == 0 {
            let ptr = NonNull::<Aligned>::dangling().cast();
            return Ok(Storage { ptr, len_bytes, class: u32::MAX, owner: self.clone(), quota: None });
        }
        let Some((class, block_bytes)) = class_of(len_bytes) else {
            return Err(self.refusal(len_bytes, self.inner.lock().live));
        };
        let mut inner = self.inner.lock();
        let quota = inner.quota.clone();
        quota.as_ref().map_or(Ok(()), |quota| quota.charge(block_bytes as u64))?;
        let cached = inner.free.get_mut(class as usize).and_then(Vec::pop);
        let ptr = match cached {
            Some(ptr) => {
                inner.cached -= block_bytes as u64;
                ptr
            }
            None => self.fresh(&mut inner, len_bytes, block_bytes).inspect_err(|_| {
                quota.iter().for_each(|quota| quota.give_back(block_bytes as u64));
            })?,
        };
        inner.live += block_bytes as u64;
        inner.peak = inner.peak.max(inner.live);
        Ok(Storage { ptr, len_bytes, class, owner: self.clone(), quota })
    }

    /// A block from the system, after giving back what would be in its way.
    fn fresh(&self, inner: &mut Inner, len_bytes: usize, block_bytes: usize) -> Result<NonNull<u8>, Failure> {
        let wanted = inner.live.saturating_add(block_bytes as u64);
        if wanted > self.limit_bytes {
            return Err(self.refusal(len_bytes, inner.live));
        }
        // Sizes that no longer occur would otherwise pile up until the limit.
        let room = self.limit_bytes.min(inner.peak.max(wanted).saturating_mul(2).saturating_add(CACHE_FLOOR));
        if wanted + inner.cached > room {
            inner.trim();
        }
        let block = layout(block_bytes).map_err(|_| self.refusal(len_bytes, inner.live))?;
        // SAFETY: the size is not zero.
        let system = || NonNull::new(unsafe { alloc(block) });
        let first = match system() {
            Some(ptr) => ptr,
            None => {
                inner.trim();
                system().ok_or_else(|| self.refusal(len_bytes, inner.live))?
            }
        };
        if block_bytes < LARGE {
            return Ok(first);
        }
        inner.made += 1;
        // SAFETY: inside the page that a large block has more.
        Ok(unsafe { first.add(inner.made * APART % PAGE) })
    }

    fn refusal(&self, len_bytes: usize, live: u64) -> Failure {
        let limit = self.limit_bytes;
        Failure::new(
            FailureKind::Memory,
            format!("out of memory: {len_bytes} bytes wanted, {live} bytes live, the limit is {limit} bytes"),
        )
    }

    /// Charges what is allocated to `quota` until the guard is dropped.
    pub fn charge_to(self: &Arc<Self>, quota: Arc<Quota>) -> Charging {
        self.inner.lock().quota = Some(quota);
        Charging(self.clone())
    }

    /// Gives every cached block back to the system.
    pub fn trim(&self) {
        self.inner.lock().trim();
    }

    /// What is allocated.
    pub fn memory(&self) -> Memory {
        let inner = self.inner.lock();
        Memory {
            live_bytes: inner.live,
            peak_bytes: inner.peak,
            cached_bytes: inner.cached,
            limit_bytes: self.limit_bytes,
        }
    }
}

/// Memory that others have allocated for the engine: it takes of the limit as blocks do (ALLOC-1).
impl HostMemory for Allocator {
    fn charge(&self, len_bytes: u64) -> Result<(), Failure> {
        let mut inner = self.inner.lock();
        let wanted = inner.live.saturating_add(len_bytes);
        if wanted > self.limit_bytes {
            return Err(self.refusal(len_bytes as usize, inner.live));
        }
        if wanted + inner.cached > self.limit_bytes {
            inner.trim();
        }
        inner.live = wanted;
        inner.peak = inner.peak.max(wanted);
        Ok(())
    }

    fn give_back(&self, len_bytes: u64) {
        let mut inner = self.inner.lock();
        inner.live = inner.live.saturating_sub(len_bytes);
    }

    fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }
}

/// While it lives, allocations are charged to a quota; however it ends, the next run's are not.
pub struct Charging(Arc<Allocator>);

impl Drop for Charging {
    fn drop(&mut self) {
        self.0.inner.lock().quota = None;
    }
}

/// Stands for a block of no bytes: aligned, never read.
#[repr(align(64))]
struct Aligned;

/// Bytes of the blocks of a class.
fn block_bytes(class: u32) -> usize {
    if class == 0 {
        return SMALLEST;
    }
    // Steps run from 1 to STEPS inside a power of two.
    let (k, steps) = ((class as usize - 1) / STEPS, (class as usize - 1) % STEPS + 1);
    let base = SMALLEST << k;
    base + steps * (base / STEPS).max(ALIGN)
}

/// What the system is asked for.
fn layout(block_bytes: usize) -> Result<Block, LayoutError> {
    match block_bytes < LARGE {
        true => Block::from_size_align(block_bytes, ALIGN),
        false => Block::from_size_align(block_bytes + PAGE, PAGE),
    }
}

impl Inner {
    fn trim(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            let block = layout(block_bytes(class as u32)).expect("the block exists");
            for ptr in list.drain(..) {
                // The system knows a large block by the beginning of its page.
                let first = ptr.as_ptr().map_addr(|at| at / block.align() * block.align());
                // SAFETY: the block was allocated with this size and alignment and is owned by the list (ALLOC-2).
                unsafe { dealloc(first, block) };
            }
        }
        self.cached = 0;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.trim();
    }
}

impl Storage {
    /// The first byte. Writing through it needs the only handle.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes asked for.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.class == u32::MAX {
            return;
        }
        let block_bytes = block_bytes(self.class) as u64;
        if let Some(quota) = &self.quota {
            quota.give_back(block_bytes);
        }
        let mut inner = self.owner.inner.lock();
        inner.live -= block_bytes;
        inner.cached += block_bytes;
        let class = self.class as usize;
        if inner.free.len() <= class {
            inner.free.resize_with(class + 1, Vec::new);
        }
        inner.free[class].push(self.ptr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        for len in (1..5000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let (class, bytes) = class_of(len).unwrap();
            assert!(bytes >= len && bytes % ALIGN == 0, "{len} in {bytes}");
            assert!(bytes <= (len + ALIGN).max(len + len / STEPS + ALIGN), "{len} in {bytes}");
            assert_eq!(block_bytes(class), bytes, "{len}");
        }
    }

    #[test]
    fn blocks_come_back_and_the_limit_holds() {
        let allocator = Allocator::new(10_000);
        let a = allocator.allocate(4096).unwrap();
        let first = a.ptr();
        drop(a);
        assert_eq!(allocator.memory().cached_bytes, 4096);
        let b = allocator.allocate(4000).unwrap();
        assert_eq!(b.ptr(), first);
        let failure = allocator.allocate(8192).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Memory);
        assert!(failure.message.contains("8192") && failure.message.contains("10000"), "{}", failure.message);
        drop(b);
        // The cached block is in the way and goes.
        let c = allocator.allocate(8192).unwrap();
        assert_eq!(allocator.memory().cached_bytes, 0);
        drop(c);
        allocator.trim();
        assert_eq!(
            allocator.memory(),
            Memory { live_bytes: 0, peak_bytes: 8192, cached_bytes: 0, limit_bytes: 10_000 }
        );
    }

    #[test]
    fn ordinary_memory_takes_of_the_limit_and_of_what_is_cached() {
        let allocator = Allocator::new(8192);
        drop(allocator.allocate(4096).unwrap());
        HostMemory::charge(&*allocator, 6000).unwrap();
        let memory = allocator.memory();
        assert_eq!((memory.live_bytes, memory.cached_bytes), (6000, 0));
        assert!(allocator.allocate(4096).is_err());
        assert_eq!(HostMemory::charge(&*allocator, 3000).unwrap_err().kind, FailureKind::Memory);
        HostMemory::give_back(&*allocator, 6000);
        allocator.allocate(4096).unwrap();
    }

    #[test]
    fn a_quota_refuses_what_the_limit_would_allow() {
        let allocator = Allocator::new(1 << 20);
        let quota = Quota::new(8192);
        let charging = allocator.charge_to(quota.clone());
        let own = allocator.allocate(4096).unwrap();
        assert_eq!(allocator.allocate(4097).err().unwrap().kind, FailureKind::Memory);
        drop(charging);
        let foreign = allocator.allocate(1 << 16).unwrap();
        assert_eq!(quota.memory().live_bytes, 4096);
        drop((own, foreign));
        assert_eq!((quota.memory().live_bytes, allocator.memory().live_bytes), (0, 0));
    }

    #[test]
    fn a_refusal_by_the_allocator_leaves_the_quota_as_it_was() {
        let allocator = Allocator::new(4096);
        let quota = Quota::new(1 << 20);
        let _charging = allocator.charge_to(quota.clone());
        assert!(allocator.allocate(8192).is_err());
        assert_eq!(quota.memory().live_bytes, 0);
    }
}
