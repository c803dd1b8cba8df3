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

mod backends;
mod config;
mod connected;
mod current;
mod denormal;
mod embedded;
mod gpus;
mod group;
mod host_share;
mod loading;
mod memory_limit;
mod server;
mod serving;
mod signals;
mod size;
mod threads;
mod variables;

pub use backends::{BACKENDS, Backend};
pub use config::{Compile, Config, PlanRequest, session_config};
pub use current::{
    empty_cache, finish, install, memory, memory_limit_bytes, on_start, payload_memory, shutdown, stats, traffic,
};
pub use denormal::set_flush_denormal;
pub use gpus::{tell_of_hint, tell_of_unused_gpus};
pub use group::{gpu_workers, worker_count};
pub use gt_client::*;
pub use gt_engine::measure_every_run;
pub use gt_worker::{Memory, WorkerStats};
pub use server::{ConnectOptions, connect, disconnect, enter_opened, leave_entered, open_session};
pub use serving::{Device, ServedData, serve};
pub use signals::{load_config, register_config, signal_configs};
pub use size::parse_size;
pub use threads::{num_threads, set_num_threads};
pub use variables::variable_warnings;
