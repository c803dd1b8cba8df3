//! Where batches are cut: a group of positions becomes one batch, or several of about the same length.
//!
//! CUT-1: the batches of a group are a function of its samples and the spec alone, so that a run can resume inside it.
//! CUT-2: every sample of a group is in exactly one of its batches, but for those `drop_last` leaves out at the end.

use serde::{Deserialize, Serialize};

use crate::order::{Draw, Purpose};

/// Groups of this many batches are sorted by length together.
const BATCHES_PER_GROUP: usize = 50;
/// The samples of a group where only the number of tokens is given.
const SAMPLES_PER_GROUP: usize = 8192;

/// How positions become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Samples in a batch; with `max_tokens`, at most this many. Zero means: as many as the tokens allow.
    pub batch_size: usize,
    /// Whether a last batch that is not full is left out.
    pub drop_last: bool,
    /// What a batch may cost: its rows times the longest where rows are padded, its items where they are packed.
    pub max_tokens: Option<usize>,
    /// Whether batches are of samples of about the same length.
    pub bucket: bool,
}

impl Cut {
    /// A plain cut: this many samples a batch.
    pub fn every(batch_size: usize) -> Cut {
        Cut { batch_size, drop_last: false, max_tokens: None, bucket: false }
    }

    /// Whether a batch is simply the next samples.
    pub fn is_plain(&self) -> bool {
        self.max_tokens.is_none() && !self.bucket
    }

    /// Positions in a group.
    pub(crate) fn group_size(&self) -> usize {
        match (self.is_plain(), self.batch_size) {
            (true, n) => n.max(1),
            (false, 0) => SAMPLES_PER_GROUP,
            (false, n) => n.saturating_mul(BATCHES_PER_GROUP),
        }
    }

    /// How many batches an epoch has, where that does not depend on lengths.
    pub fn batches(&self, samples: u64) -> Option<u64> {
        let size = self.batch_size.max(1) as u64;
        match (self.max_tokens, self.drop_last) {
            (Some(_), _) => None,
            (None, true) => Some(samples / size),
            (None, false) => Some(samples.div_ceil(size)),
        }
    }

    /// The batches of a group, as numbers of its samples. `lens` are their lengths, which a plain cut does not look at.
    pub(crate) fn batches_of(&self, lens: &[usize], how: &Grouping) -> Vec<Vec<u32>> {
        let mut order: Vec<u32> = (0..lens.len() as u32).collect();
        let draw = how.draw;
        if self.bucket {
            if how.shuffled {
                // Ties are broken anew in every epoch, or samples of one length would always meet.
                draw.shuffle(&mut order);
            }
            order.sort_by_key(|&i| lens[i as usize]);
        }
        let size = if self.batch_size == 0 { usize::MAX } else { self.batch_size };
        let mut batches: Vec<Vec<u32>> = Vec::new();
        let (mut now, mut longest, mut sum) = (Vec::new(), 0, 0usize);
        for i in order {
            let len = lens[i as usize];
            let cost =
                if how.padded { longest.max(len).saturating_mul(now.len() + 1) } else { sum.saturating_add(len) };
            let full = now.len() >= size || self.max_tokens.is_some_and(|max| cost > max);
            if full && !now.is_empty() {
                batches.push(std::mem::take(&mut now));
                (longest, sum) = (0, 0);
            }
            now.push(i);
            (longest, sum) = (longest.max(len), sum.saturating_add(len));
        }
        let short = self.max_tokens.is_none() && now.len() < size;
        let dropped = self.drop_last && how.last && short;
        if !now.is_empty() && !dropped {
            batches.push(now);
        }
        if self.bucket && how.shuffled {
            let again = Draw::new(how.seed, how.epoch, Purpose::Group, how.start | 1 << 63);
            again.shuffle(&mut batches);
        }
        batches
    }
}

/// What a group is cut with.
pub(crate) struct Grouping {
    pub seed: u64,
    pub epoch: u64,
    /// The position of its first sample.
    pub start: u64,
    pub shuffled: bool,
    pub padded: bool,
    /// Whether the epoch ends with it.
    pub last: bool,
    draw: Draw,
}

impl Grouping {
    pub(crate) fn new(seed: u64, epoch: u64, start: u64, shuffled: bool, padded: bool, last: bool) -> Grouping {
        let draw = Draw::new(seed, epoch, Purpose::Group, start);
        Grouping { seed, epoch, start, shuffled, padded, last, draw }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_group_is_divided_without_loss(
            lens in prop::collection::vec(0usize..100, 0..300), size in 0usize..20, tokens in prop::option::of(1usize..300),
            bucket: bool, shuffled: bool, padded: bool,
        ) {
            let size = if tokens.is_none() { size.max(1) } else { size };
            let cut = Cut { batch_size: size, drop_last: false, max_tokens: tokens, bucket };
            let batches = cut.batches_of(&lens, &Grouping::new(1, 2, 3, shuffled, padded, true));
            let mut all: Vec<u32> = batches.iter().flatten().copied().collect();
            all.sort();
            prop_assert_eq!(all, (0..lens.len() as u32).collect::<Vec<_>>());
            for batch in &batches {
                prop_assert!(size == 0 || batch.len() <= size);
                let longest = batch.iter().map(|&i| lens[i as usize]).max().unwrap_or(0);
                let sum: usize = batch.iter().map(|&i| lens[i as usize]).sum();
                let cost = if padded { longest * batch.len() } else { sum };
                prop_assert!(batch.len() == 1 || tokens.is_none_or(|max| cost <= max));
            }
        }
    }

    #[test]
    fn the_last_batch_is_left_out_only_at_the_end() {
        let cut = Cut { drop_last: true, ..Cut::every(4) };
        let batches = |last| cut.batches_of(&[1; 10], &Grouping::new(0, 0, 0, true, true, last)).len();
        assert_eq!((batches(true), batches(false)), (2, 3));
        assert_eq!((cut.batches(10), Cut::every(4).batches(10)), (Some(2), Some(3)));
    }
}
