//! A worker as a service: it joins a server, hosts the sessions the server gives it, and speaks with their clients.
//!
//! ```text
//! server ══ control ══► receive ─► reading (decodes, knows templates) ─► steps (in order) ─► SessionHandle
//! client ══ data ═════► uploads ──────────────────────────────────────────────────────────► SessionHandle
//! client ◄═ data ══════ outlet ◄─ answers, from whatever thread has them
//! worker ◄═ data ══════ courier ◄─ values that move, from whatever thread has them
//! worker ◄── neighbors ◄─ the same, to a session of this process: as they lie
//! files ──► loaders (a thread for each) ─────────────────────────────────────────────────► SessionHandle
//! worker ══ data ═════► arrivals (until the stream is there) ─────────────────────────────► SessionHandle
//! ```
//! Threads: the I/O thread receives; the device thread says when something has run, and moves on what had no room; one
//! thread, `gt-join`, connects to the server, again and again, and looks after what takes time.
//!
//! SERVE-1: the I/O thread never waits: what has no room is held, within limits.
//! SERVE-2: a session's messages take effect once and in order, whatever connections break.
//! SERVE-3: what one session sends can end that session, and nothing else.
//! SERVE-4: an answer reaches its client, by the connection that is attached or the one that comes.
//! SERVE-5: nobody speaks of a session without its key: clients have one, and other workers another (SESSION-KEY-1).
//! SERVE-6: nothing that the server says is heard before it has taken the worker and, over a network, has shown that it knows the token.

mod arrivals;
mod config;
mod control;
mod courier;
mod data;
mod error;
mod executed;
mod group;
mod handshake;
mod host;
mod hosted;
mod join;
mod loader;
mod loaders;
mod neighbors;
mod outlet;
mod parcel;
mod placing;
mod reading;
#[cfg(test)]
mod reading_tests;
mod route;
mod service;
mod steps;
mod taken;
mod templates;
mod uploads;

pub use config::{HeldLimits, RecorderMoved, Resources, ServeConfig, ServedDevice, SessionSettings};
pub use error::ServeError;
pub use loader::{BatchMaker, Loading, LoadingOf, MadeBatch};
pub use service::Service;
