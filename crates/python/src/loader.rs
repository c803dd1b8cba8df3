//! `gt.data`'s engine: runs of the data crate, batches as tensors.

use std::ffi::CString;

use gt_client::{Tensor, hand_over};
use gt_data::{
    Batch, BatchSpec, Collate, Cut, DataError, Entry, OrderSpec, Outliers, Output, PoolMemory, Position, RowPart, Run,
    RunSpec, Shuffle, Source, Stats, Step, interruptible,
};
use gt_ir::{DType, Shape, TensorType};
use parking_lot::Mutex;
use pyo3::exceptions::{
    PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyPermissionError, PyUserWarning, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::data_source::PySource;
use crate::errors::{OrRaise, from_package};
use crate::site::mark;
use crate::tensor::NewTensor;
use crate::worker_run::{Arrived, NoBatch, WorkerRun};

/// The exception for an error of the data crate.
pub(crate) fn raised(error: DataError) -> PyErr {
    raised_with(error, "")
}

/// The same, with something said behind it.
pub(crate) fn raised_with(error: DataError, more: &str) -> PyErr {
    let message = format!("{error}{more}");
    match error {
        DataError::Missing { .. } => PyFileNotFoundError::new_err(message),
        DataError::Denied { .. } | DataError::NotServed { .. } => PyPermissionError::new_err(message),
        DataError::Io { .. } => PyOSError::new_err(message),
        DataError::Corrupt { .. } | DataError::Schema { .. } | DataError::Unsupported { .. } => {
            from_package("DataError", message)
        }
        DataError::Argument(_) => PyValueError::new_err(message),
        DataError::Memory(_) => from_package("OutOfMemoryError", message),
        DataError::Interrupted => Python::attach(PyErr::take).unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        _ => from_package("GTError", message),
    }
}

/// An entry of a batch: name, column, dtype, steps, max_len, pad_value, pad_to_multiple_of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OutputArgs {
    name: String,
    column: String,
    dtype: Option<String>,
    steps: Vec<(String, f64, f64)>,
    max_len: Option<usize>,
    pad_value: f64,
    multiple: usize,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunArgs {
    seed: u64,
    shuffle: String,
    pool: usize,
    lanes: usize,
    pub(crate) epoch: u64,
    position: u64,
    batch: u32,
    batch_size: usize,
    drop_last: bool,
    max_tokens: Option<usize>,
    bucket: bool,
    outputs: Vec<OutputArgs>,
    packed: bool,
    lengths_each: bool,
    outliers: String,
    sample_ids: bool,
    threads: usize,
    prefetch: usize,
    memory_budget: u64,
    skip_errors: bool,
}

fn step((name, a, b): &(String, f64, f64)) -> PyResult<Step> {
    Ok(match name.as_str() {
        "add" => Step::Add(*a),
        "mul" => Step::Mul(*a),
        "div" => Step::Div(*a),
        "pow" => Step::Pow(*a),
        "clip" => Step::Clip(*a, *b),
        "log" => Step::Log,
        "log1p" => Step::Log1p,
        "log10" => Step::Log10,
        "exp" => Step::Exp,
        "sqrt" => Step::Sqrt,
        "abs" => Step::Abs,
        "sin" => Step::Sin,
        "cos" => Step::Cos,
        "tanh" => Step::Tanh,
        "floor" => Step::Floor,
        "round" => Step::Round,
        _ => return Err(PyValueError::new_err(format!("unknown step {name:?}"))),
    })
}

impl RunArgs {
    /// How samples are ordered.
    pub(crate) fn order(&self) -> PyResult<OrderSpec> {
        let shuffle = match self.shuffle.as_str() {
            "off" => Shuffle::Off,
            "full" => Shuffle::Full,
            "files" => Shuffle::Pool { blocks: 1, lanes: 1 },
            "pool" => Shuffle::Pool { blocks: self.pool, lanes: self.lanes },
            other => return Err(PyValueError::new_err(format!("unknown shuffle mode {other:?}"))),
        };
        Ok(OrderSpec { seed: self.seed, shuffle })
    }

    pub(crate) fn spec(&self, source: &dyn Source) -> PyResult<RunSpec> {
        let fields = source.fields();
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for args in &self.outputs {
            let Some(field) = fields.iter().position(|f| f.name == args.column) else {
                return Err(PyValueError::new_err(format!("there is no column {:?}", args.column)));
            };
            let mut output = Output::plain(field, &fields[field]);
            if let Some(name) = &args.dtype {
                output.dtype =
                    DType::from_name(name).ok_or_else(|| PyValueError::new_err(format!("unknown dtype {name}")))?;
            }
            output.name = args.name.clone();
            output.steps = args.steps.iter().map(step).collect::<PyResult<_>>()?;
            (output.max_len, output.pad_value, output.multiple) = (args.max_len, args.pad_value, args.multiple);
            outputs.push(output);
        }
        Ok(RunSpec {
            order: self.order()?,
            epoch: self.epoch,
            start: Position { position: self.position, batch: self.batch },
            cut: Cut {
                batch_size: self.batch_size,
                drop_last: self.drop_last,
                max_tokens: self.max_tokens,
                bucket: self.bucket,
            },
            batch: BatchSpec {
                outputs,
                collate: if self.packed { Collate::Packed } else { Collate::Padded },
                lengths_each: self.lengths_each,
                outliers: match self.outliers.as_str() {
                    "truncate" => Outliers::Truncate,
                    "subsample" => Outliers::Subsample,
                    "split" => Outliers::Split,
                    other => return Err(PyValueError::new_err(format!("unknown value {other:?} for outliers"))),
                },
                sample_ids: self.sample_ids,
                seed: self.seed,
            },
            threads: self.threads,
            prefetch: self.prefetch,
            memory_budget: self.memory_budget,
            skip_errors: self.skip_errors,
            part: RowPart::default(),
        })
    }
}

/// Where batches are made.
enum Runs {
    Here(Box<Run>),
    OnWorker(Box<WorkerRun>),
}

/// A batch on its way to Python.
enum Given {
    Made(Batch, Position),
    Arrived(Arrived),
}

/// What the blocks of a loader's runs lie in, one epoch after another.
#[pyclass(frozen, name = "_DataMemory", module = "gt._core")]
pub struct PyPoolMemory(PoolMemory);

#[pymethods]
impl PyPoolMemory {
    #[new]
    fn new() -> Self {
        PyPoolMemory(PoolMemory::default())
    }
}

/// A pass over a data set.
#[pyclass(frozen, name = "_DataRun", module = "gt._core")]
pub struct PyRun {
    source: Py<PySource>,
    memory: PoolMemory,
    /// None once it was closed.
    run: Mutex<Option<Runs>>,
    /// What runs that are over had counted, and the seconds spent handing batches over.
    last: Mutex<(Stats, f64)>,
}

impl Runs {
    /// Begins a run: on the session's worker if that is elsewhere, unless it has to be here.
    fn start(source: &PySource, spec: RunSpec, memory: &PoolMemory, here: bool) -> PyResult<Runs> {
        let on_worker = if here { None } else { WorkerRun::open(source, &spec)? };
        Ok(match on_worker {
            Some(run) => Runs::OnWorker(Box::new(run)),
            None => {
                // The session's engine is in this process, and takes batches as they are.
                let given = gt::payload_memory().map(|allocator| memory.with_allocator(allocator));
                let run = Run::start_in(source.source.clone(), spec, given.as_ref().unwrap_or(memory));
                Runs::Here(Box::new(run.map_err(raised)?))
            }
        })
    }

    fn stats(&self) -> Stats {
        match self {
            Runs::Here(run) => run.stats(),
            Runs::OnWorker(run) => run.stats(),
        }
    }

    fn next(&mut self) -> Result<Option<Given>, NoBatch> {
        Ok(match self {
            Runs::Here(run) => {
                let next = interruptible(interrupted, || run.next(&interrupted)).map_err(raised)?;
                next.map(|(batch, at)| Given::Made(batch, at))
            }
            Runs::OnWorker(run) => run.next()?.map(Given::Arrived),
        })
    }
}

impl PyRun {
    /// The next batch, not yet as tensors. The interpreter's lock is not held.
    fn given(&self) -> PyResult<Option<Given>> {
        let mut run = self.run.lock();
        let Some(runs) = &mut *run else { return Ok(None) };
        if let Runs::OnWorker(old) = runs
            && !old.is_current()
        {
            // The program has gone to another server, or to none: the rest is made there.
            self.last.lock().0.merge(&old.stats());
            *runs = Runs::start(self.source.get(), old.rest().clone(), &self.memory, false)?;
        }
        match runs.next() {
            Ok(given) => Ok(given),
            // Files that have gone bad since they were opened are met in their place in the order, as without a server.
            Err(NoBatch::NotOpened(_)) if self.source.get().has_changed() => {
                if let Runs::OnWorker(run) = runs {
                    *runs = Runs::start(self.source.get(), run.rest().clone(), &self.memory, true)?;
                }
                runs.next().map_err(NoBatch::error)
            }
            // What the worker may not open for the program, the program may: it has opened the files itself.
            Err(NoBatch::NotServed(why)) => {
                if let Runs::OnWorker(run) = runs {
                    warn_of_reading_here(&why)?;
                    self.source.get().read_here();
                    self.last.lock().0.merge(&run.stats());
                    *runs = Runs::start(self.source.get(), run.rest().clone(), &self.memory, true)?;
                }
                runs.next().map_err(NoBatch::error)
            }
            Err(no_batch) => Err(no_batch.error()),
        }
    }
}

/// Says that batches come through the program, which costs what it sends.
fn warn_of_reading_here(why: &str) -> PyResult<()> {
    let text = format!(
        "{why}. The script reads the files itself and sends the batches. To let the worker read them, start the worker \
         with --data-root or --data-url; GT_DATA_ON_WORKERS=0 hides this warning"
    );
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2))
}

pub(crate) fn interrupted() -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(e) => {
            // Kept as the thread's exception; the error that ends the wait picks it up.
            e.restore(py);
            true
        }
    })
}

/// A batch as a dict of tensors, and of lists where columns hold text.
fn tensors<'py>(py: Python<'py>, batch: Batch) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, entry) in batch.entries {
        match entry {
            Entry::Tensor { dtype, shape, bytes } => {
                let shape = Shape::try_new(&shape).map_err(gt_client::Error::from).or_raise()?;
                let tensor = Tensor::from_bytes(TensorType { dtype, shape }, bytes).or_raise()?;
                out.set_item(name, NewTensor::new(tensor))?;
            }
            Entry::Text { utf8, rows } => out.set_item(name, strings(py, utf8, rows)?)?,
        }
    }
    Ok(out)
}

/// A column of text.
pub(crate) fn strings(py: Python<'_>, utf8: bool, rows: Vec<Vec<u8>>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, rows.iter().map(|row| string(py, utf8, row)))
}

/// One sample's text, or its bytes.
pub(crate) fn string<'py>(py: Python<'py>, utf8: bool, bytes: &[u8]) -> Bound<'py, PyAny> {
    match utf8 {
        true => PyString::new(py, &String::from_utf8_lossy(bytes)).into_any(),
        false => PyBytes::new(py, bytes).into_any(),
    }
}

#[pymethods]
impl PyRun {
    /// `here`: the files are read by this process, also where the session's worker could.
    #[new]
    #[pyo3(signature = (source, args, memory=None, here=false))]
    fn start(
        py: Python<'_>,
        source: Py<PySource>,
        args: RunArgs,
        memory: Option<&Bound<'_, PyPoolMemory>>,
        here: bool,
    ) -> PyResult<Self> {
        let spec = args.spec(&*source.get().source)?;
        let memory = memory.map(|m| m.get().0.clone()).unwrap_or_default();
        let run = py.detach(|| Runs::start(source.get(), spec, &memory, here))?;
        Ok(PyRun { source, memory, run: Mutex::new(Some(run)), last: Mutex::default() })
    }

    /// The next batch, and the position after it; none at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyDict>, u64, u32)>> {
        mark(py);
        let Some(given) = py.detach(|| self.given())? else { return Ok(None) };
        let begun = std::time::Instant::now();
        let (out, at) = match given {
            Given::Made(batch, at) => (hand_over(|| tensors(py, batch)).or_raise()??, at),
            Given::Arrived(batch) => {
                let at = batch.position;
                (batch.into_dict(py)?, at)
            }
        };
        self.last.lock().1 += begun.elapsed().as_secs_f64();
        Ok(Some((out, at.position, at.batch)))
    }

    /// Makes a batch and throws it away: how many samples it had, for measuring the loader alone.
    fn skip(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let given = py.detach(|| self.given())?;
        Ok(given.map(|given| match given {
            Given::Made(batch, _) => batch.samples,
            Given::Arrived(batch) => batch.skip(),
        }))
    }

    /// Ends the threads.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let run = self.run.lock().take();
            if let Some(run) = run {
                self.last.lock().0.merge(&run.stats());
            }
        });
    }

    /// What was counted.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, copy_s) = py.detach(|| {
            let run = self.run.lock();
            let last = self.last.lock();
            let mut stats = last.0;
            if let Some(run) = &*run {
                stats.merge(&run.stats());
            }
            (stats, last.1)
        });
        let out = PyDict::new(py);
        for (name, value) in [
            ("read_s", stats.read_s),
            ("decode_s", stats.decode_s),
            ("gather_s", stats.gather_s),
            ("copy_s", copy_s),
            ("wait_s", stats.wait_s),
        ] {
            out.set_item(name, value)?;
        }
        for (name, value) in [
            ("batches", stats.batches),
            ("samples", stats.samples),
            ("bytes", stats.bytes),
            ("read_bytes", stats.read_bytes),
            ("blocks", stats.blocks),
            ("peak_bytes", stats.peak_bytes),
            ("skipped_samples", stats.skipped_samples),
        ] {
            out.set_item(name, value)?;
        }
        Ok(out)
    }
}

/// Adds the classes.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyPoolMemory>()?;
    m.add_class::<PyRun>()
}
