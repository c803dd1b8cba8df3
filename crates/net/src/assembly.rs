//! A body whose bytes are still arriving.

use std::mem::MaybeUninit;
use std::sync::Arc;

use gt_ir::{Bytes, Companion};

use crate::NetError;
use crate::segment::Segment;
use crate::spares::{Room, Spares};

/// From this length on the system is asked first whether it would give so much: an allocation that fails ends the process.
const ASKED_FIRST_BYTES: usize = 64 << 20;
/// From this length on huge pages pay: a fault for each small page costs as much as the copy itself.
const HUGE_PAGES_BYTES: usize = 4 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The room for a body, filled from the front.
///
/// The room is reserved at once, after its length was checked, and where the body will stay, so that nothing is copied
/// twice. The system gives memory for what has arrived only.
pub(crate) struct Assembly {
    head: Vec<u8>,
    bytes: Room,
    filled: usize,
    /// What goes with the bytes.
    companion: Option<Box<dyn Companion>>,
}

impl Assembly {
    /// Room for `len` bytes; the caller has checked `len` against its limit.
    pub(crate) fn new(head: &[u8], len: u64, spares: &mut Spares) -> Result<Assembly, NetError> {
        let too_much = || NetError::resource("memory", format!("out of memory for a body of {len} bytes"));
        let len_bytes = usize::try_from(len).map_err(|_| too_much())?;
        if let Some(bytes) = spares.take(len_bytes) {
            return Ok(Assembly { head: head.to_vec(), bytes, filled: 0, companion: None });
        }
        if len_bytes >= ASKED_FIRST_BYTES {
            Vec::<u8>::new().try_reserve_exact(len_bytes).map_err(|_| too_much())?;
        }
        let mut bytes = Arc::<[u8]>::new_uninit_slice(len_bytes);
        if len_bytes >= HUGE_PAGES_BYTES
            && let Some(room) = Arc::get_mut(&mut bytes)
        {
            use_huge_pages(room);
        }
        Ok(Assembly { head: head.to_vec(), bytes, filled: 0, companion: None })
    }

    /// With something that goes with its bytes.
    pub(crate) fn accompanied_by(self, companion: Option<Box<dyn Companion>>) -> Assembly {
        Assembly { companion, ..self }
    }

    fn room(&mut self, len: usize) -> Result<&mut [MaybeUninit<u8>], NetError> {
        let at = self.filled;
        let room = Arc::get_mut(&mut self.bytes).and_then(|all| all.get_mut(at..at.checked_add(len)?));
        let room = room.ok_or_else(|| NetError::malformed("a body is longer than announced"))?;
        self.filled += len;
        Ok(room)
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        self.room(bytes.len())?.write_copy_of_slice(bytes);
        Ok(())
    }

    /// Takes the next bytes from the start of a segment.
    pub(crate) fn push_segment(&mut self, segment: &Segment, len: usize) -> Result<(), NetError> {
        if len > segment.len() {
            return Err(NetError::malformed(format!("{len} bytes were announced in a segment of {}", segment.len())));
        }
        segment.copy_to(self.room(len)?);
        Ok(())
    }

    /// The head, and what has come of the body.
    pub(crate) fn so_far(&self) -> (&[u8], &[u8]) {
        let arrived = self.bytes.get(..self.filled).unwrap_or_default();
        // SAFETY: `filled` counts the bytes written from the front.
        (&self.head, unsafe { arrived.assume_init_ref() })
    }

    /// Whether every byte has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.filled == self.bytes.len()
    }

    /// The message; only when it is whole. Its memory may serve another when nobody holds it any more.
    pub(crate) fn finish(self, spares: &mut Spares) -> (Vec<u8>, Bytes) {
        assert!(self.is_whole());
        spares.keep(&self.bytes);
        // SAFETY: `filled` counts the bytes written from the front, and all have been.
        let bytes: Bytes = unsafe { self.bytes.assume_init() }.into();
        let bytes = match self.companion {
            Some(companion) => bytes.accompanied_by(companion),
            None => bytes,
        };
        (self.head, bytes)
    }
}

fn use_huge_pages(room: &mut [MaybeUninit<u8>]) {
    let range = room.as_mut_ptr_range();
    let skip = range.start.align_offset(HUGE_PAGE_BYTES);
    let len = room.len().saturating_sub(skip) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if len > 0 {
        // SAFETY: the range lies within the allocation, and this advice changes how its pages are backed, not what is in
        // them. Refusing it costs time only.
        let _ = unsafe {
            rustix::mm::madvise(range.start.wrapping_add(skip).cast(), len, rustix::mm::Advice::LinuxHugepage)
        };
    }
}
