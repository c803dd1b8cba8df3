//! A stream of messages that survives its connections: what one side numbers and keeps, the other side counts and acks.
//!
//! Nothing here does I/O. A session numbers its messages in an [`Outbox`] and sends them; its other side shows every number
//! to an [`Inbox`] and applies what is new. After a reconnect each side says how much it has received, and the other sends
//! the rest again.
//!
//! SEQ-1: numbers start at 0 and have no holes. *Received* is a count: everything below it has arrived.
//! SEQ-2: a message is kept until the other side has acked it; when the kept ones reach the limit, no more are taken.
//! SEQ-3: each message is `New` exactly once, in order, whatever connections drop or repeat.

use std::collections::VecDeque;

use crate::NetError;

/// Messages of this side that the other may not have.
#[derive(Debug)]
pub struct Outbox<M> {
    kept: VecDeque<(M, usize)>,
    /// Number of the first kept one.
    first: u64,
    bytes: usize,
    max_bytes: usize,
}

impl<M> Outbox<M> {
    /// Keeps up to `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Outbox { kept: VecDeque::new(), first: 0, bytes: 0, max_bytes }
    }

    /// Numbers a message and keeps it. With too much kept already it is given back; a single one may be over the limit.
    pub fn push(&mut self, message: M, len_bytes: usize) -> Result<u64, M> {
        if !self.kept.is_empty() && self.bytes.saturating_add(len_bytes) > self.max_bytes {
            return Err(message);
        }
        self.bytes += len_bytes;
        self.kept.push_back((message, len_bytes));
        Ok(self.next() - 1)
    }

    /// The number that the next message will have.
    pub fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The other side has received everything below `received`. An ack that comes late says nothing new.
    pub fn ack(&mut self, received: u64) -> Result<(), NetError> {
        if received > self.next() {
            return Err(NetError::malformed(format!(
                "{received} messages were acknowledged, but only {} were sent",
                self.next()
            )));
        }
        while self.first < received
            && let Some((_, len_bytes)) = self.kept.pop_front()
        {
            self.bytes -= len_bytes;
            self.first += 1;
        }
        Ok(())
    }

    /// What to send again, with its numbers, to a side that has received everything below `received`.
    pub fn resend(&mut self, received: u64) -> Result<impl Iterator<Item = (u64, &M)>, NetError> {
        if received < self.first {
            return Err(NetError::malformed(format!(
                "the peer asked for message {received}, which it already acknowledged; the first one kept is {}",
                self.first
            )));
        }
        self.ack(received)?;
        Ok((self.first..).zip(self.kept.iter().map(|(message, _)| message)))
    }

    /// A kept message, by its number.
    pub fn get(&self, seq: u64) -> Option<&M> {
        let place = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.kept.get(place).map(|(message, _)| message)
    }

    /// The number of the first message that the other side may not have.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many bytes are kept.
    pub fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether the other side has everything.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// What a number says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Apply it.
    New,
    /// It was applied before: drop it.
    Duplicate,
    /// Something before it is missing, which no connection that keeps order can do: end the connection and resume.
    Gap {
        /// The number that should have come.
        expected: u64,
    },
}

/// How much of the other side's messages has been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    received: u64,
    acked: u64,
}

impl Inbox {
    /// Nothing received yet.
    pub fn new() -> Self {
        Inbox::default()
    }

    /// Everything below `received` went elsewhere, or came before.
    pub fn starting_at(received: u64) -> Self {
        Inbox { received, acked: received }
    }

    /// Judges a message by its number.
    pub fn accept(&mut self, seq: u64) -> Arrival {
        match seq.cmp(&self.received) {
            std::cmp::Ordering::Less => Arrival::Duplicate,
            std::cmp::Ordering::Equal => {
                self.received += 1;
                Arrival::New
            }
            std::cmp::Ordering::Greater => Arrival::Gap { expected: self.received },
        }
    }

    /// How many have been received: said when resuming.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The count to ack, once at least `every` messages have come since the last ack.
    pub fn ack_due(&mut self, every: u64) -> Option<u64> {
        if self.received - self.acked < every.max(1) {
            return None;
        }
        self.acked = self.received;
        Some(self.received)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens next between two sides.
    #[derive(Clone, Debug)]
    enum Step {
        Push,
        /// The oldest message on the wire arrives.
        Deliver,
        /// It arrives, and a copy of it stays behind.
        DeliverTwice,
        /// The receiver says how much it has, and the sender hears it.
        Ack,
        /// The connection drops with all that is on it; the sides resume.
        Reconnect,
        /// The same, and what the receiver said when resuming is lost too: they resume again.
        ReconnectTwice,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Push),
            4 => Just(Step::Deliver),
            1 => Just(Step::DeliverTwice),
            2 => Just(Step::Ack),
            1 => Just(Step::Reconnect),
            1 => Just(Step::ReconnectTwice),
        ]
    }

    proptest! {
        /// SEQ-3.
        #[test]
        fn everything_is_applied_once_and_in_order(steps in prop::collection::vec(step(), 0..300)) {
            let mut outbox = Outbox::new(10 * 8);
            let mut inbox = Inbox::new();
            let mut wire = VecDeque::new();
            let mut pushed = 0u32;
            let mut applied = Vec::new();
            let mut deliver = |wire: &mut VecDeque<(u64, u32)>, inbox: &mut Inbox, keep: bool| {
                let Some((seq, message)) = wire.pop_front() else { return };
                if keep {
                    wire.push_front((seq, message));
                }
                match inbox.accept(seq) {
                    Arrival::New => applied.push(message),
                    Arrival::Duplicate => {}
                    Arrival::Gap { expected } => panic!("{expected} is missing before {seq}"),
                }
            };
            for step in steps.into_iter().chain([Step::Reconnect]) {
                match step {
                    Step::Push => if let Ok(seq) = outbox.push(pushed, 8) {
                        prop_assert_eq!(seq, pushed as u64);
                        wire.push_back((seq, pushed));
                        pushed += 1;
                    } else {
                        prop_assert_eq!(outbox.len(), 10, "refused with room left");
                    },
                    Step::Deliver => deliver(&mut wire, &mut inbox, false),
                    Step::DeliverTwice => deliver(&mut wire, &mut inbox, true),
                    Step::Ack => if let Some(received) = inbox.ack_due(3) {
                        outbox.ack(received).unwrap();
                    },
                    Step::Reconnect | Step::ReconnectTwice => {
                        let rounds = if matches!(step, Step::ReconnectTwice) { 2 } else { 1 };
                        for _ in 0..rounds {
                            wire = outbox.resend(inbox.received()).unwrap().map(|(seq, &m)| (seq, m)).collect();
                        }
                    }
                }
                prop_assert!(outbox.kept_bytes() <= 80);
            }
            while !wire.is_empty() {
                deliver(&mut wire, &mut inbox, false);
            }
            prop_assert_eq!(applied, (0..pushed).collect::<Vec<_>>());
            outbox.ack(inbox.received()).unwrap();
            prop_assert!(outbox.is_empty() && outbox.kept_bytes() == 0);
        }
    }

    #[test]
    fn acks_of_what_was_never_sent_are_refused() {
        let mut outbox = Outbox::new(100);
        outbox.push("a", 1).unwrap();
        assert!(outbox.ack(2).is_err());
        outbox.ack(1).unwrap();
        outbox.ack(0).unwrap(); // late, harmless
        assert!(outbox.resend(0).is_err(), "it was acked and dropped");
    }

    #[test]
    fn a_hole_is_noticed() {
        let mut inbox = Inbox::new();
        assert_eq!(inbox.accept(0), Arrival::New);
        assert_eq!(inbox.accept(2), Arrival::Gap { expected: 1 });
        assert_eq!(inbox.accept(0), Arrival::Duplicate);
        assert_eq!(inbox.received(), 1);
    }
}
