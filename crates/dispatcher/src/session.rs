//! A session, as the dispatcher knows it.

use std::time::Instant;

use gt_ir::Failure;
use gt_net::protocol::{FromServer, Wire};
use gt_net::{Connection, NetError, Secret};

use crate::acks::Acks;
use crate::backlog::Backlog;
use crate::turnstile::ConnectionId;

/// How somebody is reached.
#[derive(Debug)]
pub(crate) enum Link {
    /// By this connection.
    Up(ConnectionId, Connection),
    /// Not at all; it may come back until then.
    Away { until: Instant, why: String },
}

impl Link {
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match self {
            Link::Up(_, connection) => Some(connection),
            Link::Away { .. } => None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self, Link::Up(..))
    }

    pub(crate) fn is_by(&self, id: ConnectionId) -> bool {
        matches!(self, Link::Up(up, _) if *up == id)
    }
}

/// A worker that a session lived on.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) worker: String,
    pub(crate) reason: String,
}

/// One of several sessions of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// The worker it lives on, and nowhere else.
    pub(crate) to: u32,
    /// The session it belongs to.
    pub(crate) home: u64,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) secret: Secret,
    pub(crate) name: String,
    /// Where its client comes from (`Peer::origin`).
    pub(crate) origin: String,
    /// The client that opened it is this process's user, on this host.
    pub(crate) same_user: bool,
    pub(crate) variables: Vec<(String, String)>,
    /// How many workers it wants to know of; 0 for all.
    pub(crate) wanted_workers: u32,
    pub(crate) since: Instant,
    pub(crate) link: Link,
    pub(crate) pinned: Option<Pinned>,
    pub(crate) home: Option<u32>,
    /// The first message that went to its home.
    pub(crate) home_from: u64,
    pub(crate) backlog: Backlog,
    pub(crate) acks: Acks,
    /// It is among those that wait for room at its home.
    pub(crate) in_turns: bool,
    /// Those before these are forgotten: so many.
    pub(crate) losses_forgotten: u64,
    pub(crate) losses: Vec<Loss>,
    /// What to say of values that are on none of the workers.
    pub(crate) lost: Option<Failure>,
    /// A template that its worker asked for, perhaps while the client was away.
    pub(crate) needed: Option<u64>,
    pub(crate) instrs_received: u64,
    pub(crate) instrs_executed: u64,
}

/// How many losses are told to a client that was away.
const MAX_LOSSES: usize = 16;

impl Session {
    /// Nothing was sent to be run.
    pub(crate) fn is_unused(&self) -> bool {
        self.backlog.received() == 0
    }

    /// Tells its client, unless that is away. One that does not read loses its connection, and hears it when it resumes.
    pub(crate) fn tell(&self, message: &FromServer) {
        let Some(connection) = self.link.connection() else { return };
        if let Err(NetError::Full { .. }) = send(connection, message) {
            connection.close();
        }
    }

    pub(crate) fn note_loss(&mut self, loss: Loss) {
        self.losses.push(loss);
        if self.losses.len() > MAX_LOSSES {
            self.losses.remove(0);
            self.losses_forgotten += 1;
        }
    }

    /// What a client that has heard of `told` losses has not heard of.
    pub(crate) fn losses_after(&self, told: u64) -> &[Loss] {
        let skip = usize::try_from(told.saturating_sub(self.losses_forgotten)).unwrap_or(usize::MAX);
        self.losses.get(skip..).unwrap_or(&[])
    }
}

pub(crate) fn send<'a>(connection: &Connection, message: &impl Wire<'a>) -> Result<(), NetError> {
    connection.send(&gt_net::protocol::encode(message))
}
