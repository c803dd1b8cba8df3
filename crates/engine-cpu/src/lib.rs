//! GT's fast CPU engine: fused loops, GEMM, a caching allocator.

mod alloc;
mod buffer;
mod engine;
mod fused;
pub mod kernels;
mod layout;
pub mod math;
pub mod pool;
mod reduce;
mod simd;
mod single;

pub use buffer::CpuBuffer;
pub use engine::{Config, CpuEngine, CpuProgram};
pub use layout::Layout;
