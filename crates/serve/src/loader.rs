//! Batches that are made here, of files: one loader of one session, on a thread of its own.
//!
//! SERVED-LOADER-1: no more batches are made ahead than were asked for. Every question is answered once, in order.
//! SERVED-LOADER-2: a batch that was announced stays until its tensors have been bound, or nobody wants it.
//! SERVED-LOADER-3: a loader that was closed lets go of its thread and its files soon, and is waited for by nobody. Until then it counts:
//!           its [`Running`] is dropped when its thread ends.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gt_ir::{Bytes, Failure, FailureKind, TensorId, TensorType};
use gt_net::protocol::ReadAnswer;
use parking_lot::{Condvar, Mutex};

use super::outlet::Outlet;
use gt_worker::SessionMemory;

/// A batch, or why there is none.
#[derive(Clone, Debug, Default)]
pub struct MadeBatch {
    /// Its tensors.
    pub tensors: Vec<(TensorType, Bytes)>,
    /// What the client is told beside their types.
    pub note: Bytes,
}

/// Makes the batches of a loader. At the end, and after a failure, it says the same again.
pub trait BatchMaker: Send {
    /// The next batch. Waits for files; gives up soon after `ended` says that nobody wants it.
    fn next(&mut self, ended: &dyn Fn() -> bool) -> MadeBatch;
}

/// Opens the loaders of a session.
pub trait Loading: Send + Sync {
    /// Opens what a client describes. What is wrong with it is told instead of the first batch.
    fn open(&self, description: &[u8]) -> Box<dyn BatchMaker>;
}

/// Who opens the loaders of each new session: its memory is counted there, and the client may be the worker's own user.
pub type LoadingOf = Arc<dyn Fn(SessionMemory, bool) -> Arc<dyn Loading> + Send + Sync>;

/// Counts the loaders of a session whose threads have not ended. Each has a clone.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<()>);

impl Running {
    /// How many there are beside this one.
    pub(super) fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

#[derive(Default)]
struct State {
    requests: VecDeque<u64>,
    made: u64,
    /// Tensors that were announced and not bound.
    held: BTreeMap<u64, Vec<Option<Bytes>>>,
    ended: bool,
    /// It makes nothing any more, and this is what it says.
    failure: Option<Failure>,
}

/// One loader.
pub(super) struct Loader {
    state: Mutex<State>,
    /// There is something to make, or nothing will be.
    work: Condvar,
    outlet: Arc<Outlet>,
}

impl Loader {
    /// Begins to open what is described.
    pub(super) fn open(
        loading: Arc<dyn Loading>,
        description: Box<[u8]>,
        outlet: &Arc<Outlet>,
        running: Running,
    ) -> Arc<Loader> {
        let loader = Arc::new(Loader { state: Mutex::default(), work: Condvar::new(), outlet: outlet.clone() });
        let of_thread = loader.clone();
        let started = std::thread::Builder::new().name("gt-load".to_string()).spawn(move || {
            let _running = running;
            let made = catch_unwind(AssertUnwindSafe(|| of_thread.run(&*loading, &description)));
            if made.is_err() {
                of_thread.fail(Failure::new(FailureKind::Internal, "the loader panicked while it made a batch"));
            }
        });
        if let Err(error) = started {
            loader.fail(Failure::new(FailureKind::Memory, format!("cannot start a loader thread: {error}")));
        }
        loader
    }

    /// One that makes nothing.
    pub(super) fn refused(reason: &str, outlet: &Arc<Outlet>) -> Arc<Loader> {
        let failure = Some(Failure::new(FailureKind::Value, reason));
        let state = Mutex::new(State { failure, ..State::default() });
        Arc::new(Loader { state, work: Condvar::new(), outlet: outlet.clone() })
    }

    fn run(&self, loading: &dyn Loading, description: &[u8]) {
        let mut maker = loading.open(description);
        while let Some(request) = self.next_request() {
            let made = maker.next(&|| self.state.lock().ended);
            let types = made.tensors.iter().map(|(ty, _)| *ty).collect();
            let mut state = self.state.lock();
            if state.ended {
                return;
            }
            state.requests.pop_front();
            let number = state.made;
            state.made += 1;
            if !made.tensors.is_empty() {
                let tensors = made.tensors.into_iter().map(|(_, bytes)| Some(bytes)).collect();
                state.held.insert(number, tensors);
            }
            // Under the lock: answers come in the order of the questions (SERVED-LOADER-1).
            self.outlet.batch(request, types, made.note);
        }
    }

    /// Waits for the next question; none when there will be no more. It stays until it is answered: somebody else may have to.
    fn next_request(&self) -> Option<u64> {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(request) = state.requests.front() {
                return Some(*request);
            }
            self.work.wait(&mut state);
        }
    }

    fn fail(&self, failure: Failure) {
        let mut state = self.state.lock();
        for request in std::mem::take(&mut state.requests) {
            self.outlet.answer(request, ReadAnswer::Failed { failure: failure.clone() }, None);
        }
        state.failure = Some(failure);
    }

    /// The client wants to know of the next batch.
    pub(super) fn announce(&self, request: u64) {
        let mut state = self.state.lock();
        if let Some(failure) = state.failure.clone() {
            return self.outlet.answer(request, ReadAnswer::Failed { failure }, None);
        }
        state.requests.push_back(request);
        self.work.notify_one();
    }

    /// Takes tensors out of a batch: what is not there any more, or never was, is none.
    pub(super) fn bind(&self, batch: u64, values: &[(u32, TensorId)]) -> Vec<Option<Bytes>> {
        let mut state = self.state.lock();
        if values.is_empty() {
            state.held.remove(&batch);
            return Vec::new();
        }
        let Some(held) = state.held.get_mut(&batch) else { return vec![None; values.len()] };
        let found = values.iter().map(|(number, _)| held.get_mut(*number as usize).and_then(Option::take)).collect();
        if held.iter().all(Option::is_none) {
            state.held.remove(&batch);
        }
        found
    }

    /// Makes no more batches; those before `taken` are still to be bound (SERVED-LOADER-3).
    pub(super) fn close(&self, taken: u64) {
        let mut state = self.state.lock();
        state.ended = true;
        let unwanted = state.held.split_off(&taken);
        std::mem::take(&mut state.requests).iter().for_each(|_| self.outlet.cancel_owed());
        self.work.notify_all();
        drop(state);
        drop(unwanted);
    }

    /// How many questions and batches are kept.
    pub(super) fn records(&self) -> usize {
        let state = self.state.lock();
        state.requests.len() + state.held.len()
    }

    /// Whether nothing more will be asked of it.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state.lock();
        state.ended && state.held.is_empty()
    }
}
