//! Memory of large bodies that came, to be used again for the next ones: fresh pages cost as much as the copy into them, and
//! whoever moves values moves the same sizes again and again.
//!
//! SPARE-1: memory is used again only once nobody else holds it.
//! SPARE-2: what is kept is bounded in bytes, those in use included; the oldest go first.
//! SPARE-3: what lay there before is seen by nobody: a body is delivered only when all of it has been written (IN-2).

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Smaller bodies come from what the allocator has at hand anyway.
const LEAST_BYTES: usize = 128 << 10;
/// What is kept, for all connections of an I/O thread together.
const MOST_BYTES: usize = 64 << 20;

/// Room for a body.
pub(crate) type Room = Arc<[MaybeUninit<u8>]>;

/// The memory of bodies that came last.
#[derive(Default)]
pub(crate) struct Spares {
    rooms: VecDeque<Room>,
    bytes: usize,
}

impl Spares {
    /// Room of just this length, if some is free.
    pub(crate) fn take(&mut self, len_bytes: usize) -> Option<Room> {
        if len_bytes < LEAST_BYTES {
            return None;
        }
        // The last one that is free: it is the likeliest to be in the cache.
        let is_free = |room: &mut Room| room.len() == len_bytes && Arc::get_mut(room).is_some();
        let at = (0..self.rooms.len()).rev().find(|&at| self.rooms.get_mut(at).is_some_and(is_free))?;
        self.bytes -= len_bytes;
        self.rooms.remove(at)
    }

    /// Keeps the memory of a body that is about to be delivered.
    pub(crate) fn keep(&mut self, room: &Room) {
        if !(LEAST_BYTES..=MOST_BYTES).contains(&room.len()) {
            return;
        }
        self.bytes += room.len();
        self.rooms.push_back(room.clone());
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.rooms.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(len_bytes: usize) -> Room {
        Arc::<[u8]>::new_uninit_slice(len_bytes)
    }

    #[test]
    fn memory_is_used_again_once_it_is_free() {
        let mut spares = Spares::default();
        let first = room(LEAST_BYTES);
        spares.keep(&first);
        assert!(spares.take(LEAST_BYTES).is_none(), "somebody holds it");
        let at = first.as_ptr();
        drop(first);
        assert!(spares.take(LEAST_BYTES + 1).is_none());
        let again = spares.take(LEAST_BYTES).unwrap();
        assert_eq!((again.as_ptr(), spares.bytes, spares.rooms.len()), (at, 0, 0));
        assert!(spares.take(LEAST_BYTES).is_none());
    }

    #[test]
    fn what_is_kept_is_bounded_and_neither_small_nor_all_of_it() {
        let mut spares = Spares::default();
        spares.keep(&room(LEAST_BYTES - 1));
        spares.keep(&room(MOST_BYTES + 1));
        assert_eq!((spares.bytes, spares.rooms.len()), (0, 0));
        for more in 0..10 {
            spares.keep(&room(MOST_BYTES / 4 + more));
        }
        assert_eq!(spares.rooms.len(), 3);
        assert_eq!(spares.bytes, spares.rooms.iter().map(|room| room.len()).sum::<usize>());
        // The youngest are there.
        assert!(spares.take(MOST_BYTES / 4 + 9).is_some() && spares.take(MOST_BYTES / 4 + 6).is_none());
    }
}
