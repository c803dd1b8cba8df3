//! The identity of a window that repeats.
//!
//! A [`Recipe`] says what a window computes, without names, numbers and source lines. It is interned: in one process, two
//! windows with the same recipe share one [`Recipe`], so comparing recipe numbers compares windows. [`Bindings`] hold
//! what one occurrence adds: names, scalars, payloads. A [`Template`] is a recipe with its source lines, and an
//! [`Occurrence`] is a template with bindings.
//! Clients record occurrences ([`Recording`]), links carry them, and workers plan their recipes.
//!
//! ```
//! use gt_ir::Window;
//! use gt_stream::Occurrence;
//!
//! let step = |at: u64| -> Window {
//!     let line = format!("%{at} = binary(%1) kind=add scalar=right $ 0.5");
//!     Window { instrs: vec![line.parse().unwrap()], ..Window::default() }
//! };
//! let (first, second) = (Occurrence::of(step(10)).unwrap(), Occurrence::of(step(11)).unwrap());
//! assert_eq!(first.recipe().number(), second.recipe().number());
//! assert_eq!(second.window(), step(11));
//! ```

mod bindings;
mod error;
mod expectation;
mod input_index;
mod intern;
mod occurrence;
mod operand;
mod recipe;
mod recording;
mod template;

pub use bindings::Bindings;
pub use error::StreamError;
pub use expectation::Expectations;
pub use occurrence::{Checker, Occurrence};
pub use operand::Operand;
pub use recipe::{Recipe, Survivor, UploadPlace};
pub use recording::Recording;
pub use template::Template;
