//! The worker: one device, one thread. Windows come in, plans are cached, values are published.
//!
//! ```text
//! send ─► queue ─► device thread: canonical form ─► plan (cached) ─► engine ─► table ─► read
//! ```
//! WORKER-1: windows run in the order they were sent; a read waits for its value alone.
//! WORKER-2: nothing an engine or a window does ends the worker: refused windows and panics poison the values they
//! were to define.
//! WORKER-3: the end of the last handle ends the thread; nobody waits for it.

mod config;
mod device;
mod error;
mod handle;
mod journal;
mod planner;
mod queue;
mod refuse;
mod sequences;
mod shared;
mod sink;
mod split;
mod table;

pub use config::{CompilePolicy, SiteNames, WorkerConfig};
pub use error::{Interrupted, ReadError};
pub use gt_engine::Memory;
pub use handle::WorkerHandle;
pub use sequences::Sequence;
pub use shared::{IdleHook, WorkerStats};
pub(crate) use table::Values;
