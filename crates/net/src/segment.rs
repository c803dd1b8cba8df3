//! Segments of shared memory, through which large bodies go between processes of one host.
//!
//! The side that sends makes a segment, maps it, and passes its descriptor once; the side that receives maps it too. From
//! then on a segment is filled, announced, copied out and released, any number of times.
//!
//! SEGMENT-1: a segment is mapped for reading only if it is a memfd sealed against shrinking and has the stated length:
//!            otherwise the other side could cut it short and have this process killed by a SIGBUS.
//! SEGMENT-2: what lies in a segment is copied before anything looks at it: the other side can change it at any time.
//! SEGMENT-3: only who took a segment from its pool writes to it, until the other side releases it.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::NetError;

/// How long a segment is. Long enough that announcing costs little beside copying; short enough that both copies of a
/// chunk find it in the cache, and that a head never waits for long behind one.
pub(crate) const SEGMENT_BYTES: usize = 1 << 20;
/// How many segments a side may share on one connection: enough that both sides copy at the same time.
pub(crate) const MAX_SEGMENTS: usize = 8;
/// The longest segment taken from the other side.
const MAX_SEGMENT_BYTES: usize = 16 << 20;

/// A mapping of shared memory.
pub(crate) struct Segment {
    at: *mut c_void,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; who may write to it is SEGMENT-3.
unsafe impl Send for Segment {}
// SAFETY: as above; the methods that write are `unsafe` and name the condition.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new sealed segment, mapped for writing, and the descriptor to pass on.
    pub(crate) fn create() -> rustix::io::Result<(Segment, OwnedFd)> {
        let fd = rustix::fs::memfd_create("gt-segment", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, SEGMENT_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let at = unsafe { rustix::mm::mmap(ptr::null_mut(), SEGMENT_BYTES, prot, MapFlags::SHARED, &fd, 0)? };
        Ok((Segment { at, len: SEGMENT_BYTES }, fd))
    }

    /// Maps a segment of the other side for reading (SEGMENT-1).
    pub(crate) fn open(fd: &OwnedFd, len: usize) -> Result<Segment, NetError> {
        if len == 0 || len > MAX_SEGMENT_BYTES {
            return Err(NetError::malformed(format!(
                "a segment has {len} bytes, but 1 to {MAX_SEGMENT_BYTES} are allowed"
            )));
        }
        let seals = rustix::fs::fcntl_get_seals(fd)
            .map_err(|_| NetError::malformed("a shared descriptor is not a memory file"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(NetError::malformed("a segment is not sealed against shrinking"));
        }
        let size = rustix::fs::fstat(fd).map_err(|e| NetError::resource("segment", e))?.st_size;
        if size != len as i64 {
            return Err(NetError::malformed(format!("a segment of {size} bytes was announced as {len} bytes")));
        }
        // SAFETY: as in `create`; SEGMENT-1 was checked above, so that every byte of the mapping stays readable.
        let at = unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, fd, 0) }
            .map_err(|e| NetError::resource("segment", e))?;
        Ok(Segment { at, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts `bytes` at the start.
    ///
    /// # Safety
    /// The segment was made by [`Segment::create`] and the caller took it from its [`SegmentPool`] (SEGMENT-3).
    pub(crate) unsafe fn fill(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        // SAFETY: the mapping has room, as asserted, is writable, and nobody else in this process writes to it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.cast(), bytes.len()) }
    }

    /// Copies the first `out.len()` bytes out (SEGMENT-2).
    pub(crate) fn copy_to(&self, out: &mut [std::mem::MaybeUninit<u8>]) {
        assert!(out.len() <= self.len);
        // SAFETY: the mapping has that many bytes, as asserted, and stays readable (SEGMENT-1). The other process may
        // write while this copies: bytes have no invalid values, and nothing has looked at them yet.
        unsafe { ptr::copy_nonoverlapping(self.at.cast(), out.as_mut_ptr().cast::<u8>(), out.len()) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: `at` and `len` are those of a mapping made above; no reference into it was ever handed out.
        let _ = unsafe { rustix::mm::munmap(self.at, self.len) };
    }
}

/// The segments of one direction, on the side that fills them.
#[derive(Default)]
pub(crate) struct SegmentPool {
    segments: Vec<Arc<Segment>>,
    /// The last one released is the first one taken: its pages are in the cache.
    free: Vec<u8>,
    /// Memory files cannot be had here, or the other side does not take them.
    pub(crate) disabled: bool,
}

/// A segment that the caller may fill; the descriptor is there when the other side has not seen it yet.
pub(crate) struct Taken {
    pub(crate) index: u8,
    pub(crate) segment: Arc<Segment>,
    pub(crate) share: Option<OwnedFd>,
}

impl SegmentPool {
    /// A pool that gives none, until it is known that the other side takes them.
    pub(crate) fn disabled() -> SegmentPool {
        SegmentPool { disabled: true, ..SegmentPool::default() }
    }

    /// A segment to fill. None when all are with the other side, or when there can be none at all (`disabled`).
    pub(crate) fn take(&mut self) -> Option<Taken> {
        if self.disabled {
            return None;
        }
        if let Some(index) = self.free.pop() {
            return Some(Taken { index, segment: self.segments[index as usize].clone(), share: None });
        }
        if self.segments.len() == MAX_SEGMENTS {
            return None;
        }
        match Segment::create() {
            Ok((segment, fd)) => {
                let index = self.segments.len() as u8;
                self.segments.push(Arc::new(segment));
                Some(Taken { index, segment: self.segments[index as usize].clone(), share: Some(fd) })
            }
            Err(_) => {
                // With none at all there is nothing to wait for: bodies go through the socket.
                self.disabled = self.segments.is_empty();
                None
            }
        }
    }

    /// The other side has read a segment, or nothing was put into it.
    pub(crate) fn release(&mut self, index: u8) -> Result<(), NetError> {
        if index as usize >= self.segments.len() || self.free.contains(&index) {
            return Err(NetError::malformed(format!("the peer released segment {index}, which it does not hold")));
        }
        self.free.push(index);
        Ok(())
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_arrives_as_it_was_filled() {
        let (segment, fd) = Segment::create().unwrap();
        // SAFETY: nobody else has the segment.
        unsafe { segment.fill(b"across") };
        let there = Segment::open(&fd, SEGMENT_BYTES).unwrap();
        let mut out = [std::mem::MaybeUninit::uninit(); 6];
        there.copy_to(&mut out);
        // SAFETY: `copy_to` has filled all six.
        assert_eq!(out.map(|b| unsafe { b.assume_init() }), *b"across");
    }

    #[test]
    fn what_could_be_cut_short_is_not_mapped() {
        let memfd = |seals: SealFlags, len: u64| {
            let fd = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&fd, len).unwrap();
            rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
            fd
        };
        let error = |fd: &OwnedFd, len| Segment::open(fd, len).err().expect("refused").to_string();
        assert!(error(&memfd(SealFlags::GROW, 4096), 4096).contains("not sealed"));
        assert!(error(&memfd(SealFlags::SHRINK, 4096), 8192).contains("announced as 8192"));
        assert!(error(&memfd(SealFlags::SHRINK, 4096), 1 << 30).contains("are allowed"));
        assert!(error(&std::fs::File::open("/proc/self/exe").unwrap().into(), 4096).contains("not a memory file"));
    }

    #[test]
    fn a_pool_makes_a_segment_only_when_none_is_free() {
        let mut pool = SegmentPool::default();
        for _ in 0..100 {
            let index = pool.take().unwrap().index;
            pool.release(index).unwrap();
        }
        assert_eq!(pool.len(), 1);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), MAX_SEGMENTS);
        assert!(pool.release(200).is_err());
        pool.release(3).unwrap();
        assert!(pool.release(3).is_err(), "released twice");
    }
}
