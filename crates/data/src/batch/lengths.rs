//! How long samples are, and what of a long one is kept.

use std::collections::BTreeMap;

use crate::batch::{Outliers, Picked};
use crate::order::{Draw, Purpose};

/// The items of each sample that go into a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// Where a sample begins, and how many items are kept.
    pub runs: Vec<(u32, u32)>,
    /// Samples of which not the first items are kept but these.
    pub thinned: BTreeMap<usize, Vec<u32>>,
}

impl Kept {
    /// What is kept of each sample in a column.
    pub(super) fn of(
        samples: &[Picked<'_>],
        field: usize,
        max_len: Option<usize>,
        outliers: Outliers,
        seed: u64,
    ) -> Kept {
        let max = max_len.map_or(u32::MAX, |m| u32::try_from(m).unwrap_or(u32::MAX));
        let mut kept = Kept { runs: Vec::with_capacity(samples.len()), thinned: BTreeMap::new() };
        for (i, s) in samples.iter().enumerate() {
            let items = s.block.columns[field].items(s.row);
            let (start, len) = (items.start as u32, items.len() as u32);
            kept.runs.push((start, len.min(max)));
            if len > max && outliers == Outliers::Subsample {
                kept.thinned.insert(i, subset(start, len, max, seed, s.id));
            }
        }
        kept
    }

    /// How many items each sample has.
    pub(super) fn lens(&self) -> impl Iterator<Item = usize> + Clone {
        self.runs.iter().map(|&(_, len)| len as usize)
    }
}

/// `count` of the items, in order (Floyd's choice), as the sample's number says.
fn subset(start: u32, len: u32, count: u32, seed: u64, id: u64) -> Vec<u32> {
    let draw = Draw::new(seed, 0, Purpose::Subsample, id);
    let mut chosen = std::collections::BTreeSet::new();
    for j in len - count..len {
        let t = draw.below(j as u64, j as u64 + 1) as u32;
        if !chosen.insert(t) {
            chosen.insert(j);
        }
    }
    chosen.into_iter().map(|i| start + i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_in_order_and_the_same_again() {
        let one = subset(100, 100, 10, 7, 3);
        assert_eq!(one.len(), 10);
        assert!(one.windows(2).all(|w| w[0] < w[1]) && one[0] >= 100 && one[9] < 200);
        assert_eq!(one, subset(100, 100, 10, 7, 3));
        assert_ne!(one, subset(100, 100, 10, 7, 4));
        assert_eq!(subset(0, 5, 5, 0, 0), [0, 1, 2, 3, 4]);
    }
}
