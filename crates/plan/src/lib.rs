//! Pure rewrites over streams: a window becomes a plan.
//!
//! [`Canonicalizer`] gives a window's hashes and bindings; [`build`] makes a plan of it, by the ordered list of
//! passes in `build.rs` (one pass a file); [`tile`] says what a fused step computes; [`PlanCache`] keeps plans for when their window comes again.
//!
//! ```
//! use gt_ir::{DType, TensorType, Window};
//! use gt_plan::{Canonicalizer, PlanOptions, build, text};
//!
//! let mut window = Window::default();
//! for line in ["%5 = unary(%1) kind=exp", "%6 = reduce(%5) kind=sum axes=[0] keepdim=false"] {
//!     window.instrs.push(line.parse().unwrap());
//! }
//! window.frees.push(window.instrs[0].outs[0]);
//! let mut canonicalizer = Canonicalizer::default();
//! let canonical = canonicalizer.run(&window, |_| Some(TensorType::new(DType::F32, &[8]))).unwrap();
//! let plan = build(&window, canonical, PlanOptions::default()).unwrap();
//! assert_eq!(text::print(&plan).lines().nth(1).unwrap(),
//!     "0 fused[8] %1=exp(%0); %2=sum(%1) -> %2:f32[] | drops %1 | publish %2");
//! ```

mod build;
mod cache;
mod canonical;
mod dead;
mod draft;
mod error;
mod expand;
mod fuse;
mod infer;
mod input_index;
mod limits;
mod liveness;
mod pair;
mod parts;
mod plan;
mod sink;
mod template;
pub mod text;
pub mod tile;
mod unbroadcast;
mod verify;

pub use build::{Built, PlanOptions, build, build_from};
pub use cache::{CacheCounts, Cached, DigestHasher, DigestMap, PlanCache};
pub use canonical::{Canonical, Canonicalizer};
pub use draft::{Role, role};
pub use error::PlanError;
pub use expand::{Expansion, expand};
pub use fuse::{Group, Grouping, rows_of};
pub use limits::EngineLimits;
pub use parts::{Part, Parts, parts_of};
pub use plan::{Immediates, Plan, Slot, Step, StepKind};
pub use template::{Bindings, Occurrence, Template, TemplateHasher};
pub use verify::verify;
