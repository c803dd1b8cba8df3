//! Which of another worker's values have come, by their numbers.
//!
//! TAKEN-1: a number is new once, in whatever order they come and however often: large values are overtaken by small ones, and a
//! connection that takes the place of a lost one brings again what was not acked.
//! TAKEN-2: who sends is never further ahead than `MOST_AHEAD` of what was acked. So no more numbers than that are kept here, and what lies
//! further behind has come.

use std::collections::BTreeSet;

/// How many values may be on their way, from one worker to a session, that were not acked.
pub(super) const MOST_AHEAD: u64 = 1024;

/// The numbers that came.
#[derive(Default)]
pub(super) struct Taken {
    /// All below have come.
    below: u64,
    /// And these.
    beyond: BTreeSet<u64>,
}

impl Taken {
    /// Whether a number is new.
    pub(super) fn note(&mut self, number: u64) -> bool {
        let settled = number.saturating_sub(MOST_AHEAD - 1);
        if settled > self.below {
            self.below = settled;
            self.beyond = self.beyond.split_off(&settled);
        }
        let is_new = number >= self.below && self.beyond.insert(number);
        while self.beyond.remove(&self.below) {
            self.below = self.below.saturating_add(1);
        }
        is_new
    }

    /// Below which number all have come.
    pub(super) fn below(&self) -> u64 {
        self.below
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// TAKEN-1, for whoever keeps to TAKEN-2.
        #[test]
        fn a_number_is_new_once(places in prop::collection::vec((0u64..MOST_AHEAD, 1u64..4), 1..400)) {
            let mut taken = Taken::default();
            let mut seen = BTreeSet::new();
            for (ahead, times) in places {
                // Whoever sends knows of acks late, if at all: it may begin again with what has come.
                let number = taken.below().saturating_sub(ahead % 7) + ahead % (MOST_AHEAD - 7);
                for _ in 0..times {
                    prop_assert_eq!(taken.note(number), seen.insert(number), "{}", number);
                }
                prop_assert!((0..taken.below()).all(|number| seen.contains(&number)));
                prop_assert!(!seen.contains(&taken.below()));
                prop_assert!(taken.beyond.len() as u64 <= MOST_AHEAD);
            }
        }
    }

    #[test]
    fn numbers_that_nobody_may_send_take_no_memory() {
        let mut taken = Taken::default();
        (0..100_000).for_each(|n| _ = taken.note(u64::MAX - n * 3));
        assert!(taken.beyond.len() as u64 <= MOST_AHEAD);
        assert!(!taken.note(0));
    }
}
