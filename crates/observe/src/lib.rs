//! What GT shows of itself: counters, the instruction log and debug lines, as plain data; and the files that GT writes.
//!
//! OBS-1: what is switched off costs one check of an `Option` or a flag.
//!
//! ```
//! use gt_observe::{Event, InstructionLog};
//!
//! let path = std::env::temp_dir().join(format!("gt-observe-example-{}.log", std::process::id()));
//! let log = InstructionLog::create(&path)?;
//! log.write(Event::Recv, "CLIENT:local", "BinaryOp", 117, "result=42 op=add");
//! log.flush();
//! let line = std::fs::read_to_string(&path)?;
//! assert_eq!(line.split('|').count(), 7);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod counters;
mod debug;
mod instruction_log;
mod log_file;
pub mod output;

pub use counters::{CounterSnapshot, Counters};
pub use debug::{Component, Debug, say};
pub use instruction_log::{Event, InstructionLog, format_size};
pub use log_file::log_path;
