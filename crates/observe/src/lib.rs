//! What GT shows of itself: counters, the instruction log and debug lines, as plain data.
//!
//! OBS-1: what is switched off costs one check of an `Option` or a flag.

mod counters;
mod debug;
mod instruction_log;

pub use counters::{CounterSnapshot, Counters};
pub use debug::{Component, Debug};
pub use instruction_log::{Event, InstructionLog, format_size};
