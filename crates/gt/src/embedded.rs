//! The session with no server: a worker in this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use gt_client::link::{Link, WaitError};
use gt_client::session::Session;
use gt_client::{Error, Result, session};
use gt_engine_cpu::CpuEngine;
use gt_engine_cpu::placement::Placement;
use gt_ir::{HostTensor, TensorId, Window};
use gt_observe::{Component, Debug, InstructionLog};
use gt_worker::{
    CompilePolicy, Interrupted, Memory, ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle,
    WorkerStats,
};

use crate::config::{Backend, Compile, Config};
use crate::threads;

static SESSION: OnceLock<SessionHandle> = OnceLock::new();
static ON_START: OnceLock<fn()> = OnceLock::new();
/// Shared with the engine, which looks at it before each parallel step.
static THREADS: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Says that the first op starts a worker in this process. Call it before anything else; again does nothing.
pub fn install() {
    session::set_starter(start);
}

/// Says what else to do when the worker starts. The first call wins.
pub fn on_start(f: fn()) {
    let _ = ON_START.set(f);
}

struct Embedded {
    session: SessionHandle,
    /// The device thread keeps off the core of the thread that records.
    placement: Arc<Placement>,
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
    fn send(&self, window: Window, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        self.placement.keep_away();
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

    fn is_full(&self) -> bool {
        self.session.is_full()
    }
}

fn start() -> Result<Session> {
    let config = Config::from_env()?;
    let threads = threads::settle(config.threads);
    let log = match &config.instruction_log {
        Some(path) => Some(Arc::new(InstructionLog::create(path).map_err(|e| {
            Error::Value(format!("GT_INSTRUCTION_LOG={:?} cannot be written: {e}", path.display().to_string()))
        })?)),
        None => None,
    };
    let worker = WorkerConfig {
        log,
        debug: config.debug_worker,
        debug_compile: config.debug_compile,
        ..WorkerConfig::default()
    };
    let session = SessionConfig {
        fusion: config.compile != Compile::Off,
        compile: match config.compile {
            Compile::Off => CompilePolicy::Never,
            Compile::Always => CompilePolicy::Always,
            Compile::Auto if config.hotpath_threshold == u64::MAX => CompilePolicy::Never,
            Compile::Auto => CompilePolicy::AfterRepeats(config.hotpath_threshold),
        },
        hotpath_threshold: config.hotpath_threshold,
        batch_limit: config.worker_batch_size,
        site_names: Some(Arc::new(|id| gt_client::site::name(id).unwrap_or_default())),
        ..SessionConfig::default()
    };
    let limit = config.memory_limit;
    let placement = Arc::new(Placement::new());
    let enrolled = placement.clone();
    let worker = match config.backend {
        Backend::Cpu => {
            let shared = THREADS.get_or_init(|| Arc::new(AtomicUsize::new(threads))).clone();
            shared.store(threads, Ordering::Relaxed);
            let make = move || {
                let config = gt_engine_cpu::Config { threads, memory_limit_bytes: limit };
                let engine = threads::Adjustable { engine: CpuEngine::new(config), threads: shared };
                enrolled.enrol();
                engine
            };
            WorkerHandle::spawn(make, worker)
        }
        Backend::Reference => WorkerHandle::spawn(move || gt_engine::Reference::with_limit(limit), worker),
    };
    let handle = worker.open(session);
    // The hook outlives no session: there is one per process, and it ends with the process.
    handle.set_idle_hook(Box::new(gt_client::cut_idle));
    Debug::new(Component::Worker, config.verbose).print(|| {
        format!("worker_0 started: {:?} engine, {threads} threads, at most {} MiB", config.backend, limit >> 20)
    });
    let _ = SESSION.set(handle.clone());
    if let Some(f) = ON_START.get() {
        f();
    }
    // Joining is a part of compiling what repeats. A step that is sent whole is recorded while the engine works on the end of
    // the one before, so it pays where the recorder has a core of its own; elsewhere both would wait for each other.
    let spare_core = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > threads);
    let join_after = match config.compile {
        Compile::Off => None,
        Compile::Always => Some(1),
        Compile::Auto => (spare_core && config.hotpath_threshold != u64::MAX).then_some(config.hotpath_threshold),
    };
    let debug: Option<fn(&str)> =
        config.debug_client.then_some(|line: &str| Debug::new(Component::Client, true).print(|| line.to_owned()));
    Ok(Session {
        link: Box::new(Embedded { session: handle, placement }),
        batch_size: config.client_batch_size,
        join_after,
        debug,
    })
}

/// What the workers have done so far; none before the first op.
pub fn stats() -> Vec<WorkerStats> {
    SESSION.get().map(|s| vec![s.worker().stats()]).unwrap_or_default()
}

/// What the embedded worker has allocated.
pub fn memory() -> Memory {
    SESSION.get().map(|s| s.worker().memory()).unwrap_or_default()
}

/// Gives cached memory back to the system, once everything recorded has run.
///
/// # Errors
/// As [`gt_client::synchronize`].
pub fn empty_cache() -> Result<()> {
    let Some(session) = SESSION.get() else { return Ok(()) };
    gt_client::synchronize()?;
    session.trim();
    gt_client::synchronize()
}

/// Ends the worker: nothing waits for what was still recorded. For the end of a program.
pub fn shutdown() {
    if let Some(session) = SESSION.get() {
        session.worker().shutdown();
    }
}

pub(crate) fn threads_changed(n: usize) {
    if let Some(shared) = THREADS.get() {
        shared.store(n, Ordering::Relaxed);
    }
}
