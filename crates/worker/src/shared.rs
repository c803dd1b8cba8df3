//! What the device thread, the handles and all sessions see of one worker.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use gt_engine::{FamilyTimes, HostMemory, Memory};
use gt_observe::{Component, Debug, InstructionLog};
use parking_lot::{Condvar, Mutex};

use crate::WorkerConfig;
use crate::copier::Copier;

/// Called when the worker has been dry for a while: cuts lanes that rest, says whether some lane still has
/// instructions that were not sent.
pub type IdleHook = Box<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) engine: Mutex<&'static str>,
    pub(crate) debug: Debug,
    pub(crate) debug_compile: Debug,
    pub(crate) log: Option<Arc<InstructionLog>>,
    /// As of the last window that finished.
    pub(crate) memory: Mutex<Memory>,
    /// The engine's account of ordinary memory, once there is an engine.
    pub(crate) host: OnceLock<Arc<dyn HostMemory>>,
    /// Where the time of the engine's steps goes, if it measures that.
    pub(crate) family_times: OnceLock<Arc<FamilyTimes>>,
    pub(crate) cached_plans: AtomicU64,
    pub(crate) copier: Copier,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Shared {
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        Shared {
            name: config.name.clone(),
            engine: Mutex::new(""),
            debug: Debug::new(Component::Worker, config.debug),
            debug_compile: Debug::new(Component::Compile, config.debug_compile),
            log: config.log.clone(),
            memory: Mutex::new(Memory::default()),
            host: OnceLock::new(),
            family_times: OnceLock::new(),
            cached_plans: AtomicU64::new(0),
            copier: Copier::new(&config.name),
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// The device thread has ended.
    pub(crate) fn set_ended(&self) {
        *self.ended.lock() = true;
        self.end.notify_all();
    }

    /// Waits for the end of the device thread; whether it came.
    pub(crate) fn wait_ended(&self, deadline: Instant) -> bool {
        let mut ended = self.ended.lock();
        while !*ended && !self.end.wait_until(&mut ended, deadline).timed_out() {}
        *ended
    }
}
