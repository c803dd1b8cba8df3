//! Which failures a session's user still has to hear of.
//!
//! FAILURES-1: an error is raised once. Failures with one bad value are one error, and its first failure stands for all of
//! them: a gradient that fails for the index that the forward pass failed for adds nothing.
//! FAILURES-2: after an error was raised, what fails because of the same value adds nothing, unless the same instruction fails
//! again in a message that was sent after that read: a loop that fails in every step is told so in every step.
//! FAILURES-3: failures for lack of memory, or for a worker that is lost, are one error up to the read that raised one of their kind.
//! FAILURES-4: updates that were skipped because of an error are named with it.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_ir::{Failure, FailureKind, SkippedWrite};

/// How many errors wait to be raised; later ones are dropped.
const MAX_PENDING: usize = 16;
/// How many errors are remembered after they were raised.
const MAX_RAISED: usize = 64;

/// An error that no reader has heard of.
struct Pending {
    failure: Arc<Failure>,
    /// The message whose updates its `skipped` names.
    skipped_by: Option<u64>,
}

/// An error that a reader has heard of.
struct Raised {
    failure: Arc<Failure>,
    /// Messages sent before that read.
    sent: u64,
}

/// What failed in a session, and what of it was raised.
#[derive(Default)]
pub(crate) struct Failures {
    /// Oldest first.
    pending: Vec<Pending>,
    /// Latest first.
    raised: VecDeque<Raised>,
}

/// Whether one error stands for both.
fn is_same(a: &Failure, b: &Failure) -> bool {
    a.has_cause_of(b) || a.repeats(b)
}

impl Raised {
    /// Whether a failure of message `done` adds nothing to this error (FAILURES-2, FAILURES-3).
    fn covers(&self, failure: &Failure, done: u64) -> bool {
        let raised = &self.failure;
        let is_again = (&raised.op, raised.site, raised.kind) == (&failure.op, failure.site, failure.kind);
        match raised.has_cause_of(failure) {
            true => done < self.sent || !is_again,
            false => done < self.sent && (raised.repeats(failure) || is_of_kind(raised, failure)),
        }
    }
}

/// Whether both blame no value and are of one kind that makes much fail at once.
fn is_of_kind(a: &Failure, b: &Failure) -> bool {
    let spreads = matches!(a.kind, FailureKind::Memory | FailureKind::WorkerLost);
    a.bad_value().is_none() && b.bad_value().is_none() && spreads && a.kind == b.kind
}

impl Failures {
    /// An instruction of message `done` failed.
    pub(crate) fn failed(&mut self, failure: &Arc<Failure>, done: u64) {
        let is_known = self.pending.iter().any(|pending| is_same(&pending.failure, failure))
            || self.raised.iter().any(|raised| raised.covers(failure, done));
        if !is_known && self.pending.len() < MAX_PENDING {
            self.pending.push(Pending { failure: failure.clone(), skipped_by: None });
        }
    }

    /// Message `done` skipped an update because of a failure.
    pub(crate) fn skipped(&mut self, write: SkippedWrite, failure: &Arc<Failure>, done: u64) {
        self.failed(failure, done);
        let Some(pending) = self.pending.iter_mut().find(|pending| is_same(&pending.failure, failure)) else { return };
        match &mut Arc::make_mut(&mut pending.failure).skipped {
            Some(known) if pending.skipped_by == Some(done) => known.kept.extend(write.kept),
            Some(_) => {}
            none @ None => {
                *none = Some(write);
                pending.skipped_by = Some(done);
            }
        }
    }

    /// The error to raise for a poisoned value, read after `sent` messages were sent.
    pub(crate) fn raise(&mut self, failure: Arc<Failure>, sent: u64) -> Arc<Failure> {
        let pending = self.pending.iter().find(|pending| is_same(&pending.failure, &failure));
        let raised = self.raised.iter().find(|raised| raised.failure.has_cause_of(&failure));
        let error = match (pending, raised) {
            (Some(pending), _) => pending.failure.clone(),
            // A consequence of what was raised: say that again.
            (None, Some(raised)) if raised.failure.kind != failure.kind => {
                Arc::new(Failure { skipped: None, ..(*raised.failure).clone() })
            }
            (None, _) => failure,
        };
        self.note_raised(&error, sent);
        error
    }

    /// The first error that skipped an update, for a read after `sent` messages.
    pub(crate) fn take_skipped(&mut self, sent: u64) -> Option<Arc<Failure>> {
        let at = self.pending.iter().position(|pending| pending.failure.skipped.is_some())?;
        Some(self.take(at, sent))
    }

    /// The first error that nobody has heard of: one that skipped an update before others.
    pub(crate) fn take_first(&mut self, sent: u64) -> Option<Arc<Failure>> {
        self.take_skipped(sent).or_else(|| (!self.pending.is_empty()).then(|| self.take(0, sent)))
    }

    fn take(&mut self, at: usize, sent: u64) -> Arc<Failure> {
        let failure = self.pending.remove(at).failure;
        self.note_raised(&failure, sent);
        failure
    }

    fn note_raised(&mut self, failure: &Arc<Failure>, sent: u64) {
        self.pending.retain(|pending| !is_same(&pending.failure, failure) && !is_of_kind(&pending.failure, failure));
        self.raised.retain(|raised| !is_same(&raised.failure, failure));
        self.raised.truncate(MAX_RAISED - 1);
        self.raised.push_front(Raised { failure: failure.clone(), sent });
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::SiteId;

    use super::*;

    fn at(kind: FailureKind, site: u32) -> Arc<Failure> {
        Arc::new(Failure { site: SiteId(site), ..Failure::new(kind, format!("failed at line {site}")) })
    }

    #[test]
    fn failures_that_blame_no_value_are_one_error_only_if_their_kind_spreads() {
        use FailureKind::{Domain, Index, Internal, Memory, Value, WorkerLost};
        for (kind, count) in [(Index, 2), (Value, 2), (Domain, 2), (Internal, 2), (Memory, 1), (WorkerLost, 1)] {
            let mut failures = Failures::default();
            failures.failed(&at(kind, 1), 0);
            failures.failed(&at(kind, 2), 0);
            let raised: Vec<_> = std::iter::from_fn(|| failures.take_first(1)).collect();
            assert_eq!(raised.len(), count, "{kind:?}");
        }
    }
}
