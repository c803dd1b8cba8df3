//! The server's core: sessions, workers, and the stream between them.
//!
//! A [`Dispatcher`] takes connections of clients and of workers, gives every session a home among the workers, and passes
//! the session's messages on, unread, in order. It holds no tensor, links no kernel and never waits.
//!
//! ```text
//!  client ── Stream ──► session: number, credits, backlog ── Stream ──► home worker
//!         ◄── Ack ────  received, executed                ◄── Executed ──
//! ```
//!
//! DISPATCH-1: one event is handled at a time (`turnstile.rs`); what a handler sends goes out in the order it was sent.
//! DISPATCH-2: a message of a session reaches its home once and in order, whatever connections drop (`backlog.rs`).
//! DISPATCH-3: what is held for a session is bounded by its credits, and a session that overruns them ends.
//! DISPATCH-4: what one peer says wrongly ends that peer's connection, and its session, and nothing else.
//! DISPATCH-5: nobody is heard beyond the first message who has not shown that it may be what it claims to be (`admission.rs`).
//! DISPATCH-6: maps are ordered: the same events give the same messages.

mod acks;
mod admission;
mod backlog;
mod clients;
mod clock;
mod config;
mod core;
mod dispatcher;
mod forward;
mod leases;
mod placement;
mod session;
mod status;
mod turnstile;
mod worker;
mod workers;

pub use clock::{Clock, SystemClock, Timer};
pub use config::{DispatcherConfig, Leases, Log};
pub use dispatcher::Dispatcher;
pub use status::{ServerStatus, SessionStatus, Status, WorkerStatus};
pub use workers::{MAX_WORKER_NAME, is_worker_name};
