//! What the device thread and the handles both see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gt_engine::Memory;
use gt_observe::{Component, Counters, Debug};
use parking_lot::Mutex;

use crate::journal::Journal;
use crate::sequences::{Sequence, Sequences};
use crate::{Values, WorkerConfig};

/// Called when the worker has been dry for a while: cuts lanes that rest, says whether some lane still has
/// instructions that were not sent.
pub type IdleHook = Box<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) engine: Mutex<&'static str>,
    pub(crate) counters: Counters,
    pub(crate) debug: Debug,
    pub(crate) debug_compile: Debug,
    pub(crate) journal: Option<Journal>,
    /// As of the last window that finished.
    pub(crate) memory: Mutex<Memory>,
    pub(crate) sequences: Mutex<Sequences>,
    pub(crate) cached_plans: AtomicU64,
    pub(crate) hot_threshold: u64,
    pub(crate) idle_hook: Mutex<Option<Arc<IdleHook>>>,
}

impl Shared {
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        Shared {
            name: config.name.clone(),
            engine: Mutex::new(""),
            counters: Counters::default(),
            debug: Debug::new(Component::Worker, config.debug),
            debug_compile: Debug::new(Component::Compile, config.debug_compile),
            journal: Journal::new(config),
            memory: Mutex::new(Memory::default()),
            sequences: Mutex::new(Sequences::default()),
            cached_plans: AtomicU64::new(0),
            hot_threshold: config.hotpath_threshold,
            idle_hook: Mutex::new(None),
        }
    }

    pub(crate) fn stats(&self, values: &dyn Values) -> WorkerStats {
        let counts = self.counters.snapshot();
        let memory = *self.memory.lock();
        let sequences = self.sequences.lock();
        WorkerStats {
            worker: self.name.clone(),
            engine: self.engine.lock().to_string(),
            total_instructions: counts.total_instructions,
            windows: counts.windows,
            idle_cuts: counts.idle_cuts,
            plan_hits: counts.plan_hits,
            plan_misses: counts.plan_misses,
            structure_hits: counts.structure_hits,
            cached_plans: self.cached_plans.load(Relaxed),
            compiled_windows: counts.compiled_windows,
            compiled_instructions: counts.compiled_instructions,
            round_trips: counts.round_trips,
            syncs: counts.syncs,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            live_bytes: memory.live_bytes,
            peak_bytes: memory.peak_bytes,
            cached_bytes: memory.cached_bytes,
            limit_bytes: memory.limit_bytes,
            live_tensors: values.len() as u64,
            flops: counts.flops,
            busy_ns: counts.busy_ns,
            planning_ns: counts.planning_ns,
            failures: counts.failures,
            unique_sequences: sequences.unique(),
            hot_sequences: sequences.hot(),
            hot_instructions: counts.hot_instructions,
            hot_threshold: self.hot_threshold,
            top_sequences: sequences.top(10),
        }
    }
}

/// What a worker has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// The worker's name.
    pub worker: String,
    /// The engine's name.
    pub engine: String,
    /// Instructions received.
    pub total_instructions: u64,
    /// Windows received.
    pub windows: u64,
    /// Windows cut by time.
    pub idle_cuts: u64,
    /// Windows whose plan was cached.
    pub plan_hits: u64,
    /// Windows that had to be planned.
    pub plan_misses: u64,
    /// Of those, windows whose structure was known.
    pub structure_hits: u64,
    /// Plans held now.
    pub cached_plans: u64,
    /// Windows that ran a compiled plan.
    pub compiled_windows: u64,
    /// Instructions of those windows.
    pub compiled_instructions: u64,
    /// Reads answered.
    pub round_trips: u64,
    /// Waits for everything sent.
    pub syncs: u64,
    /// Bytes uploaded.
    pub bytes_in: u64,
    /// Bytes read.
    pub bytes_out: u64,
    /// Bytes in buffers that someone holds.
    pub live_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// Bytes kept for reuse.
    pub cached_bytes: u64,
    /// The most that may be allocated.
    pub limit_bytes: u64,
    /// Values held.
    pub live_tensors: u64,
    /// Arithmetic operations of the plans that ran.
    pub flops: u64,
    /// Nanoseconds spent running plans.
    pub busy_ns: u64,
    /// Nanoseconds spent on hashing and planning.
    pub planning_ns: u64,
    /// Failures that arose here.
    pub failures: u64,
    /// Different windows seen.
    pub unique_sequences: u64,
    /// Of those, the ones that came more often than the threshold.
    pub hot_sequences: u64,
    /// Instructions of windows that were hot when they came.
    pub hot_instructions: u64,
    /// The threshold.
    pub hot_threshold: u64,
    /// The most frequent windows.
    pub top_sequences: Vec<Sequence>,
}
