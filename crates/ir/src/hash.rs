//! Digests of streams: 128 bits over all that is fed.
//!
//! HASH-1: digests are keyed by random numbers of the process, so that a peer cannot construct a window with the digest of
//! another one. A digest means nothing to another process.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::TensorType;

/// A 128-bit digest.
pub type Digest = u128;

/// The random numbers of HASH-1.
struct Keys {
    start: [u64; 2],
    /// Odd, so that no multiplication loses bits.
    factors: [u64; 2],
}

impl Keys {
    fn random() -> Keys {
        let source = RandomState::new();
        let [a, b, c, d] = [0u64, 1, 2, 3].map(|n| source.hash_one(n));
        Keys { start: [a, b], factors: [c | 1, d | 1] }
    }
}

static KEYS: LazyLock<Keys> = LazyLock::new(Keys::random);

/// Feeds a digest.
pub struct StreamHasher {
    factors: [u64; 2],
    state: [u64; 2],
}

#[inline]
fn fold(state: u64, word: u64, k: u64) -> u64 {
    let m = (state ^ word) as u128 * k as u128;
    (m as u64) ^ (m >> 64) as u64 ^ word.rotate_left(23)
}

impl Default for StreamHasher {
    fn default() -> Self {
        StreamHasher::keyed(&KEYS)
    }
}

impl StreamHasher {
    fn keyed(keys: &Keys) -> StreamHasher {
        StreamHasher { factors: keys.factors, state: keys.start }
    }

    /// Feeds a number.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.state[0] = fold(self.state[0], word, self.factors[0]);
        self.state[1] = fold(self.state[1], word, self.factors[1]);
    }

    /// Feeds a tensor type.
    #[inline]
    pub fn tensor(&mut self, ty: &TensorType) {
        self.word((ty.dtype as u64) << 8 | ty.shape.rank() as u64);
        ty.shape.iter().for_each(|&extent| self.word(extent as u64));
    }

    /// The digest of all that was fed.
    pub fn finish(self) -> Digest {
        (self.state[0] as u128) << 64 | self.state[1] as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn digests_differ_between_processes() {
        let of = |keys: &Keys| {
            let mut hasher = StreamHasher::keyed(keys);
            hasher.tensor(&TensorType::new(DType::F32, &[2, 3]));
            hasher.finish()
        };
        let (one, other) = (Keys::random(), Keys::random());
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&other));
    }
}
