//! The messages of a session that its worker may still need: held until there is a worker with room, and kept until that
//! worker has executed them.
//!
//! ```text
//!   0 ........ executed ........ sent ........ received
//!    forgotten │ kept for a return │ held        │ next from the client
//! ```
//!
//! BACKLOG-1: executed ≤ sent ≤ received, and none of them goes back, but for `sent` when a worker returns with less.
//! BACKLOG-2: what is taken is bounded: see [`Backlog::overrun`].

use std::collections::VecDeque;

/// A message as it goes to the worker, and what it takes of the credits.
#[derive(Debug)]
struct Kept {
    head: Vec<u8>,
    instrs: u64,
    bytes: u64,
}

/// What messages take of the credits, and of memory here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Instructions; a message takes one at least.
    pub(crate) instrs: u64,
    /// Payload bytes, as its client declared them.
    pub(crate) bytes: u64,
    /// Bytes of the messages themselves.
    pub(crate) held_bytes: u64,
}

impl Cost {
    pub(crate) fn of(instrs: u32, bytes: u64, len_bytes: usize) -> Cost {
        Cost { instrs: (instrs as u64).max(1), bytes, held_bytes: len_bytes as u64 }
    }

    pub(crate) fn add(&mut self, other: Cost) {
        self.instrs = self.instrs.saturating_add(other.instrs);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.held_bytes = self.held_bytes.saturating_add(other.held_bytes);
    }
}

/// A worker said something impossible about what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible {
    pub(crate) said: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    kept: VecDeque<Kept>,
    executed: u64,
    sent: u64,
    instrs: u64,
    bytes: u128,
    held_bytes: u64,
}

impl Backlog {
    pub(crate) fn received(&self) -> u64 {
        self.executed + self.kept.len() as u64
    }

    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.received()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of messages that are kept.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// What a client has spent that takes more than twice its credits: it did not wait. A single message may be larger, and
    /// what takes nothing is never too much.
    pub(crate) fn overrun(&self, next: Cost, credits_instrs: u64, credits_bytes: u64) -> Option<&'static str> {
        let over = |spent: u128, more: u64, credits: u64| {
            more > 0 && spent > credits as u128 && spent + more as u128 > 2 * credits as u128
        };
        if over(self.instrs as u128, next.instrs, credits_instrs) {
            return Some("instructions");
        }
        // A payload that travels apart costs nothing here, and a message of many small ones costs its length.
        if over(self.bytes, next.bytes, credits_bytes) || over(self.held_bytes as u128, next.held_bytes, credits_bytes)
        {
            return Some("bytes");
        }
        None
    }

    /// Takes the next message of the client.
    pub(crate) fn push(&mut self, head: Vec<u8>, cost: Cost) {
        self.instrs += cost.instrs;
        self.bytes += cost.bytes as u128;
        self.held_bytes += head.len() as u64;
        self.kept.push_back(Kept { head, instrs: cost.instrs, bytes: cost.bytes });
    }

    /// The next message for the worker.
    pub(crate) fn unsent(&self) -> Option<&[u8]> {
        let at = usize::try_from(self.sent - self.executed).ok()?;
        self.kept.get(at).map(|kept| kept.head.as_slice())
    }

    /// It was taken.
    pub(crate) fn mark_sent(&mut self) {
        debug_assert!(self.has_unsent());
        self.sent += 1;
    }

    /// The worker has executed everything below `executed`: what that gives back.
    pub(crate) fn execute(&mut self, executed: u64) -> Result<Cost, Impossible> {
        if executed > self.sent {
            return Err(Impossible { said: executed, least: self.executed, most: self.sent });
        }
        // A report that comes late says nothing new.
        Ok(self.forget_below(executed))
    }

    /// The worker is back and has received everything below `received`: the rest goes out again.
    pub(crate) fn rewind(&mut self, received: u64) -> Result<(), Impossible> {
        if received < self.executed || received > self.sent {
            return Err(Impossible { said: received, least: self.executed, most: self.sent });
        }
        self.sent = received;
        Ok(())
    }

    /// The worker is gone with all it was sent, and what was held made use of that: nothing is kept.
    pub(crate) fn lose(&mut self) -> Cost {
        let cost = self.forget_below(self.received());
        self.sent = self.executed;
        cost
    }

    fn forget_below(&mut self, executed: u64) -> Cost {
        let mut cost = Cost::default();
        while self.executed < executed
            && let Some(kept) = self.kept.pop_front()
        {
            self.instrs -= kept.instrs;
            self.bytes -= kept.bytes as u128;
            self.held_bytes -= kept.head.len() as u64;
            cost.add(Cost { instrs: kept.instrs, bytes: kept.bytes, held_bytes: kept.head.len() as u64 });
            self.executed += 1;
        }
        // A burst should not hold its memory for ever.
        if self.kept.is_empty() && self.kept.capacity() > 1024 {
            self.kept.shrink_to(64);
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(u8),
        Send,
        Execute(u64),
        Rewind(u64),
        Lose,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => any::<u8>().prop_map(Step::Push),
            6 => Just(Step::Send),
            3 => (0..60u64).prop_map(Step::Execute),
            2 => (0..60u64).prop_map(Step::Rewind),
            1 => Just(Step::Lose),
        ]
    }

    proptest! {
        /// BACKLOG-1, against every message ever pushed and three counts.
        #[test]
        fn numbers_stay_in_order_and_costs_add_up(steps in prop::collection::vec(step(), 0..200)) {
            let mut backlog = Backlog::default();
            let mut pushed: Vec<u8> = Vec::new();
            let (mut executed, mut sent) = (0u64, 0u64);
            let mut returned = Cost::default();
            for step in steps {
                match step {
                    Step::Push(byte) => {
                        backlog.push(vec![byte; 3], Cost::of(byte as u32, byte as u64, 3));
                        pushed.push(byte);
                    }
                    Step::Send => {
                        let next = pushed.get(sent as usize).map(|byte| vec![*byte; 3]);
                        prop_assert_eq!(backlog.unsent(), next.as_deref());
                        if next.is_some() {
                            backlog.mark_sent();
                            sent += 1;
                        }
                    }
                    Step::Execute(to) => match backlog.execute(to) {
                        Ok(cost) => {
                            prop_assert!(to <= sent);
                            returned.add(cost);
                            executed = executed.max(to);
                        }
                        Err(_) => prop_assert!(to > sent),
                    },
                    Step::Rewind(to) => {
                        let possible = (executed..=sent).contains(&to);
                        prop_assert_eq!(backlog.rewind(to).is_ok(), possible);
                        if possible {
                            sent = to;
                        }
                    }
                    Step::Lose => {
                        returned.add(backlog.lose());
                        (executed, sent) = (pushed.len() as u64, pushed.len() as u64);
                    }
                }
                prop_assert_eq!(backlog.executed(), executed);
                prop_assert_eq!(backlog.received(), pushed.len() as u64);
                prop_assert_eq!(backlog.has_unsent(), sent < pushed.len() as u64);
            }
            returned.add(backlog.lose());
            let instrs: u64 = pushed.iter().map(|byte| (*byte as u64).max(1)).sum();
            let bytes: u64 = pushed.iter().map(|byte| *byte as u64).sum();
            prop_assert_eq!(returned, Cost { instrs, bytes, held_bytes: 3 * pushed.len() as u64 });
            prop_assert_eq!((backlog.held_bytes(), backlog.is_idle()), (0, true));
        }
    }
}
