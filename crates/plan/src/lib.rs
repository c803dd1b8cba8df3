//! Pure rewrites over streams: the recipe of a window becomes a plan.
//!
//! [`build`] makes a plan by the ordered list of passes in `build.rs` (one pass a file). [`tile`] says what a fused step
//! computes. [`PlanCache`] keeps plans for the next occurrences of their recipes.
//!
//! ```
//! use gt_ir::{DType, TensorType, Window};
//! use gt_plan::{PlanOptions, build, text};
//! use gt_stream::Occurrence;
//!
//! let mut window = Window::default();
//! for line in ["%5 = unary(%1) kind=exp", "%6 = reduce(%5) kind=sum axes=[0] keepdim=false"] {
//!     window.instrs.push(line.parse().unwrap());
//! }
//! window.frees.push(window.instrs[0].outs[0]);
//! let occurrence = Occurrence::of(window).unwrap();
//! let plan = build(occurrence.recipe(), &[TensorType::new(DType::F32, &[8])], PlanOptions::default()).unwrap();
//! assert_eq!(text::print(&plan).lines().nth(1).unwrap(),
//!     "0 fused[8] %1=exp(%0); %2=sum(%1) -> %2:f32[] | drops %1 | publish %2");
//! ```

mod build;
mod cache;
mod dead;
mod draft;
mod error;
mod expand;
mod fuse;
mod infer;
mod limits;
mod liveness;
mod pair;
mod parts;
mod plan;
mod sink;
pub mod text;
pub mod tile;
mod unbroadcast;
mod verify;

pub use build::{PlanOptions, build};
pub use cache::{CacheCounts, Cached, PlanCache};
pub use draft::{Role, role};
pub use error::PlanError;
pub use expand::{Expansion, expand};
pub use fuse::rows_of;
pub use limits::EngineLimits;
pub use parts::{Part, Parts, parts_of};
pub use plan::{Immediates, Plan, Slot, Step, StepKind};
pub use verify::verify;
