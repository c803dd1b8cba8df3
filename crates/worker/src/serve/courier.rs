//! Values on their way to other workers: one thread and one connection for each session that values go to, made when the first
//! one goes.
//!
//! COURIER-1: a value that could not be delivered is tried again on a new connection, until patience ends; then the session
//! that it is of cannot go on.
//! COURIER-2: what waits for one worker is bounded; a value beyond goes as a failure, so that nobody waits for it for ever.
//! COURIER-3: a small value leaves at once, by whoever has it, if there is a connection: waking a thread takes longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver as Parcels, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gt_ir::{Failure, FailureKind, TensorId};
use gt_net::protocol::{DataRequest, Peer, encode};
use gt_net::{Connection, NetError, Reach};
use parking_lot::Mutex;

use super::arrivals::Origin;
use super::handshake;
use crate::Departing;

/// The pause between attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// Values up to this size travel in the head.
const IN_HEAD_BYTES: usize = 64 << 10;

/// A value with its name, or why there is none.
pub(super) struct Parcel {
    pub(super) name: TensorId,
    pub(super) value: Result<Departing, Failure>,
}

impl Parcel {
    fn len_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |departing| departing.ty().bytes())
    }

    fn is_small(&self) -> bool {
        self.len_bytes() <= IN_HEAD_BYTES
    }

    fn send(&self, connection: &Connection, cancel: &dyn Fn() -> bool) -> Result<(), NetError> {
        let id = self.name;
        let transfer = |value, bytes| encode(&DataRequest::Transfer { id, value, bytes });
        let found = self.value.as_ref().map_err(Failure::clone).and_then(|value| Ok((value.ty(), value.bytes()?)));
        match found {
            Ok((ty, bytes)) if self.is_small() => connection.send(&transfer(Ok(ty), Some(&bytes))),
            Ok((ty, bytes)) => connection.write_body(&transfer(Ok(ty), None), &bytes, cancel),
            Err(failure) => connection.send(&transfer(Err(failure), None)),
        }
    }
}

/// Whose values, and to whom they go.
#[derive(Clone)]
pub(super) struct Way {
    /// The session that they are of.
    pub(super) session: u64,
    /// Its worker.
    pub(super) own: Origin,
    /// The session that they are for.
    pub(super) to: Arc<Peer>,
}

impl Way {
    fn key(&self) -> RouteKey {
        (self.session, self.to.number, self.to.epoch)
    }
}

/// The session that values are of, and the number and epoch of the worker they go to.
type RouteKey = (u64, u32, u64);

/// What a courier and those who give it something share.
#[derive(Default)]
struct Shared {
    connection: Mutex<Option<Connection>>,
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
    stopping: AtomicBool,
}

struct Route {
    parcels: Sender<Parcel>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// All ways to other workers.
pub(super) struct Couriers {
    /// Until all is over.
    reach: Mutex<Option<Reach>>,
    routes: Mutex<BTreeMap<RouteKey, Route>>,
    /// Those that are not needed any more and have not ended yet.
    leaving: Mutex<Vec<JoinHandle<()>>>,
    /// Sessions with a value that could not be delivered, and why.
    undelivered: Arc<Mutex<Vec<(u64, String)>>>,
    most_bytes: usize,
    patience: Duration,
}

impl Couriers {
    pub(super) fn new(reach: Reach, most_bytes: usize, patience: Duration) -> Self {
        Couriers {
            reach: Mutex::new(Some(reach)),
            routes: Mutex::default(),
            leaving: Mutex::default(),
            undelivered: Arc::default(),
            most_bytes,
            patience,
        }
    }

    /// Has a connection made: the first value will not wait for it.
    pub(super) fn prepare(&self, way: &Way) {
        let Some(reach) = self.reach.lock().clone() else { return };
        self.route(&mut self.routes.lock(), reach, way);
    }

    /// Sends a value. Never waits.
    pub(super) fn send(&self, way: &Way, mut parcel: Parcel) {
        let Some(reach) = self.reach.lock().clone() else { return };
        let mut routes = self.routes.lock();
        self.route(&mut routes, reach, way);
        let Some(route) = routes.get(&way.key()) else { return };
        let shared = &route.shared;
        let waiting_bytes = shared.waiting_bytes.load(Relaxed);
        if waiting_bytes > 0 && waiting_bytes.saturating_add(parcel.len_bytes()) > self.most_bytes {
            let message =
                format!("{} was not moved to {}: too much is on its way there", parcel.name, way.to.worker.id);
            parcel.value = Err(Failure::new(FailureKind::Memory, message));
        }
        // COURIER-3. What waits goes first: it has waited long enough.
        if parcel.is_small() && shared.waiting.load(Acquire) == 0 {
            let connection = shared.connection.lock().clone();
            if connection.is_some_and(|connection| parcel.send(&connection, &|| false).is_ok()) {
                return;
            }
        }
        shared.waiting.fetch_add(1, AcqRel);
        shared.waiting_bytes.fetch_add(parcel.len_bytes(), Relaxed);
        // One that ends before its time leaves word in `undelivered`.
        let _ = route.parcels.send(parcel);
    }

    /// Sees to it that there is a courier.
    fn route(&self, routes: &mut BTreeMap<RouteKey, Route>, reach: Reach, way: &Way) {
        if routes.contains_key(&way.key()) {
            return;
        }
        let (parcels, taken) = channel();
        let shared = Arc::new(Shared::default());
        let courier = Courier {
            reach,
            way: way.clone(),
            patience: self.patience,
            shared: shared.clone(),
            undelivered: self.undelivered.clone(),
        };
        let spawned = std::thread::Builder::new().name("gt-courier".to_string()).spawn(move || courier.run(&taken));
        match spawned {
            Ok(thread) => _ = routes.insert(way.key(), Route { parcels, shared, thread }),
            Err(error) => {
                self.undelivered.lock().push((way.session, format!("no thread to send values with: {error}")))
            }
        }
    }

    /// Gives up what goes from a session to a worker, or to all.
    pub(super) fn forget(&self, session: u64, to: Option<Origin>) {
        let goes = |&(of, number, epoch): &RouteKey| {
            of == session && to.is_none_or(|to| number == to.number && epoch <= to.epoch)
        };
        let mut routes = self.routes.lock();
        let keys: Vec<RouteKey> = routes.keys().copied().filter(goes).collect();
        let mut leaving = self.leaving.lock();
        leaving.retain(|thread| !thread.is_finished());
        for Route { parcels, shared, thread } in keys.iter().filter_map(|key| routes.remove(key)) {
            shared.stopping.store(true, Release);
            drop(parcels);
            leaving.push(thread);
        }
    }

    /// Sessions that cannot go on, and why.
    pub(super) fn take_undelivered(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *self.undelivered.lock())
    }

    /// Ends all threads; what is on its way is given up.
    pub(super) fn stop(&self) {
        let reach = self.reach.lock().take();
        let sessions: Vec<u64> = self.routes.lock().keys().map(|(session, ..)| *session).collect();
        sessions.into_iter().for_each(|session| self.forget(session, None));
        let leaving = std::mem::take(&mut *self.leaving.lock());
        leaving.into_iter().for_each(|thread| _ = thread.join());
        drop(reach);
    }
}

/// The way to one worker.
struct Courier {
    reach: Reach,
    way: Way,
    patience: Duration,
    shared: Arc<Shared>,
    undelivered: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Courier {
    fn run(self, parcels: &Parcels<Parcel>) {
        // Before the first value: it may be there when that comes.
        let _ = self.connect();
        while let Ok(parcel) = parcels.recv() {
            let since = Instant::now();
            while let Err(error) = self.deliver(&parcel) {
                *self.shared.connection.lock() = None;
                if self.is_stopping() {
                    return;
                }
                let never = matches!(error, NetError::NoWay { .. });
                if never || since.elapsed() > self.patience {
                    let reason = format!("a value could not be moved to {}: {error}", self.way.to.worker.id);
                    return self.undelivered.lock().push((self.way.session, reason));
                }
                std::thread::sleep(AGAIN);
            }
            self.shared.waiting_bytes.fetch_sub(parcel.len_bytes(), Relaxed);
            self.shared.waiting.fetch_sub(1, AcqRel);
        }
        if let Some(connection) = self.shared.connection.lock().take() {
            connection.close();
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Acquire)
    }

    fn deliver(&self, parcel: &Parcel) -> Result<(), NetError> {
        let open = self.shared.connection.lock().clone().filter(Connection::is_open);
        let connection = open.map_or_else(|| self.connect(), Ok)?;
        parcel.send(&connection, &|| self.is_stopping())
    }

    fn connect(&self) -> Result<Connection, NetError> {
        let connection = handshake::attach(&self.reach, &self.way, &|| self.is_stopping())?;
        *self.shared.connection.lock() = Some(connection.clone());
        Ok(connection)
    }
}
