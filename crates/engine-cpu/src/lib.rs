//! GT's fast CPU engine.
//!
//! - [`CpuEngine`] runs plans synchronously: `engine` walks the steps, `fused` runs elementwise chains and the reductions
//!   that end them tile by tile, `single` makes views and calls [`kernels`] for everything else.
//! - `alloc` keeps memory under a limit and blocks for reuse; a value is a block and a [`Layout`]. `transfer` lends blocks to
//!   whoever makes payloads.
//! - [`pool`] shares the work of one step; `simd` compiles loops for several instruction sets; [`math`] holds the
//!   functions they call.
//!
//! The bits of a result depend on the operands' values and shapes only: see FUSED, REDUCE, SIMD and KERNEL in the modules.

// A failure is rare and large on purpose; where it is kept it is behind an `Arc`.
#![allow(clippy::result_large_err)]
// ROOM-1: what a tensor's extents size comes from the allocator.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod affinity;
mod alloc;
mod buffer;
mod composite;
pub mod denormal;
mod distance;
mod engine;
mod expansion;
mod fused;
pub mod kernels;
mod layout;
pub mod math;
pub mod pool;
mod reduce;
mod simd;
mod single;
mod transfer;

pub use buffer::CpuBuffer;
pub use engine::{Config, CpuEngine, CpuProgram};
pub use layout::Layout;
