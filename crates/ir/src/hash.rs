//! The two hashes of a window: *structure*, which carries fusion, and *exact*, which carries buffers.
//!
//! HASH-1: neither sees ids, scalars, sites or the order of frees.
//! HASH-2: structure sees of an extent only whether it is 0, 1, or equal to one seen before.
//! HASH-3: digests are keyed by random numbers of the process. Sessions share plans by digest, so nobody outside may be able to
//! construct a window with the digest of somebody else's. A digest means nothing to another process.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::TensorType;

/// A 128-bit digest: windows are compared by it alone.
pub type Digest = u128;

/// Both digests of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowHash {
    /// Ops, ranks, dtypes, axes, dependencies, equal extents, what lives and dies.
    pub structure: Digest,
    /// The same with the extents themselves.
    pub exact: Digest,
}

/// The random numbers of HASH-3.
struct Keys {
    common: [u64; 2],
    exact: [u64; 2],
    /// Odd, so that no multiplication loses bits.
    factors: [u64; 2],
}

impl Keys {
    fn random() -> Keys {
        let source = RandomState::new();
        let [a, b, c, d, e, f] = [0u64, 1, 2, 3, 4, 5].map(|n| source.hash_one(n));
        Keys { common: [a, b], exact: [c, d], factors: [e | 1, f | 1] }
    }
}

static KEYS: LazyLock<Keys> = LazyLock::new(Keys::random);

/// Feeds both digests at once.
pub struct StreamHasher {
    factors: [u64; 2],
    common: [u64; 2],
    exact: [u64; 2],
    seen: Vec<usize>,
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
        let &Keys { common, exact, factors } = keys;
        StreamHasher { factors, common, exact, seen: Vec::new() }
    }

    /// Feeds a number that both digests see.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.common[0] = fold(self.common[0], word, self.factors[0]);
        self.common[1] = fold(self.common[1], word, self.factors[1]);
    }

    /// Feeds an extent: its value to `exact`, its class to `structure`.
    #[inline]
    pub fn extent(&mut self, extent: usize) {
        self.exact[0] = fold(self.exact[0], extent as u64, self.factors[0]);
        self.exact[1] = fold(self.exact[1], extent as u64, self.factors[1]);
        let class = match extent {
            0 | 1 => extent,
            _ => {
                2 + self.seen.iter().position(|&e| e == extent).unwrap_or_else(|| {
                    self.seen.push(extent);
                    self.seen.len() - 1
                })
            }
        };
        self.word(class as u64);
    }

    /// Feeds a tensor type.
    #[inline]
    pub fn tensor(&mut self, ty: &TensorType) {
        self.word((ty.dtype as u64) << 8 | ty.shape.rank() as u64);
        ty.shape.iter().for_each(|&d| self.extent(d));
    }

    /// The digests of all that was fed.
    pub fn finish(self) -> WindowHash {
        let wide = |s: [u64; 2]| (s[0] as u128) << 64 | s[1] as u128;
        let structure = wide(self.common);
        let mixed = [
            fold(self.exact[0], self.common[0], self.factors[1]),
            fold(self.exact[1], self.common[1], self.factors[0]),
        ];
        WindowHash { structure, exact: wide(mixed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn digests_of_one_window_were_the_same_in_every_process() {
        let of = |keys: &Keys| {
            let mut hasher = StreamHasher::keyed(keys);
            hasher.tensor(&TensorType::new(DType::F32, &[2, 3]));
            hasher.finish()
        };
        let (one, other) = (Keys::random(), Keys::random());
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one).structure, of(&other).structure);
        assert_ne!(of(&one).exact, of(&other).exact);
    }
}
