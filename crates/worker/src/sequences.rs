//! Which windows come again, and how often.

use std::collections::HashMap;

use gt_ir::Digest;
use serde::{Deserialize, Serialize};

/// Windows counted one by one; further ones only by their number, so that a program of ever new shapes does not
/// collect them for ever.
const MAX_COUNTED: usize = 1 << 16;

/// A window and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The digest of its recipe, in hexadecimal.
    pub hash: String,
    /// How often it came.
    pub count: u64,
    /// How many instructions it has.
    pub instrs: u64,
}

/// How often a window came, its length, and whether it is hot.
#[derive(Clone, Copy)]
struct Counted {
    count: u64,
    instrs: u64,
    hot: bool,
}

/// Counts windows by the digests of their recipes.
#[derive(Clone, Default)]
pub(crate) struct Sequences {
    counted: HashMap<Digest, Counted>,
    hot: u64,
    uncounted: u64,
}

impl Sequences {
    /// Counts a window; gives how often it has come.
    pub(crate) fn count(&mut self, digest: Digest, instrs: usize, threshold: u64) -> u64 {
        if self.counted.len() >= MAX_COUNTED && !self.counted.contains_key(&digest) {
            self.uncounted += 1;
            return 1;
        }
        let entry = self.counted.entry(digest).or_insert(Counted { count: 0, instrs: instrs as u64, hot: false });
        entry.count += 1;
        if entry.count == threshold.saturating_add(1) {
            entry.hot = true;
            self.hot += 1;
        }
        entry.count
    }

    /// Adds what another counted. A window is hot if it was for either.
    pub(crate) fn add(&mut self, other: &Sequences) {
        for (&digest, theirs) in &other.counted {
            if self.counted.len() >= MAX_COUNTED && !self.counted.contains_key(&digest) {
                self.uncounted += 1;
                continue;
            }
            let ours = self.counted.entry(digest).or_insert(Counted { count: 0, hot: false, ..*theirs });
            ours.count += theirs.count;
            self.hot += (theirs.hot && !ours.hot) as u64;
            ours.hot |= theirs.hot;
        }
        self.uncounted += other.uncounted;
    }

    pub(crate) fn unique(&self) -> u64 {
        self.counted.len() as u64 + self.uncounted
    }

    pub(crate) fn hot(&self) -> u64 {
        self.hot
    }

    /// The most frequent windows.
    pub(crate) fn top(&self, count: usize) -> Vec<Sequence> {
        let mut all: Vec<_> =
            self.counted.iter().map(|(&hash, counted)| (counted.count, counted.instrs, hash)).collect();
        all.sort_unstable_by_key(|&entry| std::cmp::Reverse(entry));
        let name = |(count, instrs, hash)| Sequence { hash: format!("{hash:032x}"), count, instrs };
        all.into_iter().take(count).map(name).collect()
    }
}
