//! The two hashes of a window: *structure*, which carries fusion, and *exact*, which carries buffers.
//!
//! HASH-1: neither sees ids, scalars, sites or the order of frees.
//! HASH-2: structure sees of an extent only whether it is 0, 1, or equal to one seen before.

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

/// Feeds both digests at once.
pub struct StreamHasher {
    common: [u64; 2],
    exact: [u64; 2],
    seen: Vec<usize>,
}

const K: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

#[inline]
fn fold(state: u64, word: u64, k: u64) -> u64 {
    let m = (state ^ word) as u128 * k as u128;
    (m as u64) ^ (m >> 64) as u64 ^ word.rotate_left(23)
}

impl Default for StreamHasher {
    fn default() -> Self {
        StreamHasher { common: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], exact: K, seen: Vec::new() }
    }
}

impl StreamHasher {
    /// Feeds a number that both digests see.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.common[0] = fold(self.common[0], word, K[0]);
        self.common[1] = fold(self.common[1], word, K[1]);
    }

    /// Feeds an extent: its value to `exact`, its class to `structure`.
    #[inline]
    pub fn extent(&mut self, extent: usize) {
        self.exact[0] = fold(self.exact[0], extent as u64, K[0]);
        self.exact[1] = fold(self.exact[1], extent as u64, K[1]);
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
        let mixed = [fold(self.exact[0], self.common[0], K[1]), fold(self.exact[1], self.common[1], K[0])];
        WindowHash { structure, exact: wide(mixed) }
    }
}
