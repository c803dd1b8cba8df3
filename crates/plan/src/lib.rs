//! Pure rewrites over streams: a window becomes a plan.

mod plan;

pub use plan::{Immediates, Plan, Slot, Step, StepKind};
