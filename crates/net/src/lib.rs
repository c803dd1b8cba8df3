//! Messages between GT's processes.
//!
//! A message is a small head and, for tensors, a large body. [`Io`] is the one thread of a process that serves all of its
//! connections: TCP with or without TLS, Unix sockets with shared memory for large bodies, and [`pair`]s within a process.
//! Whatever comes in goes to a [`Receiver`]; whatever goes out is given to a [`Connection`], by any thread.
//!
//! This crate trusts nobody: what arrives is checked before it costs anything, and a peer that breaks the protocol loses
//! its connection and nothing else.

mod address;
mod assembly;
mod auth;
mod channel;
mod connect;
mod connection;
mod decoder;
mod error;
mod frame;
mod incoming;
mod io;
mod limits;
mod listener;
mod outgoing;
mod pair;
pub mod protocol;
mod reactor;
mod receiver;
mod segment;
mod sequence;
mod socket;
mod tls;

pub use address::Address;
pub use auth::Secret;
pub use connection::Connection;
pub use decoder::Decoder;
pub use error::{NetError, Result};
pub use frame::{FEATURE_SEGMENTS, Frame, VERSION};
pub use io::Io;
pub use limits::Limits;
pub use listener::Listener;
pub use pair::pair;
pub use receiver::{Peer, Receiver};
pub use sequence::{Arrival, Inbox, Outbox};
pub use tls::{ClientTls, Fingerprint, Identity, ServerTls};
