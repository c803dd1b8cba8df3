//! The worker: one device, one thread, many sessions. Windows come in, plans are cached, values are published.
//!
//! ```text
//! session ─► inbox ─┐ turns
//! session ─► inbox ─┼─► device thread: recipe ─► plan (cached) ─► engine ─► the session's table ─► read
//! session ─► inbox ─┘
//! ```
//! WORKER-1: a session's windows run in the order they were sent; a read waits for its value alone.
//! WORKER-2: nothing an engine, a window or a callback does ends the worker: refused windows and panics poison the
//! values they were to define. What panics beyond that ends its session.
//! WORKER-3: the end of the last handle, of the worker and of its sessions, ends the thread; nobody waits for it.
//! WORKER-4: sessions share the device, the plans of those who plan alike, and nothing else: no id, failure, credit or
//! pause of one is seen by another.

mod adopt;
mod answers;
mod attached;
mod config;
mod copier;
mod device;
mod error;
mod failures;
mod flight;
mod handle;
mod handover;
mod inbox;
mod journal;
mod launch;
mod lost_inputs;
mod moved;
mod parts;
mod places;
mod planner;
mod queue;
mod refuse;
mod sequences;
mod session;
mod session_handle;
mod session_memory;
mod shared;
mod sink;
mod stats;
mod table;
mod turns;
mod waits;

pub use answers::{DoneThen, MoveThen, ReadThen};
pub use config::{CompilePolicy, SessionConfig, SiteNames, WorkerConfig};
pub use error::{Interrupted, Oversupplied, ReadError};
pub use gt_engine::Memory;
pub use handle::WorkerHandle;
pub use inbox::Missing;
pub use journal::Journal;
pub use moved::{Departing, Elements, Supplied};
pub use sequences::Sequence;
pub use session::{Copied, ExecutedHook};
pub use session_handle::SessionHandle;
pub use session_memory::{Charge, SessionMemory};
pub use shared::IdleHook;
pub use stats::{Load, WorkerStats};
