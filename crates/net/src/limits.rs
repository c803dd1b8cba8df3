//! How much one side of a connection takes and keeps.

use std::time::Duration;

use crate::outgoing::MAX_OPEN_BODIES;

/// What a connection accepts from the other side and holds for it.
///
/// The two sizes are told to the other side, so that a message over them is refused where it would be sent
/// ([`NetError::TooLarge`](crate::NetError::TooLarge)); a side that sends it all the same loses the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest head taken.
    pub max_head_bytes: u32,
    /// The longest body taken; 0 takes none.
    pub max_body_bytes: u64,
    /// How many bytes of heads may wait for a slow reader before `send` reports `Full`.
    pub max_queued_bytes: usize,
    /// How many bytes of bodies may wait before `send_with_body` reports `Full`; a single one may be longer.
    pub max_queued_body_bytes: u64,
    /// How many bodies leave at once, in turns; the others wait until one has left.
    pub open_bodies: usize,
    /// How long the other side may take to introduce itself.
    pub handshake_timeout: Duration,
    /// A connection that is silent for so long is lost. It is asked to show itself well before that.
    pub idle_timeout: Option<Duration>,
    /// How long what is queued may take to leave once the connection was closed on this side.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // A window holds up to 16 MiB of payloads that are too small to travel apart.
            max_head_bytes: 32 << 20,
            max_body_bytes: 64 << 30,
            max_queued_bytes: 64 << 20,
            max_queued_body_bytes: 4 << 30,
            open_bodies: MAX_OPEN_BODIES,
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: None,
            linger: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// For a peer that has not shown its token yet: small heads, no bodies, until
    /// [`Connection::set_limits`](crate::Connection::set_limits) says otherwise.
    pub fn before_authentication() -> Self {
        Limits { max_head_bytes: 64 << 10, max_body_bytes: 0, ..Limits::default() }
    }
}
