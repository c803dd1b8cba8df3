//! How long samples are, and what of a long one is kept.

use std::collections::BTreeMap;

use crate::batch::{BatchSpec, Outliers, Output, Picked};
use crate::order::{Draw, Purpose};

/// The items of each sample that go into a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// The first of a sample's items that is kept, and how many are.
    pub runs: Vec<(u32, u32)>,
    /// Samples of which not a run of items is kept but these.
    pub thinned: BTreeMap<usize, Vec<u32>>,
}

impl Kept {
    /// What is kept of each sample in a column. `len` says how many items a sample has.
    pub(super) fn of(spec: &BatchSpec, output: &Output, samples: &[Picked<'_>], len: impl Fn(usize) -> u32) -> Kept {
        let max = output.max_len.map_or(u32::MAX, |m| u32::try_from(m).unwrap_or(u32::MAX));
        let mut kept = Kept { runs: Vec::with_capacity(samples.len()), thinned: BTreeMap::new() };
        for (i, s) in samples.iter().enumerate() {
            let len = len(i);
            let start = s.piece.saturating_mul(max).min(len);
            kept.runs.push((start, (len - start).min(max)));
            if len > max && spec.outliers == Outliers::Subsample {
                kept.thinned.insert(i, subset(len, max, spec.seed, s.id));
            }
        }
        kept
    }

    /// How many items each row has.
    pub(super) fn lens(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.runs.iter().map(|&(_, len)| len as usize)
    }
}

/// How many rows [`split`] makes of samples.
pub(super) fn pieces(samples: &[Picked<'_>], field: usize, max: usize) -> u64 {
    let of = |s: &Picked<'_>| s.block.columns[field].len(s.row).div_ceil(max).max(1) as u64;
    samples.iter().fold(0, |sum, s| sum.saturating_add(of(s)))
}

/// Samples longer than `max` as several rows: each sample as often as it takes ([`Outliers::Split`]).
pub(super) fn split<'a>(samples: &[Picked<'a>], field: usize, max: usize) -> Vec<Picked<'a>> {
    let mut rows = Vec::with_capacity(samples.len());
    for s in samples {
        let pieces = s.block.columns[field].len(s.row).div_ceil(max).max(1);
        rows.extend((0..pieces as u32).map(|piece| Picked { piece, ..*s }));
    }
    rows
}

/// `count` of the items, in order (Floyd's choice), as the sample's number says.
fn subset(len: u32, count: u32, seed: u64, id: u64) -> Vec<u32> {
    let draw = Draw::new(seed, 0, Purpose::Subsample, id);
    let mut chosen = std::collections::BTreeSet::new();
    for j in len - count..len {
        let t = draw.below(j as u64, j as u64 + 1) as u32;
        if !chosen.insert(t) {
            chosen.insert(j);
        }
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_in_order_and_the_same_again() {
        let one = subset(100, 10, 7, 3);
        assert_eq!(one.len(), 10);
        assert!(one.windows(2).all(|w| w[0] < w[1]) && one[9] < 100);
        assert_eq!(one, subset(100, 10, 7, 3));
        assert_ne!(one, subset(100, 10, 7, 4));
        assert_eq!(subset(5, 5, 0, 0), [0, 1, 2, 3, 4]);
    }
}
