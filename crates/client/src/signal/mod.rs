//! Signals: names for stretches of a program, and what they say about where it runs.
//!
//! A scope is entered by name. What is recorded inside carries the scope's number; whoever places the stream asks
//! [`layout`] what it means on the workers there are. Without a config the names mean nothing and cost nothing.
//!
//! SIGNAL-1: the innermost scope of the recording thread counts. A name that nothing is known of leaves the one around it.
//! SIGNAL-2: a scope's number stands for what its signal said when it was entered; a config loaded later makes other
//!           numbers. The same content has the same number, so that a loop records the same windows.
//! SIGNAL-3: what backward records for an instruction is under the signal for gradients of the scope that instruction was
//!           recorded in, or under that scope itself.
//! SIGNAL-4: until the first scope that means something, recording does nothing for signals. From then on every window
//!           names the values from before that it uses ([`gt_ir::Window::met`]).
//! SIGNAL-5: a reshape to the shape there is, under a scope, lays a value out as the scope would have made it.

mod config;
mod layout;
mod scope;
mod warning;
mod yaml;

pub use config::{ShardConfig, SignalConfig, WorkerName, Workers, all, demand, get, load, load_text, register};
pub use layout::layout;
pub use scope::{
    ScopeGuard, auto_shard, check_rank, current, enter, exchange, exit, in_use, innermost, is_automatic, name,
    scope_of, under, worker,
};
pub(crate) use scope::{gradients_of, recorded_under};
pub use warning::{is_strict, set_strict};
