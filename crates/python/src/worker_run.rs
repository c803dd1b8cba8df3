//! A pass over a data set that workers make: they read the files, this process hears what batches there are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gt_client::{AnnouncedBatch, Loader, WantedLoader};
use gt_data::{Announced, Announcement, DataError, LoaderSpec, Outcome, Position, RowPart, RunSpec, Stats, most_parts};
use pyo3::exceptions::PyPermissionError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data_source::PySource;
use crate::errors::OrRaise;
use crate::loader::{raised, raised_with, strings};
use crate::tensor::NewTensor;

/// What this process knows of a run on a worker, or on several of which each makes a part.
pub(crate) struct WorkerRun {
    loader: Arc<Loader>,
    /// As it was begun, from where it stands now.
    spec: LoaderSpec,
    /// From where paths are seen, if some were not absolute.
    folder: Option<PathBuf>,
    /// What the workers have counted, and what was counted here.
    there: Stats,
    here: Stats,
}

/// A batch that is there, before its tensors are recorded.
pub(crate) struct Arrived {
    loader: Arc<Loader>,
    batch: AnnouncedBatch,
    pub(crate) samples: usize,
    pub(crate) position: Position,
    entries: Vec<(String, Announced)>,
}

/// Why there is no batch.
pub(crate) enum NoBatch {
    /// The worker could not open the files.
    NotOpened(PyErr),
    /// The worker does not open them for this program; it said why.
    NotServed(String),
    /// Anything else.
    Failed(PyErr),
}

impl NoBatch {
    /// As an exception.
    pub(crate) fn error(self) -> PyErr {
        match self {
            NoBatch::NotOpened(error) | NoBatch::Failed(error) => error,
            NoBatch::NotServed(why) => PyPermissionError::new_err(why),
        }
    }
}

impl From<PyErr> for NoBatch {
    fn from(error: PyErr) -> Self {
        NoBatch::Failed(error)
    }
}

/// How many batches are announced ahead, of those that may be there ahead. The run has the others.
fn announced_ahead(prefetch: usize) -> usize {
    prefetch.div_ceil(2)
}

impl WorkerRun {
    /// Begins a run on the session's worker; none where that is in this process, or files are to be read here.
    pub(crate) fn open(source: &PySource, run: &RunSpec) -> PyResult<Option<WorkerRun>> {
        if source.is_read_here() || !gt::Config::from_env().or_raise()?.data_on_workers {
            return Ok(None);
        }
        let folder = std::env::current_dir().unwrap_or_default();
        let of_source = source.spec.clone().from_folder(&folder);
        let folder = (of_source != source.spec).then_some(folder);
        let fingerprint = source.source.fingerprint();
        let spec = LoaderSpec { source: of_source, number: source.number, fingerprint, run: run.clone() };
        let Some(loader) = begin(&spec, most_parts(&*source.source, run))? else { return Ok(None) };
        let (there, here) = (Stats::default(), Stats::default());
        Ok(Some(WorkerRun { loader: Arc::new(loader), spec, folder, there, here }))
    }

    /// Whether the session it runs in is still the process's own.
    pub(crate) fn is_current(&self) -> bool {
        self.loader.is_current()
    }

    /// What a run has to be that goes on where this one stands.
    pub(crate) fn rest(&self) -> &RunSpec {
        &self.spec.run
    }

    /// The next batch; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Arrived>, NoBatch> {
        let begun = Instant::now();
        let batch = self.loader.next().or_raise();
        self.here.wait_s += begun.elapsed().as_secs_f64();
        let batch = batch?;
        let said = batch.notes.iter().map(|note| Announcement::decode(note)).collect::<Result<Vec<_>, _>>();
        let said = said.map_err(raised)?;
        self.there = said.iter().fold(Stats::default(), |sum, part| sum.beside(&part.stats));
        let (part, outcome) = Outcome::joined(said.into_iter().map(|part| part.outcome)).map_err(raised)?;
        match outcome {
            Outcome::Batch { samples, position, entries } => {
                self.spec.run.start = position;
                self.here.batches += 1;
                self.here.samples += samples as u64;
                let texts = entries.iter().map(|(_, entry)| match entry {
                    Announced::Tensor => 0,
                    Announced::Text { rows, .. } => rows.iter().map(Vec::len).sum(),
                });
                let tensors = batch.types.iter().map(|ty| ty.bytes());
                self.here.bytes += texts.chain(tensors).sum::<usize>() as u64;
                Ok(Some(Arrived { loader: self.loader.clone(), batch, samples, position, entries }))
            }
            Outcome::End => Ok(None),
            Outcome::Failed { error, opening } => {
                let error = match &self.folder {
                    Some(folder) => error.seen_from(folder),
                    None => error,
                };
                let worker = self.loader.worker(part);
                if let DataError::NotServed { .. } = error {
                    return Err(NoBatch::NotServed(format!("{worker} cannot read the files of this loader ({error})")));
                }
                if !opening {
                    return Err(raised(error).into());
                }
                Err(NoBatch::NotOpened(raised_with(
                    error,
                    &format!(
                        " (reported by {worker}; set GT_DATA_ON_WORKERS=0 to read the files in this process instead)"
                    ),
                )))
            }
        }
    }

    /// What was counted, here and there.
    pub(crate) fn stats(&self) -> Stats {
        let Stats { wait_s, batches, samples, bytes, .. } = self.here;
        Stats { wait_s, batches, samples, bytes, ..self.there }
    }
}

fn begin(spec: &LoaderSpec, most_parts: usize) -> PyResult<Option<Loader>> {
    let mut there = spec.clone();
    let ahead = announced_ahead(spec.run.prefetch);
    there.run.prefetch = (spec.run.prefetch - ahead.min(spec.run.prefetch)).max(1);
    // What can be written once can be written for every part.
    there.encode().map_err(raised)?;
    let describe = |number, of| {
        let run = RunSpec { part: RowPart { number, of }, ..there.run.clone() };
        LoaderSpec { run, ..there.clone() }.encode().unwrap_or_default()
    };
    Loader::open(&WantedLoader { describe: &describe, most_parts, ahead }).or_raise()
}

impl Arrived {
    /// The batch as a dict of tensors, and of lists where columns hold text.
    pub(crate) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let mut tensors = self.loader.tensors(&self.batch).or_raise()?.into_iter();
        let out = PyDict::new(py);
        for (name, entry) in self.entries {
            match entry {
                Announced::Tensor => {
                    let missing = || raised(gt_data::DataError::Internal("a batch has too few tensors".into()));
                    out.set_item(name, NewTensor::new(tensors.next().ok_or_else(missing)?))?;
                }
                Announced::Text { utf8, rows } => out.set_item(name, strings(py, utf8, rows)?)?,
            }
        }
        Ok(out)
    }

    /// Lets go of it.
    pub(crate) fn skip(self) -> usize {
        self.loader.skip(&self.batch);
        self.samples
    }
}
