//! The values a worker holds, by id.
//!
//! The device thread puts values in (engines do, through the sink) and takes them out; readers wait for them. One
//! lock; no buffer is copied or dropped while it is held.
//!
//! TABLE-1: only the device thread removes values, so one that it saw stays until it takes it.
//! TABLE-2: `done` counts messages whose work is finished, in order. A value that is missing once everything sent
//! before the read is done will never come, so no reader waits for ever.
//! TABLE-3: an error is raised once. Whoever reads a poisoned value has seen its failure, so writes that were skipped for
//! it, by messages sent before that read, are not reported again, whether they ran before the read or after it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

use gt_engine::{Buffer, Value};
use gt_ir::{Failure, FailureKind, HostTensor, SiteId, TensorId, TensorType};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::ReadError;
use crate::queue::{CANCEL_POLL, SPIN};

/// Ids are small numbers: one multiplication spreads them.
#[derive(Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b as u64));
    }
    fn write_u64(&mut self, n: u64) {
        let wide = (self.0 ^ n) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

type IdMap<V> = HashMap<TensorId, V, BuildHasherDefault<IdHasher>>;

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
    done: u64,
    /// Writes that were skipped and not yet reported.
    skipped: Vec<Arc<Failure>>,
    /// Failures that a read raised, each with the number of messages sent before that read.
    raised: Vec<(Arc<Failure>, u64)>,
    /// What sleeping readers wait for: only they are woken, and only by that. A step publishes a hundred values while its
    /// loss is awaited.
    waiting: Vec<Awaited>,
    stopped: bool,
}

/// What a reader waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// A value, or so many finished messages, after which it will never come.
    Value(TensorId, u64),
    /// So many finished messages.
    Done(u64),
}

pub(crate) struct Table<B> {
    state: Mutex<TableState<B>>,
    changed: Condvar,
    /// Raised with every change that a reader may wait for, so that it can watch without the lock.
    version: AtomicU64,
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
}

impl<B: Buffer> Table<B> {
    pub(crate) fn new() -> Self {
        let (skipped, raised) = (Vec::new(), Vec::new());
        let state =
            TableState { entries: IdMap::default(), done: 0, skipped, raised, waiting: Vec::new(), stopped: false };
        Table { state: Mutex::new(state), changed: Condvar::new(), version: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TableState<B>> {
        self.state.lock()
    }

    /// Makes a change that readers may wait for; `wakes` says which of them.
    fn change<R>(&self, f: impl FnOnce(&mut TableState<B>) -> R, wakes: impl Fn(&TableState<B>, Awaited) -> bool) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        let wake = state.waiting.iter().any(|&awaited| wakes(&state, awaited));
        drop(state);
        self.version.fetch_add(1, Release);
        if wake {
            self.changed.notify_all();
        }
        result
    }

    pub(crate) fn insert(&self, id: TensorId, entry: Entry<B>) {
        let is_it = |_: &TableState<B>, awaited| matches!(awaited, Awaited::Value(wanted, _) if wanted == id);
        let old = self.change(|state| state.entries.insert(id, entry), is_it);
        drop(old);
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

    /// One more message is finished.
    pub(crate) fn finish(&self) {
        let advance = |state: &mut TableState<B>| {
            state.done += 1;
            let done = state.done;
            state.raised.retain(|(_, sent)| *sent > done);
        };
        let reached = |state: &TableState<B>, awaited| match awaited {
            Awaited::Value(_, sent) | Awaited::Done(sent) => state.done >= sent,
        };
        self.change(advance, reached);
    }

    /// A read raises the failure of a poisoned value.
    fn raise(&self, failure: Arc<Failure>, sent: u64) -> ReadError {
        let mut state = self.state.lock();
        state.skipped.retain(|skipped| *skipped != failure);
        if state.done < sent {
            state.raised.push((failure.clone(), sent));
        }
        ReadError::Failed(failure)
    }

    /// Drops everything and sends readers home.
    pub(crate) fn stop(&self) {
        let end = |state: &mut TableState<B>| {
            state.stopped = true;
            std::mem::take(&mut state.entries)
        };
        let entries = self.change(end, |_, _| true);
        drop(entries);
    }

    /// Waits until `ready` gives something, the worker stops, or the caller gives up.
    fn wait<R>(
        &self,
        awaited: Awaited,
        cancel: &dyn Fn() -> bool,
        mut ready: impl FnMut(&mut TableState<B>) -> Option<R>,
    ) -> Result<R, ReadError> {
        let mut version = self.version.load(Acquire);
        let mut state = self.state.lock();
        let mut spin_until = None;
        loop {
            if let Some(result) = ready(&mut state) {
                return Ok(result);
            }
            if state.stopped {
                return Err(ReadError::Stopped);
            }
            // A value that is nearly there is worth a few microseconds: waking a thread costs more.
            let until = *spin_until.get_or_insert_with(|| Instant::now() + SPIN);
            if Instant::now() < until {
                drop(state);
                while self.version.load(Acquire) == version && Instant::now() < until {
                    std::hint::spin_loop();
                }
                version = self.version.load(Acquire);
                state = self.state.lock();
                continue;
            }
            state.waiting.push(awaited);
            let timed_out = self.changed.wait_for(&mut state, CANCEL_POLL).timed_out();
            if let Some(at) = state.waiting.iter().position(|a| *a == awaited) {
                state.waiting.swap_remove(at);
            }
            if timed_out {
                drop(state);
                if cancel() {
                    return Err(ReadError::Interrupted);
                }
                state = self.state.lock();
            }
        }
    }
}

/// What a handle needs of a table, whatever its buffers are.
pub(crate) trait Values: Send + Sync {
    /// The value of `id`, once it is there; copied on this thread. `sent` messages were sent before.
    fn read(&self, id: TensorId, sent: u64, worker: &str, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError>;
    /// Waits until `sent` messages are finished.
    fn wait_done(&self, sent: u64, cancel: &dyn Fn() -> bool) -> Result<(), ReadError>;
    /// The failure of a skipped write that nobody has seen.
    fn take_skipped(&self) -> Option<Arc<Failure>>;
    /// How many values there are.
    fn len(&self) -> usize;
    /// Messages finished.
    fn done(&self) -> u64;
}

impl<B: Buffer> Values for Table<B> {
    fn read(&self, id: TensorId, sent: u64, worker: &str, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError> {
        let value = self.wait(Awaited::Value(id, sent), cancel, |state| match state.entries.get(&id) {
            Some(entry) => Some(entry.value.clone()),
            None if state.done >= sent => {
                let mut failure = Failure::new(FailureKind::Internal, format!("tensor {id} does not exist"));
                failure.worker = worker.to_string();
                Some(Err(Arc::new(failure)))
            }
            None => None,
        })?;
        let buffer = match value {
            Ok(buffer) => buffer,
            Err(failure) => return Err(self.raise(failure, sent)),
        };
        if let Some(failure) = self.take_skipped() {
            return Err(ReadError::Failed(failure));
        }
        buffer.read().map_err(|mut failure| {
            failure.worker = worker.to_string();
            ReadError::Failed(Arc::new(failure))
        })
    }

    fn wait_done(&self, sent: u64, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        self.wait(Awaited::Done(sent), cancel, |state| (state.done >= sent).then_some(()))
    }

    fn take_skipped(&self) -> Option<Arc<Failure>> {
        let mut state = self.state.lock();
        (!state.skipped.is_empty()).then(|| state.skipped.remove(0))
    }

    fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    fn done(&self) -> u64 {
        self.state.lock().done
    }
}
