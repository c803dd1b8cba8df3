//! Batches of files for the sessions of a worker: what `gt.data` does in one process, done where the tensors are.
//!
//! Here and not in the worker: that serves sessions of any kind, and this is the crate that knows what a worker is made of.

use std::sync::Arc;

use gt_data::{
    Announcement, Batch, DataError, Entry, LoaderSpec, MemoryAccount, Outcome, PoolMemory, Run, Source, Stats,
};
use gt_ir::{Bytes, Shape, TensorType};
use gt_worker::SessionMemory;
use gt_worker::serve::{BatchMaker, Loading, MadeBatch};
use parking_lot::Mutex;

use crate::memory_limit;

/// How many data sets of a session stay open between its loaders: an epoch is a loader, and its files are those of the last.
const KEPT_SOURCES: usize = 8;
/// The most threads of a loader: a client may ask for anything.
const MOST_THREADS: usize = 256;

/// The data sets of one session.
pub(crate) struct SessionLoading {
    /// The one used last comes last.
    sources: Mutex<Vec<(u64, Arc<dyn Source>)>>,
    /// What loaders hold is the session's as its values are.
    memory: PoolMemory,
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
    /// Loaders of a session that has this much memory.
    pub(crate) fn new(memory: SessionMemory) -> SessionLoading {
        // Batches lie where the engine takes them from as they are.
        let allocator = Arc::new(memory.clone());
        let memory = PoolMemory::charged_to(Arc::new(OfSession(memory))).with_allocator(allocator);
        SessionLoading { sources: Mutex::default(), memory }
    }

    fn source(&self, spec: &LoaderSpec) -> Result<Arc<dyn Source>, DataError> {
        if let Some(known) = self.known(spec.number) {
            return Ok(known);
        }
        // Not under the lock: it may take a while, and other loaders are other threads.
        let source = spec.source.open()?;
        if source.fingerprint() != spec.fingerprint {
            let path = source.blocks().first().map_or_else(String::new, |block| source.file(block.file));
            let why = "these files are not the ones that the program sees under the same names".to_string();
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

    fn begin(&self, description: &[u8]) -> Result<Run, DataError> {
        let mut spec = LoaderSpec::decode(description)?;
        spec.run.threads = spec.run.threads.min(MOST_THREADS);
        // Blocks and batches lie in this process's memory, beside the engine's. Who makes a part holds a part of the pool.
        let budget = spec.run.memory_budget.min(memory_limit::available() / 2);
        spec.run.memory_budget = budget / spec.run.part.of.max(1) as u64;
        // Pages of its own: they go back to the system with the loader.
        Run::start_in(self.source(&spec)?, spec.run, &self.memory.with_new_pages())
    }
}

impl Loading for SessionLoading {
    fn open(&self, description: &[u8]) -> Box<dyn BatchMaker> {
        Box::new(match self.begin(description) {
            Ok(run) => Maker::Running(run),
            Err(error) => Maker::Over(over(Outcome::Failed { error, opening: true }, Stats::default())),
        })
    }
}

/// One loader.
enum Maker {
    Running(Run),
    /// What there is to say from now on.
    Over(MadeBatch),
}

fn over(outcome: Outcome, stats: Stats) -> MadeBatch {
    said(&Announcement { outcome, stats }, Vec::new())
}

fn said(announcement: &Announcement, tensors: Vec<(TensorType, Bytes)>) -> MadeBatch {
    // What it says are numbers and names, which can always be written.
    MadeBatch { tensors, note: announcement.encode().unwrap_or_default() }
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
            Maker::Running(run) => run,
            Maker::Over(said) => return said.clone(),
        };
        let outcome = match run.next(ended) {
            Ok(Some((batch, position))) => {
                let outcome = Outcome::of(&batch, position);
                match made(batch) {
                    Ok(tensors) => return said(&Announcement { outcome, stats: run.stats() }, tensors),
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
