//! Loaders on workers: batches that are made where they are used, so that none of their numbers pass by here.
//!
//! LOADING-1: a batch is bound behind the window that defines its values. So whatever a lost worker takes with it, a window that
//! runs is followed by the payloads it waits for, or by word that they are gone.
//! LOADING-2: questions are asked ahead, as many as batches may be made ahead. Their answers wait here, and the next batch
//! costs no round trip unless the worker is behind.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gt_ir::{Failure, TensorId};
use gt_net::protocol::StreamMessage;
use gt_stream::Occurrence;
use parking_lot::Mutex;

use super::state::Answer;
use super::{Remote, Shared};
use gt_client::link::{AnnouncedBatch, WaitError, WorkerLoader};
use gt_client::session::is_forked;

/// Which tensor of which batch a value is.
#[derive(Clone, Copy)]
struct Bound {
    loader: u64,
    batch: u64,
    tensor: u32,
}

/// Values that will be defined by windows, and what they are bound to (LOADING-1).
#[derive(Default)]
pub(super) struct Binds {
    waiting: HashMap<TensorId, Bound>,
}

/// What is said of one batch.
type OfBatch = BTreeMap<(u64, u64), Vec<(u32, TensorId)>>;

impl Binds {
    /// The values of a window that are bound. Those that no longer wait are taken out by [`Binds::take`].
    fn of<'a>(&'a self, window: &'a Occurrence) -> impl Iterator<Item = TensorId> + 'a {
        window.uploads().map(|(_, id)| id).filter(|id| self.waiting.contains_key(id))
    }

    fn take(&mut self, ids: impl IntoIterator<Item = TensorId>) -> OfBatch {
        let mut found = OfBatch::new();
        for id in ids {
            if let Some(Bound { loader, batch, tensor }) = self.waiting.remove(&id) {
                found.entry((loader, batch)).or_default().push((tensor, id));
            }
        }
        found
    }
}

impl Shared {
    /// The values of a window that a loader gives.
    pub(super) fn loaded_in(&self, window: &Occurrence) -> Vec<TensorId> {
        let binds = self.binds.lock();
        if binds.waiting.is_empty() {
            return Vec::new();
        }
        binds.of(window).collect()
    }

    /// The window that defines these values is in the stream.
    pub(super) fn bind(&self, ids: Vec<TensorId>) {
        if ids.is_empty() {
            return;
        }
        let of_batches = self.binds.lock().take(ids);
        for ((loader, batch), values) in of_batches {
            // A session that has ended says so to whoever waits for it.
            let _ = self.post(&StreamMessage::Bind { loader, batch, values });
        }
    }

    /// These values are not defined: nobody wants what is left of their batches.
    pub(super) fn unbind(&self, ids: &[TensorId]) {
        let of_batches = self.binds.lock().take(ids.iter().copied());
        for (loader, batch) in of_batches.into_keys() {
            let _ = self.post(&StreamMessage::Bind { loader, batch, values: Vec::new() });
        }
    }
}

impl Remote {
    /// Opens a loader on the worker that the session lives on; so many batches are made ahead.
    pub(super) fn load_here(&self, description: &[u8], ahead: usize) -> Result<RemoteLoader, WaitError> {
        let shared = self.shared.clone();
        let (loader, losses) = {
            let mut state = shared.state.lock();
            state.loaders += 1;
            (state.loaders, state.losses)
        };
        shared.post(&StreamMessage::OpenLoader { loader, description })?;
        let asked = Mutex::default();
        let opened = RemoteLoader { shared, loader, losses, asked };
        for _ in 0..ahead.max(1) {
            opened.ask()?;
        }
        Ok(opened)
    }
}

#[derive(Default)]
struct Asked {
    requests: VecDeque<u64>,
    taken: u64,
}

/// A loader on a worker.
pub(super) struct RemoteLoader {
    shared: Arc<Shared>,
    loader: u64,
    /// How many workers the session had lost when it was opened: with the next one it is gone.
    losses: u64,
    asked: Mutex<Asked>,
}

impl RemoteLoader {
    fn ask(&self) -> Result<(), WaitError> {
        let request = self.shared.state.lock().expect_answer();
        self.asked.lock().requests.push_back(request);
        self.shared.post(&StreamMessage::Announce { loader: self.loader, request })
    }

    /// Why it is gone, if it is.
    fn lost(&self) -> Option<Failure> {
        let state = self.shared.state.lock();
        state.last_loss.clone().filter(|_| state.losses != self.losses)
    }
}

impl WorkerLoader for RemoteLoader {
    fn next(&self, cancel: &dyn Fn() -> bool) -> Result<AnnouncedBatch, WaitError> {
        let Some(request) = self.asked.lock().requests.front().copied() else {
            return Err(WaitError::Failed(self.lost().unwrap_or_else(super::state::closed)));
        };
        self.shared.state.lock().batch_waiters += 1;
        let answer = self.shared.wait(cancel, |state| match state.losses == self.losses {
            true => state.take_answer(request).map(Ok),
            // What it announced went with it.
            false => Some(Err(WaitError::Failed(state.last_loss.clone().unwrap_or_else(super::state::closed)))),
        });
        self.shared.state.lock().batch_waiters -= 1;
        if let Err(WaitError::Interrupted) = answer {
            // It is asked for again: the answer is still to come.
            return Err(WaitError::Interrupted);
        }
        let batch = {
            let mut asked = self.asked.lock();
            asked.requests.pop_front();
            asked.taken += 1;
            asked.taken - 1
        };
        self.shared.state.lock().forget_answer(request);
        match answer? {
            Answer::Batch { types, note } => {
                self.ask()?;
                Ok(AnnouncedBatch { batch, types, notes: vec![note] })
            }
            Answer::Failed(failure) => Err(WaitError::Failed(failure)),
            other => Err(other.unexpected()),
        }
    }

    fn bind(&self, batch: &AnnouncedBatch, values: &[TensorId]) {
        let (loader, batch) = (self.loader, batch.batch);
        let mut binds = self.shared.binds.lock();
        for (tensor, &id) in (0u32..).zip(values) {
            binds.waiting.insert(id, Bound { loader, batch, tensor });
        }
    }

    fn unbind(&self, values: &[TensorId]) {
        let mut binds = self.shared.binds.lock();
        values.iter().for_each(|id| _ = binds.waiting.remove(id));
    }

    fn drop_batch(&self, batch: u64) {
        let _ = self.shared.post(&StreamMessage::Bind { loader: self.loader, batch, values: Vec::new() });
    }

    fn worker(&self, _: usize) -> String {
        self.shared.state.lock().home.as_ref().map(|home| home.id.clone()).unwrap_or_default()
    }
}

impl Drop for RemoteLoader {
    fn drop(&mut self) {
        // A forked child has a copy of the connections; the loader is its parent's.
        if is_forked() {
            return;
        }
        let asked = self.asked.get_mut();
        let mut state = self.shared.state.lock();
        asked.requests.iter().for_each(|request| state.forget_answer(*request));
        let taken = asked.taken;
        drop(state);
        let _ = self.shared.post(&StreamMessage::CloseLoader { loader: self.loader, taken });
    }
}
