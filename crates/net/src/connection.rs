//! A connection, as everyone but the I/O thread sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gt_ir::Bytes;

use crate::channel::Channel;
use crate::pair::PairEnd;
use crate::proof::{self, Nonce};
use crate::receiver::Peer;
use crate::{Limits, Result, Role, Secret};

/// One end of a connection; clones are the same end, and any thread may use them.
///
/// It lives until either side closes it, its [`crate::Io`] ends, or it is lost: dropping clones does not close it.
/// A message that was taken (`Ok`) has been queued or sent; whether it arrived only the other side can say.
#[derive(Clone)]
pub struct Connection(pub(crate) End);

#[derive(Clone)]
pub(crate) enum End {
    Socket(Arc<Channel>),
    Pair(Arc<PairEnd>),
}

impl Connection {
    /// Sends a message that is a head alone. Never waits: [`NetError::Full`](crate::NetError::Full) when the other side
    /// is too slow.
    pub fn send(&self, head: &[u8]) -> Result<()> {
        match &self.0 {
            End::Socket(channel) => channel.send(head),
            End::Pair(end) => end.send(head, None),
        }
    }

    /// Sends a head with a body. Never waits; the body is held until it has left.
    pub fn send_with_body(&self, head: &[u8], body: Bytes) -> Result<()> {
        self.send_with_rest(head, body, 0)
    }

    /// As [`Connection::send_with_body`], but the body is what follows the first `from` bytes: the rest of one that was cut short.
    pub fn send_with_rest(&self, head: &[u8], body: Bytes, from: usize) -> Result<()> {
        let from = from.min(body.len());
        match &self.0 {
            End::Socket(channel) => channel.send_with_body(head, body, from),
            End::Pair(end) if from > 0 => end.send(head, Some(Bytes::from(&body[from..]))),
            End::Pair(end) => end.send(head, Some(body)),
        }
    }

    /// Sends a head with a body that is only lent: returns once `body` is needed no longer. Waits for room; asks `cancel`
    /// meanwhile, and gives the message up when it says so. A receiver must not call it.
    pub fn write_body(&self, head: &[u8], body: &[u8], cancel: &dyn Fn() -> bool) -> Result<()> {
        match &self.0 {
            End::Socket(channel) => channel.write_body(head, body, cancel),
            End::Pair(end) => end.send(head, Some(Bytes::from(body))),
        }
    }

    /// Bytes that were taken and have not left.
    pub fn queued_bytes(&self) -> u64 {
        match &self.0 {
            End::Socket(channel) => channel.lock().queued_bytes(),
            End::Pair(end) => end.queued_bytes(),
        }
    }

    /// How many segments of shared memory this side has made for its bodies.
    pub fn shared_segments(&self) -> usize {
        match &self.0 {
            End::Socket(channel) => channel.lock().pool.len(),
            End::Pair(_) => 0,
        }
    }

    /// Says goodbye once everything that was taken has left; the other side's messages are dropped from now on.
    pub fn close(&self) {
        match &self.0 {
            End::Socket(channel) => channel.close(),
            End::Pair(end) => end.close(),
        }
    }

    /// Changes what this side accepts and keeps, and tells the other side.
    pub fn set_limits(&self, limits: Limits) {
        match &self.0 {
            End::Socket(channel) => channel.set_limits(limits),
            End::Pair(end) => end.set_limits(limits),
        }
    }

    /// The other side.
    pub fn peer(&self) -> &Peer {
        match &self.0 {
            End::Socket(channel) => &channel.peer,
            End::Pair(end) => end.peer(),
        }
    }

    /// Whether bodies go through memory rather than through a network, all the way (RELAY-3).
    pub fn is_same_host(&self) -> bool {
        self.peer().same_host && !self.is_relayed()
    }

    /// Whether somebody between the two passes everything on.
    pub fn is_relayed(&self) -> bool {
        match &self.0 {
            End::Socket(channel) => channel.is_relayed(),
            End::Pair(_) => false,
        }
    }

    /// Shows that this side knows a secret, for one role and for this connection alone (PROOF-1).
    pub fn prove(&self, secret: &Secret, role: Role) -> Vec<u8> {
        let (own, theirs) = self.nonces();
        proof::make(secret, role, &own, &theirs)
    }

    /// Whether the other side has shown with this that it knows a secret, for this role (PROOF-2).
    pub fn is_proven(&self, secret: &Secret, role: Role, proof: &[u8]) -> bool {
        let (own, theirs) = self.nonces();
        proof::check(secret, role, &theirs, &own, proof)
    }

    /// This side's random bytes and the other's. Nobody overhears a pair: it has none.
    fn nonces(&self) -> (Nonce, Nonce) {
        match &self.0 {
            End::Socket(channel) => (channel.nonce, channel.their_nonce.get().copied().unwrap_or_default()),
            End::Pair(_) => Default::default(),
        }
    }

    /// The user whose process is at the other end, where the kernel of this host vouches for it: over Unix sockets, at the listening
    /// side, and over loopback.
    pub fn peer_user(&self) -> Option<u32> {
        match &self.0 {
            End::Socket(channel) => channel.peer_user(),
            End::Pair(_) => Some(crate::own_user()),
        }
    }

    /// Whether messages are still taken.
    pub fn is_open(&self) -> bool {
        match &self.0 {
            End::Socket(channel) => channel.lock().check_open().is_ok(),
            End::Pair(end) => end.is_open(),
        }
    }

    /// Asks the other side's I/O thread to show itself; [`Connection::rtt`] and [`Connection::silent_for`] then tell.
    pub fn ping(&self) -> Result<()> {
        match &self.0 {
            End::Socket(channel) => channel.ping(),
            End::Pair(_) => Ok(()),
        }
    }

    /// How long the last ping took, there and back.
    pub fn rtt(&self) -> Option<Duration> {
        match &self.0 {
            End::Socket(channel) => channel.rtt(),
            End::Pair(_) => Some(Duration::ZERO),
        }
    }

    /// How long ago anything was heard from the other side.
    pub fn silent_for(&self) -> Duration {
        match &self.0 {
            End::Socket(channel) => channel.silent_for(),
            End::Pair(_) => Duration::ZERO,
        }
    }

    /// Whether both are clones of the same end.
    pub fn is_same(&self, other: &Connection) -> bool {
        match (&self.0, &other.0) {
            (End::Socket(a), End::Socket(b)) => Arc::ptr_eq(a, b),
            (End::Pair(a), End::Pair(b)) => a.is_same(b),
            _ => false,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.peer().address)
    }
}
