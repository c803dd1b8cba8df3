//! Who may enter: the first message of a connection.
//!
//! ADMIT-1: loopback, this process and Unix sockets of the same user need no token; everyone else shows it, or is refused.
//! ADMIT-2: until then a peer may send one small message (`Limits::before_authentication`), soon.

use std::net::SocketAddr;
use std::time::Duration;

use gt_net::protocol::{FromServer, FromWorker, Refusal, ToServer, WorkerInfo, decode};
use gt_net::{Connection, Limits, NetError};

use crate::clients::Wish;
use crate::core::Core;
use crate::session::send;
use crate::turnstile::ConnectionId;

/// What is left for the session and the number in front of a message on its way to a worker.
const FORWARD_BYTES: u32 = 64;
/// What may wait for a client that does not read: acks and notices.
const CLIENT_QUEUE_BYTES: usize = 4 << 20;

impl Core {
    pub(crate) fn first_message(&mut self, id: ConnectionId, connection: &Connection, head: &[u8]) {
        // PROTO-4: the first byte says who speaks.
        match decode::<ToServer<'_>>(head) {
            Ok(ToServer::Hello { token, name, variables, workers, resume, pin }) => match self.check(connection, token)
            {
                Ok(()) => self.hello(id, connection, Wish { name, variables, workers, pin }, resume),
                Err(why) => self.refuse_client(id, connection, why),
            },
            Ok(ToServer::Observe { token }) => match self.check(connection, token) {
                Ok(()) => self.observe(id, connection),
                Err(why) => self.refuse_client(id, connection, why),
            },
            Ok(ToServer::Stream { .. } | ToServer::Goodbye {}) => {
                let reason = "a connection begins with Hello, Observe or Join".to_string();
                self.refuse_client(id, connection, Refusal::Malformed { reason });
            }
            Err(not_a_client) => match decode::<FromWorker<'_>>(head) {
                Ok(FromWorker::Join { token, info, secret, sessions }) => match self.check(connection, token) {
                    Ok(()) => self.join(id, connection, info, &secret, &sessions),
                    Err(why) => self.refuse_worker(id, connection, why),
                },
                Ok(_) => {
                    let reason = "a worker begins with Join".to_string();
                    self.refuse_worker(id, connection, Refusal::Malformed { reason });
                }
                Err(_) => {
                    let reason = reason_of(not_a_client);
                    self.refuse_client(id, connection, Refusal::Malformed { reason });
                }
            },
        }
    }

    fn check(&self, connection: &Connection, token: &[u8]) -> Result<(), Refusal> {
        if !self.is_trusted(connection) && !self.config.token.as_ref().is_some_and(|ours| ours.matches(token)) {
            return Err(Refusal::Token {});
        }
        match self.ending {
            true => Err(Refusal::Ending {}),
            false => Ok(()),
        }
    }

    /// Where a worker is, for those who may enter.
    pub(crate) fn find_worker(&self, peer: &Connection, token: &[u8], worker: u32) -> Result<WorkerInfo, String> {
        self.check(peer, token).map_err(|why| why.to_string())?;
        let found = self.workers.get(&worker).filter(|worker| worker.link.is_up());
        found.map(|worker| worker.info.clone()).ok_or_else(|| format!("the server has no worker {worker} now"))
    }

    /// ADMIT-1.
    fn is_trusted(&self, connection: &Connection) -> bool {
        let peer = connection.peer();
        match (peer.same_host, peer.user_id) {
            (true, Some(user)) => user == self.config.user_id,
            (true, None) => true,
            (false, _) => peer.address.parse().is_ok_and(|at: SocketAddr| at.ip().to_canonical().is_loopback()),
        }
    }

    fn observe(&mut self, id: ConnectionId, connection: &Connection) {
        let _ = send(connection, &FromServer::Status { json: self.status().to_json() });
        self.let_go(id, connection);
    }

    /// What a client that was let in may send and leave unread. Whatever it sends has room in a message to a worker.
    pub(crate) fn admit_client(&self, connection: &Connection) {
        let most = Limits::default().max_head_bytes - FORWARD_BYTES;
        connection.set_limits(Limits {
            max_head_bytes: most,
            max_queued_bytes: CLIENT_QUEUE_BYTES,
            ..Self::limits(connection, self.config.idle_timeout)
        });
    }

    /// The same for a worker.
    pub(crate) fn admit_worker(&self, connection: &Connection) {
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
