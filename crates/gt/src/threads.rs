//! How many threads the engine computes with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gt_client::{Error, Result};
use gt_engine::{Engine, FamilyTimes, Memory, Run, Ticket, Transfer};
use gt_engine_cpu::{CpuBuffer, CpuEngine, CpuProgram};
use gt_ir::Failure;
use gt_plan::{EngineLimits, Plan};

/// 0: not set by a call.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The threads an engine computes with: what was asked for, or the cores there are.
pub fn num_threads() -> usize {
    match ASKED.load(Ordering::Relaxed) {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        n => n,
    }
}

/// Sets the number of threads; results do not depend on it.
///
/// ```
/// gt::set_num_threads(1)?;
/// assert_eq!(gt::num_threads(), 1);
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// When `n` is 0.
pub fn set_num_threads(n: usize) -> Result<()> {
    if n == 0 {
        return Err(Error::Value("set_num_threads expects a positive integer".into()));
    }
    ASKED.store(n, Ordering::Relaxed);
    crate::embedded::threads_changed(n);
    Ok(())
}

/// What `GT_NUM_THREADS` asked for counts unless a call did.
pub(crate) fn settle(variable: Option<usize>) -> usize {
    if let Some(n) = variable {
        let _ = ASKED.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed);
    }
    num_threads()
}

/// The CPU engine with as many threads as were asked for last.
pub(crate) struct Adjustable {
    pub engine: CpuEngine,
    pub threads: Arc<AtomicUsize>,
}

impl Engine for Adjustable {
    type Buffer = CpuBuffer;
    type Program = CpuProgram;

    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn limits(&self) -> EngineLimits {
        self.engine.limits()
    }

    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<CpuProgram, Failure> {
        self.engine.prepare(plan)
    }

    fn submit(&mut self, program: &Arc<CpuProgram>, run: Run<CpuBuffer>) -> Box<dyn Ticket> {
        self.engine.set_threads(self.threads.load(Ordering::Relaxed));
        self.engine.submit(program, run)
    }

    fn family_times(&self) -> Option<Arc<FamilyTimes>> {
        self.engine.family_times()
    }

    fn synchronize(&mut self) {
        self.engine.synchronize();
    }

    fn memory(&self) -> Memory {
        self.engine.memory()
    }

    fn trim(&mut self) {
        self.engine.trim();
    }

    fn transfer(&self) -> Arc<dyn Transfer<CpuBuffer>> {
        self.engine.transfer()
    }
}
