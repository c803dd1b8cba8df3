//! The dispatcher's state, and who is asked what when something happens.
//!
//! | what | where |
//! |---|---|
//! | who may enter | `admission.rs` |
//! | what clients say | `clients.rs` |
//! | what workers say | `workers.rs` |
//! | messages on their way | `forward.rs` |
//! | which worker a session lives on | `placement.rs` |
//! | what time does | `leases.rs` |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gt_net::protocol::{FromServer, Refusal, ToWorker};
use gt_net::{Connection, NetError, Secret, may_take_another};

use crate::clock::Clock;
use crate::config::DispatcherConfig;
use crate::session::{Session, send};
use crate::turnstile::ConnectionId;
use crate::worker::Worker;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nobody knows yet; it has until then to say.
    Guest { until: Instant },
    /// The client of this session.
    Client(u64),
    /// The worker of this index.
    Worker(u32),
    /// Nobody any more: what it still says is dropped.
    Leaving,
}

/// What every session may have sent and not yet executed, however little it may hold.
const LEAST_CREDITS_BYTES: u64 = 16 << 20;

pub(crate) struct Core {
    pub(crate) config: DispatcherConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Instant,
    pub(crate) addresses: Vec<String>,
    pub(crate) peers: BTreeMap<ConnectionId, (Connection, Role)>,
    pub(crate) guests: usize,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) next_session: u64,
    pub(crate) workers: BTreeMap<u32, Worker>,
    /// Seals the descriptions of workers (SEAL-1).
    pub(crate) seal_key: Secret,
    /// Counts the changes of the group of workers.
    pub(crate) generation: u64,
    pub(crate) ending: bool,
    alarm: Option<Instant>,
}

impl Core {
    pub(crate) fn new(mut config: DispatcherConfig, clock: Arc<dyn Clock>) -> Result<Core, NetError> {
        if config.max_session_memory > 0 {
            // What waits here is the session's as well.
            config.credits_bytes = config.credits_bytes.min(config.max_session_memory.max(LEAST_CREDITS_BYTES));
        }
        Ok(Core {
            config,
            started: clock.now(),
            clock,
            addresses: Vec::new(),
            peers: BTreeMap::new(),
            guests: 0,
            sessions: BTreeMap::new(),
            next_session: 1,
            workers: BTreeMap::new(),
            seal_key: Secret::random()?,
            generation: 0,
            ending: false,
            alarm: None,
        })
    }

    /// Somebody should look again at that time.
    pub(crate) fn look_again(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn take_alarm(&mut self) -> Option<Instant> {
        self.alarm.take()
    }

    pub(crate) fn opened(&mut self, id: ConnectionId, connection: &Connection) {
        // PLACES-1: nobody has shown anything yet.
        let origin = connection.peer().origin();
        let is_from_there =
            |(peer, role): &&(Connection, Role)| matches!(role, Role::Guest { .. }) && peer.peer().origin() == origin;
        let held = self.peers.values().filter(is_from_there).count();
        if !may_take_another(held, self.guests, self.config.max_guests) {
            connection.close();
            return;
        }
        let until = self.clock.now() + self.config.first_message_timeout;
        self.guests += 1;
        self.peers.insert(id, (connection.clone(), Role::Guest { until }));
        self.look_again(until);
    }

    pub(crate) fn message(&mut self, id: ConnectionId, connection: &Connection, head: &[u8]) {
        match self.peers.get(&id).map(|(_, role)| *role) {
            Some(Role::Client(session)) => self.client_message(session, head),
            Some(Role::Worker(index)) => self.worker_message(index, head),
            Some(Role::Guest { .. }) => self.first_message(id, connection, head),
            Some(Role::Leaving) | None => {}
        }
    }

    pub(crate) fn closed(&mut self, id: ConnectionId, why: &NetError) {
        let Some((connection, role)) = self.peers.remove(&id) else { return };
        match role {
            Role::Guest { .. } => self.guests -= 1,
            Role::Client(session) => self.client_gone(session, id, &connection, why),
            Role::Worker(index) => self.worker_gone(index, id, &connection, why),
            Role::Leaving => {}
        }
    }

    /// Says what somebody is, from its first message on.
    pub(crate) fn set_role(&mut self, id: ConnectionId, role: Role) {
        if let Some((_, now)) = self.peers.get_mut(&id) {
            if matches!(now, Role::Guest { .. }) {
                self.guests -= 1;
            }
            *now = role;
        }
    }

    /// Hears no more of a connection and closes it once everything said to it has left.
    pub(crate) fn let_go(&mut self, id: ConnectionId, connection: &Connection) {
        self.set_role(id, Role::Leaving);
        connection.close();
    }

    pub(crate) fn refuse_client(&mut self, id: ConnectionId, connection: &Connection, why: Refusal) {
        self.config.log.line(format_args!("client {}: refused: {why}", connection.peer().address));
        let _ = send(connection, &FromServer::Refused { why });
        self.let_go(id, connection);
    }

    pub(crate) fn refuse_worker(&mut self, id: ConnectionId, connection: &Connection, why: Refusal) {
        self.config.log.line(format_args!("worker {}: refused: {why}", connection.peer().address));
        let _ = send(connection, &ToWorker::Refused { why });
        self.let_go(id, connection);
    }
}
