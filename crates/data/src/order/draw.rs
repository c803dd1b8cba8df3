//! Random choices that anyone can make again: each is a function of a key and a place.

use gt_ir::philox;

/// Words of a shuffle that are made together. Even, as the generator makes two at once.
const WORDS_AT_ONCE: usize = 64;

/// What a draw is for. Two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Purpose {
    /// The order of blocks.
    Blocks = 1,
    /// The order of samples inside a window.
    Window = 2,
    /// The order of batches inside a group, and what breaks ties between lengths.
    Group = 3,
    /// Which elements of a long sample are kept.
    Subsample = 4,
}

/// A stream of random words for one purpose of one epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    key: u64,
    ordinal: u64,
}

impl Draw {
    pub(crate) fn new(seed: u64, epoch: u64, purpose: Purpose, ordinal: u64) -> Draw {
        // The epoch goes through the generator itself, so that neighbouring seeds and epochs share nothing.
        Draw { key: philox::word64(seed, epoch, purpose as u64), ordinal }
    }

    /// A number below `n`, the `at`-th of the stream.
    pub(crate) fn below(&self, at: u64, n: u64) -> u64 {
        scaled(philox::word64(self.key, self.ordinal, at), n)
    }

    /// Puts a slice into random order: the last item changes places with any up to it, then the one before.
    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        // Words are made several at a time: none depends on another, and the generator makes two at once.
        let mut words = [0; WORDS_AT_ONCE];
        let starts = (0..items.len()).step_by(WORDS_AT_ONCE).rev();
        for first in starts {
            for (i, pair) in words.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let [a, b, c, d] = philox::block(self.key, self.ordinal, (first / 2 + i) as u64).map(u64::from);
                *pair = [a | b << 32, c | d << 32];
            }
            let end = items.len().min(first + WORDS_AT_ONCE);
            for i in (first.max(1)..end).rev() {
                items.swap(i, scaled(words[i - first], i as u64 + 1) as usize);
            }
        }
    }
}

/// A random word as a number below `n`.
fn scaled(word: u64, n: u64) -> u64 {
    ((word as u128 * n as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_made_of_the_words_of_its_stream() {
        for len in [0, 1, 2, 3, WORDS_AT_ONCE - 1, WORDS_AT_ONCE, WORDS_AT_ONCE + 1, 1000] {
            let draw = Draw::new(5, 2, Purpose::Window, 9);
            let mut expected: Vec<usize> = (0..len).collect();
            for i in (1..len).rev() {
                expected.swap(i, draw.below(i as u64, i as u64 + 1) as usize);
            }
            let mut found: Vec<usize> = (0..len).collect();
            draw.shuffle(&mut found);
            assert_eq!(found, expected, "{len} items");
        }
    }
}
