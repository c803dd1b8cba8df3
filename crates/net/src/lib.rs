//! Messages between GT's processes.
//!
//! A message is a small head and, for tensors, a large body. [`Io`] is the one thread of a process that serves all of its
//! connections: TCP with or without TLS, Unix sockets with shared memory for large bodies, and [`pair`]s within a process.
//! Whatever comes in goes to a [`Receiver`]; whatever goes out is given to a [`Connection`], by any thread.
//!
//! ```
//! use std::sync::mpsc;
//! use gt_ir::Bytes;
//! use gt_net::{Connection, NetError, Receiver, pair};
//!
//! struct Print(mpsc::Sender<String>);
//! impl Receiver for Print {
//!     fn message(&mut self, _from: &Connection, head: &[u8], body: Option<Bytes>) {
//!         let text = format!("{} and {} bytes", String::from_utf8_lossy(head), body.map_or(0, |b| b.len()));
//!         self.0.send(text).ok();
//!     }
//!     fn closed(&mut self, _from: &Connection, why: &NetError) {
//!         self.0.send(why.to_string()).ok();
//!     }
//! }
//!
//! let (put, take) = mpsc::channel();
//! let (here, _there) = pair(Box::new(Print(put.clone())), Box::new(Print(put)));
//! here.write_body(b"a head", &[0; 1000], &|| false)?;
//! assert_eq!(take.recv().unwrap(), "a head and 1000 bytes");
//! # Ok::<(), NetError>(())
//! ```
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
mod descriptors;
mod entry;
mod error;
mod flush;
mod frame;
mod incoming;
mod io;
mod limits;
mod listener;
mod loopback;
mod outgoing;
mod pair;
mod place;
mod places;
mod proof;
pub mod protocol;
mod reach;
mod reactor;
mod receiver;
mod relay;
mod seal;
mod segment;
mod sequence;
mod session_keys;
mod socket;
mod spares;
mod tls;

pub use address::Address;
pub use auth::Secret;
pub use connection::Connection;
pub use decoder::Decoder;
pub use descriptors::most_descriptors;
pub use error::{NetError, Result};
pub use frame::{FEATURE_RELAYED, FEATURE_SEGMENTS, Frame, VERSION};
pub use io::Io;
pub use limits::Limits;
pub use listener::Listener;
pub use pair::pair;
pub use place::{host_id, own_user, process_socket, remove_stale_sockets, runtime_directory, server_socket};
pub use places::may_take_another;
pub use proof::Role;
pub use reach::{Reach, Way};
pub use receiver::{Admission, Peer, Receiver};
pub use relay::{RELAY_SILENCE, Relay};
pub use sequence::{Arrival, Inbox, Outbox};
pub use session_keys::{SessionKeys, SessionPass};
pub use tls::{ClientTls, Fingerprint, Identity, ServerTls};
