//! Values on their way to other workers: one thread and one connection for each session that values go to (`route.rs`), made when the
//! first one goes.
//!
//! COURIER-1: a value gets there once, whatever connections break (ROUTE-2, TAKEN-1), unless its worker cannot be reached: then the
//! session's client hears of it, and says what that means.
//! COURIER-2: to a worker that was given up nothing goes any more, also what is computed only afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use gt_net::Reach;
use parking_lot::Mutex;

use super::arrivals::Origin;
use super::parcel::Parcel;
use super::route::{Route, Way};

/// The session that values are of, the worker they go to, and the epoch of the one they come from.
type RouteKey = (u64, u32, u64, u64);

fn key(way: &Way) -> RouteKey {
    (way.session, way.to.number, way.to.epoch, way.own.epoch)
}

/// How many routes a session may have to one worker: each has a thread. More are made only by a client that renames its workers again
/// and again; then the oldest ends.
const MOST_ROUTES_TO_ONE: usize = 4;

#[derive(Default)]
struct Routes {
    open: BTreeMap<RouteKey, (Arc<Route>, JoinHandle<()>)>,
    /// The workers that sessions have given up, by number: up to which epoch.
    given_up: BTreeMap<(u64, u32), u64>,
}

/// A worker that a session has a value for and that cannot be reached.
pub(super) struct OutOfReach {
    pub(super) session: u64,
    pub(super) worker: Origin,
    pub(super) reason: String,
}

/// All ways to other workers.
pub(super) struct Couriers {
    /// Until all is over.
    reach: Mutex<Option<Reach>>,
    routes: Mutex<Routes>,
    /// Those that are not needed any more and have not ended yet.
    leaving: Mutex<Vec<JoinHandle<()>>>,
    out_of_reach: Arc<Mutex<Vec<OutOfReach>>>,
    most_bytes: usize,
    patience: Duration,
}

impl Couriers {
    pub(super) fn new(reach: Reach, most_bytes: usize, patience: Duration) -> Self {
        Couriers {
            reach: Mutex::new(Some(reach)),
            routes: Mutex::default(),
            leaving: Mutex::default(),
            out_of_reach: Arc::default(),
            most_bytes,
            patience,
        }
    }

    /// Has a connection made: the first value will not wait for it.
    pub(super) fn prepare(&self, way: &Way) {
        self.route(way);
    }

    /// Sends a value. Never waits.
    pub(super) fn send(&self, way: &Way, parcel: Parcel) {
        if let Some(route) = self.route(way) {
            route.send(parcel);
        }
    }

    /// The route, made if need be; none when nothing goes there any more.
    fn route(&self, way: &Way) -> Option<Arc<Route>> {
        let reach = self.reach.lock().clone()?;
        let mut routes = self.routes.lock();
        if let Some((route, _)) = routes.open.get(&key(way)) {
            return Some(route.clone());
        }
        if routes.given_up.get(&(way.session, way.to.number)).is_some_and(|&epoch| way.to.epoch <= epoch) {
            return None;
        }
        let is_there = |(_, (route, _)): &(&RouteKey, &(Arc<Route>, JoinHandle<()>))| {
            let open = route.way();
            open.session == way.session && open.to.worker.index == way.to.worker.index
        };
        let there: Vec<RouteKey> = routes.open.iter().filter(is_there).map(|(key, _)| *key).collect();
        // Keys are ordered by number and epoch.
        if there.len() >= MOST_ROUTES_TO_ONE
            && let Some((oldest, thread)) = there.first().and_then(|key| routes.open.remove(key))
        {
            oldest.stop();
            self.leave(thread);
        }
        let route = Arc::new(Route::new(way.clone(), self.most_bytes));
        let (of_thread, out_of_reach, patience) = (route.clone(), self.out_of_reach.clone(), self.patience);
        let (session, worker) = (way.session, way.origin_of_peer());
        let spawned = std::thread::Builder::new().name("gt-courier".to_string()).spawn(move || {
            if let Some(reason) = of_thread.run(&reach, patience) {
                out_of_reach.lock().push(OutOfReach { session, worker, reason });
            }
        });
        match spawned {
            Ok(thread) => {
                routes.open.insert(key(way), (route.clone(), thread));
                Some(route)
            }
            Err(error) => {
                let reason = format!("cannot start a thread to send values: {error}");
                self.out_of_reach.lock().push(OutOfReach { session, worker, reason });
                None
            }
        }
    }

    /// Gives up what goes from a session to a worker, or to all.
    pub(super) fn forget(&self, session: u64, to: Option<Origin>) {
        let goes = |&(of, number, epoch, _): &RouteKey| {
            of == session && to.is_none_or(|to| number == to.number && epoch <= to.epoch)
        };
        let mut routes = self.routes.lock();
        match to {
            Some(to) => _ = routes.given_up.insert((session, to.number), to.epoch),
            None => routes.given_up.retain(|(of, _), _| *of != session),
        }
        let keys: Vec<RouteKey> = routes.open.keys().copied().filter(goes).collect();
        for (route, thread) in keys.iter().filter_map(|key| routes.open.remove(key)) {
            route.stop();
            self.leave(thread);
        }
    }

    /// A thread has been told to end.
    fn leave(&self, thread: JoinHandle<()>) {
        let mut leaving = self.leaving.lock();
        leaving.retain(|thread| !thread.is_finished());
        leaving.push(thread);
    }

    /// Whom sessions have found to be out of reach since this was last asked.
    pub(super) fn take_out_of_reach(&self) -> Vec<OutOfReach> {
        std::mem::take(&mut *self.out_of_reach.lock())
    }

    /// Ends all threads; what is on its way is given up.
    pub(super) fn stop(&self) {
        let reach = self.reach.lock().take();
        let sessions: Vec<u64> = self.routes.lock().open.keys().map(|(session, ..)| *session).collect();
        sessions.into_iter().for_each(|session| self.forget(session, None));
        let leaving = std::mem::take(&mut *self.leaving.lock());
        leaving.into_iter().for_each(|thread| _ = thread.join());
        drop(reach);
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::{Failure, FailureKind, TensorId};
    use gt_net::protocol::{Peer, WorkerInfo};
    use gt_net::{Io, host_id};

    use super::*;

    fn couriers(io: &Io) -> Couriers {
        let reach = Reach { io: io.clone(), host: host_id(), encrypted: false, server: Vec::new(), silence: None };
        Couriers::new(reach, 1 << 20, Duration::from_secs(30))
    }

    fn way(epoch: u64) -> Way {
        let worker = WorkerInfo {
            index: 1,
            id: "worker_1".to_string(),
            unix: None,
            tcp: None,
            fingerprint: None,
            host: "elsewhere".to_string(),
            engine: String::new(),
            threads: 1,
            memory_limit: 0,
            seal: Box::default(),
        };
        let to = Arc::new(Peer { number: 1, epoch, worker, session: 7, key: Box::from([1, 2]) });
        Way { session: 3, own: Origin { number: 0, epoch: 1 }, to }
    }

    fn parcel() -> Parcel {
        Parcel { name: TensorId(1), value: Err(Failure::new(FailureKind::Internal, "a failure is a value too")) }
    }

    #[test]
    fn a_session_had_as_many_threads_as_it_gave_names_to_a_worker() {
        let io = Io::start("test").unwrap();
        let couriers = couriers(&io);
        (1..100).for_each(|epoch| couriers.prepare(&way(epoch)));
        assert_eq!(couriers.routes.lock().open.len(), MOST_ROUTES_TO_ONE);
        assert!(couriers.routes.lock().open.keys().all(|(_, _, epoch, _)| *epoch > 95), "the newest stay");
        couriers.stop();
    }

    /// It was looked for in vain, and the session that had the value was ended for it.
    #[test]
    fn a_value_computed_after_its_worker_was_given_up_was_sent_all_the_same() {
        let io = Io::start("test").unwrap();
        let couriers = couriers(&io);
        couriers.forget(3, Some(Origin { number: 1, epoch: 5 }));
        couriers.send(&way(5), parcel());
        assert!(couriers.routes.lock().open.is_empty());
        couriers.send(&way(6), parcel());
        assert_eq!(couriers.routes.lock().open.len(), 1, "the next worker of that number is another one");
        couriers.stop();
    }
}
