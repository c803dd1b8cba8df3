//! Which windows come again, and how often.

use gt_ir::Digest;
use gt_plan::DigestMap;

/// Windows counted one by one; further ones only by their number, so that a program of ever new shapes does not
/// collect them for ever.
const MAX_COUNTED: usize = 1 << 16;

/// A window and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its exact hash in hexadecimal.
    pub hash: String,
    /// How often it came.
    pub count: u64,
    /// How many instructions it has.
    pub instrs: u64,
}

/// Counts windows by exact hash.
#[derive(Default)]
pub(crate) struct Sequences {
    counted: DigestMap<(u64, u64)>,
    hot: u64,
    uncounted: u64,
}

impl Sequences {
    /// Counts a window; gives how often it has come.
    pub(crate) fn count(&mut self, exact: Digest, instrs: usize, threshold: u64) -> u64 {
        if self.counted.len() >= MAX_COUNTED && !self.counted.contains_key(&exact) {
            self.uncounted += 1;
            return 1;
        }
        let entry = self.counted.entry(exact).or_insert((0, instrs as u64));
        entry.0 += 1;
        if entry.0 == threshold.saturating_add(1) {
            self.hot += 1;
        }
        entry.0
    }

    pub(crate) fn unique(&self) -> u64 {
        self.counted.len() as u64 + self.uncounted
    }

    pub(crate) fn hot(&self) -> u64 {
        self.hot
    }

    /// The most frequent windows.
    pub(crate) fn top(&self, count: usize) -> Vec<Sequence> {
        let mut all: Vec<_> = self.counted.iter().map(|(&hash, &(n, instrs))| (n, instrs, hash)).collect();
        all.sort_unstable_by_key(|&entry| std::cmp::Reverse(entry));
        let name = |(count, instrs, hash)| Sequence { hash: format!("{hash:032x}"), count, instrs };
        all.into_iter().take(count).map(name).collect()
    }
}
