//! What clients say.
//!
//! SESSIONS-1: a session takes a place from its first message on, or while its client is connected: one that was opened and left has none.
//! SESSIONS-2: of the others, those that have run nothing are rationed by origin (PLACES-1): whoever opens many leaves places for others.

use std::time::Duration;

use gt_net::protocol::{FromServer, Pin, Refusal, Resume, ToServer, ToWorker, WorkerInfo, decode};
use gt_net::{Connection, NetError, Secret, may_take_another};

use crate::acks::Acks;
use crate::admission::{AsClient, Pass, reason_of};
use crate::backlog::Backlog;
use crate::core::{Core, Role};
use crate::session::{Link, Pinned, Session, send};
use crate::turnstile::ConnectionId;

/// The longest name of a client that is shown.
const MAX_NAME_CHARS: usize = 128;
/// How many sessions may belong to one: those of its client on other workers.
const MAX_PINNED: usize = 256;
/// How many more than there are workers.
const MAX_PINNED_NOWHERE: usize = 8;

/// What a client asks for when it opens a session.
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) workers: u32,
    pub(crate) pin: Option<Pin>,
}

impl Core {
    pub(crate) fn hello(
        &mut self,
        pass: Pass<AsClient>,
        id: ConnectionId,
        connection: &Connection,
        wish: Wish,
        resume: Option<Resume>,
    ) {
        let entered = match resume {
            Some(resume) => self.resume(id, connection, &resume).map(|()| (resume.session, Some(resume.losses))),
            None => self.open_session(id, connection, wish).map(|session| (session, None)),
        };
        match entered {
            Ok((session, resumed)) => {
                self.widen_for_client(connection);
                self.set_role(id, Role::Client(session));
                self.welcome(session, resumed, pass.own_proof(connection));
            }
            Err(why) => self.refuse_client(id, connection, why),
        }
    }

    fn open_session(&mut self, id: ConnectionId, connection: &Connection, wish: Wish) -> Result<u64, Refusal> {
        let Wish { name, variables, workers: wanted_workers, pin } = wish;
        let pinned = pin.map(|pin| self.check_pin(&pin)).transpose()?;
        let origin = connection.peer().origin();
        // Those that belong to others count with them.
        if pinned.is_none() {
            self.make_place(&origin)?;
        }
        let secret = Secret::random().map_err(|e| Refusal::Malformed { reason: e.to_string() })?;
        let session = self.next_session;
        self.next_session += 1;
        let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
        self.config.log.line(format_args!("session {session}: opened by {} ({name})", connection.peer().address));
        self.sessions.insert(
            session,
            Session {
                secret,
                name,
                origin,
                same_user: self.is_same_user(connection),
                variables,
                wanted_workers,
                since: self.clock.now(),
                link: Link::Up(id, connection.clone()),
                pinned,
                home: None,
                home_from: 0,
                backlog: Backlog::default(),
                acks: Acks::new(),
                in_turns: false,
                losses_forgotten: 0,
                losses: Vec::new(),
                lost: None,
                needed: None,
                instrs_received: 0,
                instrs_executed: 0,
            },
        );
        // Its home hears of it before its client does, and so before that comes with data.
        self.settle(session);
        Ok(session)
    }

    /// Sees that there is a place for another session (SESSIONS-1, SESSIONS-2).
    fn make_place(&mut self, origin: &str) -> Result<(), Refusal> {
        let most = self.config.max_sessions;
        let (mut left, mut taken, mut held) = (Vec::new(), 0, 0);
        for (id, session) in self.sessions.iter().filter(|(_, session)| session.pinned.is_none()) {
            match (session.is_unused(), session.link.is_up()) {
                (true, false) => left.push(*id),
                (is_unused, _) => {
                    taken += 1;
                    held += usize::from(is_unused && session.origin == origin);
                }
            }
        }
        if taken >= most {
            return Err(Refusal::Sessions { most: most as u64 });
        }
        if !may_take_another(held, taken, most) {
            return Err(Refusal::Unused { most: held as u64 });
        }
        let too_many = (taken + left.len() + 1).saturating_sub(most);
        for id in left.into_iter().take(too_many) {
            self.close_session(id, "its client disconnected without using it, and a new session needs the place");
        }
        Ok(())
    }

    /// Whose session a new one belongs to, and where it will live. One that was there before has been given up.
    fn check_pin(&mut self, pin: &Pin) -> Result<Pinned, Refusal> {
        let home = self.sessions.get(&pin.home).filter(|home| home.secret.matches(&pin.secret));
        if home.is_none_or(|home| home.pinned.is_some()) {
            return Err(Refusal::UnknownSession {});
        }
        let pinned = Pinned { to: pin.worker, home: pin.home };
        if let Some(old) = self.sessions.iter().find(|(_, s)| s.pinned == Some(pinned)).map(|(id, _)| *id) {
            self.close_session(old, "replaced by a new session");
        }
        // A worker may be away; sessions on workers that never were are of no use.
        let most = MAX_PINNED.min(self.workers.len() + MAX_PINNED_NOWHERE);
        match self.pinned_of(pin.home).len() >= most {
            true => Err(Refusal::Sessions { most: most as u64 }),
            false => Ok(pinned),
        }
    }

    /// The sessions that belong to another one.
    pub(crate) fn pinned_of(&self, home: u64) -> Vec<u64> {
        let belongs = |session: &Session| session.pinned.is_some_and(|pinned| pinned.home == home);
        self.sessions.iter().filter(|(_, session)| belongs(session)).map(|(id, _)| *id).collect()
    }

    /// Whoever knows the secret is the session's client, also while its old connection still looks open.
    fn resume(&mut self, id: ConnectionId, connection: &Connection, resume: &Resume) -> Result<(), Refusal> {
        let session = self.sessions.get_mut(&resume.session).filter(|s| s.secret.matches(&resume.secret));
        let session = session.ok_or(Refusal::UnknownSession {})?;
        let before = std::mem::replace(&mut session.link, Link::Up(id, connection.clone()));
        self.config.log.line(format_args!("session {}: resumed by {}", resume.session, connection.peer().address));
        if let Link::Up(old, old_connection) = before {
            self.let_go(old, &old_connection);
        }
        Ok(())
    }

    fn welcome(&mut self, id: u64, resumed: Option<u64>, proof: Box<[u8]>) {
        let Some(session) = self.sessions.get(&id) else { return };
        let lease = session.link.connection().map_or(Duration::ZERO, |connection| self.client_lease(connection));
        session.tell(&FromServer::Welcome {
            session: id,
            secret: session.secret.as_bytes().into(),
            proof,
            lease_ms: lease.as_millis() as u64,
            workers: self.workers_for(session),
            home: session.home,
            received: session.backlog.received(),
            credits_instrs: self.config.credits_instrs,
            credits_bytes: self.config.credits_bytes,
        });
        let Some(told) = resumed else { return };
        let missed = session.losses_after(told);
        for loss in missed {
            session.tell(&FromServer::WorkerLost { worker: loss.worker.clone(), reason: loss.reason.clone() });
        }
        // Without a loss, Welcome has said where the session lives.
        if !missed.is_empty()
            && let Some(home) = session.home.and_then(|index| self.workers.get(&index))
        {
            session.tell(&FromServer::Home { worker: home.info.clone(), from: session.home_from });
        }
        if let Some(number) = session.needed {
            session.tell(&FromServer::NeedTemplate { number });
        }
        self.ack_now(id);
    }

    /// The workers that a client hears of: its home first of all, and no more than it wants.
    fn workers_for(&self, session: &Session) -> Vec<WorkerInfo> {
        let most = if session.wanted_workers == 0 { usize::MAX } else { session.wanted_workers as usize };
        let up = self.workers.iter().filter(|(_, worker)| worker.link.is_up());
        let (home, others): (Vec<_>, Vec<_>) = up.partition(|(index, _)| session.home == Some(**index));
        let mut seen: Vec<WorkerInfo> =
            home.into_iter().chain(others).take(most).map(|(_, worker)| worker.info.clone()).collect();
        seen.sort_by_key(|info| info.index);
        seen
    }

    /// A worker has joined: sessions may use it from now on.
    pub(crate) fn tell_of_workers(&self) {
        for session in self.sessions.values().filter(|session| session.pinned.is_none()) {
            session.tell(&FromServer::Workers { workers: self.workers_for(session) });
        }
    }

    pub(crate) fn client_message(&mut self, session: u64, head: &[u8]) {
        match decode::<ToServer<'_>>(head) {
            Ok(ToServer::Stream { seq, instrs, bytes, message }) => {
                if let Err(why) = self.stream(session, seq, instrs, bytes, message) {
                    self.refuse_session(session, why);
                }
            }
            Ok(ToServer::Goodbye {}) => self.close_session(session, "the client disconnected"),
            Ok(ToServer::Hello { .. } | ToServer::Observe { .. }) => {
                let reason = "only the first message can be Hello or Observe".to_string();
                self.refuse_session(session, Refusal::Malformed { reason });
            }
            Err(error) => self.refuse_session(session, Refusal::Malformed { reason: reason_of(error) }),
        }
    }

    /// Ends a session that cannot go on, and says why.
    pub(crate) fn refuse_session(&mut self, session: u64, why: Refusal) {
        if let Some(connection) = self.sessions.get(&session).and_then(|s| s.link.connection()) {
            let _ = send(connection, &FromServer::Refused { why: why.clone() });
        }
        self.close_session(session, &why.to_string());
    }

    pub(crate) fn close_session(&mut self, id: u64, why: &str) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.config.log.line(format_args!("session {id}: closed: {why}"));
        if let Some(home) = session.home.and_then(|index| self.workers.get_mut(&index))
            && home.sessions.remove(&id)
            && let Some(connection) = home.link.connection()
        {
            // A worker that returns hears of it then: it says which sessions it holds.
            let _ = send(connection, &ToWorker::Close { session: id });
        }
        if let Link::Up(connection_id, connection) = session.link {
            self.let_go(connection_id, &connection);
        }
        for pinned in self.pinned_of(id) {
            self.close_session(pinned, "its parent session was closed");
        }
    }

    /// How long a session is kept whose client had this connection.
    fn client_lease(&self, connection: &Connection) -> Duration {
        let leases = self.config.leases;
        if connection.is_same_host() { leases.same_host } else { leases.client }
    }

    pub(crate) fn client_gone(
        &mut self,
        id: u64,
        connection_id: ConnectionId,
        connection: &Connection,
        why: &NetError,
    ) {
        let lease = self.client_lease(connection);
        let Some(session) = self.sessions.get_mut(&id).filter(|s| s.link.is_by(connection_id)) else { return };
        if lease.is_zero() {
            self.close_session(id, &why.to_string());
            return;
        }
        let until = self.clock.now() + lease;
        session.link = Link::Away { until, why: why.to_string() };
        self.config.log.line(format_args!("session {id}: disconnected: {why}"));
        self.look_again(until);
    }
}
