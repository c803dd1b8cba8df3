//! A worker for a server, in this process.

use std::sync::{Arc, Once};

use gt_client::{Error, Result};
use gt_engine_cpu::CpuEngine;
use gt_engine_cpu::placement::Placement;
use gt_worker::serve::{ServeConfig, ServedDevice, Service};
use gt_worker::{WorkerConfig, WorkerHandle};

use crate::config::Backend;
use crate::loading::SessionLoading;
use crate::memory_limit;

/// What a worker computes with.
#[derive(Clone, Debug)]
pub struct Device {
    /// Which engine.
    pub backend: Backend,
    /// With how many threads; as many as there are cores otherwise.
    pub threads: Option<usize>,
    /// How much it may allocate, as users write it: `4GiB`, `50%`. 90 % of what there is otherwise.
    pub memory_limit: Option<String>,
    /// Whether `[WORKER]` lines are printed.
    pub debug: bool,
}

/// Starts a device and serves it to a server.
///
/// # Errors
/// When the memory limit does not parse, or the service cannot listen.
pub fn serve(device: &Device, mut config: ServeConfig) -> Result<Service> {
    let limit = match &device.memory_limit {
        Some(text) => memory_limit::parse(text).ok_or_else(|| {
            Error::Value(format!("a memory limit of {text:?} is not valid: expected bytes, such as 4GiB, 500MB or 80%"))
        })?,
        None => memory_limit::available() / 10 * 9,
    };
    let threads = device.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let mut worker = WorkerConfig { debug: device.debug, ..WorkerConfig::default() };
    if !config.id.is_empty() {
        worker.name.clone_from(&config.id);
    }
    let (engine, handle) = match device.backend {
        Backend::Cpu => {
            let settings = gt_engine_cpu::Config { threads, memory_limit_bytes: limit };
            // As in one process: a device thread that shares the core of the thread that feeds it waits for it.
            let (placement, messengers) = (Arc::new(Placement::new()), Arc::new(Placement::new()));
            let (enrolled, kept_off) = (placement.clone(), messengers.clone());
            let is_messenger = Once::new();
            config.recorder_moved = Some(Arc::new(move |core| {
                gt_engine::presence::recorder_is_here();
                placement.keep_off(core);
                // The thread that says so is the one that messages come by.
                is_messenger.call_once(|| messengers.enrol());
            }));
            let make = move || {
                let engine = CpuEngine::new(settings).with_messengers(kept_off);
                enrolled.enrol();
                engine
            };
            ("cpu", WorkerHandle::spawn(make, worker))
        }
        Backend::Reference => {
            ("reference", WorkerHandle::spawn(move || gt_engine::Reference::with_limit(limit), worker))
        }
        Backend::Null => ("null", WorkerHandle::spawn(|| gt_engine::Null, worker)),
    };
    config.settings = Arc::new(crate::config::session_config);
    config.loading = Some(Arc::new(|memory| Arc::new(SessionLoading::new(memory))));
    let served = ServedDevice { engine: engine.to_string(), threads: threads as u32, memory_limit: limit };
    Service::start(handle, served, config).map_err(|e| Error::Connection(e.to_string()))
}
