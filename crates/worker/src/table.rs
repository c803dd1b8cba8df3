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
//! TABLE-3: a read that meets a poisoned value is answered once everything sent before the read is done, so that the error can
//! name the updates that were skipped for it (FAILURES-4).
//! TABLE-4: a read that has seen a pending value keeps it, so that a window which is sent after the read may free it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use gt_engine::{Buffer, Value, ValueState};
use gt_ir::{Failure, FailureKind, IdMap, SiteId, SkippedWrite, TensorId, TensorType};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::ReadError;
use crate::answers::{AllLeft, Answer};
use crate::failures::Failures;
use crate::waits::{Change, Sleeper};

/// One value.
#[derive(Clone)]
pub(crate) struct Entry<B> {
    pub(crate) value: Value<B>,
    /// Unknown for what a refused window was to define.
    pub(crate) ty: Option<TensorType>,
    /// The line that made it.
    pub(crate) site: SiteId,
}

impl<B: Buffer> Entry<B> {
    pub(crate) fn is_pending(&self) -> bool {
        self.value.as_ref().is_ok_and(|buffer| matches!(buffer.state(), ValueState::Pending))
    }
}

pub(crate) struct TableState<B> {
    entries: IdMap<Entry<B>>,
    pub(crate) done: u64,
    failures: Failures,
    /// What sleeping readers wait for: only they are woken, and only by that. A step publishes a hundred values while its
    /// loss is awaited.
    pub(crate) waiting: Vec<Sleeper>,
    /// What is to be done for readers that do not wait, in the order they asked.
    pub(crate) pending: AllLeft<B>,
    pub(crate) stopped: bool,
    /// Why, if it was the worker's fault.
    why: Option<Arc<Failure>>,
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

    /// The lines whose values hold most, with what they hold together, of values that count. What several share is that of the first.
    pub(crate) fn holders(&self, most: usize, counts: impl Fn(TensorId) -> bool) -> Vec<(u64, SiteId)> {
        let held = |(id, e): (&TensorId, &Entry<B>)| {
            let buffer = e.value.as_ref().ok().filter(|_| counts(*id))?;
            let len_bytes = buffer.bytes() as u64;
            (len_bytes > 0).then(|| (buffer.storage(), *id, len_bytes, e.site))
        };
        let mut all: Vec<_> = self.entries.iter().filter_map(held).collect();
        all.sort_unstable_by_key(|&(storage, id, ..)| (storage, id));
        all.dedup_by_key(|&mut (storage, ..)| storage);
        Failure::largest_holders(all.into_iter().map(|(.., bytes, site)| (bytes, site)), most)
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
    /// still come. One that `raises` tells its user of skipped writes. A pending value is kept in `held` until the next look, as
    /// a window sent after the read may free it.
    pub(crate) fn look_for(
        &mut self,
        id: TensorId,
        sent: u64,
        raises: bool,
        held: &mut Option<B>,
        worker: &str,
    ) -> Option<Result<B, ReadError>> {
        if self.stopped {
            return Some(Err(self.ended()));
        }
        let found = match held.take() {
            Some(buffer) => Some(Ok(buffer)),
            None => self.entries.get(&id).map(|entry| entry.value.clone()),
        };
        let value = match found {
            Some(Ok(buffer)) => match buffer.state() {
                ValueState::Ready => Ok(buffer),
                ValueState::Failed(failure) => {
                    *held = Some(buffer);
                    Err(failure)
                }
                ValueState::Pending => {
                    *held = Some(buffer);
                    return None;
                }
            },
            Some(Err(failure)) => Err(failure),
            None if self.done >= sent => Err(self.missing(id, worker)),
            None => return None,
        };
        match (value, raises) {
            (Ok(buffer), false) => Some(Ok(buffer)),
            (Ok(buffer), true) => Some(match self.failures.take_skipped(sent) {
                Some(failure) => Err(ReadError::Failed(failure)),
                None => Ok(buffer),
            }),
            (Err(failure), false) => Some(Err(ReadError::Failed(failure))),
            // TABLE-3.
            (Err(_), true) if self.done < sent => None,
            (Err(failure), true) => Some(Err(ReadError::Failed(self.failures.raise(failure, sent)))),
        }
    }

    /// Whether `sent` messages are finished, and the first failure that nobody has heard of.
    pub(crate) fn look_if_done(&mut self, sent: u64) -> Option<Result<(), ReadError>> {
        if self.stopped {
            return Some(Err(self.ended()));
        }
        (self.done >= sent).then(|| match self.failures.take_first(sent) {
            Some(failure) => Err(ReadError::Failed(failure)),
            None => Ok(()),
        })
    }

    /// What is said to everybody once the table is stopped.
    fn ended(&self) -> ReadError {
        self.why.clone().map_or(ReadError::Stopped, ReadError::Failed)
    }
}

impl<B: Buffer> Table<B> {
    pub(crate) fn new(worker: String, lost: Option<Arc<Failure>>) -> Self {
        let state = TableState {
            entries: IdMap::default(),
            done: 0,
            failures: Failures::default(),
            waiting: Vec::new(),
            pending: AllLeft::default(),
            stopped: false,
            why: None,
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

    /// Makes a change that readers may wait for. Gives back what is to be dropped or said once the lock is free.
    fn change<R>(&self, f: impl FnOnce(&mut TableState<B>) -> (R, Change)) -> (R, Vec<Answer<B>>) {
        let mut state = self.state.lock();
        let (result, change) = f(&mut state);
        let mut wake = false;
        for sleeper in state.waiting.iter_mut().filter(|sleeper| change.wakes(sleeper.awaited)) {
            sleeper.waiting = None;
            wake = true;
        }
        let answers = match state.pending.len() {
            0 => Vec::new(),
            _ => state.settle(change, &self.worker),
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
        let put = |state: &mut TableState<B>| {
            let old = if state.stopped { Some(entry) } else { state.entries.insert(id, entry) };
            (old, Change::Value(id))
        };
        let (old, answers) = self.change(put);
        drop(old);
        answers
    }

    /// A pending value is settled; gives back the answers that waited for it.
    #[must_use = "readers wait for their answers"]
    pub(crate) fn settled(&self, id: TensorId) -> Vec<Answer<B>> {
        self.change(|_| ((), Change::Value(id))).1
    }

    /// The message that runs now skipped an update because of a failure.
    pub(crate) fn skipped(&self, write: SkippedWrite, failure: &Arc<Failure>) {
        let state = &mut *self.state.lock();
        state.failures.skipped(write, failure, state.done);
    }

    /// An instruction of the message that runs now has failed.
    pub(crate) fn failed(&self, failure: &Arc<Failure>) {
        let state = &mut *self.state.lock();
        state.failures.failed(failure, state.done);
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
            ((!state.stopped || state.why.is_some()).then_some(done), Change::Done(done))
        };
        self.change(advance)
    }

    /// Drops everything and sends readers home, and tells them why if there is something to tell.
    #[must_use = "readers wait for their answers"]
    pub(crate) fn stop(&self, why: Option<Arc<Failure>>) -> Vec<Answer<B>> {
        let end = |state: &mut TableState<B>| {
            state.stopped = true;
            state.why = state.why.take().or(why);
            ((std::mem::take(&mut state.entries), std::mem::take(&mut state.failures)), Change::Stopped)
        };
        let (dropped, answers) = self.change(end);
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

    /// How many values and unanswered readers there are.
    pub(crate) fn records(&self) -> usize {
        let state = self.state.lock();
        state.entries.len() + state.pending.len()
    }

    /// Messages finished, while there may be more.
    pub(crate) fn passed(&self) -> Option<u64> {
        let state = self.state.lock();
        (!state.stopped).then_some(state.done)
    }

    /// Messages finished.
    pub(crate) fn done(&self) -> u64 {
        self.state.lock().done
    }
}
