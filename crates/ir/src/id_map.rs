//! Maps keyed by tensor ids.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::TensorId;

/// Ids are small numbers: one multiplication spreads them.
#[derive(Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b as u64));
    }
    fn write_u64(&mut self, n: u64) {
        let wide = (self.0 ^ n) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// A map by id. Never walked into anything that shows.
pub type IdMap<V> = HashMap<TensorId, V, BuildHasherDefault<IdHasher>>;
