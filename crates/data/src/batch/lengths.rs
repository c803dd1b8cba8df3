//! How long samples are, and what of a long one is kept.

use std::ops::Range;

use crate::batch::{Outliers, Picked};
use crate::order::{Draw, Purpose};

/// The items of a sample that go into a batch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    /// A run of them.
    Run(Range<usize>),
    /// These, in order.
    Some(Vec<usize>),
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        match self {
            Kept::Run(r) => r.len(),
            Kept::Some(items) => items.len(),
        }
    }
}

/// What is kept of each sample in a column.
pub(super) fn kept(samples: &[Picked<'_>], field: usize, max_len: Option<usize>, outliers: Outliers, seed: u64) -> Vec<Kept> {
    samples
        .iter()
        .map(|s| {
            let items = s.block.columns[field].items(s.row);
            match max_len {
                Some(max) if items.len() > max => match outliers {
                    Outliers::Truncate => Kept::Run(items.start..items.start + max),
                    Outliers::Subsample => Kept::Some(subset(items, max, seed, s.id)),
                },
                _ => Kept::Run(items),
            }
        })
        .collect()
}

/// `count` of the items, in order (Floyd's choice), as the sample's number says.
fn subset(items: Range<usize>, count: usize, seed: u64, id: u64) -> Vec<usize> {
    let draw = Draw::new(seed, 0, Purpose::Subsample, id);
    let n = items.len();
    let mut chosen = std::collections::BTreeSet::new();
    for j in n - count..n {
        let t = draw.below(j as u64, j as u64 + 1) as usize;
        if !chosen.insert(t) {
            chosen.insert(j);
        }
    }
    chosen.into_iter().map(|i| items.start + i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_in_order_and_the_same_again() {
        let one = subset(100..200, 10, 7, 3);
        assert_eq!(one.len(), 10);
        assert!(one.windows(2).all(|w| w[0] < w[1]) && one[0] >= 100 && one[9] < 200);
        assert_eq!(one, subset(100..200, 10, 7, 3));
        assert_ne!(one, subset(100..200, 10, 7, 4));
        assert_eq!(subset(0..5, 5, 0, 0), [0, 1, 2, 3, 4]);
    }
}
