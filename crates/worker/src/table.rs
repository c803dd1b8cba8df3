//! The values a session holds, by id.
//!
//! The device thread puts values in (engines do, through the sink) and takes them out; readers wait for them
//! (`waits`), or leave word what to do when they come (`answers`). One lock; no buffer is copied or dropped while it
//! is held, and nothing foreign is called.
//!
//! TABLE-1: until the table is stopped, a value that the device thread saw stays until it takes it: others remove only what no
//! message names that is still to run (HANDOVER-2). A stopped table is empty and stays so.
//! TABLE-2: `done` counts messages whose work is finished, in order. A value that is missing once everything sent
//! before the read is done will never come, so no reader waits for ever.
//! TABLE-3: an error is raised once. Whoever reads a poisoned value has seen its failure, so writes that were skipped for
//! it, by messages sent before that read, are not reported again, whether they ran before the read or after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use gt_engine::{Buffer, Value};
use gt_ir::{Failure, FailureKind, IdMap, SiteId, TensorId, TensorType};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::ReadError;
use crate::answers::{Answer, Left};
use crate::waits::{Awaited, Sleeper};

/// One value.
#[derive(Clone)]
pub(crate) struct Entry<B> {
    pub(crate) value: Value<B>,
    /// Unknown for what a refused window was to define.
    pub(crate) ty: Option<TensorType>,
    /// The line that made it.
    pub(crate) site: SiteId,
}

pub(crate) struct TableState<B> {
    entries: IdMap<Entry<B>>,
    pub(crate) done: u64,
    /// Writes that were skipped and not yet reported; of a session that raises all, other failures too.
    skipped: Vec<Arc<Failure>>,
    /// Failures that a read raised, each with the number of messages sent before that read.
    raised: Vec<(Arc<Failure>, u64)>,
    /// What sleeping readers wait for: only they are woken, and only by that. A step publishes a hundred values while its
    /// loss is awaited.
    pub(crate) waiting: Vec<Sleeper>,
    /// What is to be done for readers that do not wait, in the order they asked.
    pub(crate) pending: Vec<Left>,
    pub(crate) stopped: bool,
    /// What a value is that is not here, for a session that lost some.
    pub(crate) lost: Option<Arc<Failure>>,
}

pub(crate) struct Table<B> {
    pub(crate) state: Mutex<TableState<B>>,
    pub(crate) changed: Condvar,
    /// Raised with every change that a reader may wait for, so that it can watch without the lock.
    pub(crate) version: AtomicU64,
    /// Named in failures.
    worker: String,
}

impl<B: Buffer> TableState<B> {
    pub(crate) fn get(&self, id: TensorId) -> Option<&Entry<B>> {
        self.entries.get(&id)
    }

    pub(crate) fn remove(&mut self, id: TensorId) -> Option<Entry<B>> {
        self.entries.remove(&id)
    }

    /// The largest values, as bytes and the line that made them.
    pub(crate) fn holders(&self, count: usize) -> Vec<(u64, SiteId)> {
        let held = |(id, e): (&TensorId, &Entry<B>)| Some((e.value.as_ref().ok()?.bytes() as u64, *id, e.site));
        let mut all: Vec<_> = self.entries.iter().filter_map(held).collect();
        // Ids settle ties, so the order of the map does not show.
        all.sort_unstable_by_key(|&(bytes, id, _)| (std::cmp::Reverse(bytes), id));
        all.into_iter().take(count).map(|(bytes, _, site)| (bytes, site)).collect()
    }

    /// What is said of a value that will never come.
    fn missing(&self, id: TensorId, worker: &str) -> Arc<Failure> {
        self.lost.clone().unwrap_or_else(|| {
            let mut failure = Failure::new(FailureKind::Internal, format!("tensor {id} does not exist"));
            failure.worker = worker.to_string();
            Arc::new(failure)
        })
    }

    /// The value of `id` for a read before which `sent` messages were sent, or why there is none; nothing while it may
    /// still come. One that `raises` tells its user of skipped writes.
    pub(crate) fn look_for(
        &mut self,
        id: TensorId,
        sent: u64,
        raises: bool,
        worker: &str,
    ) -> Option<Result<B, ReadError>> {
        if self.stopped {
            return Some(Err(ReadError::Stopped));
        }
        let value = match self.entries.get(&id) {
            Some(entry) => entry.value.clone(),
            None if self.done >= sent => Err(self.missing(id, worker)),
            None => return None,
        };
        Some(match (value, raises) {
            (Ok(buffer), false) => Ok(buffer),
            (Ok(buffer), true) => self.take_skipped().map(|()| buffer),
            (Err(failure), false) => Err(ReadError::Failed(failure)),
            (Err(failure), true) => Err(self.raise(failure, sent)),
        })
    }

    /// Whether `sent` messages are finished, and the failure of a skipped write that nobody has seen.
    pub(crate) fn look_if_done(&mut self, sent: u64) -> Option<Result<(), ReadError>> {
        if self.stopped {
            return Some(Err(ReadError::Stopped));
        }
        (self.done >= sent).then(|| self.take_skipped())
    }

    fn take_skipped(&mut self) -> Result<(), ReadError> {
        match self.skipped.is_empty() {
            true => Ok(()),
            false => Err(ReadError::Failed(self.skipped.remove(0))),
        }
    }

    /// A read raises the failure of a poisoned value.
    fn raise(&mut self, failure: Arc<Failure>, sent: u64) -> ReadError {
        self.skipped.retain(|skipped| *skipped != failure);
        if self.done < sent {
            self.raised.push((failure.clone(), sent));
        }
        ReadError::Failed(failure)
    }
}

impl<B: Buffer> Table<B> {
    pub(crate) fn new(worker: String, lost: Option<Arc<Failure>>) -> Self {
        let state = TableState {
            entries: IdMap::default(),
            done: 0,
            skipped: Vec::new(),
            raised: Vec::new(),
            waiting: Vec::new(),
            pending: Vec::new(),
            stopped: false,
            lost,
        };
        Table { state: Mutex::new(state), changed: Condvar::new(), version: AtomicU64::new(0), worker }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TableState<B>> {
        self.state.lock()
    }

    pub(crate) fn worker(&self) -> &str {
        &self.worker
    }

    /// Makes a change that readers may wait for; `wakes` says which of them. Gives back what is to be dropped or said
    /// once the lock is free.
    fn change<R>(
        &self,
        f: impl FnOnce(&mut TableState<B>) -> R,
        wakes: impl Fn(&TableState<B>, Awaited) -> bool,
    ) -> (R, Vec<Answer<B>>) {
        let mut state = self.state.lock();
        let result = f(&mut state);
        let mut sleepers = std::mem::take(&mut state.waiting);
        let mut wake = false;
        for sleeper in sleepers.iter_mut().filter(|sleeper| wakes(&state, sleeper.awaited)) {
            sleeper.waiting = None;
            wake = true;
        }
        state.waiting = sleepers;
        let answers = match state.pending.is_empty() {
            true => Vec::new(),
            false => state.settle(wakes, &self.worker),
        };
        drop(state);
        self.version.fetch_add(1, Release);
        if wake {
            self.changed.notify_all();
        }
        (result, answers)
    }

    /// Puts a value in; gives back the answers that waited for it.
    #[must_use = "readers wait for their answers"]
    pub(crate) fn insert(&self, id: TensorId, entry: Entry<B>) -> Vec<Answer<B>> {
        let is_it = |_: &TableState<B>, awaited| matches!(awaited, Awaited::Value(wanted, _) if wanted == id);
        let put = |state: &mut TableState<B>| match state.stopped {
            true => Some(entry),
            false => state.entries.insert(id, entry),
        };
        let (old, answers) = self.change(put, is_it);
        drop(old);
        answers
    }

    /// Keeps the failure of a skipped write for the next reader. The same failure again adds nothing: a loop that
    /// fails in every step is one error.
    pub(crate) fn skipped(&self, failure: Arc<Failure>) {
        let mut state = self.state.lock();
        let seen = state.raised.iter().any(|(raised, sent)| *raised == failure && state.done < *sent);
        if !seen && !state.skipped.contains(&failure) {
            state.skipped.push(failure);
        }
    }

    /// Forgets values; gives back what is to be dropped.
    #[must_use = "buffers are dropped outside the lock"]
    pub(crate) fn forget(&self, ids: &[TensorId]) -> Vec<Entry<B>> {
        if ids.is_empty() {
            return Vec::new();
        }
        let mut state = self.state.lock();
        ids.iter().filter_map(|&id| state.entries.remove(&id)).collect()
    }

    /// One more message is finished; how many are now, unless nobody is left to hear it.
    #[must_use = "readers wait for their answers"]
    pub(crate) fn finish(&self) -> (Option<u64>, Vec<Answer<B>>) {
        let advance = |state: &mut TableState<B>| {
            state.done += 1;
            let done = state.done;
            state.raised.retain(|(_, sent)| *sent > done);
            (!state.stopped).then_some(done)
        };
        let reached = |state: &TableState<B>, awaited| match awaited {
            Awaited::Value(_, sent) | Awaited::Done(sent) => state.done >= sent,
        };
        self.change(advance, reached)
    }

    /// Drops everything and sends readers home.
    #[must_use = "readers wait for their answers"]
    pub(crate) fn stop(&self) -> Vec<Answer<B>> {
        let end = |state: &mut TableState<B>| {
            state.stopped = true;
            (std::mem::take(&mut state.entries), std::mem::take(&mut state.skipped))
        };
        let (dropped, answers) = self.change(end, |_, _| true);
        drop(dropped);
        answers
    }

    /// The names of all values, ascending.
    pub(crate) fn ids(&self) -> Vec<TensorId> {
        let mut ids: Vec<TensorId> = self.state.lock().entries.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Messages finished.
    pub(crate) fn done(&self) -> u64 {
        self.state.lock().done
    }
}
