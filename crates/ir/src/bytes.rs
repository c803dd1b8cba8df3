//! Bytes that are shared without copying, and the memory they are written into.
//!
//! Whoever makes large payloads asks a [`HostAllocator`] for the memory: that of the engine the payload is for gives memory the
//! engine can take as it is, or copy from fastest. What it gives is a [`HostBlock`] of its own kind, by which the engine knows it
//! again when it comes back as the payload of an upload.
//!
//! BYTES-1: bytes never change: who wrote them gave up the right to when they became [`Bytes`].
//! BYTES-2: a block has one owner while it is written, and then all clones of the bytes. When the last of them is dropped, on
//!          whichever thread, so is the block, once: it is the block's to give its memory back, and its allocator's to keep it
//!          for the next request.
//! BYTES-3: a block holds what it held before. Whoever takes one writes all of it.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Failure;

/// Memory that this process can read and write, with whoever it goes back to.
pub trait HostBlock: Any + Send + Sync {
    /// What is in it.
    fn bytes(&self) -> &[u8];
    /// The same, to be written. Only ever asked of a block that nobody else has (BYTES-2).
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Gives out memory for payloads. For any thread.
pub trait HostAllocator: Send + Sync {
    /// Memory for so many bytes (BYTES-3).
    ///
    /// # Errors
    /// When they are not to be had.
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure>;
}

/// Memory that is being written.
pub struct HostBuffer {
    /// Not shared.
    block: Arc<dyn HostBlock>,
}

impl HostBuffer {
    /// A block that nobody else has: if somebody does, there is nothing in it to write.
    pub fn new(block: Arc<dyn HostBlock>) -> HostBuffer {
        HostBuffer { block }
    }

    /// Zeros in ordinary memory, aligned to a cache line.
    ///
    /// # Errors
    /// When the system does not have it.
    pub fn ordinary(len_bytes: usize) -> Result<HostBuffer, Failure> {
        Ok(HostBuffer::new(Arc::new(Ordinary::new(len_bytes)?)))
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// The memory, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::get_mut(&mut self.block).map_or_else(Default::default, |block| block.bytes_mut())
    }

    /// What was written, for good (BYTES-1).
    pub fn freeze(self) -> Bytes {
        Bytes(Held::Block(self.block))
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuffer").field("len_bytes", &self.block.bytes().len()).finish()
    }
}

/// A cache line, and the widest vector.
const LINE_BYTES: usize = 64;

/// Memory of the system's.
struct Ordinary {
    /// Long enough for the bytes to begin at a line.
    room: Vec<u8>,
    start: usize,
    len_bytes: usize,
}

impl Ordinary {
    fn new(len_bytes: usize) -> Result<Ordinary, Failure> {
        let room_bytes = len_bytes.saturating_add(LINE_BYTES);
        let mut room = crate::vec_for_bytes(room_bytes)?;
        room.resize(room_bytes, 0);
        let start = room.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        Ok(Ordinary { room, start, len_bytes })
    }
}

impl HostBlock for Ordinary {
    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.len_bytes]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.len_bytes]
    }
}

impl HostBlock for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Goes with bytes for as long as somebody holds them: the account they count on, usually.
pub trait Companion: Any + Send + Sync {
    /// The bytes become a value, which counts by itself from here on.
    fn settle(&self) {}
}

/// Bytes and what goes with them.
struct Accompanied {
    bytes: Bytes,
    companion: Box<dyn Companion>,
}

impl HostBlock for Accompanied {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // BYTES-1.
        &mut []
    }
}

/// Immutable payload bytes, shared without copying.
#[derive(Clone)]
pub struct Bytes(Held);

#[derive(Clone)]
enum Held {
    Shared(Arc<[u8]>),
    Block(Arc<dyn HostBlock>),
}

impl Bytes {
    /// The block they lie in, if it is one of this kind.
    pub fn block<B: HostBlock>(&self) -> Option<&B> {
        match &self.0 {
            Held::Shared(_) => None,
            Held::Block(block) => match (&**block as &dyn Any).downcast_ref::<Accompanied>() {
                Some(accompanied) => accompanied.bytes.block(),
                None => (&**block as &dyn Any).downcast_ref(),
            },
        }
    }

    /// The same bytes, with something that is dropped when the last who holds them lets go.
    #[must_use]
    pub fn accompanied_by(self, companion: Box<dyn Companion>) -> Bytes {
        Bytes(Held::Block(Arc::new(Accompanied { bytes: self, companion })))
    }

    /// Tells what goes with the bytes that they become a value. Whoever makes one of them says so first, as the two would count twice.
    pub fn settle(&self) {
        let Held::Block(block) = &self.0 else { return };
        if let Some(Accompanied { bytes, companion }) = (&**block as &dyn Any).downcast_ref() {
            companion.settle();
            bytes.settle();
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Shared(bytes) => bytes,
            Held::Block(block) => block.bytes(),
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from([])
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes(Held::Shared(bytes))
    }
}

impl From<Vec<u8>> for Bytes {
    /// Copies nothing.
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Held::Block(Arc::new(bytes)))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(Held::Shared(bytes.into()))
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Bytes {
        Bytes(Held::Shared(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted(Vec<u8>, Arc<AtomicUsize>);

    impl HostBlock for Counted {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_block_is_written_then_shared_then_given_back_once() {
        let gone = Arc::new(AtomicUsize::new(0));
        let mut buffer = HostBuffer::new(Arc::new(Counted(vec![9; 4], gone.clone())));
        buffer.bytes_mut().copy_from_slice(&[1, 2, 3, 4]);
        let bytes = buffer.freeze();
        let clones = [bytes.clone(), bytes.clone()];
        assert_eq!(clones[1], Bytes::from([1, 2, 3, 4]));
        assert!(bytes.block::<Counted>().is_some() && bytes.block::<Vec<u8>>().is_none());
        drop(bytes);
        assert_eq!(gone.load(Ordering::SeqCst), 0);
        std::thread::spawn(move || drop(clones)).join().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn ordinary_memory_is_aligned_and_clear() {
        for len in [0, 1, 63, 64, 65, 100_000] {
            let mut buffer = HostBuffer::ordinary(len).unwrap();
            assert_eq!(buffer.bytes_mut().len(), len);
            assert_eq!(buffer.bytes_mut().as_ptr() as usize % LINE_BYTES, 0);
            assert!(buffer.freeze().iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn a_vector_becomes_bytes_where_it_lies() {
        let vector = vec![5; 1000];
        let at = vector.as_ptr();
        let bytes = Bytes::from(vector);
        assert_eq!((bytes.as_ptr(), bytes.len()), (at, 1000));
    }
}
