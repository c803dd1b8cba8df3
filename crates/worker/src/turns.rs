//! Whose turn it is: sessions share the device by the time they have used, not by how much they have sent.
//!
//! A seat for each session, with the device time it has used. The next turn goes to the session that is ready and has
//! used least; among equals, to the one whose last turn is longest ago.
//!
//! TURN-1: a session that was not ready gains nothing by it: when it is again, it counts as having used at least what
//! the one that was served last had used. So nobody saves up time to shut out the others with.
//! TURN-2: between two turns of a session, every other one that is ready all the while gets one unless it has used more
//! than this one.
//! TURN-3: keys are given in ascending order and never twice, so seats stay sorted.

/// Names a session for as long as its worker lives.
pub(crate) type SessionKey = u64;

struct Seat {
    key: SessionKey,
    ready: bool,
    used_ns: u64,
    /// The number of the last turn it had.
    last_turn: u64,
}

/// The seats of one worker.
#[derive(Default)]
pub(crate) struct Turns {
    seats: Vec<Seat>,
    ready: usize,
    /// What the session that was served last had used by then.
    clock_ns: u64,
    turns: u64,
}

impl Turns {
    fn seat(&mut self, key: SessionKey) -> Option<&mut Seat> {
        let at = self.seats.binary_search_by_key(&key, |seat| seat.key).ok()?;
        self.seats.get_mut(at)
    }

    /// A seat for a session with nothing to do.
    pub(crate) fn open(&mut self, key: SessionKey) {
        debug_assert!(self.seats.last().is_none_or(|last| last.key < key), "TURN-3");
        self.seats.push(Seat { key, ready: false, used_ns: self.clock_ns, last_turn: 0 });
    }

    /// The session has no more turns.
    pub(crate) fn close(&mut self, key: SessionKey) {
        self.set_ready(key, false);
        self.seats.retain(|seat| seat.key != key);
    }

    /// Says whether the session has something to run.
    pub(crate) fn set_ready(&mut self, key: SessionKey, ready: bool) {
        let clock_ns = self.clock_ns;
        let Some(seat) = self.seat(key) else { return };
        if seat.ready == ready {
            return;
        }
        seat.ready = ready;
        if ready {
            seat.used_ns = seat.used_ns.max(clock_ns);
            self.ready += 1;
        } else {
            self.ready -= 1;
        }
    }

    /// How many sessions have something to run.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Gives the next turn.
    pub(crate) fn next(&mut self) -> Option<SessionKey> {
        if self.ready == 0 {
            return None;
        }
        let ready = self.seats.iter_mut().filter(|seat| seat.ready);
        let seat = ready.min_by_key(|seat| (seat.used_ns, seat.last_turn))?;
        self.turns += 1;
        seat.last_turn = self.turns;
        self.clock_ns = seat.used_ns;
        Some(seat.key)
    }

    /// Counts time that the session used.
    pub(crate) fn charge(&mut self, key: SessionKey, ns: u64) {
        if let Some(seat) = self.seat(key) {
            seat.used_ns = seat.used_ns.saturating_add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ready(keys: &[SessionKey]) -> Turns {
        let mut turns = Turns::default();
        for &key in keys {
            turns.open(key);
            turns.set_ready(key, true);
        }
        turns
    }

    #[test]
    fn equals_take_turns() {
        let mut turns = ready(&[1, 2, 3]);
        let order: Vec<_> = (0..6).filter_map(|_| turns.next().inspect(|&key| turns.charge(key, 10))).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn large_windows_come_as_much_rarer_as_they_are_longer() {
        let mut turns = ready(&[1, 2]);
        let mut served = [0u64; 3];
        for _ in 0..1100 {
            let key = turns.next().unwrap();
            served[key as usize] += 1;
            turns.charge(key, if key == 1 { 1000 } else { 100 });
        }
        assert!((95..=105).contains(&served[1]), "{served:?}");
    }

    #[test]
    fn a_newcomer_is_next_and_does_not_stay_first() {
        let mut turns = ready(&[1]);
        for _ in 0..50 {
            assert_eq!(turns.next(), Some(1));
            turns.charge(1, 1_000_000);
        }
        turns.open(2);
        turns.set_ready(2, true);
        assert_eq!(turns.next(), Some(2));
        // It may catch up with the last turn of the other, not with the fifty before.
        turns.charge(2, 1_000_001);
        assert_eq!(turns.next(), Some(1));
    }

    #[test]
    fn without_a_charge_the_longest_wait_decides() {
        // An asynchronous engine says late what a window cost.
        let mut turns = ready(&[1, 2]);
        assert_eq!([turns.next(), turns.next(), turns.next(), turns.next()].map(Option::unwrap), [1, 2, 1, 2]);
    }

    proptest! {
        #[test]
        fn nobody_starves(costs in prop::collection::vec(1u64..1000, 1..8), steps in 1usize..400) {
            let keys: Vec<SessionKey> = (0..costs.len() as u64).collect();
            let mut turns = ready(&keys);
            let mut used = vec![0u64; costs.len()];
            let most = costs.iter().max().copied().unwrap_or(0);
            for _ in 0..steps {
                let key = turns.next().unwrap();
                used[key as usize] += costs[key as usize];
                turns.charge(key, costs[key as usize]);
                // All are ready all the time: nobody is ahead of another by more than one window.
                let (least, largest) = (used.iter().min().unwrap(), used.iter().max().unwrap());
                prop_assert!(largest - least <= most, "{used:?}");
            }
        }

        #[test]
        fn only_the_ready_are_served(events in prop::collection::vec((0u64..5, any::<bool>(), 0u64..100), 0..200)) {
            let mut turns = Turns::default();
            (0..5).for_each(|key| turns.open(key));
            let mut is_ready = [false; 5];
            for (key, on, cost) in events {
                turns.set_ready(key, on);
                is_ready[key as usize] = on;
                prop_assert_eq!(turns.ready(), is_ready.iter().filter(|&&r| r).count());
                match turns.next() {
                    Some(next) => { prop_assert!(is_ready[next as usize]); turns.charge(next, cost); }
                    None => prop_assert!(is_ready.iter().all(|&r| !r)),
                }
            }
        }
    }
}
