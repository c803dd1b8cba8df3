//! Readers that do not wait: they leave word what is to be done with the value when it is there.
//!
//! ANSWER-1: every one is answered exactly once; when the session ends before the value comes, with
//! [`ReadError::Stopped`].
//! ANSWER-2: what is left under one id is answered in the order it was left, except that a small value, copied at once,
//! may overtake a large one that is still being copied.
//! ANSWER-3: no lock is held while an answer is given.
//! ANSWER-4: a value that comes is shown to those who wait for it, and to no others, however many wait.

use std::collections::BTreeMap;

use gt_engine::Buffer;
use gt_engine::presence::Waiting;
use gt_ir::{IdMap, TensorId};

use crate::ReadError;
use crate::moved::Departing;
use crate::session::Copied;
use crate::table::{Table, TableState};
use crate::waits::{Awaited, Change};

/// What is done with a value once it is there.
pub type ReadThen = Box<dyn FnOnce(Result<Copied, ReadError>) + Send>;
/// What is done with a value that goes elsewhere.
pub type MoveThen = Box<dyn FnOnce(Result<Departing, ReadError>) + Send>;
/// What is done once everything sent before has run.
pub type DoneThen = Box<dyn FnOnce(Result<(), ReadError>) + Send>;

/// Word that somebody left.
pub(crate) enum Pending {
    Value { id: TensorId, sent: u64, then: ReadThen },
    Move { id: TensorId, sent: u64, then: MoveThen },
    Done { sent: u64, then: DoneThen },
}

/// Word that was left, while it is not answered.
pub(crate) struct Left<B> {
    pending: Pending,
    /// The value, once it was seen pending.
    held: Option<B>,
    /// Whoever asked for it does nothing else meanwhile; a value that moves keeps nobody waiting.
    _waiting: Option<Waiting>,
}

/// All word that was left, by what it waits for (ANSWER-4).
pub(crate) struct AllLeft<B> {
    /// By number, in the order in which it was left.
    left: BTreeMap<u64, Left<B>>,
    by_value: IdMap<Vec<u64>>,
    /// By the count of messages after which it is answered in any case. May name what was answered before.
    by_count: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

impl<B> Default for AllLeft<B> {
    fn default() -> Self {
        AllLeft { left: BTreeMap::new(), by_value: IdMap::default(), by_count: BTreeMap::new(), next: 0 }
    }
}

impl<B> AllLeft<B> {
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    fn push(&mut self, left: Left<B>) {
        let number = self.next;
        self.next += 1;
        self.insert(number, left);
    }

    fn insert(&mut self, number: u64, left: Left<B>) {
        let count = match left.pending.awaited() {
            Awaited::Value(id, sent) => {
                self.by_value.entry(id).or_default().push(number);
                sent
            }
            Awaited::Done(sent) => sent,
        };
        self.by_count.entry(count).or_default().push(number);
        self.left.insert(number, left);
    }

    /// Takes out what a change may answer, in the order in which it was left.
    fn take(&mut self, change: Change) -> Vec<(u64, Left<B>)> {
        let mut numbers = match change {
            Change::Value(id) => self.by_value.remove(&id).unwrap_or_default(),
            Change::Done(done) => {
                let later = self.by_count.split_off(&(done + 1));
                std::mem::replace(&mut self.by_count, later).into_values().flatten().collect()
            }
            Change::Stopped => {
                (self.by_value, self.by_count) = Default::default();
                self.left.keys().copied().collect()
            }
        };
        numbers.sort_unstable();
        numbers.dedup();
        let taken: Vec<(u64, Left<B>)> =
            numbers.into_iter().filter_map(|number| Some((number, self.left.remove(&number)?))).collect();
        for (number, left) in &taken {
            if let Awaited::Value(id, _) = left.pending.awaited()
                && let Some(others) = self.by_value.get_mut(&id)
            {
                others.retain(|other| other != number);
                if others.is_empty() {
                    self.by_value.remove(&id);
                }
            }
        }
        taken
    }
}

/// What is to be said to whom, and not yet copied.
pub(crate) enum Answer<B> {
    Value { id: TensorId, found: Result<B, ReadError>, then: ReadThen },
    Move { id: TensorId, found: Result<B, ReadError>, then: MoveThen },
    Done { result: Result<(), ReadError>, then: DoneThen },
}

/// What became of word that was left.
enum Settled<B> {
    Answer(Answer<B>),
    Pending(Pending),
}

impl Pending {
    fn awaited(&self) -> Awaited {
        match *self {
            Pending::Value { id, sent, .. } | Pending::Move { id, sent, .. } => Awaited::Value(id, sent),
            Pending::Done { sent, .. } => Awaited::Done(sent),
        }
    }

    fn settle<B: Buffer>(self, held: &mut Option<B>, state: &mut TableState<B>, worker: &str) -> Settled<B> {
        match self {
            Pending::Value { id, sent, then } => match state.look_for(id, sent, true, held, worker) {
                Some(found) => Settled::Answer(Answer::Value { id, found, then }),
                None => Settled::Pending(Pending::Value { id, sent, then }),
            },
            Pending::Move { id, sent, then } => match state.look_for(id, sent, false, held, worker) {
                Some(found) => Settled::Answer(Answer::Move { id, found, then }),
                None => Settled::Pending(Pending::Move { id, sent, then }),
            },
            Pending::Done { sent, then } => match state.look_if_done(sent) {
                Some(result) => Settled::Answer(Answer::Done { result, then }),
                None => Settled::Pending(Pending::Done { sent, then }),
            },
        }
    }
}

impl<B: Buffer> TableState<B> {
    /// Takes out what a change answers.
    pub(crate) fn settle(&mut self, change: Change, worker: &str) -> Vec<Answer<B>> {
        let mut answers = Vec::new();
        for (number, Left { pending, mut held, _waiting }) in self.pending.take(change) {
            match pending.settle(&mut held, self, worker) {
                Settled::Answer(answer) => answers.push(answer),
                Settled::Pending(pending) => self.pending.insert(number, Left { pending, held, _waiting }),
            }
        }
        answers
    }
}

impl<B: Buffer> Table<B> {
    /// Leaves word; gives the answer if there is one already.
    #[must_use = "somebody waits for the answer"]
    pub(crate) fn on_ready(&self, pending: Pending) -> Option<Answer<B>> {
        let mut state = self.lock();
        let mut held = None;
        match pending.settle(&mut held, &mut state, self.worker()) {
            Settled::Answer(answer) => Some(answer),
            Settled::Pending(pending) => {
                let _waiting = match pending {
                    Pending::Value { .. } | Pending::Done { .. } => Some(Waiting::begin()),
                    Pending::Move { .. } => None,
                };
                state.pending.push(Left { pending, held, _waiting });
                None
            }
        }
    }
}
