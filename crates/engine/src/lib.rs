//! Engines execute plans. This crate holds the trait, the slow engine that *defines* every op, and the suite
//! that holds every other engine to it.

mod engine;

pub use engine::{Buffer, Done, Engine, Memory, Run, Sink, Ticket, Value};
