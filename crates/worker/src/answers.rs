//! Readers that do not wait: they leave word what is to be done with the value when it is there.
//!
//! ANSWER-1: every one is answered exactly once; when the session ends before the value comes, with
//! [`ReadError::Stopped`].
//! ANSWER-2: what is left under one id is answered in the order it was left, except that a small value, copied at once,
//! may overtake a large one that is still being copied.
//! ANSWER-3: no lock is held while an answer is given.

use gt_engine::Buffer;
use gt_engine::presence::Waiting;
use gt_ir::{HostTensor, TensorId};

use crate::ReadError;
use crate::moved::Departing;
use crate::table::{Table, TableState};
use crate::waits::Awaited;

/// What is done with a value once it is there.
pub type ReadThen = Box<dyn FnOnce(Result<HostTensor, ReadError>) + Send>;
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
pub(crate) struct Left {
    pending: Pending,
    /// Whoever asked for it does nothing else meanwhile; a value that moves keeps nobody waiting.
    _waiting: Option<Waiting>,
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

    fn settle<B: Buffer>(self, state: &mut TableState<B>, worker: &str) -> Settled<B> {
        match self {
            Pending::Value { id, sent, then } => match state.look_for(id, sent, true, worker) {
                Some(found) => Settled::Answer(Answer::Value { id, found, then }),
                None => Settled::Pending(Pending::Value { id, sent, then }),
            },
            Pending::Move { id, sent, then } => match state.look_for(id, sent, false, worker) {
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
    /// Takes out what can be answered, of that which `wakes` says may be.
    pub(crate) fn settle(&mut self, wakes: impl Fn(&TableState<B>, Awaited) -> bool, worker: &str) -> Vec<Answer<B>> {
        if !self.pending.iter().any(|left| wakes(self, left.pending.awaited())) {
            return Vec::new();
        }
        let mut answers = Vec::new();
        for Left { pending, _waiting } in std::mem::take(&mut self.pending) {
            let settled = match wakes(self, pending.awaited()) {
                true => pending.settle(self, worker),
                false => Settled::Pending(pending),
            };
            match settled {
                Settled::Answer(answer) => answers.push(answer),
                Settled::Pending(pending) => self.pending.push(Left { pending, _waiting }),
            }
        }
        answers
    }
}

impl<B: Buffer> Table<B> {
    /// Leaves word; gives the answer if there is one already.
    #[must_use = "somebody waits for the answer"]
    pub(crate) fn leave(&self, pending: Pending) -> Option<Answer<B>> {
        let mut state = self.lock();
        match pending.settle(&mut state, self.worker()) {
            Settled::Answer(answer) => Some(answer),
            Settled::Pending(pending) => {
                let _waiting = match pending {
                    Pending::Value { .. } | Pending::Done { .. } => Some(Waiting::begin()),
                    Pending::Move { .. } => None,
                };
                state.pending.push(Left { pending, _waiting });
                None
            }
        }
    }
}
