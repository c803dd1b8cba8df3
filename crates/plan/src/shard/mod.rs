//! Sharding: one stream for many workers.
//!
//! ```text
//! client:  window ── Placer ──► PlacedWindow (the same bytes for all)
//! worker:  PlacedWindow ── lower, by its own number ──► LocalStep: windows on its parts, sends, receives
//! ```
//! Both are pure, so that a group of any size can be tried in one thread.

mod all_reduce;
mod assign;
mod choose;
mod convert;
mod copies;
mod cost;
mod lower;
mod mesh;
mod overlap;
mod placed;
mod placer;
mod report;
mod traffic;

pub use lower::{LocalStep, Lowerer};
pub use mesh::{Mesh, Placement};
pub use placed::{Conversion, Phase, PlacedStep, PlacedWindow, PlacementIndex};
pub use placer::{Layout, Placer, ReadPlan};
pub use report::Report;
pub use traffic::{Collective, Traffic};
