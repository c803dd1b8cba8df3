//! What an engine is: the trait, buffers that may be pending, the sink that receives them, quotas and transfers.
//!
//! Engines are crates of their own. What holds them to their meaning is in `gt-engine-check`.

// A failure is built once, on a path that ends there: its size costs nothing.
#![allow(clippy::result_large_err)]

mod cancel;
mod engine;
mod family_times;
pub mod presence;
mod quota;
mod transfer;

pub use cancel::Cancel;
pub use engine::{Buffer, Done, Engine, Memory, Run, Sink, Ticket, Value, ValueState};
pub use family_times::{Family, FamilyTimes, MeasuredRun, set_exact as measure_every_run};
pub use quota::Quota;
pub use transfer::{HostMemory, Transfer, Uncounted};
