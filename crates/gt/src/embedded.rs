//! The session with no server: a worker in this process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gt_client::link::{Link, Progress, WaitError};
use gt_client::session::{Cuts, Session};
use gt_client::{Result, RunAhead};
use gt_engine::presence::Waiting;
use gt_engine_cpu::affinity::CoreAffinity;
use gt_ir::{HostTensor, TensorId};
use gt_observe::{Component, Debug};
use gt_stream::Occurrence;
use gt_worker::{Interrupted, ReadError, SessionConfig, SessionHandle, WorkerConfig};

use crate::backends::Resources;
use crate::config::Config;
use crate::connected::instruction_log;
use crate::current::Current;
use crate::threads;

/// Shared with the engine, which looks at it before each parallel step.
static THREADS: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

struct Embedded {
    session: SessionHandle,
    /// The device thread keeps off the core of the thread that records.
    affinity: Arc<CoreAffinity>,
}

fn read_error(e: ReadError) -> WaitError {
    match e {
        ReadError::Interrupted => WaitError::Interrupted,
        ReadError::Failed(failure) => WaitError::Failed((*failure).clone()),
        ReadError::Stopped => WaitError::Failed(gt_ir::Failure::new(
            gt_ir::FailureKind::WorkerLost,
            "the embedded worker has been shut down",
        )),
    }
}

impl Link for Embedded {
    fn send(&self, window: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.affinity.keep_away();
        self.session.send(window, cancel).map_err(|Interrupted| WaitError::Interrupted)
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        self.session.read(id, cancel).map_err(read_error)
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.session.synchronize(cancel).map_err(read_error)
    }

    fn wake(&self) {
        self.session.wake_if_sleeping();
    }

    fn close(&self) {
        self.session.worker().shutdown();
    }

    fn is_full(&self) -> bool {
        self.session.is_full()
    }

    fn progress(&self) -> Progress {
        // In this order: what has run by the second look was sent by the first, or everything counts as run.
        let sent = self.session.sent();
        Progress { sent, executed: self.session.executed() }
    }

    fn pause(&self, moment: Duration) {
        let _waiting = Waiting::begin();
        std::thread::sleep(moment);
    }
}

/// Starts the worker and opens the session.
pub(crate) fn start(config: &Config) -> Result<Session> {
    let threads = threads::settle(config.threads);
    let log = instruction_log(config)?;
    let worker = WorkerConfig {
        log,
        debug: config.debug_worker,
        debug_compile: config.debug_compile,
        ..WorkerConfig::default()
    };
    let session = SessionConfig {
        site_names: Some(Arc::new(|id| gt_client::site::name(id).unwrap_or_default())),
        ..config.session()
    };
    let limit = config.memory_limit;
    let affinity = Arc::new(CoreAffinity::new());
    gt_engine::presence::recorder_is_here();
    let shared = THREADS.get_or_init(|| Arc::new(AtomicUsize::new(threads))).clone();
    shared.store(threads, Ordering::Relaxed);
    let host = Resources {
        threads: shared,
        memory_limit_bytes: Arc::new(AtomicU64::new(limit)),
        affinity: affinity.clone(),
        messengers: None,
    };
    let worker = config.backend.start(host, worker);
    let handle = worker.open(session);
    let seat = Arc::new(OnceLock::new());
    handle.set_idle_hook(Box::new(gt_client::idle_cut(seat.clone())));
    Debug::new(Component::Worker, config.verbose).print(|| {
        format!("worker_0 started: {:?} engine, {threads} threads, at most {} MiB", config.backend, limit >> 20)
    });
    // Joining is a part of compiling what repeats. A step that is sent whole is recorded while the engine works on the end of
    // the one before, so it pays where the recorder has a core of its own; elsewhere both would wait for each other.
    let spare_core = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > threads);
    let join_after = config.join_after(spare_core);
    Ok(Session {
        link: Box::new(Embedded { session: handle.clone(), affinity }),
        owner: Box::new(Current::Embedded(handle)),
        name: "the workers of this process".into(),
        seat,
        batch_size: config.client_batch_size,
        cuts: Cuts::NEAR,
        join_after,
        loops: config.loops(),
        waits: config.blocking,
        debug: config.client_debug(),
        ahead: RunAhead::default(),
    })
}

pub(crate) fn threads_changed(n: usize) {
    if let Some(shared) = THREADS.get() {
        shared.store(n, Ordering::Relaxed);
    }
}
