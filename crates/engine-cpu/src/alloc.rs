//! Memory under a limit, kept for reuse.
//!
//! Sizes are rounded up to classes an eighth apart, so a block that comes back fits the next request of its like.
//!
//! ALLOC-1: `live + cached` never exceeds the limit; `live` counts whole blocks. A block that is lent is neither, until it is
//! adopted; all that are lent never exceed the limit either, and whoever asks for them counts them ([`Allocator::charge`]). Where the limit was lowered below what is there, nothing is added to that.
//! ALLOC-2: a block is in the hands of one [`Storage`], or in one class's list, never both.
//! ALLOC-3: blocks start at multiples of [`classes::ALIGN`], large ones at multiples of [`APART`], and are not cleared: who takes one
//! writes all of it.
//! ALLOC-4: a block is charged to the quota that holds when it is allocated or adopted, or that it is adopted for, and given
//! back to that one when it is freed.
//! ALLOC-5: a block that is lent to others, or is a [`Room`], has no byte that was never written: it was clear when it came from the
//! system, and is kept apart from those that were not.

mod classes;
mod room;

use std::alloc::{alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gt_engine::{Memory, Quota};
use gt_ir::{Failure, FailureKind};
use parking_lot::Mutex;

use classes::{APART, LARGE, PAGE, block_bytes, class_of, layout};
pub use room::{Plain, Room};

/// What may lie cached however little was ever live.
const CACHE_FLOOR: u64 = 64 << 20;
/// How many classes larger a block may be that is lent: batches differ a little in length, and blocks of each class that occurs
/// would pile up.
const LENT_CLASSES: usize = 4;

/// Gives out blocks and takes them back, from any thread.
pub struct Allocator {
    limit_bytes: Arc<AtomicU64>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    live: u64,
    peak: u64,
    cached: u64,
    /// Bytes of blocks that others have, and the most there ever were.
    lent: u64,
    lent_peak: u64,
    /// What allocations are charged to just now.
    quota: Option<Arc<Quota>>,
    /// How many large blocks were ever made.
    made: usize,
    /// How many blocks ever came back that may be lent.
    returned: u64,
    /// Free blocks by class.
    free: Vec<Free>,
}

/// Free blocks of one class.
#[derive(Default)]
struct Free {
    any: Vec<NonNull<u8>>,
    /// Those that may be lent (ALLOC-5), each with the number of its return.
    written: Vec<(NonNull<u8>, u64)>,
}

// SAFETY: the pointers in `free` are owned blocks that nobody else refers to (ALLOC-2).
unsafe impl Send for Inner {}

/// A block of memory with one owner; it goes back to its allocator when dropped.
pub struct Storage {
    ptr: NonNull<u8>,
    len_bytes: usize,
    class: u32,
    /// Whether every byte of the block was written (ALLOC-5).
    written: bool,
    owner: Arc<Allocator>,
    /// Whom it was charged to beside the allocator; nothing while it is lent.
    charged: OnceLock<Option<Arc<Quota>>>,
}

// SAFETY: a block is plain memory; who may write it is decided by who holds the only handle (see `buffer`).
unsafe impl Send for Storage {}
// SAFETY: as above; shared storage is only read.
unsafe impl Sync for Storage {}

impl Allocator {
    /// An allocator that never holds more than `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<Allocator> {
        Allocator::under(Arc::new(AtomicU64::new(limit_bytes)))
    }

    /// An allocator whose limit may change. What is live when it becomes smaller stays; nothing is added to it.
    pub fn under(limit_bytes: Arc<AtomicU64>) -> Arc<Allocator> {
        Arc::new(Allocator { limit_bytes, inner: Mutex::new(Inner::default()) })
    }

    fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// A block for `len_bytes`, with whatever it held before.
    pub fn allocate(self: &Arc<Self>, len_bytes: usize) -> Result<Storage, Failure> {
        self.take(len_bytes, false)
    }

    /// A block for `len_bytes` of which every byte was written at some time.
    fn allocate_written(self: &Arc<Self>, len_bytes: usize) -> Result<Storage, Failure> {
        self.take(len_bytes, true)
    }

    fn take(self: &Arc<Self>, len_bytes: usize, written: bool) -> Result<Storage, Failure> {
        if len_bytes == 0 {
            return Ok(self.nothing());
        }
        let Some((class, block_bytes)) = class_of(len_bytes) else {
            return Err(self.refusal(len_bytes, self.inner.lock().live));
        };
        let mut inner = self.inner.lock();
        let quota = inner.quota.clone();
        quota.as_ref().map_or(Ok(()), |quota| quota.charge(block_bytes as u64))?;
        let (ptr, written) = match inner.cached(class, written) {
            Some(found) => found,
            None => {
                let fresh = self.fresh(&mut inner, len_bytes, block_bytes, written).inspect_err(|_| {
                    quota.iter().for_each(|quota| quota.give_back(block_bytes as u64));
                });
                (fresh?, written)
            }
        };
        inner.live += block_bytes as u64;
        inner.peak = inner.peak.max(inner.live);
        Ok(Storage { ptr, len_bytes, class, written, owner: self.clone(), charged: OnceLock::from(quota) })
    }

    /// A block for somebody else to write (ALLOC-5). It counts once it is adopted.
    pub fn lend(self: &Arc<Self>, len_bytes: usize) -> Result<Storage, Failure> {
        if len_bytes == 0 {
            return Ok(self.nothing());
        }
        let Some((class, _)) = class_of(len_bytes) else {
            return Err(self.refusal(len_bytes, self.inner.lock().live));
        };
        let mut inner = self.inner.lock();
        let class = inner.lendable(class);
        let block_bytes = block_bytes(class) as u64;
        if inner.lent.saturating_add(block_bytes) > self.limit_bytes() {
            return Err(self.refusal(len_bytes, inner.lent));
        }
        let ptr = match inner.free.get_mut(class as usize).and_then(|free| free.written.pop()) {
            Some((ptr, _)) => {
                inner.cached -= block_bytes;
                ptr
            }
            None => {
                inner.limit_cache(0, block_bytes);
                self.take_from_system(&mut inner, len_bytes, block_bytes as usize, true)?
            }
        };
        inner.lent += block_bytes;
        inner.lent_peak = inner.lent_peak.max(inner.lent);
        Ok(Storage { ptr, len_bytes, class, written: true, owner: self.clone(), charged: OnceLock::new() })
    }

    /// Charges a block that was lent by this allocator, as one that is allocated now would be; once.
    pub fn adopt(self: &Arc<Self>, storage: &Storage) -> Result<(), Failure> {
        let quota = self.inner.lock().quota.clone();
        self.adopt_for(storage, quota)
    }

    /// The same, for somebody other than the run that is on.
    pub fn adopt_for(self: &Arc<Self>, storage: &Storage, quota: Option<Arc<Quota>>) -> Result<(), Failure> {
        if storage.class == u32::MAX {
            return Ok(());
        }
        let block_bytes = block_bytes(storage.class) as u64;
        let mut inner = self.inner.lock();
        let is_own = Arc::ptr_eq(self, &storage.owner);
        if is_own && storage.charged.get().is_some() {
            return Ok(());
        }
        let wanted = inner.live.saturating_add(block_bytes);
        if !is_own || wanted > self.limit_bytes() {
            return Err(self.refusal(storage.len_bytes, inner.live));
        }
        quota.as_ref().map_or(Ok(()), |quota| quota.charge(block_bytes))?;
        if wanted + inner.cached > self.limit_bytes() {
            inner.trim();
        }
        // Under the lock: nobody else adopts it meanwhile.
        let _ = storage.charged.set(quota);
        inner.lent -= block_bytes;
        inner.live = wanted;
        inner.peak = inner.peak.max(wanted);
        Ok(())
    }

    /// A block of no bytes.
    fn nothing(self: &Arc<Self>) -> Storage {
        let (ptr, charged) = (NonNull::<Aligned>::dangling().cast(), OnceLock::from(None));
        Storage { ptr, len_bytes: 0, class: u32::MAX, written: true, owner: self.clone(), charged }
    }

    /// A block from the system, after giving back what would be in its way.
    fn fresh(
        &self,
        inner: &mut Inner,
        len_bytes: usize,
        block_bytes: usize,
        clear: bool,
    ) -> Result<NonNull<u8>, Failure> {
        let wanted = inner.live.saturating_add(block_bytes as u64);
        if wanted > self.limit_bytes() {
            return Err(self.refusal(len_bytes, inner.live));
        }
        if wanted + inner.cached > self.limit_bytes() {
            inner.trim();
        }
        inner.limit_cache(block_bytes as u64, 0);
        self.take_from_system(inner, len_bytes, block_bytes, clear)
    }

    fn take_from_system(
        &self,
        inner: &mut Inner,
        len_bytes: usize,
        block_bytes: usize,
        clear: bool,
    ) -> Result<NonNull<u8>, Failure> {
        let block = layout(block_bytes).map_err(|_| self.refusal(len_bytes, inner.live))?;
        // SAFETY: the size is not zero.
        let system = || NonNull::new(unsafe { if clear { alloc_zeroed(block) } else { alloc(block) } });
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
        let limit = self.limit_bytes();
        Failure::new(
            FailureKind::Memory,
            format!(
                "out of memory: tried to allocate {len_bytes} bytes with {live} bytes in use; the limit is {limit} bytes"
            ),
        )
    }

    /// Counts memory that others have allocated for the engine: it takes of the limit as blocks do (ALLOC-1).
    pub fn charge(&self, len_bytes: u64) -> Result<(), Failure> {
        let mut inner = self.inner.lock();
        let wanted = inner.live.saturating_add(len_bytes);
        if wanted > self.limit_bytes() {
            return Err(self.refusal(len_bytes as usize, inner.live));
        }
        if wanted + inner.cached > self.limit_bytes() {
            inner.trim();
        }
        inner.live = wanted;
        inner.peak = inner.peak.max(wanted);
        Ok(())
    }

    /// What was counted so is gone.
    pub fn give_back(&self, len_bytes: u64) {
        let mut inner = self.inner.lock();
        inner.live = inner.live.saturating_sub(len_bytes);
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
            limit_bytes: self.limit_bytes(),
        }
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

impl Inner {
    /// A free block of a class, one that was written if it must be, and whether it was.
    fn cached(&mut self, class: u32, written: bool) -> Option<(NonNull<u8>, bool)> {
        let free = self.free.get_mut(class as usize)?;
        let any = if written { None } else { free.any.pop().map(|ptr| (ptr, false)) };
        let found = any.or_else(|| free.written.pop().map(|(ptr, _)| (ptr, true)))?;
        self.cached -= block_bytes(class) as u64;
        Some(found)
    }

    /// Before a new block is made: gives cached ones back where there are too many for what was ever in use. Sizes that no longer
    /// occur would otherwise pile up until the limit.
    fn limit_cache(&mut self, more_live: u64, more_lent: u64) {
        let (live, lent) = (self.live + more_live, self.lent + more_lent);
        let most = (self.peak.max(live) + self.lent_peak.max(lent)).saturating_mul(2).saturating_add(CACHE_FLOOR);
        if live + lent + self.cached > most {
            self.trim();
        }
    }

    /// The class of which a block is lent where one of this class would do: that of the last that came back, as it is the one that
    /// may still be in the processor's cache.
    fn lendable(&self, class: u32) -> u32 {
        let larger = (class..).zip(self.free.iter().skip(class as usize).take(1 + LENT_CLASSES));
        let last = larger.filter_map(|(class, free)| free.written.last().map(|(_, returned)| (*returned, class))).max();
        last.map_or(class, |(_, class)| class)
    }

    fn trim(&mut self) {
        for (class, free) in self.free.iter_mut().enumerate() {
            let block = layout(block_bytes(class as u32)).expect("the block exists");
            let written = free.written.drain(..).map(|(ptr, _)| ptr);
            for ptr in free.any.drain(..).chain(written) {
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

    /// What is in a block that was lent; nothing in any other, which may have bytes that were never written.
    pub fn bytes(&self) -> &[u8] {
        let len_bytes = if self.written { self.len_bytes } else { 0 };
        // SAFETY: the block is so long, and every byte of it was written (ALLOC-5). Whoever writes it has the only handle.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), len_bytes) }
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len_bytes = if self.written { self.len_bytes } else { 0 };
        // SAFETY: as for `bytes`; and this is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), len_bytes) }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.class == u32::MAX {
            return;
        }
        let block_bytes = block_bytes(self.class) as u64;
        let mut inner = self.owner.inner.lock();
        match self.charged.get() {
            Some(quota) => {
                quota.iter().for_each(|quota| quota.give_back(block_bytes));
                inner.live -= block_bytes;
            }
            None => inner.lent -= block_bytes,
        }
        let class = self.class as usize;
        if inner.free.len() <= class {
            inner.free.resize_with(class + 1, Free::default);
        }
        inner.cached += block_bytes;
        inner.returned += 1;
        let returned = inner.returned;
        let free = &mut inner.free[class];
        match self.written {
            true => free.written.push((self.ptr, returned)),
            false => free.any.push(self.ptr),
        }
        // One that was lent did not count: now it would (ALLOC-1).
        if inner.live + inner.cached > self.owner.limit_bytes() {
            inner.trim();
        }
    }
}

#[cfg(test)]
mod tests;
