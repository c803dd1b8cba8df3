//! Values on their way to other workers: one thread and one connection for each of these, made when the first value goes.
//!
//! COURIER-1: a value that could not be delivered is tried again on a new connection, until patience ends.
//! COURIER-2: what waits for one worker is bounded; a value beyond goes as a failure, so that nobody waits for it for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver as Parcels, Sender, channel};
use std::time::{Duration, Instant};

use gt_ir::{Bytes, Failure, FailureKind};
use gt_net::protocol::{DataReply, DataRequest, WorkerInfo, decode, encode};
use gt_net::{Address, ClientTls, Connection, Fingerprint, Io, Limits, NetError, Receiver};
use parking_lot::{Condvar, Mutex};

use super::group::Group;

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pause between attempts.
const AGAIN: Duration = Duration::from_millis(100);

struct Parcel {
    head: Vec<u8>,
    bytes: Vec<u8>,
    generation: u64,
}

struct Route {
    parcels: Sender<Parcel>,
    waiting_bytes: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

/// All ways to other workers.
pub(super) struct Couriers {
    io: Mutex<Option<Io>>,
    routes: Mutex<BTreeMap<String, Route>>,
    most_bytes: usize,
    patience: Duration,
    host_id: String,
    stopping: Arc<AtomicBool>,
}

impl Couriers {
    pub(super) fn new(io: Io, most_bytes: usize, patience: Duration) -> Self {
        Couriers {
            io: Mutex::new(Some(io)),
            routes: Mutex::default(),
            most_bytes,
            patience,
            host_id: gt_net::host_id(),
            stopping: Arc::default(),
        }
    }

    /// Sends a transfer. Never waits.
    pub(super) fn send(
        &self,
        to: &WorkerInfo,
        group: &Arc<Group>,
        generation: u64,
        mut head: Vec<u8>,
        mut bytes: Vec<u8>,
    ) {
        let Some(io) = self.io.lock().clone() else { return };
        let mut routes = self.routes.lock();
        let key = format!("{} {:?} {:?}", to.id, to.unix, to.tcp);
        if !routes.contains_key(&key) {
            let (parcels, taken) = channel();
            let waiting_bytes = Arc::new(AtomicUsize::new(0));
            let courier = Courier {
                io,
                to: to.clone(),
                near: to.host == self.host_id,
                group: group.clone(),
                patience: self.patience,
                stopping: self.stopping.clone(),
                waiting_bytes: waiting_bytes.clone(),
                connection: None,
            };
            let spawned = std::thread::Builder::new().name("gt-courier".to_string()).spawn(move || courier.run(&taken));
            match spawned {
                Ok(thread) => routes.insert(key.clone(), Route { parcels, waiting_bytes, thread }),
                Err(error) => return eprintln!("gt worker: no thread to send values with: {error}"),
            };
        }
        let Some(route) = routes.get(&key) else { return };
        if route.waiting_bytes.load(Relaxed) > 0
            && route.waiting_bytes.load(Relaxed).saturating_add(bytes.len()) > self.most_bytes
            && let Ok(DataRequest::Transfer { session, id, generation, .. }) = decode(&head)
        {
            let message = format!("{id} was not moved to {}: too much is on its way there", to.id);
            let value = Err(Failure::new(FailureKind::Memory, message));
            head = encode(&DataRequest::Transfer { session, id, value, generation });
            bytes = Vec::new();
        }
        route.waiting_bytes.fetch_add(bytes.len(), Relaxed);
        // A courier ends only with the service.
        let _ = route.parcels.send(Parcel { head, bytes, generation });
    }

    /// Ends all threads; what is on its way is given up.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Release);
        let io = self.io.lock().take();
        let routes = std::mem::take(&mut *self.routes.lock());
        for Route { parcels, thread, .. } in routes.into_values() {
            drop(parcels);
            let _ = thread.join();
        }
        drop(io);
    }
}

/// What the other worker said.
#[derive(Default)]
enum Answer {
    #[default]
    Nothing,
    Attached,
    Refused(String),
}

#[derive(Default)]
struct Reply {
    answer: Mutex<Answer>,
    changed: Condvar,
}

struct FromPeer(Arc<Reply>);

impl FromPeer {
    fn set(&self, answer: Answer) {
        *self.0.answer.lock() = answer;
        self.0.changed.notify_all();
    }
}

impl Receiver for FromPeer {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        match decode::<DataReply<'_>>(head) {
            Ok(DataReply::Attached {}) => self.set(Answer::Attached),
            Ok(DataReply::Refused { reason }) => self.set(Answer::Refused(reason)),
            Ok(_) => {}
            Err(_) => from.close(),
        }
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        self.set(Answer::Refused(why.to_string()));
    }
}

/// The way to one worker.
struct Courier {
    io: Io,
    to: WorkerInfo,
    near: bool,
    group: Arc<Group>,
    patience: Duration,
    stopping: Arc<AtomicBool>,
    waiting_bytes: Arc<AtomicUsize>,
    connection: Option<Connection>,
}

impl Courier {
    fn run(mut self, parcels: &Parcels<Parcel>) {
        while let Ok(parcel) = parcels.recv() {
            let since = Instant::now();
            while let Err(error) = self.deliver(&parcel) {
                self.connection = None;
                if self.stopping.load(Acquire) {
                    return;
                }
                if since.elapsed() > self.patience {
                    eprintln!("gt worker: a value could not be moved to {}: {error}", self.to.id);
                    break;
                }
                std::thread::sleep(AGAIN);
            }
            self.waiting_bytes.fetch_sub(parcel.bytes.len(), Relaxed);
        }
        if let Some(connection) = self.connection {
            connection.close();
        }
    }

    fn deliver(&mut self, parcel: &Parcel) -> Result<(), NetError> {
        let connection = match self.connection.clone().filter(Connection::is_open) {
            Some(connection) => connection,
            None => self.connect(parcel.generation)?,
        };
        self.connection = Some(connection.clone());
        match parcel.bytes.is_empty() {
            true => connection.send(&parcel.head),
            false => connection.write_body(&parcel.head, &parcel.bytes, &|| self.stopping.load(Acquire)),
        }
    }

    fn connect(&self, generation: u64) -> Result<Connection, NetError> {
        let unreachable = |reason: String| NetError::Unreachable { address: self.to.id.clone(), reason };
        let stopping = || self.stopping.load(Acquire);
        let reply = Arc::new(Reply::default());
        let receiver = Box::new(FromPeer(reply.clone()));
        let (address, tls) = match (&self.to.unix, &self.to.tcp) {
            (Some(path), _) if self.near => (Address::Unix(path.into()), None),
            (_, Some(address)) => {
                let tls = match &self.to.fingerprint {
                    Some(text) => Some(ClientTls::pinned(String::from_utf8_lossy(text).parse::<Fingerprint>()?)?),
                    None => None,
                };
                (address.parse()?, tls)
            }
            _ => return Err(unreachable("it listens on its own host only".to_string())),
        };
        let connection = self.io.connect(&address, tls.as_ref(), Limits::default(), receiver, ATTEMPT, &stopping)?;
        let secret = self.group.peer_secret();
        let peer_secret = secret.as_ref().map_or(&[][..], |secret| secret.as_bytes());
        connection.send(&encode(&DataRequest::AttachPeer { peer_secret, generation }))?;
        let deadline = Instant::now() + ATTEMPT;
        let mut answer = reply.answer.lock();
        while let Answer::Nothing = *answer {
            if stopping() || reply.changed.wait_until(&mut answer, deadline).timed_out() {
                connection.close();
                return Err(unreachable("it did not answer".to_string()));
            }
        }
        match &*answer {
            Answer::Attached => Ok(connection),
            Answer::Refused(reason) => Err(unreachable(reason.clone())),
            Answer::Nothing => Err(unreachable("it did not answer".to_string())),
        }
    }
}
