//! The loaders of one session, and the batches on their way to its values.
//!
//! LOADERS-1: payloads are supplied in the order they were bound. What the session has no room for waits: the windows that
//! name it are in the stream before it, so there will be room.
//! LOADERS-2: what is bound to a batch that is not here fails: its loader was on a worker that is gone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gt_ir::{Bytes, Failure, FailureKind, TensorId};
use gt_net::protocol::ReadAnswer;
use parking_lot::Mutex;

use super::loader::{Loader, Loading, LoadingOf, Running};
use super::outlet::Outlet;
use gt_worker::SessionHandle;

/// How many loaders a session may have, those that were closed and whose threads have not ended included.
const MOST_LOADERS: usize = 64;

/// What a client says to a loader.
pub(super) enum LoaderRequest {
    Open { loader: u64, description: Box<[u8]> },
    Announce { loader: u64, request: u64 },
    Bind { loader: u64, batch: u64, values: Vec<(u32, TensorId)> },
    Close { loader: u64, taken: u64 },
}

impl LoaderRequest {
    /// What it takes while it is kept.
    pub(super) fn len_bytes(&self) -> usize {
        match self {
            LoaderRequest::Open { description, .. } => description.len(),
            LoaderRequest::Bind { values, .. } => values.len() * size_of::<(u32, TensorId)>(),
            LoaderRequest::Announce { .. } | LoaderRequest::Close { .. } => 0,
        }
    }
}

#[derive(Default)]
struct State {
    open: BTreeMap<u64, Arc<Loader>>,
    /// Payloads for which there was no room yet.
    bound: VecDeque<(TensorId, Bytes)>,
    closed: bool,
}

pub(super) struct Loaders {
    loading: Option<Arc<dyn Loading>>,
    outlet: Arc<Outlet>,
    running: Running,
    state: Mutex<State>,
}

impl Loaders {
    pub(super) fn new(
        loading: Option<&LoadingOf>,
        outlet: &Arc<Outlet>,
        handle: &SessionHandle,
        same_user: bool,
    ) -> Loaders {
        let loading = loading.map(|of| of(handle.memory(), same_user));
        Loaders { loading, outlet: outlet.clone(), running: Running::default(), state: Mutex::default() }
    }

    /// Does what the client says.
    pub(super) fn take(&self, request: &LoaderRequest, handle: &SessionHandle) {
        let mut state = self.state.lock();
        match request {
            LoaderRequest::Open { loader, description } => {
                if !state.closed {
                    let opened = self.open(state.open.len(), description);
                    if let Some(old) = state.open.insert(*loader, opened) {
                        old.close(0);
                    }
                }
            }
            LoaderRequest::Announce { loader, request } => {
                self.outlet.owe();
                match state.open.get(loader) {
                    Some(loader) => loader.announce(*request),
                    None => self.outlet.answer(*request, ReadAnswer::Failed { failure: gone() }, None),
                }
            }
            LoaderRequest::Bind { loader, batch, values } => {
                let found = match state.open.get(loader) {
                    Some(loader) => loader.bind(*batch, values),
                    None => vec![None; values.len()],
                };
                for ((_, id), bytes) in values.iter().zip(found) {
                    match bytes {
                        Some(bytes) => state.bound.push_back((*id, bytes)),
                        None => handle.fail(*id, gone()),
                    }
                }
                state.forget_if_done(*loader);
                state.supply(handle);
            }
            LoaderRequest::Close { loader, taken } => {
                if let Some(loader) = state.open.get(loader) {
                    loader.close(*taken);
                }
                state.forget_if_done(*loader);
            }
        }
    }

    fn open(&self, already: usize, description: &[u8]) -> Arc<Loader> {
        match &self.loading {
            _ if already.max(self.running.others()) >= MOST_LOADERS => {
                let most =
                    format!("a session can have at most {MOST_LOADERS} loaders on its worker; close some of them");
                Loader::refused(&most, &self.outlet)
            }
            Some(loading) => Loader::open(loading.clone(), description.into(), &self.outlet, self.running.clone()),
            None => Loader::refused("this worker does not read files; set GT_DATA_ON_WORKERS=0", &self.outlet),
        }
    }

    /// How many questions, batches and payloads are kept.
    pub(super) fn records(&self) -> usize {
        let state = self.state.lock();
        state.bound.len() + state.open.values().map(|loader| 1 + loader.records()).sum::<usize>()
    }

    /// Tries again what had no room.
    pub(super) fn supply(&self, handle: &SessionHandle) {
        self.state.lock().supply(handle);
    }

    /// The session is over.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.bound.clear();
        std::mem::take(&mut state.open).values().for_each(|loader| loader.close(0));
    }
}

impl State {
    fn forget_if_done(&mut self, loader: u64) {
        if self.open.get(&loader).is_some_and(|loader| loader.is_done()) {
            self.open.remove(&loader);
        }
    }

    /// LOADERS-1.
    fn supply(&mut self, handle: &SessionHandle) {
        while let Some((id, bytes)) = self.bound.front() {
            if handle.supply_loaded(*id, bytes.clone()).is_err() {
                return;
            }
            self.bound.pop_front();
        }
    }
}

/// What becomes of values whose batch is not here.
fn gone() -> Failure {
    Failure::new(FailureKind::WorkerLost, "the worker that made the batch is lost")
}
