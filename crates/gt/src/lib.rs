//! GT for Rust programs: tensors that record, and a worker in this process that runs them.
//!
//! ```
//! # fn main() -> gt::Result<()> {
//! gt::install();
//! let x = gt::Tensor::randn(&[4, 3], None, None)?;
//! let y = x.matmul(&x.transpose(0, 1)?)?.sum(&[], false, None)?;
//! println!("{}", y.item()?.as_f64());
//! # Ok(())
//! # }
//! ```
//! The first op starts the worker; `install` says how. Variables (`GT_BACKEND`, `GT_NUM_THREADS`, …) are read then.

mod config;
mod connected;
mod current;
mod embedded;
mod group;
mod loading;
mod memory_limit;
mod server;
mod serving;
mod signals;
mod size;
mod threads;

pub use config::{Backend, Compile, Config, PlanRequest, session_config};
pub use current::{empty_cache, install, memory, on_start, payload_memory, shutdown, stats, traffic};
pub use group::{gpu_workers, worker_count};
pub use gt_client::*;
pub use gt_engine_cpu::profile;
pub use gt_worker::{Memory, WorkerStats};
pub use server::{ConnectOptions, connect, disconnect};
pub use serving::{Device, serve};
pub use signals::{load_config, register_config, signal_configs};
pub use size::parse_size;
pub use threads::{num_threads, set_num_threads};
