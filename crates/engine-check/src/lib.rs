//! What holds engines to their meaning: the slow engine that *defines* every op, and the suite that compares others with it.
//!
//! - [`Reference`]: computes one element at a time, in the order the op table states. What it gives is right.
//! - [`Null`]: computes nothing; for tests of everything but arithmetic.
//! - [`Late`]: any engine, whose values are pending when `submit` returns.
//! - [`conformance`]: what an engine must pass.

// A failure is built once, on a path that ends there: its size costs nothing.
#![allow(clippy::result_large_err)]

pub mod conformance;
mod eager;
mod late;
mod null;
pub mod numbers;
mod reference;
mod stepwise;

pub use eager::Eager;
pub use late::{Late, LateBuffer};
pub use null::{Null, NullBuffer};
pub use reference::{Reference, ReferenceBuffer, evaluate};
pub use stepwise::StepwiseProgram;
