//! Who may enter, and as what: the first message of a connection.
//!
//! ADMIT-1: every role has its own proof. A client or an observer shows that it knows the server's token, for just that role; a worker
//! shows that it knows the worker token, or the secret of the server's own workers. A proof for one role is worth nothing for another.
//! ADMIT-2: a token that is configured is asked for everywhere: over networks, over loopback and over the Unix socket.
//! ADMIT-3: where none is configured, clients must be processes of the server's own user, as the kernel says of loopback and of Unix
//! sockets; workers must be that and come by the Unix socket.
//! ADMIT-4: what follows (`hello`, `observe`, `join`) takes a [`Pass`] for its role, and nothing but this file makes one. A relay is asked
//! for with the key of a session, which only those have who were let in.
//! ADMIT-5: until then a peer may send one small message (`Limits::before_authentication`), soon.

use std::marker::PhantomData;
use std::time::Duration;

use gt_net::protocol::{FromServer, FromWorker, Refusal, ToServer, WorkerInfo, decode};
use gt_net::{Connection, Limits, NetError, Role, Secret, SessionKeys, SessionPass};

use crate::clients::Wish;
use crate::core::Core;
use crate::session::send;
use crate::turnstile::ConnectionId;

/// What is left for the session and the number in front of a message on its way to a worker.
const FORWARD_BYTES: u32 = 64;
/// What may wait for a client that does not read: acks and notices.
const CLIENT_QUEUE_BYTES: usize = 4 << 20;

pub(crate) struct AsClient;
pub(crate) struct AsObserver;
pub(crate) struct AsWorker;

/// The peer of a connection was let in as this (ADMIT-4).
pub(crate) struct Pass<As> {
    /// What it has shown to know, if something was asked for.
    by: Option<Secret>,
    role: PhantomData<As>,
}

impl<As> Pass<As> {
    fn new(by: Option<&Secret>) -> Self {
        Pass { by: by.cloned(), role: PhantomData }
    }

    /// Shows in return that this is the server of that secret.
    pub(crate) fn own_proof(&self, connection: &Connection) -> Box<[u8]> {
        self.by.as_ref().map(|secret| connection.prove(secret, Role::Server)).unwrap_or_default().into()
    }
}

impl Core {
    pub(crate) fn first_message(&mut self, id: ConnectionId, connection: &Connection, head: &[u8]) {
        // PROTO-4: the first byte says who speaks.
        match decode::<ToServer<'_>>(head) {
            Ok(ToServer::Hello { proof, name, variables, workers, resume, pin }) => {
                match self.admit(connection, Role::Client, proof) {
                    Ok(pass) => self.hello(pass, id, connection, Wish { name, variables, workers, pin }, resume),
                    Err(why) => self.refuse_client(id, connection, why),
                }
            }
            Ok(ToServer::Observe { proof }) => match self.admit(connection, Role::Observer, proof) {
                Ok(pass) => self.observe(pass, id, connection),
                Err(why) => self.refuse_client(id, connection, why),
            },
            Ok(ToServer::Stream { .. } | ToServer::Goodbye {}) => {
                let reason = "the first message must be Hello, Observe or Join".to_string();
                self.refuse_client(id, connection, Refusal::Malformed { reason });
            }
            Err(not_a_client) => match decode::<FromWorker<'_>>(head) {
                Ok(FromWorker::Join { proof, info, secret, sessions }) => match self.admit_worker(connection, proof) {
                    Ok(pass) => self.join(pass, id, connection, info, &secret, &sessions),
                    Err(why) => self.refuse_worker(id, connection, why),
                },
                Ok(_) => {
                    let reason = "a worker's first message must be Join".to_string();
                    self.refuse_worker(id, connection, Refusal::Malformed { reason });
                }
                Err(_) => {
                    let reason = reason_of(not_a_client);
                    self.refuse_client(id, connection, Refusal::Malformed { reason });
                }
            },
        }
    }

    /// Lets in a client or an observer.
    fn admit<As>(&self, connection: &Connection, role: Role, proof: &[u8]) -> Result<Pass<As>, Refusal> {
        if self.ending {
            return Err(Refusal::Ending {});
        }
        match &self.config.token {
            Some(token) if connection.is_proven(token, role, proof) => Ok(Pass::new(Some(token))),
            Some(_) => Err(Refusal::Token {}),
            None if connection.peer_user() == Some(self.config.user_id) => Ok(Pass::new(None)),
            None => Err(Refusal::OtherUser {}),
        }
    }

    fn admit_worker(&self, connection: &Connection, proof: &[u8]) -> Result<Pass<AsWorker>, Refusal> {
        if self.ending {
            return Err(Refusal::Ending {});
        }
        let known = [&self.config.worker_token, &self.config.own_workers].into_iter().flatten();
        if let Some(secret) = known.into_iter().find(|secret| connection.is_proven(secret, Role::Worker, proof)) {
            return Ok(Pass::new(Some(secret)));
        }
        let asked = self.config.worker_token.is_some();
        let is_own = connection.peer().same_host && connection.peer_user() == Some(self.config.user_id);
        match !asked && is_own {
            true => Ok(Pass::new(None)),
            false => Err(Refusal::WorkerToken { asked }),
        }
    }

    /// Where a worker is, for those who come there for a session that lives there (ADMIT-4).
    pub(crate) fn find_worker(&self, pass: &SessionPass, worker: u32) -> Result<WorkerInfo, String> {
        let session = self.sessions.get(&pass.session);
        let session = session.filter(|session| SessionKeys::of_session(&session.secret).peer == pass.key);
        if session.is_none_or(|session| session.home != Some(worker)) {
            return Err(format!("no session on worker {worker} has this key"));
        }
        let found = self.workers.get(&worker).filter(|worker| worker.link.is_up());
        found.map(|worker| worker.info.clone()).ok_or_else(|| format!("worker {worker} is not connected"))
    }

    /// Whether a peer runs on this host as this process's user: the system says so of a Unix socket, and of nothing else.
    pub(crate) fn is_same_user(&self, connection: &Connection) -> bool {
        connection.is_same_host() && connection.peer_user() == Some(self.config.user_id)
    }

    fn observe(&mut self, _: Pass<AsObserver>, id: ConnectionId, connection: &Connection) {
        let _ = send(connection, &FromServer::Status { json: self.status().to_json() });
        self.let_go(id, connection);
    }

    /// What a client that was let in may send and leave unread. Whatever it sends has room in a message to a worker.
    pub(crate) fn widen_for_client(&self, connection: &Connection) {
        let most = Limits::default().max_head_bytes - FORWARD_BYTES;
        connection.set_limits(Limits {
            max_head_bytes: most,
            max_queued_bytes: CLIENT_QUEUE_BYTES,
            ..Self::limits(connection, self.config.idle_timeout)
        });
    }

    /// The same for a worker.
    pub(crate) fn widen_for_worker(&self, connection: &Connection) {
        connection.set_limits(Self::limits(connection, self.config.worker_silence));
    }

    fn limits(connection: &Connection, silence: Duration) -> Limits {
        // On one host a connection breaks when a process ends, and a stopped process is not a dead one.
        let idle_timeout = (!connection.is_same_host()).then_some(silence);
        Limits { max_body_bytes: 0, idle_timeout, ..Limits::default() }
    }
}

/// The bare reason of a message that could not be read: refusals have words of their own around it.
pub(crate) fn reason_of(error: NetError) -> String {
    match error {
        NetError::Malformed { reason } => reason,
        other => other.to_string(),
    }
}
