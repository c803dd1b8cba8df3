//! Data sets of `gt.data`: files that the data crate opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gt_data::{
    Block, Elem, EventTable, FileAccess, Format, KeptBlocks, Kind, LoadTimes, ParquetOptions, RangeEnd, Source,
    SourceSpec, Value, interruptible, sample,
};
use parking_lot::Mutex;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList, PyTuple};

use crate::loader::{interrupted, raised, string};

/// A data set.
#[pyclass(frozen, name = "_DataSource", module = "gt._core")]
pub struct PySource {
    pub(crate) source: Arc<dyn Source>,
    /// What opens it elsewhere.
    pub(crate) spec: SourceSpec,
    /// What tells it from others of this process, those of the same files too.
    pub(crate) number: u64,
    /// Blocks of which samples were asked for. Only held by who holds the interpreter's lock, so that a forked child finds it free.
    kept: Mutex<KeptBlocks>,
    /// A worker has said that it does not read them for this program.
    is_read_here: AtomicBool,
}

/// Where a table says samples are.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TableArgs {
    patterns: Vec<String>,
    first: String,
    /// `last`, `end` or `length`, and the column.
    end: (String, String),
    file: Option<(String, String)>,
    columns: Vec<String>,
}

impl TableArgs {
    fn table(self) -> EventTable {
        let TableArgs { patterns, first, end: (kind, column), file, columns } = self;
        let end = match kind.as_str() {
            "last" => RangeEnd::Last(column),
            "end" => RangeEnd::End(column),
            _ => RangeEnd::Length(column),
        };
        EventTable { patterns, first, end, file, columns }
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReadArgs {
    columns: Option<Vec<String>>,
    skip_errors: bool,
    null_values: Vec<(String, f64)>,
    index_cache: bool,
}

impl ReadArgs {
    fn options(self) -> ParquetOptions {
        ParquetOptions {
            columns: self.columns,
            skip_errors: self.skip_errors,
            null_values: self.null_values,
            no_index_cache: !self.index_cache,
        }
    }
}

impl PySource {
    /// Opens a source with the interpreter's lock released. Ctrl-C ends it, however slow a server is.
    fn open(py: Python<'_>, spec: SourceSpec) -> PyResult<Self> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let source =
            py.detach(|| interruptible(interrupted, || spec.open(&FileAccess::everything()))).map_err(raised)?;
        let (number, kept) = (OPENED.fetch_add(1, Ordering::Relaxed), Mutex::new(KeptBlocks::new(&*source)));
        Ok(PySource { source, spec, number, kept, is_read_here: AtomicBool::new(false) })
    }

    /// The block of a sample and its number there; decoded blocks are kept, as far as they fit the budget.
    fn block_of(&self, py: Python<'_>, sample: u64, budget_bytes: u64) -> PyResult<(Arc<Block>, u32)> {
        let Some((number, row)) = self.kept.lock().place(sample) else {
            return Err(PyIndexError::new_err(format!("sample {sample} does not exist")));
        };
        if let Some(block) = self.kept.lock().get(number) {
            return Ok((block, row));
        }
        let load = || self.source.load(number, &mut LoadTimes::default());
        let block = Arc::new(py.detach(|| interruptible(interrupted, load)).map_err(raised)?);
        self.kept.lock().keep(number, block.clone(), budget_bytes);
        Ok((block, row))
    }

    /// Whether the program reads the files, as workers do not.
    pub(crate) fn is_read_here(&self) -> bool {
        self.is_read_here.load(Ordering::Relaxed)
    }

    /// The program reads the files from now on.
    pub(crate) fn read_here(&self) {
        self.is_read_here.store(true, Ordering::Relaxed);
    }

    /// Whether its files are not what they were when it was opened.
    pub(crate) fn has_changed(&self) -> bool {
        self.spec.open(&FileAccess::everything()).map_or(true, |now| now.fingerprint() != self.source.fingerprint())
    }
}

#[pymethods]
impl PySource {
    /// The name of the format that files have.
    #[staticmethod]
    fn format(py: Python<'_>, patterns: Vec<String>) -> PyResult<&'static str> {
        py.detach(|| interruptible(interrupted, || Format::of(&patterns))).map(Format::name).map_err(raised)
    }

    /// Parquet files, with a table of events or a row a sample.
    #[staticmethod]
    fn parquet(py: Python<'_>, patterns: Vec<String>, read: ReadArgs, events: Option<TableArgs>) -> PyResult<Self> {
        let events = events.map(TableArgs::table);
        PySource::open(py, SourceSpec::Parquet { patterns, options: read.options(), events })
    }

    /// Arrow IPC files.
    #[staticmethod]
    fn arrow(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        PySource::open(py, SourceSpec::Arrow { patterns, options: read.options() })
    }

    /// JSON Lines files.
    #[staticmethod]
    fn jsonl(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        PySource::open(py, SourceSpec::Jsonl { patterns, options: read.options() })
    }

    /// `.npy` files, by column.
    #[staticmethod]
    fn npy(py: Python<'_>, columns: Vec<(String, Vec<String>)>, skip_errors: bool) -> PyResult<Self> {
        PySource::open(py, SourceSpec::Npy { columns, skip_errors })
    }

    /// Safetensors files.
    #[staticmethod]
    fn safetensors(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let ReadArgs { columns, skip_errors, .. } = read;
        PySource::open(py, SourceSpec::Safetensors { patterns, columns, skip_errors })
    }

    /// Tar files of samples.
    #[staticmethod]
    fn tar(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let ReadArgs { columns, skip_errors, .. } = read;
        PySource::open(py, SourceSpec::Tar { patterns, columns, skip_errors })
    }

    /// What `gt data cache` wrote.
    #[staticmethod]
    fn cached(py: Python<'_>, folder: String, columns: Option<Vec<String>>) -> PyResult<Self> {
        PySource::open(py, SourceSpec::Cached { folder, columns })
    }

    /// Columns: name, stored type, `fixed`, `ragged`, `text` or `bytes`, and the shape of an item.
    fn fields(&self) -> Vec<(String, &'static str, &'static str, Vec<usize>)> {
        let kind = |k| match k {
            Kind::Fixed => "fixed",
            Kind::Ragged => "ragged",
            Kind::Text { utf8: true } => "text",
            Kind::Text { utf8: false } => "bytes",
        };
        self.source.fields().iter().map(|f| (f.name.clone(), f.elem.name(), kind(f.kind), f.item.clone())).collect()
    }

    /// Blocks: samples, bytes in memory, number of the file.
    fn blocks(&self) -> Vec<(u32, u64, u32)> {
        self.source.blocks().iter().map(|b| (b.samples, b.memory_bytes, b.file)).collect()
    }

    /// Samples in all.
    fn __len__(&self) -> usize {
        self.source.blocks().iter().map(|b| b.samples as usize).sum()
    }

    fn file(&self, file: u32) -> String {
        self.source.file(file)
    }

    fn fingerprint(&self) -> u64 {
        self.source.fingerprint()
    }

    /// Samples by their numbers, in the order in which they are stored: for each the values of all columns. Numbers are
    /// dtype, shape and bytes.
    fn samples<'py>(&self, py: Python<'py>, numbers: Vec<u64>, budget_bytes: u64) -> PyResult<Vec<Bound<'py, PyList>>> {
        let sampled = |number| {
            let (block, row) = self.block_of(py, number, budget_bytes)?;
            let values = PyList::empty(py);
            for value in sample(self.source.fields(), &block, row) {
                match value {
                    Value::Numbers { dtype, shape, bytes } => {
                        values.append((
                            Elem::of(dtype).name(),
                            PyTuple::new(py, shape)?,
                            PyByteArray::new(py, &bytes),
                        ))?;
                    }
                    Value::Text { utf8, bytes } => values.append(string(py, utf8, &bytes))?,
                }
            }
            Ok(values)
        };
        numbers.into_iter().map(sampled).collect()
    }

    /// What opens the same files again, and what they were.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, u64))> {
        let spec = serde_json::to_string(&self.spec).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let again = py.get_type::<PySource>().getattr("again")?;
        Ok((again, (spec, self.source.fingerprint())))
    }

    /// The source that a description opens, whose files have to be what they were.
    #[staticmethod]
    fn again(py: Python<'_>, description: &str, fingerprint: u64) -> PyResult<Self> {
        let spec = serde_json::from_str(description).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let found = PySource::open(py, spec)?;
        match found.source.fingerprint() == fingerprint {
            true => Ok(found),
            false => Err(PyValueError::new_err("the files of this data set have changed since it was pickled")),
        }
    }

    /// Columns that are not read, with the reason, where none were named.
    fn unread(&self) -> Vec<(String, String)> {
        self.source.unread().to_vec()
    }

    /// Files left out while opening, with the reason.
    fn left_out(&self) -> Vec<(String, String)> {
        self.source.left_out().to_vec()
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PySource>()
}
