//! Connections by way of a server, for those who cannot reach a worker themselves.
//!
//! Whoever asks comes to the server's own address, names a worker, and shows that it comes for a session that lives there; the server
//! connects to the worker, and from then on passes the frames of messages both ways, unread.
//!
//! RELAY-1: heads and parts of bodies go on as they come, no body is put together. Pings, limits and shared memory are between
//!          the two ends of one connection and stay there.
//! RELAY-2: while more than `RELAY_AHEAD_BYTES` wait for one side, the other is not read: whoever sends is slowed, and a relay holds
//!          that much, and one head more, for each direction.
//! RELAY-3: neither end takes the other for a process of its host: what lies between them may be a network.
//! RELAY-4: both connections end together; what was passed on still leaves.
//! RELAY-5: over a network, a side that shows nothing of itself for [`RELAY_SILENCE`] is lost. Pings end at the relay, so the other side cannot
//!          notice it by itself; that is less than who needs a worker looks for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use gt_ir::Bytes;
use parking_lot::Mutex;

use crate::channel::Channel;
use crate::connection::End;
use crate::frame::{FEATURE_RELAYED, Frame};
use crate::io::{Command, Io, WeakIo};
use crate::outgoing::State;
use crate::protocol::{FromRelay, ToRelay, WorkerInfo, decode, encode};
use crate::{Address, Connection, Limits, NetError, Receiver, Result, Secret, SessionPass};

/// How much may wait for one side.
pub(crate) const RELAY_AHEAD_BYTES: usize = 1 << 20;
/// How many connections are passed on at once, and how many may be in the making.
const MOST_OPEN: usize = 1024;
const MOST_CONNECTING: usize = 64;
/// How long a worker may take to answer. Whoever asks waits for this, and has a deadline of its own.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long one side over a network may be silent before a relay takes it for lost. I/O threads answer pings, so a busy process is not silent.
pub const RELAY_SILENCE: Duration = Duration::from_secs(2);

impl Channel {
    /// Whether what arrives here goes on, and to whom while that is there.
    pub(crate) fn onward(&self) -> Option<Option<Arc<Channel>>> {
        self.onward.get().map(Weak::upgrade)
    }

    /// Whether the next frame may be read (RELAY-2). If not, the I/O thread looks again as soon as it may.
    pub(crate) fn may_read(&self, onward: Option<&Channel>) -> bool {
        let full = onward.is_some_and(|onward| {
            let out = onward.lock();
            out.state == State::Open && out.wire_bytes() > RELAY_AHEAD_BYTES
        });
        self.held.store(full, Ordering::Relaxed);
        !full
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// There is room here: the side that was held back for it may be read again.
    pub(crate) fn let_read(&self) {
        if let Some(from) = self.onward().flatten().filter(|from| from.is_held()) {
            from.io().tell(Command::Look(from.token));
        }
    }

    /// Puts what the other side of a relay said on the wire. To one that is closed it does not matter any more.
    pub(crate) fn pass_on(&self, frames: &[Frame<'_>]) {
        let mut out = self.lock();
        if out.check_open().is_ok() {
            frames.iter().for_each(|frame| frame.encode(&mut out.wire));
            self.flush_in_turn(&mut out);
        }
    }
}

/// Has everything that arrives on one connection leave on the other. Nothing has come on either, or will before this returns.
fn join(a: &Connection, b: &Connection) -> Result<()> {
    let wrong = || NetError::Internal { reason: "these connections cannot be joined".to_string() };
    match (&a.0, &b.0) {
        (End::Socket(a), End::Socket(b)) if Arc::ptr_eq(a.io(), b.io()) => {
            a.onward.set(Arc::downgrade(b)).map_err(|_| wrong())?;
            b.onward.set(Arc::downgrade(a)).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

type Find = dyn Fn(&SessionPass, u32) -> std::result::Result<WorkerInfo, String> + Send + Sync;

/// The part of a server that passes connections on. Clones are the same relay.
#[derive(Clone)]
pub struct Relay(Arc<Shared>);

struct Shared {
    /// Receivers must not keep the thread alive that calls them.
    io: WeakIo,
    find: Box<Find>,
    idle_timeout: Duration,
    host: String,
    open: AtomicUsize,
    connecting: AtomicUsize,
}

/// One of a bounded number.
struct Place(Arc<Shared>, fn(&Shared) -> &AtomicUsize);

impl Place {
    fn take(shared: &Arc<Shared>, count: fn(&Shared) -> &AtomicUsize, most: usize) -> Option<Place> {
        let more = |taken| (taken < most).then_some(taken + 1);
        count(shared).fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Place(shared.clone(), count))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::AcqRel);
    }
}

impl Relay {
    /// A relay on the thread that serves the server's connections. `find` says where the worker of an index is, to who
    /// comes there for a session of that worker; it is called by a thread that may wait. Over a network, a side that is silent for `idle_timeout` is
    /// lost.
    pub fn new(
        io: &Io,
        idle_timeout: Duration,
        find: impl Fn(&SessionPass, u32) -> std::result::Result<WorkerInfo, String> + Send + Sync + 'static,
    ) -> Relay {
        let counts = || AtomicUsize::new(0);
        let (host, find) = (crate::host_id(), Box::new(find));
        let io = io.downgrade();
        Relay(Arc::new(Shared { io, find, idle_timeout, host, open: counts(), connecting: counts() }))
    }

    /// How many connections are passed on now.
    pub fn connections(&self) -> usize {
        self.0.open.load(Ordering::Acquire)
    }

    /// Receives from a new connection: takes those that ask for a worker, and leaves all others to `server`.
    pub fn receiver(&self, server: Box<dyn Receiver>) -> Box<dyn Receiver> {
        let (shared, beyond) = (self.0.clone(), Arc::default());
        Box::new(Door { shared, server: Some(server), is_first: true, place: None, beyond })
    }
}

/// The connection to the worker.
#[derive(Default)]
enum Beyond {
    #[default]
    NotYet,
    There(Connection),
    /// Nobody needs it any more.
    Over,
}

struct Door {
    shared: Arc<Shared>,
    /// Until it is known that the connection is not for the server.
    server: Option<Box<dyn Receiver>>,
    is_first: bool,
    place: Option<Place>,
    beyond: Arc<Mutex<Beyond>>,
}

impl Door {
    /// A thread makes the connection: names and networks take time, and nobody waits here.
    fn begin(&mut self, from: &Connection, pass: SessionPass, worker: u32) {
        self.place = Place::take(&self.shared, |shared| &shared.open, MOST_OPEN);
        let connecting = Place::take(&self.shared, |shared| &shared.connecting, MOST_CONNECTING);
        let (Some(_), Some(connecting)) = (&self.place, connecting) else {
            return unreached(from, "the server already relays its maximum number of connections", false);
        };
        let asking = from.clone();
        let (shared, beyond) = (self.shared.clone(), self.beyond.clone());
        let spawned = std::thread::Builder::new().name("gt-relay".to_string()).spawn(move || {
            let _connecting = connecting;
            if let Err((reason, never)) = shared.reach(&asking, &pass, worker, &beyond) {
                unreached(&asking, &reason, never);
            }
        });
        if let Err(error) = spawned {
            unreached(from, &format!("cannot start a thread: {error}"), false);
        }
    }
}

fn unreached(to: &Connection, reason: &str, never: bool) {
    let _ = to.send(&encode(&FromRelay::Unreached { reason: reason.to_string(), never }));
    to.close();
}

impl Shared {
    fn limits(&self, near: bool) -> Limits {
        Limits { idle_timeout: (!near).then_some(self.idle_timeout), ..Limits::default() }
    }

    /// Connects to a worker and has everything passed on, or says why not, and whether that will stay so.
    fn reach(
        &self,
        from: &Connection,
        pass: &SessionPass,
        worker: u32,
        beyond: &Mutex<Beyond>,
    ) -> std::result::Result<(), (String, bool)> {
        let later = |error: NetError| (error.to_string(), false);
        let info = (self.find)(pass, worker).map_err(|reason| (reason, false))?;
        let Some(io) = self.io.upgrade() else { return Err(("the server is shutting down".to_string(), false)) };
        let mut last =
            (format!("{} accepts connections only from its own host; start it with --listen", info.id), true);
        for (address, tls) in info.ways(&self.host, false).map_err(later)? {
            let receiver = Box::new(Behind { from: from.clone() });
            let limits = self.limits(matches!(address, Address::Unix(_)));
            let gone = || !from.is_open();
            match io.connect_as(FEATURE_RELAYED, &address, tls.as_ref(), limits, receiver, ATTEMPT, &gone) {
                Ok(there) => return self.pass(from, there, beyond).map_err(later),
                Err(error) => last = later(error),
            }
        }
        Err(last)
    }

    /// Both connections are there.
    fn pass(&self, from: &Connection, there: Connection, beyond: &Mutex<Beyond>) -> Result<()> {
        let mut beyond = beyond.lock();
        if let Beyond::Over = *beyond {
            there.close();
            return Ok(());
        }
        *beyond = Beyond::There(there.clone());
        drop(beyond);
        from.set_limits(self.limits(from.peer().same_host));
        join(from, &there)?;
        from.send(&encode(&FromRelay::Relayed {}))
    }
}

/// Before the two are joined, what comes is for the server, or for this relay; afterwards nothing does (RELAY-1).
impl Receiver for Door {
    fn opened(&mut self, connection: &Connection) {
        if let Some(server) = &mut self.server {
            server.opened(connection);
        }
    }

    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if let (true, Ok(ToRelay::Relay { session, key, worker })) = (is_first && body.is_none(), decode(head)) {
            if let Some(mut server) = self.server.take() {
                // To the server it never was there.
                server.closed(from, &NetError::ClosedHere);
            }
            return self.begin(from, SessionPass { session, key: Secret::from_bytes(key) }, worker);
        }
        match &mut self.server {
            Some(server) => server.message(from, head, body),
            // It did not wait for the answer.
            None => from.close(),
        }
    }

    fn ponged(&mut self, from: &Connection, rtt: Duration) {
        if let Some(server) = &mut self.server {
            server.ponged(from, rtt);
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        if let Some(server) = &mut self.server {
            server.closed(from, why);
        }
        // RELAY-4.
        if let Beyond::There(there) = std::mem::replace(&mut *self.beyond.lock(), Beyond::Over) {
            there.close();
        }
    }
}

/// Receives from a worker, as long as nothing is passed on.
struct Behind {
    from: Connection,
}

impl Receiver for Behind {
    fn message(&mut self, there: &Connection, _: &[u8], _: Option<Bytes>) {
        // Nobody has asked it anything yet.
        there.close();
    }

    fn closed(&mut self, _: &Connection, _: &NetError) {
        self.from.close();
    }
}
