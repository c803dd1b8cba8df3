//! Random choices that anyone can make again: each is a function of a key and a place.

use gt_ir::philox;

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
        ((philox::word64(self.key, self.ordinal, at) as u128 * n as u128) >> 64) as u64
    }

    /// Puts a slice into random order.
    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64, i as u64 + 1) as usize);
        }
    }
}
