//! What can go wrong between processes. Each kind says whose fault it is.

use std::time::Duration;

use thiserror::Error;

/// Why a message, a connection or a listener did not come to be, or came to an end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetError {
    /// The user's: text that is no address.
    #[error("{text:?} is not a valid address: {reason}")]
    Address {
        /// What was given.
        text: String,
        /// What it should be.
        reason: String,
    },
    /// The user's or the machine's: nothing answers there, or the address cannot be had.
    #[error("{address}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The user's or the machine's: the host answers, and no process listens there.
    #[error("{address}: connection refused (no process listens there)")]
    NobodyListens {
        /// Where.
        address: String,
    },
    /// The user's: nobody here can reach it, now or later.
    #[error("{address}: {reason}")]
    NoWay {
        /// What.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The user's: a secret or certificate that cannot be used.
    #[error("{what}: {reason}")]
    Credentials {
        /// Which file or setting.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller's: a message over the limit of the side that would take it. Nothing was sent.
    #[error("a {what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// `head` or `body`.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The caller's: a call that waits, made by a receiver, which must not wait.
    #[error("internal error: a receiver must not wait for buffer space")]
    OnIoThread,
    /// The caller's `cancel` said so.
    #[error("interrupted while waiting")]
    Interrupted,
    /// The other side takes nothing, and the queue is at its limit. Nothing was sent.
    #[error("{queued_bytes} bytes are already queued for the peer")]
    Full {
        /// What waits.
        queued_bytes: u64,
    },
    /// Nothing came of it in time.
    #[error("{what} took longer than {after:?}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
    },
    /// The other side is no GT, or not on this kind of connection.
    #[error("the peer does not speak the GT protocol ({reason})")]
    NotGt {
        /// What it said instead.
        reason: String,
    },
    /// One side is older than the other.
    #[error(
        "the peer uses protocol version {theirs}, but this process uses version {ours}; install the same version of GT on both sides"
    )]
    Version {
        /// This side's.
        ours: u16,
        /// The other's.
        theirs: u16,
    },
    /// The other side's: bytes that break the protocol or its limits.
    #[error("the peer violated the protocol: {reason}")]
    Malformed {
        /// How.
        reason: String,
    },
    /// The other side closed the connection and said why.
    #[error("the peer closed the connection: {reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// TLS could not be agreed on.
    #[error("TLS: {reason}")]
    Tls {
        /// What was wrong.
        reason: String,
    },
    /// The other side said goodbye.
    #[error("the peer closed the connection")]
    Closed,
    /// This side said goodbye.
    #[error("the connection was closed by this process")]
    ClosedHere,
    /// The connection ended without a goodbye: a process that is gone, or a network.
    #[error("lost the connection: {reason}")]
    Lost {
        /// What the system said.
        reason: String,
    },
    /// Nothing was heard for too long, though the connection looks open.
    #[error("the peer has been silent for {silent:?}")]
    Silent {
        /// How long.
        silent: Duration,
    },
    /// The machine's: no thread, descriptor or memory to be had.
    #[error("{what}: {reason}")]
    Resource {
        /// What was needed.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// Ours.
    #[error("internal error: {reason}")]
    Internal {
        /// What happened.
        reason: String,
    },
}

impl NetError {
    pub(crate) fn malformed(reason: impl Into<String>) -> NetError {
        NetError::Malformed { reason: reason.into() }
    }

    pub(crate) fn lost(reason: impl ToString) -> NetError {
        NetError::Lost { reason: reason.to_string() }
    }

    pub(crate) fn resource(what: &'static str, reason: impl ToString) -> NetError {
        NetError::Resource { what, reason: reason.to_string() }
    }
}

/// What this crate's functions return.
pub type Result<T, E = NetError> = std::result::Result<T, E>;
