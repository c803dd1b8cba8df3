//! A run: one pass over a data set, or over the rest of one, with its own threads.
//!
//! Threads load blocks and gather batches; the consumer takes batches in order, and does the same work itself while it would
//! otherwise wait. The modules are: `account` (who counts its memory), `cut` (positions to batches), `part` (which rows of them), `narrow`, `records`, `pages` and `residents` (blocks in
//! memory), `state` (what to do next), `stats`.

mod account;
mod cut;
mod narrow;
mod pages;
mod part;
mod records;
mod residents;
mod state;
mod stats;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gt_ir::HostAllocator;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, BatchSpec, Buffers, Picked, gather};
use crate::error::{DataError, Result};
use crate::files::interruptible;
use crate::order::{OrderSpec, Place, Shuffle};
use crate::source::{LoadTimes, Source};
pub use account::MemoryAccount;
pub(crate) use account::{BatchCharge, Reserved};
use account::{BatchMemory, Charged};
pub use cut::Cut;
use narrow::Held;
pub use pages::PoolMemory;
pub use part::{RowPart, most_parts};
use residents::Content;
use state::{Next, State, Task};
pub use stats::Stats;

/// How often a waiting consumer looks whether it was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A place in an epoch between two batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Samples before the group of batches it is in.
    pub position: u64,
    /// Batches of that group that have been given.
    pub batch: u32,
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The order of samples.
    pub order: OrderSpec,
    /// Which epoch.
    pub epoch: u64,
    /// Where in it.
    pub start: Position,
    /// How positions become batches.
    pub cut: Cut,
    /// What a batch is made of.
    pub batch: BatchSpec,
    /// Threads beside the consumer's.
    pub threads: usize,
    /// Batches that are made ahead.
    pub prefetch: usize,
    /// Bytes that blocks and batches may take.
    pub memory_budget: u64,
    /// Leave out samples of files that cannot be read, instead of failing.
    pub skip_errors: bool,
    /// Which rows of every batch it makes.
    pub part: RowPart,
}

struct Shared {
    source: Arc<dyn Source>,
    spec: RunSpec,
    state: Mutex<State>,
    /// Columns as blocks hold them.
    held: Held,
    /// Where batches lie.
    allocator: Option<Arc<dyn HostAllocator>>,
    /// Something can be done.
    work: Condvar,
    /// The consumer may find something.
    news: Condvar,
}

/// A pass over a data set. Dropping it ends its threads.
pub struct Run {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("spec", &self.shared.spec).finish_non_exhaustive()
    }
}

impl Run {
    /// Begins a run.
    ///
    /// # Errors
    /// When the batch cannot be made of the source's columns, or a thread cannot be started.
    pub fn start(source: Arc<dyn Source>, spec: RunSpec) -> Result<Run> {
        Run::start_in(source, spec, &PoolMemory::default())
    }

    /// Begins a run whose blocks lie in memory that an earlier one may have used.
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn start_in(source: Arc<dyn Source>, mut spec: RunSpec, memory: &PoolMemory) -> Result<Run> {
        spec.batch.check(source.fields())?;
        if spec.cut.batch_size == 0 && spec.cut.max_tokens.is_none() {
            return Err(DataError::Argument("batch_size must be at least 1".into()));
        }
        spec.part.check(&*source, &spec)?;
        if let Some(account) = &memory.account {
            // The rest is for what is computed with the batches.
            spec.memory_budget = spec.memory_budget.min(account.limit_bytes() / 2);
        }
        let batches = BatchMemory::new(memory.account.clone());
        let state = Mutex::new(State::new(&*source, &spec, Charged::new(memory.account.clone()), batches)?);
        let pages = (spec.order.shuffle != Shuffle::Off).then(|| memory.pages.clone());
        let held = Held::new(source.fields(), &spec.batch, pages);
        let allocator = memory.allocator.clone();
        let (work, news) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { source, spec, state, held, allocator, work, news });
        let mut run = Run { shared, threads: Vec::new(), process: std::process::id() };
        for i in 0..run.shared.spec.threads {
            let shared = run.shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("gt-data-{i}"))
                .spawn(move || {
                    let run = shared.clone();
                    interruptible(move || run.state.lock().stop, || shared.serve())
                })
                .map_err(|e| DataError::Internal(format!("cannot start a thread: {e}")))?;
            run.threads.push(thread);
        }
        Ok(run)
    }

    /// The next batch, and the position after it; none at the end of the epoch.
    ///
    /// # Errors
    /// What became of a file that it needs; [`DataError::Interrupted`] once `interrupted` says so.
    pub fn next(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Option<(Batch, Position)>> {
        if self.process != std::process::id() {
            return Err(DataError::Argument(
                "a loader cannot be used in a forked child; create the loader in the child".into(),
            ));
        }
        let begun = Instant::now();
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        loop {
            let found = state.next();
            match found {
                Next::Batch(batch, position) => {
                    state.stats.wait_s += begun.elapsed().as_secs_f64();
                    drop(state);
                    shared.work.notify_one();
                    return Ok(Some((batch, position)));
                }
                Next::Failed(e) => return Err(e),
                Next::End => return Ok(None),
                Next::Wait => {}
            }
            let loads = shared.spec.threads == 0 || state.next_waits_for_blocks();
            match state.task(&*shared.source, &shared.spec, loads) {
                Some(task) => {
                    drop(state);
                    shared.work.notify_one();
                    shared.perform(task);
                    state = shared.state.lock();
                }
                None => {
                    shared.news.wait_for(&mut state, LOOK_EVERY);
                }
            }
            if begun.elapsed() >= LOOK_EVERY {
                drop(state);
                if interrupted() {
                    return Err(DataError::Interrupted);
                }
                state = shared.state.lock();
            }
        }
    }

    /// What was counted so far. A forked child has counted nothing, and one of its parent's threads may have held the lock.
    pub fn stats(&self) -> Stats {
        match self.process == std::process::id() {
            true => self.shared.state.lock().stats,
            false => Stats::default(),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The threads are the parent's; here there are none to wait for.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.state.lock().stop = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// What a thread of the run does until it is told to stop.
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            match state.task(&*self.source, &self.spec, true) {
                Some(task) => {
                    drop(state);
                    self.work.notify_one();
                    self.perform(task);
                    state = self.state.lock();
                }
                None => {
                    // The task that was looked for may have ended the epoch.
                    self.news.notify_one();
                    self.work.wait(&mut state);
                }
            }
        }
    }

    /// Does a task and hands in the result. A panic in it, such as a decoder's over a corrupt file, is an error like any.
    fn perform(&self, task: Task) {
        let caught = |name: &str, panic: Box<dyn std::any::Any + Send>| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
            DataError::Corrupt { path: name.to_owned(), why: format!("decoding it failed: {said}") }
        };
        match task {
            Task::Load(block) => {
                let mut times = LoadTimes::default();
                let load = AssertUnwindSafe(|| self.load(block, &mut times));
                let loaded = std::panic::catch_unwind(load).unwrap_or_else(|panic| {
                    let file = self.source.blocks()[block as usize].file;
                    Content::Failed(caught(&self.source.file(file), panic))
                });
                let mut state = self.state.lock();
                state.stats.read_s += times.read_s;
                state.stats.decode_s += times.decode_s;
                state.stats.read_bytes += times.read_bytes;
                state.stats.blocks += 1;
                state.loaded(block, loaded);
            }
            Task::Cut { group, blocks, places, how } => {
                let (spec, fields) = (&self.spec, self.source.fields());
                let len = |&(n, place): &(u32, Place)| spec.batch.sample_len(fields, &blocks[n as usize], place.row);
                let lens: Vec<usize> = places.iter().map(len).collect();
                let batches = spec.cut.batches_of(&lens, &how);
                self.state.lock().cut(group, batches);
            }
            Task::Gather { group, batch, blocks, places, others, reserved } => {
                let begun = Instant::now();
                let picked = |numbered: bool| -> Vec<Picked<'_>> {
                    let id = |p: Place| if numbered { self.source.sample_id(p.block, p.row) } else { 0 };
                    let pick =
                        |&(n, p): &(u32, Place)| Picked { block: &blocks[n as usize], row: p.row, id: id(p), piece: 0 };
                    places.iter().map(pick).collect()
                };
                let longest = part::longest(&*self.source, &self.spec.batch, &others);
                let make = |numbered| {
                    let buffers = Buffers::new(self.allocator.as_deref(), &reserved);
                    let samples = picked(numbered);
                    let made = gather(&self.spec.batch, self.held.fields(), &samples, &longest, buffers)?;
                    Ok(Batch { of: made.samples + others.len(), ..made })
                };
                // Numbers of samples lie anywhere in a large table: they are looked up only where something needs them, which
                // an error does.
                let again = |error: DataError| match error {
                    DataError::Memory(_) => Err(error),
                    _ => make(true),
                };
                let make = AssertUnwindSafe(|| make(self.spec.batch.needs_ids()).or_else(again));
                let made = std::panic::catch_unwind(make).unwrap_or_else(|panic| Err(caught("a batch", panic)));
                let took = begun.elapsed().as_secs_f64();
                let mut state = self.state.lock();
                state.stats.gather_s += took;
                match (reserved.waits_for(), made) {
                    // What it had goes back first.
                    (Some(needed_bytes), Err(error)) => {
                        drop((blocks, reserved));
                        state.refused(group, batch, needed_bytes, error);
                    }
                    (_, made) => state.gathered(group, batch, reserved.needed_bytes(), made),
                }
            }
        }
        self.news.notify_one();
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Content {
        match self.source.load(block, times) {
            Ok(loaded) if loaded.samples == self.source.blocks()[block as usize].samples as usize => {
                let begun = Instant::now();
                let held = self.held.hold(loaded);
                times.decode_s += begun.elapsed().as_secs_f64();
                Content::Ready(Arc::new(held))
            }
            Ok(_) => Content::Failed(DataError::Internal(
                "a block does not have the samples that its index lists; the file changed after it was indexed".into(),
            )),
            Err(e) => Content::Failed(e),
        }
    }
}
