//! What one session has sent and not yet run, and the payloads that travel apart from their windows.
//!
//! INBOX-1: messages leave in the order they came. One that misses a payload holds up those behind it, nobody else.
//! INBOX-2: a payload waits for its message, or the message for it, whichever comes first. It is used by the first message
//! that names it; the same one supplied twice before that is one.
//! INBOX-3: payloads that are waiting never take more than what queued messages have named and the credits for bytes
//! together.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_ir::{Failure, FailureKind, IdMap, Payload, TensorId};
use gt_stream::{Occurrence, StreamError};

use crate::Oversupplied;
use crate::moved::{Departing, Supplied};

/// What a payload that waits counts for at least: its entry. Else a peer could fill the memory with empty ones.
const ENTRY_BYTES: usize = 64;

/// What the device thread is asked to do.
pub(crate) enum Message {
    Run(Occurrence),
    Trim,
}

/// A payload of a window that is not in it: the upload's place among the instructions, and the name of the payload.
pub type Missing = (u32, TensorId);

/// A payload that travelled apart, or why it never came.
pub(crate) type Supply = Result<Supplied, Arc<Failure>>;

/// An upload whose payload never came.
pub(crate) struct Lost {
    pub(crate) instr: u32,
    pub(crate) failure: Arc<Failure>,
}

impl Lost {
    /// A payload came that is not the upload's.
    pub(crate) fn misfit(instr: u32, error: &StreamError) -> Lost {
        let message = format!("a worker rejected the recorded instructions: {error}");
        Lost { instr, failure: Arc::new(Failure::new(FailureKind::Internal, message)) }
    }
}

/// What a message occupies until it has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credits {
    pub(crate) instrs: usize,
    pub(crate) bytes: usize,
}

/// A message on its way to the device thread.
pub(crate) struct Queued {
    pub(crate) message: Message,
    /// Payloads that have not come, if it waits for some.
    missing: Vec<Missing>,
    /// What those may count for while they wait for it, by what their instructions state.
    named_bytes: usize,
    /// Payloads that lie elsewhere in this process: the upload's place, and the value.
    pub(crate) moved: Vec<(u32, Departing)>,
    pub(crate) lost: Vec<Lost>,
    /// Of its payloads, what was made in this process.
    pub(crate) loaded_bytes: usize,
    pub(crate) credits: Credits,
    /// It is a value of another worker, not a window of the client.
    pub(crate) is_arrival: bool,
}

impl Queued {
    pub(crate) fn new(message: Message, missing: Vec<Missing>) -> Self {
        let (mut credits, mut named_bytes) = (Credits::default(), 0usize);
        if let Message::Run(occurrence) = &message {
            credits = Credits { instrs: occurrence.len(), bytes: occurrence.payload_bytes() };
            let uploads = occurrence.recipe().uploads().iter();
            for place in uploads.filter(|place| missing.iter().any(|(instr, _)| *instr == place.instr)) {
                credits.bytes = credits.bytes.saturating_add(place.len_bytes);
                named_bytes = named_bytes.saturating_add(place.len_bytes.max(ENTRY_BYTES));
            }
        }
        let (moved, lost) = (Vec::new(), Vec::new());
        Queued { message, missing, named_bytes, moved, lost, loaded_bytes: 0, credits, is_arrival: false }
    }

    /// A value of another worker, supplied under its own name.
    pub(crate) fn arrival(occurrence: Occurrence, id: TensorId) -> Self {
        let queued = Queued::new(Message::Run(occurrence), vec![(0, id)]);
        Queued { credits: Credits::default(), is_arrival: true, ..queued }
    }

    /// Whether it waits for no payload.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// The window, if it is one, with the payloads that it waits for.
    pub(crate) fn into_occurrence(self) -> Option<(Occurrence, Vec<Missing>)> {
        match self.message {
            Message::Run(occurrence) => Some((occurrence, self.missing)),
            Message::Trim => None,
        }
    }
}

/// What a payload counts for while it waits. Failures are our own, and few.
fn held_bytes(supply: &Supply) -> usize {
    supply.as_ref().map_or(0, |supplied| supplied.len_bytes().max(ENTRY_BYTES))
}

/// The queue of one session.
pub(crate) struct Inbox {
    messages: VecDeque<Queued>,
    supplied: IdMap<Supply>,
    /// What `supplied` counts for.
    held_bytes: usize,
    /// What those that queued messages have named may count for, and how many they are. The bytes are what instructions state, which
    /// may be far more than ever comes, so entries are limited by their number too.
    named_bytes: usize,
    named_count: usize,
    outstanding: Credits,
    limit: Credits,
}

impl Inbox {
    pub(crate) fn new(limit: Credits) -> Self {
        Inbox {
            messages: VecDeque::new(),
            supplied: IdMap::default(),
            held_bytes: 0,
            named_bytes: 0,
            named_count: 0,
            outstanding: Credits::default(),
            limit,
        }
    }

    /// Whether credits are spent. Never while nothing is outstanding, so a message larger than all credits passes.
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding.instrs >= self.limit.instrs || self.outstanding.bytes >= self.limit.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How many messages and payloads wait.
    pub(crate) fn records(&self) -> usize {
        self.messages.len() + self.supplied.len()
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, queued: Queued) {
        self.outstanding.instrs += queued.credits.instrs;
        self.outstanding.bytes = self.outstanding.bytes.saturating_add(queued.credits.bytes);
        self.named_bytes = self.named_bytes.saturating_add(queued.named_bytes);
        self.named_count += queued.missing.len();
        self.messages.push_back(queued);
    }

    /// A payload came, or it never will. What there is no use for stays with the caller.
    pub(crate) fn supply(&mut self, id: TensorId, supply: &mut Option<Supply>) -> Result<(), Oversupplied> {
        let Some(coming) = supply.as_ref().filter(|_| !self.supplied.contains_key(&id)) else { return Ok(()) };
        let len_bytes = coming.as_ref().map_or(0, Supplied::len_bytes);
        let counts = held_bytes(coming);
        let limit_bytes = self.limit.bytes.saturating_add(self.named_bytes);
        let most_entries = self.limit.bytes.div_ceil(ENTRY_BYTES).saturating_add(self.named_count);
        if counts > limit_bytes.saturating_sub(self.held_bytes) || self.supplied.len() >= most_entries {
            return Err(Oversupplied { len_bytes, held_bytes: self.held_bytes, limit_bytes });
        }
        self.held_bytes += counts;
        self.supplied.extend(supply.take().map(|supply| (id, supply)));
        Ok(())
    }

    /// Whether the next message can run.
    pub(crate) fn is_ready(&self) -> bool {
        let here = |queued: &Queued| queued.missing.iter().all(|(_, id)| self.supplied.contains_key(id));
        self.messages.front().is_some_and(here)
    }

    /// The next message with its payloads in it, if it can run.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        if !self.is_ready() {
            return None;
        }
        let mut queued = self.messages.pop_front()?;
        if !queued.missing.is_empty() {
            self.complete(&mut queued);
        }
        Some(queued)
    }

    /// Puts a message's payloads in.
    fn complete(&mut self, queued: &mut Queued) {
        self.named_bytes = self.named_bytes.saturating_sub(queued.named_bytes);
        let missing = std::mem::take(&mut queued.missing);
        self.named_count -= missing.len();
        if let Message::Run(occurrence) = &mut queued.message {
            for &(instr, id) in &missing {
                let added = match self.supplied.get(&id) {
                    Some(Ok(Supplied::Bytes(bytes))) => occurrence.add_payload(Payload { instr, bytes: bytes.clone() }),
                    Some(Ok(Supplied::Loaded(bytes))) => {
                        queued.loaded_bytes += bytes.len();
                        occurrence.add_payload(Payload { instr, bytes: bytes.clone() })
                    }
                    Some(Ok(Supplied::Moved(value))) => {
                        queued.moved.push((instr, value.clone()));
                        Ok(())
                    }
                    Some(Err(failure)) => {
                        queued.lost.push(Lost { instr, failure: failure.clone() });
                        Ok(())
                    }
                    None => Ok(()),
                };
                queued.lost.extend(added.err().map(|error| Lost::misfit(instr, &error)));
            }
            queued.lost.sort_by_key(|lost| lost.instr);
            queued.lost.dedup_by_key(|lost| lost.instr);
        }
        for (_, id) in missing {
            if let Some(supply) = self.supplied.remove(&id) {
                self.held_bytes -= held_bytes(&supply);
            }
        }
    }

    /// Gives back what a message occupied.
    pub(crate) fn release(&mut self, credits: Credits) {
        self.outstanding.instrs -= credits.instrs;
        self.outstanding.bytes = self.outstanding.bytes.saturating_sub(credits.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::{Bytes, Window};
    use proptest::prelude::*;

    const LIMIT: Credits = Credits { instrs: 1000, bytes: 8 * ENTRY_BYTES };

    /// A window of uploads of two floats, whose payloads all travel apart.
    fn uploads(first: u64, count: u64) -> Queued {
        let line = |id: u64| format!("%{id} = upload() dtype=f32 shape=[2]").parse().unwrap();
        let instrs = (first..first + count).map(line).collect();
        let window = Window { instrs, ..Window::default() };
        let missing = (0..count).map(|k| (k as u32, TensorId(first + k))).collect();
        Queued::new(Message::Run(Occurrence::of(window).expect("an occurrence")), missing)
    }

    fn bytes(of: u64) -> Bytes {
        vec![of as u8; 8].into()
    }

    fn supply(inbox: &mut Inbox, id: u64, bytes: Bytes) -> Result<(), Oversupplied> {
        inbox.supply(TensorId(id), &mut Some(Ok(Supplied::Bytes(bytes))))
    }

    #[test]
    fn a_payload_may_come_first_or_last_or_not_at_all() {
        let mut inbox = Inbox::new(LIMIT);
        supply(&mut inbox, 2, bytes(2)).unwrap();
        inbox.push(uploads(1, 3));
        assert!(!inbox.is_ready());
        supply(&mut inbox, 1, bytes(1)).unwrap();
        assert!(inbox.pop().is_none());
        let gone = Err(Arc::new(Failure::new(FailureKind::WorkerLost, "gone")));
        inbox.supply(TensorId(3), &mut Some(gone)).unwrap();
        let queued = inbox.pop().unwrap();
        let Message::Run(window) = queued.message else { panic!("a window") };
        let window = window.window();
        assert_eq!(window.uploads.iter().map(|p| (p.instr, p.bytes[0])).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        assert_eq!(queued.lost.iter().map(|lost| lost.instr).collect::<Vec<_>>(), [2]);
        assert_eq!((inbox.held_bytes, inbox.named_bytes, inbox.supplied.len()), (0, 0, 0));
    }

    #[test]
    fn what_nobody_named_is_bounded_by_the_credits() {
        let mut inbox = Inbox::new(LIMIT);
        (0..8).for_each(|id| supply(&mut inbox, id, bytes(id)).unwrap());
        let refused = supply(&mut inbox, 8, bytes(8)).unwrap_err();
        assert_eq!((refused.len_bytes, refused.held_bytes, refused.limit_bytes), (8, LIMIT.bytes, LIMIT.bytes));
        assert!(supply(&mut inbox, 9, Vec::new().into()).is_err(), "empty ones count too");
        // The same again takes nothing.
        supply(&mut inbox, 3, bytes(3)).unwrap();
    }

    #[test]
    fn a_window_larger_than_all_credits_gets_its_payloads() {
        let mut inbox = Inbox::new(Credits { instrs: 1000, bytes: 64 });
        inbox.push(uploads(0, 20));
        assert!(inbox.is_full());
        (0..20).for_each(|id| supply(&mut inbox, id, bytes(id)).unwrap());
        let queued = inbox.pop().unwrap();
        inbox.release(queued.credits);
        assert!(!inbox.is_full());
    }

    proptest! {
        #[test]
        fn every_window_leaves_once_in_order_with_its_own_payloads(
            sizes in prop::collection::vec(0u64..4, 1..10),
            seed in any::<u64>(),
        ) {
            // Windows in order, their payloads in any order between them.
            let mut inbox = Inbox::new(Credits { instrs: usize::MAX, bytes: usize::MAX });
            let total: u64 = sizes.iter().sum();
            let mut payloads: Vec<u64> = (0..total).collect();
            let mut random = seed | 1;
            let mut draw = move |below: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % below.max(1) as u64) as usize
            };
            (1..payloads.len()).rev().for_each(|i| payloads.swap(i, draw(i + 1)));
            let mut windows: VecDeque<(u64, u64)> = VecDeque::new();
            sizes.iter().fold(0, |first, &size| { windows.push_back((first, size)); first + size });
            let mut left = Vec::new();
            while !windows.is_empty() || !payloads.is_empty() {
                if payloads.is_empty() || (!windows.is_empty() && draw(2) == 0) {
                    let (first, size) = windows.pop_front().unwrap();
                    inbox.push(uploads(first, size));
                } else {
                    let id = payloads.pop().unwrap();
                    supply(&mut inbox, id, bytes(id)).unwrap();
                }
                while let Some(queued) = inbox.pop() {
                    let Message::Run(window) = queued.message else { panic!("a window") };
                    let window = window.window();
                    let found: Vec<u8> = window.uploads.iter().map(|p| p.bytes[0]).collect();
                    let wanted: Vec<u8> = window.instrs.iter().map(|i| i.outs[0].0 as u8).collect();
                    prop_assert_eq!(found, wanted);
                    left.push(window.instrs.len() as u64);
                    inbox.release(queued.credits);
                }
            }
            prop_assert_eq!(left, sizes);
            prop_assert!(inbox.is_empty() && inbox.supplied.is_empty());
            prop_assert_eq!((inbox.held_bytes, inbox.named_bytes, inbox.outstanding), (0, 0, Credits::default()));
        }
    }
}
