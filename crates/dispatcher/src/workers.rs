//! What workers say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gt_net::protocol::{FromServer, FromWorker, Refusal, ToWorker, WorkerInfo, decode};
use gt_net::{Connection, NetError, Secret};

use crate::admission::{AsWorker, Pass, reason_of};
use crate::backlog::Impossible;
use crate::core::{Core, Role};
use crate::session::{Link, send};
use crate::turnstile::ConnectionId;
use crate::worker::{Load, Worker};

/// The longest name of a worker.
pub const MAX_WORKER_NAME: usize = 64;

/// Whether a text can be a worker's name: one word in the columns of logs and tables.
pub fn is_worker_name(text: &str) -> bool {
    (1..=MAX_WORKER_NAME).contains(&text.len()) && text.chars().all(may_be_in_name)
}

fn may_be_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

impl Core {
    pub(crate) fn join(
        &mut self,
        pass: Pass<AsWorker>,
        id: ConnectionId,
        connection: &Connection,
        info: WorkerInfo,
        secret: &[u8],
        sessions: &[(u64, u64)],
    ) {
        let returned = self.workers.iter().find(|(_, worker)| !secret.is_empty() && worker.secret.matches(secret));
        let is_new = returned.is_none();
        let joined = match returned.map(|(index, _)| *index) {
            Some(index) => {
                self.take_back(id, connection, index, info);
                Ok(index)
            }
            None => self.add_worker(id, connection, info),
        };
        let index = match joined {
            Ok(index) => index,
            Err(why) => return self.refuse_worker(id, connection, why),
        };
        self.widen_for_worker(connection);
        self.set_role(id, Role::Worker(index));
        let Some(worker) = self.workers.get(&index) else { return };
        let (name, secret) = (worker.info.id.clone(), worker.secret.as_bytes().into());
        let proof = pass.own_proof(connection);
        let seal_key = self.seal_key.as_bytes().into();
        let _ = send(connection, &ToWorker::Joined { id: name, index, secret, proof, seal_key });
        match self.reconcile(index, connection, sessions) {
            Ok(()) => {
                self.settle_homeless();
                self.flush(index);
                if is_new {
                    self.tell_of_workers();
                }
            }
            Err(why) => self.expel(index, why),
        }
    }

    fn add_worker(&mut self, id: ConnectionId, connection: &Connection, info: WorkerInfo) -> Result<u32, Refusal> {
        let secret = Secret::random().map_err(|e| Refusal::Malformed { reason: e.to_string() })?;
        // Commands refuse other names; whoever speaks to the server without one gets the nearest that can be a name.
        let named = info.id.chars().map(|c| if may_be_in_name(c) { c } else { '_' });
        let wish: String = named.take(MAX_WORKER_NAME).collect();
        // A name that its owner has left without a goodbye is free: whoever takes it is that worker, started again.
        let before = self.workers.iter().find(|(_, worker)| worker.info.id == wish && !worker.link.is_up());
        if let Some(index) = before.map(|(index, _)| *index) {
            self.lose_worker(index, "the worker was restarted");
        }
        let index = match self.workers.contains_key(&info.index) || info.index as usize > self.workers.len() {
            false => info.index,
            true => (0..).find(|index| !self.workers.contains_key(index)).unwrap_or(u32::MAX),
        };
        let name = self.free_name(wish, index);
        self.generation += 1;
        let at = &connection.peer().address;
        self.config
            .log
            .line(format_args!("worker {name}: joined from {at} ({}, {} threads)", info.engine, info.threads));
        self.workers.insert(
            index,
            Worker {
                info: WorkerInfo { index, id: name, ..info }.sealed(&self.seal_key),
                secret,
                link: Link::Up(id, connection.clone()),
                since: self.clock.now(),
                sessions: BTreeSet::new(),
                turns: VecDeque::new(),
                load: Load::default(),
            },
        );
        Ok(index)
    }

    fn free_name(&self, wish: String, index: u32) -> String {
        let name = if wish.is_empty() { format!("worker_{index}") } else { wish };
        let is_free = |name: &str| self.workers.values().all(|worker| worker.info.id != name);
        if is_free(&name) {
            return name;
        }
        (2u32..).map(|n| format!("{name}-{n}")).find(|name| is_free(name)).unwrap_or(name)
    }

    /// The same process by a new connection: it keeps its name and place, but may be reached elsewhere.
    fn take_back(&mut self, id: ConnectionId, connection: &Connection, index: u32, info: WorkerInfo) {
        let Some(worker) = self.workers.get_mut(&index) else { return };
        let name = std::mem::take(&mut worker.info.id);
        worker.info = WorkerInfo { index, id: name, ..info }.sealed(&self.seal_key);
        self.config.log.line(format_args!("worker {}: reconnected from {}", worker.info.id, connection.peer().address));
        let before = std::mem::replace(&mut worker.link, Link::Up(id, connection.clone()));
        if let Link::Up(old, old_connection) = before {
            self.let_go(old, &old_connection);
        }
    }

    /// Brings what a worker says it holds and what lives there into agreement.
    fn reconcile(&mut self, index: u32, connection: &Connection, held: &[(u64, u64)]) -> Result<(), Refusal> {
        let Some(worker) = self.workers.get(&index) else { return Ok(()) };
        let living = worker.sessions.clone();
        let held: BTreeMap<u64, u64> = held.iter().copied().collect();
        for session in held.keys().filter(|session| !living.contains(session)) {
            let _ = send(connection, &ToWorker::Close { session: *session });
        }
        for id in living {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            match held.get(&id) {
                Some(received) => {
                    let rewound = session.backlog.rewind(*received);
                    rewound.map_err(|said| Refusal::Malformed { reason: impossible("received", id, said) })?;
                }
                // It was on its way when the connection broke.
                None if session.backlog.executed() == session.home_from => {
                    let from = session.home_from;
                    let rewound = session.backlog.rewind(from);
                    rewound.map_err(|said| Refusal::Malformed { reason: impossible("received", id, said) })?;
                    self.open_at(id, index);
                }
                None => self.lose_session_values(id, index, "the worker no longer has the session"),
            }
            self.queue_held(id);
        }
        Ok(())
    }

    pub(crate) fn worker_message(&mut self, index: u32, head: &[u8]) {
        let handled = match decode::<FromWorker<'_>>(head) {
            Ok(FromWorker::Executed { session, executed }) => self.executed(index, session, executed),
            Ok(FromWorker::NeedTemplate { session, number }) => {
                if let Some(session) = self.session_at(session, index) {
                    session.needed = Some(number);
                    session.tell(&FromServer::NeedTemplate { number });
                }
                Ok(())
            }
            Ok(FromWorker::Broken { session, reason }) => {
                if self.session_at(session, index).is_some() {
                    // The worker has closed it already.
                    if let Some(worker) = self.workers.get_mut(&index) {
                        worker.sessions.remove(&session);
                    }
                    self.refuse_session(session, Refusal::Malformed { reason });
                }
                Ok(())
            }
            Ok(FromWorker::Load { busy_ns, live_bytes, instructions, threads, memory_limit }) => {
                let now = self.clock.now();
                if let Some(worker) = self.workers.get_mut(&index) {
                    (worker.info.threads, worker.info.memory_limit) = (threads, memory_limit);
                    worker.load.report(now, busy_ns, live_bytes, instructions);
                }
                Ok(())
            }
            Ok(FromWorker::Goodbye {}) => {
                self.dismiss(index, "the worker disconnected");
                return;
            }
            Ok(FromWorker::Join { .. }) => {
                Err(Refusal::Malformed { reason: "only the first message can be Join".to_string() })
            }
            Err(error) => Err(Refusal::Malformed { reason: reason_of(error) }),
        };
        match handled {
            // It has read what it was sent: there may be room.
            Ok(()) => self.flush(index),
            Err(why) => self.expel(index, why),
        }
    }

    fn executed(&mut self, index: u32, id: u64, executed: u64) -> Result<(), Refusal> {
        // Sessions come and go while reports are on their way.
        let Some(session) = self.session_at(id, index) else { return Ok(()) };
        let returned = session.backlog.execute(executed);
        let returned = returned.map_err(|said| Refusal::Malformed { reason: impossible("executed", id, said) })?;
        session.instrs_executed += returned.instrs;
        session.acks.note_executed(returned);
        if session.backlog.is_idle() {
            session.needed = None;
        }
        self.ack_if_due(id);
        Ok(())
    }

    fn session_at(&mut self, id: u64, index: u32) -> Option<&mut crate::session::Session> {
        self.sessions.get_mut(&id).filter(|session| session.home == Some(index))
    }

    /// Ends a worker that broke the protocol: nothing it says can be relied on.
    pub(crate) fn expel(&mut self, index: u32, why: Refusal) {
        if let Some(connection) = self.workers.get(&index).and_then(|worker| worker.link.connection()) {
            let _ = send(connection, &ToWorker::Refused { why: why.clone() });
        }
        self.dismiss(index, &why.to_string());
    }

    /// Ends a worker that is still connected.
    fn dismiss(&mut self, index: u32, reason: &str) {
        if let Some(Link::Up(id, connection)) = self.workers.get(&index).map(|worker| &worker.link) {
            let (id, connection) = (*id, connection.clone());
            self.let_go(id, &connection);
        }
        self.lose_worker(index, reason);
    }

    pub(crate) fn worker_gone(&mut self, index: u32, id: ConnectionId, connection: &Connection, why: &NetError) {
        let leases = self.config.leases;
        let lease = if connection.is_same_host() { leases.same_host } else { leases.worker };
        let Some(worker) = self.workers.get_mut(&index).filter(|worker| worker.link.is_by(id)) else { return };
        if lease.is_zero() {
            self.lose_worker(index, &why.to_string());
            return;
        }
        // A line that breaks says so at once; of one that is silent it shows late.
        let silent = if let NetError::Silent { silent } = why { *silent } else { Duration::ZERO };
        let until = self.clock.now() + lease.saturating_sub(silent);
        worker.link = Link::Away { until, why: why.to_string() };
        self.config.log.line(format_args!("worker {}: disconnected: {why}", worker.info.id));
        self.look_again(until);
    }
}

fn impossible(what: &str, session: u64, said: Impossible) -> String {
    let Impossible { said, least, most } = said;
    format!("session {session} reports {said} messages {what}, but the count must be between {least} and {most}")
}
