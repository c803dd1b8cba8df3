//! Batches of files for the sessions of a worker: what `gt.data` does in one process, done where the tensors are.
//!
//! Here and not in the worker: that serves sessions of any kind, and this is the crate that knows what a worker is made of.

use std::sync::Arc;

use gt_data::{
    Announcement, Batch, DataError, Entry, FileAccess, LoaderSpec, MemoryAccount, Outcome, PoolMemory, Run, Source,
    Stats,
};
use gt_ir::{Bytes, Shape, TensorType};
use gt_serve::{BatchMaker, Loading, MadeBatch};
use gt_worker::SessionMemory;
use parking_lot::Mutex;

use crate::memory_limit;

/// How many data sets of a session stay open between its loaders: an epoch is a loader, and its files are those of the last.
const KEPT_SOURCES: usize = 8;
/// The most threads that the loaders of a session have together, for each core: a client may ask for anything. A loader that gets
/// none makes its batches on the thread that hands them over.
const THREADS_PER_CORE: usize = 2;

/// The data sets of one session.
pub(crate) struct SessionLoading {
    /// The one used last comes last.
    sources: Mutex<Vec<(u64, Arc<dyn Source>)>>,
    /// What loaders hold is the session's as its values are.
    memory: PoolMemory,
    /// What its client may have opened here.
    access: FileAccess,
    threads: Arc<Threads>,
}

/// Threads that loaders of one session may still start.
struct Threads(Mutex<usize>);

/// Threads of one loader: others may have them once it is gone.
struct OfLoader {
    threads: Arc<Threads>,
    count: usize,
}

impl Threads {
    /// So many, or as many as are left.
    fn take(self: &Arc<Self>, wanted: usize) -> OfLoader {
        let mut left = self.0.lock();
        let count = wanted.min(*left);
        *left -= count;
        OfLoader { threads: self.clone(), count }
    }
}

impl Drop for OfLoader {
    fn drop(&mut self) {
        *self.threads.0.lock() += self.count;
    }
}

/// A session's memory, as loaders know it.
struct OfSession(SessionMemory);

impl MemoryAccount for OfSession {
    fn charge(&self, len_bytes: u64) -> Result<(), String> {
        self.0.charge(len_bytes).map_err(|failure| failure.message)
    }
    fn give_back(&self, len_bytes: u64) {
        self.0.give_back(len_bytes);
    }
    fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes()
    }
}

impl SessionLoading {
    /// Loaders of a session that has this much memory, and may have these files opened.
    pub(crate) fn new(memory: SessionMemory, access: FileAccess) -> SessionLoading {
        // Batches lie where the engine takes them from as they are.
        let allocator = Arc::new(memory.clone());
        let memory = PoolMemory::charged_to(Arc::new(OfSession(memory))).with_allocator(allocator);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = Arc::new(Threads(Mutex::new(THREADS_PER_CORE * cores)));
        SessionLoading { sources: Mutex::default(), memory, access, threads }
    }

    fn source(&self, spec: &LoaderSpec) -> Result<Arc<dyn Source>, DataError> {
        if let Some(known) = self.known(spec.number) {
            return Ok(known);
        }
        // Not under the lock: it may take a while, and other loaders are other threads.
        let source = spec.source.open(&self.access)?;
        if source.fingerprint() != spec.fingerprint {
            let path = source.blocks().first().map_or_else(String::new, |block| source.file(block.file));
            let why = "the worker's copy of the file differs from the script's".to_string();
            return Err(DataError::Schema { path, why });
        }
        let mut sources = self.sources.lock();
        if sources.len() >= KEPT_SOURCES {
            sources.remove(0);
        }
        sources.push((spec.number, source.clone()));
        Ok(source)
    }

    fn known(&self, number: u64) -> Option<Arc<dyn Source>> {
        let mut sources = self.sources.lock();
        let at = sources.iter().position(|(of, _)| *of == number)?;
        let found = sources.remove(at);
        let source = found.1.clone();
        sources.push(found);
        Some(source)
    }

    fn begin(&self, description: &[u8]) -> Result<Maker, DataError> {
        let mut spec = LoaderSpec::decode(description)?;
        let source = self.source(&spec)?;
        let threads = self.threads.take(spec.run.threads);
        spec.run.threads = threads.count;
        // Blocks and batches lie in this process's memory, beside the engine's. Who makes a part holds a part of the pool.
        let budget = spec.run.memory_budget.min(memory_limit::available() / 2);
        spec.run.memory_budget = budget / spec.run.part.of.max(1) as u64;
        // Pages of its own: they go back to the system with the loader.
        Ok(Maker::Running(Run::start_in(source, spec.run, &self.memory.with_new_pages())?, threads))
    }
}

impl Loading for SessionLoading {
    fn open(&self, description: &[u8]) -> Box<dyn BatchMaker> {
        Box::new(match self.begin(description) {
            Ok(maker) => maker,
            Err(error) => Maker::Over(over(Outcome::Failed { error, opening: true }, Stats::default())),
        })
    }
}

/// One loader.
enum Maker {
    /// The run ends before its threads are given back.
    Running(Run, #[expect(dead_code, reason = "held as long as the run")] OfLoader),
    /// What there is to say from now on.
    Over(MadeBatch),
}

fn over(outcome: Outcome, stats: Stats) -> MadeBatch {
    said(&Announcement { outcome, stats }, Vec::new())
}

fn said(announcement: &Announcement, tensors: Vec<(TensorType, Bytes)>) -> MadeBatch {
    // What it says are numbers and names, which can always be written.
    MadeBatch { tensors, note: announcement.encode().unwrap_or_default().into() }
}

/// A batch, taken apart. What is said of a tensor is what the whole batch has, also where this is a part of its rows.
fn made(batch: Batch) -> Result<Vec<(TensorType, Bytes)>, DataError> {
    let mut tensors = Vec::with_capacity(batch.entries.len());
    for (name, entry) in batch.entries {
        if let Entry::Tensor { dtype, mut shape, bytes } = entry {
            if let (true, Some(rows)) = (batch.samples < batch.of, shape.first_mut()) {
                *rows = batch.of;
            }
            let wrong = |e| DataError::Argument(format!("column {name:?} cannot be a tensor: {e}"));
            tensors.push((TensorType { dtype, shape: Shape::try_new(&shape).map_err(wrong)? }, bytes));
        }
    }
    Ok(tensors)
}

impl BatchMaker for Maker {
    fn next(&mut self, ended: &dyn Fn() -> bool) -> MadeBatch {
        let run = match self {
            Maker::Running(run, _) => run,
            Maker::Over(said) => return said.clone(),
        };
        let outcome = match run.next(ended) {
            Ok(Some((batch, position))) => {
                let (outcome, text) = (Outcome::of(&batch, position), batch.text.clone());
                match made(batch) {
                    Ok(tensors) => {
                        let said = said(&Announcement { outcome, stats: run.stats() }, tensors);
                        // Its strings count until the client has them.
                        return MadeBatch { note: said.note.accompanied_by(Box::new(text)), ..said };
                    }
                    Err(error) => Outcome::Failed { error, opening: false },
                }
            }
            Ok(None) => Outcome::End,
            Err(error) => Outcome::Failed { error, opening: false },
        };
        let last = over(outcome, run.stats());
        // Its threads and blocks go.
        *self = Maker::Over(last.clone());
        last
    }
}

#[cfg(test)]
mod tests;
