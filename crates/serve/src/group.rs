//! What the worker is to its server: the connection, and the secret it was given.

use std::collections::VecDeque;

use gt_net::protocol::{FromWorker, WorkerInfo, encode};
use gt_net::{Connection, Secret};
use parking_lot::Mutex;

/// What the server gave when the worker joined.
pub(super) struct Standing {
    /// What it shows when it comes back; empty for a new one.
    pub(super) secret: Box<[u8]>,
    /// Its name there.
    pub(super) id: String,
    /// With which the server seals the descriptions of other workers (SEAL-1).
    pub(super) seal_key: Secret,
}

#[derive(Default)]
struct Line {
    connection: Option<Connection>,
    /// Sessions that ended while nobody listened.
    unsaid: VecDeque<(u64, String)>,
}

/// The worker's place in a group.
#[derive(Default)]
pub(super) struct ServerConnection {
    line: Mutex<Line>,
    standing: Mutex<Option<Standing>>,
}

impl ServerConnection {
    /// The server has taken the worker: from now on it hears of everything.
    pub(super) fn joined(&self, connection: &Connection, standing: Standing) {
        self.stands(standing);
        let mut line = self.line.lock();
        line.connection = Some(connection.clone());
        while let Some((session, reason)) = line.unsaid.pop_front() {
            let _ = connection.send(&encode(&FromWorker::Broken { session, reason }));
        }
    }

    /// What the server gave counts from now on.
    pub(super) fn stands(&self, standing: Standing) {
        *self.standing.lock() = Some(standing);
    }

    /// The connection is gone.
    pub(super) fn left(&self, connection: &Connection) {
        let mut line = self.line.lock();
        if line.connection.as_ref().is_some_and(|c| c.is_same(connection)) {
            line.connection = None;
        }
    }

    /// Says something; whether the server will hear it.
    pub(super) fn say(&self, message: &FromWorker<'_>) -> bool {
        let connection = self.line.lock().connection.clone();
        connection.is_some_and(|connection| connection.send(&encode(message)).is_ok())
    }

    /// Says that a session is broken, now or when the server is back.
    pub(super) fn say_broken(&self, session: u64, reason: &str) {
        let broken = FromWorker::Broken { session, reason: reason.to_string() };
        if !self.say(&broken) {
            self.line.lock().unsaid.push_back((session, reason.to_string()));
        }
    }

    /// The connection to the server, while the worker is joined.
    pub(super) fn connection(&self) -> Option<Connection> {
        self.line.lock().connection.clone()
    }

    /// What the worker shows to come back.
    pub(super) fn secret(&self) -> Box<[u8]> {
        self.standing.lock().as_ref().map(|standing| standing.secret.clone()).unwrap_or_default()
    }

    /// The name the server gave.
    pub(super) fn id(&self) -> String {
        self.standing.lock().as_ref().map(|standing| standing.id.clone()).unwrap_or_default()
    }

    /// Whether the server vouches for what is said of another worker (SEAL-1).
    pub(super) fn vouches_for(&self, worker: &WorkerInfo) -> bool {
        self.standing.lock().as_ref().is_some_and(|standing| worker.is_sealed_by(&standing.seal_key))
    }

    /// Nobody knows the worker any more.
    pub(super) fn forget_standing(&self) {
        *self.standing.lock() = None;
        self.line.lock().unsaid.clear();
    }
}
