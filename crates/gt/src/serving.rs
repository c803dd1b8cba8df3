//! A worker for a server, in this process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use gt_client::{Error, Result};
use gt_data::FileAccess;
use gt_engine_cpu::affinity::CoreAffinity;
use gt_net::Address;
use gt_serve::{ServeConfig, ServedDevice, Service};
use gt_worker::WorkerConfig;

use crate::backends::{Backend, Resources};
use crate::host_share::{Claim, HostShare, Part};
use crate::loading::SessionLoading;
use crate::memory_limit;

/// What a worker computes with.
#[derive(Clone, Debug)]
pub struct Device {
    /// Which engine.
    pub backend: &'static Backend,
    /// With how many threads; otherwise its part of the cores, which it shares with the user's other workers on the host.
    pub threads: Option<usize>,
    /// How much it may allocate, as users write it: `4GiB`, `50%`. Otherwise its part of 90 % of what there is.
    pub memory_limit: Option<String>,
    /// Whether `[WORKER]` lines are printed.
    pub debug: bool,
    /// What loaders read here for programs of others.
    pub data: ServedData,
}

/// What a worker opens for programs of others. Its own user's programs, on its own host, may name any file.
#[derive(Clone, Debug, Default)]
pub struct ServedData {
    /// Folders: what lies below them is read.
    pub roots: Vec<PathBuf>,
    /// Patterns of addresses, such as `s3://bucket/train/*`.
    pub urls: Vec<String>,
}

/// What the loaders of a session may open: whatever the user may, for the user's own program on this host, unless the worker
/// listens for others; else what it is told to serve.
fn file_access(data: &ServedData, listens_beyond: bool) -> Result<impl Fn(bool) -> FileAccess + Send + Sync + use<>> {
    let served = FileAccess::only(&data.roots, &data.urls).map_err(|e| Error::Value(e.to_string()))?;
    Ok(move |same_user| match same_user && !listens_beyond {
        true => FileAccess::everything(),
        false => served.clone(),
    })
}

/// Starts a device and serves it to a server.
///
/// # Errors
/// When the memory limit does not parse, a folder of data is not there, or the service cannot listen.
pub fn serve(device: &Device, mut config: ServeConfig) -> Result<Service> {
    let listens_at = config.listen_host.iter().map(|host| Address::Tcp { host: host.clone(), port: 0 });
    let access_of = file_access(&device.data, listens_at.into_iter().any(|at| !at.is_local()))?;
    let told = device.memory_limit.as_ref().map(|text| {
        memory_limit::parse(text).ok_or_else(|| {
            Error::Value(format!("invalid memory limit {text:?}: expected a size such as 4GiB, 500MB or 80%"))
        })
    });
    let whole = Part {
        threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
        memory_bytes: memory_limit::available() / 10 * 9,
    };
    let share = HostShare::take(Claim { threads: device.threads, memory_bytes: told.transpose()? }, whole);
    let Part { threads, memory_bytes: limit } = share.part(None);
    let (threads_now, limit_now) = (Arc::new(AtomicUsize::new(threads)), Arc::new(AtomicU64::new(limit)));
    let mut worker = WorkerConfig { debug: device.debug, ..WorkerConfig::default() };
    if !config.id.is_empty() {
        worker.name.clone_from(&config.id);
    }
    // As in one process: a device thread that shares the core of the thread that feeds it waits for it.
    let affinity = Arc::new(CoreAffinity::new());
    let messengers = device.backend.is_adjustable.then(|| Arc::new(CoreAffinity::new()));
    if let Some(messengers) = messengers.clone() {
        let (affinity, is_messenger) = (affinity.clone(), Once::new());
        config.recorder_moved = Some(Arc::new(move |core| {
            gt_engine::presence::recorder_is_here();
            affinity.keep_off(core);
            // The thread that says so is the one that messages come by.
            is_messenger.call_once(|| messengers.enrol());
        }));
    }
    let host = Resources { threads: threads_now.clone(), memory_limit_bytes: limit_now.clone(), affinity, messengers };
    let handle = device.backend.start(host, worker);
    if device.backend.is_adjustable {
        let of_worker = handle.clone();
        config.resources = Some(Arc::new(move || {
            let memory = of_worker.memory();
            let part = share.part((memory.live_bytes > 0).then_some(memory.peak_bytes));
            threads_now.store(part.threads, Ordering::Relaxed);
            limit_now.store(part.memory_bytes, Ordering::Relaxed);
            (part.threads as u32, part.memory_bytes)
        }));
    }
    config.settings = Arc::new(crate::config::session_config);
    config.loading =
        Some(Arc::new(move |memory, same_user| Arc::new(SessionLoading::new(memory, access_of(same_user)))));
    let served = ServedDevice { engine: device.backend.name.to_string(), threads: threads as u32, memory_limit: limit };
    Service::start(handle, served, config).map_err(|e| Error::Connection(e.to_string()))
}
