//! The sessions that live here, and those who come to speak of them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use gt_net::protocol::{DataReply, Resumption, encode};
use gt_net::{Connection, Limits, Secret, SessionKeys, may_take_another};
use parking_lot::Mutex;

use super::arrivals::Origin;
use super::config::SessionSettings;
use super::courier::OutOfReach;
use super::hosted::{Hosted, Opening, ServiceContext};
use gt_worker::WorkerHandle;

/// How long somebody may be connected without having shown a secret that is known here.
const STRANGER_PATIENCE: Duration = Duration::from_secs(10);
/// How many of them there may be.
const MOST_STRANGERS: usize = 1024;

/// How many connections a session may have: its client's, and those of the workers that bring values. A connection takes a descriptor
/// that others need too.
const MOST_GUESTS: usize = 2048;

/// The longest head that a data connection takes, and the most that wait there to leave: neither counts on a session's account. Windows
/// come from the server; values and payloads beyond 64 KiB are bodies, which count.
const GUEST_HEAD_BYTES: u32 = 128 << 10;
const GUEST_QUEUED_BYTES: usize = 4 << 20;

/// Who is at the other end of a data connection.
pub(super) enum Guest {
    /// A session's client.
    Client(Weak<Hosted>),
    /// Another worker that the session's client has.
    Peer(Weak<Hosted>, Origin),
}

/// Who somebody says it is.
#[derive(Clone)]
pub(super) enum Who {
    /// A client, and what it has of what came by an earlier connection.
    Client(Option<Arc<Resumption>>),
    Peer(Origin),
}

impl Who {
    /// Whether this is the key of a session for those like it: what another worker of the session shows does not make a client.
    fn may_enter(&self, hosted: &Hosted, key: &[u8]) -> bool {
        match self {
            Who::Client(_) => hosted.keys().client.matches(key),
            Who::Peer(_) => hosted.keys().peer.matches(key),
        }
    }
}

/// Set once it is known.
pub(super) type Identified = Arc<OnceLock<Guest>>;

/// Somebody who has not shown the key of a session that is known.
struct Stranger {
    connection: Connection,
    identified: Identified,
    since: Instant,
    /// The session and secret it has shown: the server may tell of it any moment.
    wants: Option<(u64, Secret, Who)>,
}

/// What all parts of a service share.
pub(super) struct Host {
    worker: WorkerHandle,
    settings: SessionSettings,
    around: ServiceContext,
    /// Somebody elsewhere who is silent for so long is lost.
    idle_timeout: Duration,
    sessions: Mutex<BTreeMap<u64, Arc<Hosted>>>,
    strangers: Mutex<Vec<Stranger>>,
}

/// What the server says of a session that is to live here.
pub(super) struct Opened<'a> {
    pub(super) number: u64,
    /// What the server's key of the session is.
    pub(super) key: &'a [u8],
    /// The most it may hold; 0 for no limit of its own.
    pub(super) max_memory: u64,
    /// The first message that comes here.
    pub(super) from: u64,
    pub(super) lost: Option<gt_ir::Failure>,
    /// Its client is this worker's user, on this host.
    pub(super) same_user: bool,
}

/// Turns somebody away.
pub(super) fn refuse(connection: &Connection, reason: &str) {
    let _ = connection.send(&encode(&DataReply::Refused { reason: reason.to_string() }));
    connection.close();
}

impl Host {
    pub(super) fn new(
        worker: WorkerHandle,
        settings: SessionSettings,
        around: ServiceContext,
        idle_timeout: Duration,
    ) -> Self {
        let (sessions, strangers) = (Mutex::default(), Mutex::default());
        Host { worker, settings, around, idle_timeout, sessions, strangers }
    }

    /// For those who have shown a secret.
    fn limits(&self, connection: &Connection) -> Limits {
        // On one host a connection breaks when a process ends, and a stopped process is not a dead one.
        let idle_timeout = (!connection.is_same_host()).then_some(self.idle_timeout);
        Limits {
            idle_timeout,
            max_head_bytes: GUEST_HEAD_BYTES,
            max_queued_bytes: GUEST_QUEUED_BYTES,
            ..Limits::default()
        }
    }

    pub(super) fn worker(&self) -> &WorkerHandle {
        &self.worker
    }

    pub(super) fn around(&self) -> &ServiceContext {
        &self.around
    }

    /// Opens a session.
    pub(super) fn open(&self, opened: Opened<'_>, variables: &[(String, String)]) {
        let Opened { number, key, max_memory, from, lost, same_user } = opened;
        let mut config = match (self.settings)(variables) {
            Ok(config) => config,
            Err(reason) => {
                self.strangers_of(number).iter().for_each(|(connection, ..)| refuse(connection, &reason));
                return self.around.group.say_broken(number, &reason);
            }
        };
        config.name = format!("session {number}");
        config.lost = lost.map(Arc::new);
        if max_memory > 0 {
            config.memory_limit_bytes = Some(config.memory_limit_bytes.map_or(max_memory, |own| own.min(max_memory)));
        }
        let keys = SessionKeys::of_worker_key(&Secret::from_bytes(key));
        let opening = Opening { number, keys, config, from, same_user };
        let hosted = Hosted::open(&self.worker, opening, &self.around);
        let old = self.sessions.lock().insert(number, hosted.clone());
        if let Some(old) = old {
            old.close(None);
        }
        self.let_in_those_who_wait_for(&hosted);
    }

    /// A session that lives here.
    pub(super) fn session(&self, number: u64) -> Option<Arc<Hosted>> {
        self.sessions.lock().get(&number).cloned()
    }

    /// All of them, by number.
    pub(super) fn sessions(&self) -> Vec<Arc<Hosted>> {
        self.sessions.lock().values().cloned().collect()
    }

    /// Ends a session that the server is done with.
    pub(super) fn close(&self, number: u64) {
        let gone = self.sessions.lock().remove(&number);
        if let Some(gone) = gone {
            gone.close(None);
        }
    }

    /// Ends a session that broke the rules, and says so (SERVE-3).
    pub(super) fn break_off(&self, number: u64, reason: &str) {
        let gone = self.sessions.lock().remove(&number);
        if let Some(gone) = gone {
            gone.close(Some(reason));
            self.around.group.say_broken(number, reason);
        }
    }

    /// Ends all sessions. Their clients are not refused: the server may have found them another home.
    pub(super) fn close_all(&self) {
        let gone = std::mem::take(&mut *self.sessions.lock());
        gone.values().for_each(|hosted| hosted.close(None));
    }

    /// Somebody has connected.
    pub(super) fn greet(&self, connection: &Connection, identified: &Identified) {
        let mut strangers = self.strangers.lock();
        let origin = connection.peer().origin();
        let held = strangers.iter().filter(|stranger| stranger.connection.peer().origin() == origin).count();
        if !may_take_another(held, strangers.len(), MOST_STRANGERS) {
            drop(strangers);
            return refuse(connection, "too many unidentified connections");
        }
        let (connection, identified) = (connection.clone(), identified.clone());
        strangers.push(Stranger { connection, identified, since: Instant::now(), wants: None });
    }

    /// Somebody is gone.
    pub(super) fn forget(&self, connection: &Connection, identified: &Identified) {
        self.strangers.lock().retain(|stranger| !stranger.connection.is_same(connection));
        match identified.get() {
            Some(Guest::Client(hosted)) => {
                if let Some(hosted) = hosted.upgrade() {
                    hosted.remove_guest();
                    hosted.detach(connection);
                }
            }
            Some(Guest::Peer(hosted, _)) => hosted.upgrade().iter().for_each(|hosted| hosted.remove_guest()),
            None => {}
        }
    }

    /// Somebody says that it is a session's client, or another worker of it.
    pub(super) fn attach(&self, session: u64, key: &[u8], who: Who, connection: &Connection, identified: &Identified) {
        // Locked before the sessions are looked at, so that an opening does not slip between.
        let mut strangers = self.strangers.lock();
        match self.session(session) {
            Some(hosted) if who.may_enter(&hosted, key) => {
                strangers.retain(|stranger| !stranger.connection.is_same(connection));
                drop(strangers);
                self.let_in(&hosted, who, connection, identified);
            }
            Some(_) => {
                drop(strangers);
                refuse(connection, "the key does not belong to this session");
            }
            // The client was faster than the server's word of it, or the session is over: time will tell.
            None => {
                if let Some(stranger) = strangers.iter_mut().find(|s| s.connection.is_same(connection)) {
                    stranger.wants = Some((session, Secret::from_bytes(key), who));
                }
            }
        }
    }

    /// Whether a session may have another connection: descriptors that others need are left to them (PLACES-1).
    fn may_have_another_guest(&self, hosted: &Hosted) -> bool {
        let taken = self.sessions.lock().values().map(|hosted| hosted.guests()).sum();
        let most = gt_net::most_descriptors() / 4 * 3;
        hosted.guests() < MOST_GUESTS && may_take_another(hosted.guests(), taken, most)
    }

    fn let_in(&self, hosted: &Arc<Hosted>, who: Who, connection: &Connection, identified: &Identified) {
        if !self.may_have_another_guest(hosted) {
            return refuse(connection, "the session has too many connections");
        }
        let guest = match &who {
            Who::Client(_) => Guest::Client(Arc::downgrade(hosted)),
            Who::Peer(origin) => Guest::Peer(Arc::downgrade(hosted), *origin),
        };
        if identified.set(guest).is_err() {
            return refuse(connection, "the connection is already attached");
        }
        hosted.add_guest();
        // Before the word that it may: bodies are refused until then.
        connection.set_limits(self.limits(connection));
        match who {
            Who::Client(resume) => hosted.attach(connection, resume.as_deref()),
            Who::Peer(_) => _ = connection.send(&encode(&DataReply::Attached { uploads: Vec::new() })),
        }
    }

    /// Takes out those who wait for a session.
    fn strangers_of(&self, number: u64) -> Vec<(Connection, Identified, (Secret, Who))> {
        let mut waiting = Vec::new();
        self.strangers.lock().retain(|stranger| match &stranger.wants {
            Some((session, key, who)) if *session == number => {
                let (connection, identified) = (stranger.connection.clone(), stranger.identified.clone());
                waiting.push((connection, identified, (key.clone(), who.clone())));
                false
            }
            _ => true,
        });
        waiting
    }

    fn let_in_those_who_wait_for(&self, hosted: &Arc<Hosted>) {
        for (connection, identified, (key, who)) in self.strangers_of(hosted.number()) {
            match who.may_enter(hosted, key.as_bytes()) {
                true => self.let_in(hosted, who, &connection, &identified),
                false => refuse(&connection, "the key does not belong to this session"),
            }
        }
    }

    /// Looks after what takes time.
    pub(super) fn look_after(&self) {
        for OutOfReach { session, worker, reason } in self.around.couriers.take_out_of_reach() {
            if let Some(hosted) = self.session(session) {
                hosted.out_of_reach(worker, &reason);
            }
        }
        for hosted in self.sessions() {
            if let Some(reason) = hosted.look_after() {
                self.break_off(hosted.number(), &reason);
            }
        }
        let mut strangers = self.strangers.lock();
        let (late, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *strangers).into_iter().partition(|s| s.since.elapsed() > STRANGER_PATIENCE);
        *strangers = rest;
        drop(strangers);
        for Stranger { connection, wants, .. } in late {
            match wants {
                // It may live elsewhere by now: its client will hear of that.
                Some(_) => connection.close(),
                None => refuse(&connection, "the peer did not identify itself in time"),
            }
        }
    }
}
