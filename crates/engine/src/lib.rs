//! Engines execute plans. This crate holds the trait, the slow engine that *defines* every op, and the suite
//! that holds every other engine to it.
//!
//! - [`Reference`]: computes one element at a time, in the order the op table states. What it gives is right.
//! - [`Null`]: computes nothing; for tests of everything but arithmetic.
//! - [`Late`]: any engine, finishing late and out of step.
//! - [`conformance`]: what an engine must pass.

// A failure is built once, on a path that ends there: its size costs nothing.
#![allow(clippy::result_large_err)]

mod adopt;
pub mod conformance;
mod eager;
mod engine;
mod host_memory;
mod late;
mod null;
pub mod numbers;
pub mod presence;
mod quota;
mod reference;
mod stepwise;

pub use adopt::Adopt;
pub use eager::Eager;
pub use engine::{Buffer, Done, Engine, Memory, Run, Sink, Ticket, Value};
pub use host_memory::{HostMemory, Uncounted};
pub use late::Late;
pub use null::{Null, NullBuffer};
pub use quota::Quota;
pub use reference::{Reference, ReferenceBuffer, evaluate};
pub use stepwise::StepwiseProgram;
