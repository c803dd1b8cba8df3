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
mod draft;
mod exchange;
mod learned;
mod lower;
mod lowered;
mod mesh;
mod overlap;
mod placed;
mod placer;
mod repeat;
mod repeat_key;
mod report;
mod template;
mod traffic;
mod update;

pub use lower::{LocalStep, Lowerer};
pub use mesh::{Mesh, Placement};
pub use placed::{Conversion, Phase, PlacedStep, PlacedWindow, PlacementIndex, UploadShare};
pub use placer::{Layout, Placer, ReadPlan};
pub use repeat::{Placed, Repeated, UploadStep};
pub use report::Report;
pub use template::{PlacedBindings, PlacedTemplate};
pub use traffic::{Collective, Traffic};
