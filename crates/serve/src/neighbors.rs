//! The services of this process: a value that goes from one of them to another stays where it is.
//!
//! NEIGHBOR-1: a session is found with its key for other workers, as everywhere (SERVE-5).
//! NEIGHBOR-2: nothing is kept alive by being known here; who ends is not found any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use gt_net::protocol::{Peer, WorkerInfo};
use parking_lot::Mutex;

use super::host::Host;
use super::hosted::Hosted;

/// A service's host and socket, and the process that it lives in: no other service of any host has the same.
type Place = (String, String, u32);

static HOSTS: Mutex<BTreeMap<Place, Weak<Host>>> = Mutex::new(BTreeMap::new());

fn place(worker: &WorkerInfo) -> Option<Place> {
    // A fork has what its parent knew here, and none of its threads.
    Some((worker.host.clone(), worker.unix.clone()?, std::process::id()))
}

/// A service that others of its process know, until this is dropped.
pub(super) struct Neighbor(Option<Place>);

impl Neighbor {
    /// Makes a service known.
    pub(super) fn new(info: &WorkerInfo, host: &Arc<Host>) -> Self {
        let place = place(info);
        if let Some(place) = &place {
            HOSTS.lock().insert(place.clone(), Arc::downgrade(host));
        }
        Neighbor(place)
    }
}

impl Drop for Neighbor {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            HOSTS.lock().remove(place);
        }
    }
}

/// The service of a worker, if it is of this process.
fn host(worker: &WorkerInfo) -> Option<Arc<Host>> {
    let place = place(worker)?;
    HOSTS.lock().get(&place)?.upgrade()
}

/// Whether a worker is of this process.
pub(super) fn is_one(worker: &WorkerInfo) -> bool {
    host(worker).is_some()
}

/// A session that lives in this process and lets in those who have this key. One that is not open yet is not found.
pub(super) fn find(to: &Peer) -> Option<Arc<Hosted>> {
    host(&to.worker)?.session(to.session).filter(|hosted| hosted.keys().peer.matches(&to.key))
}
