//! Data sets of `gt.data`: files that the data crate opens.

use std::path::PathBuf;
use std::sync::Arc;

use gt_data::{
    ArrowSource, EventSource, EventTable, JsonlSource, Kind, ParquetOptions, ParquetSource, RangeEnd, Source,
    TarSource, open_cached, open_npy, open_safetensors,
};
use pyo3::prelude::*;

use crate::loader::raised;

/// A data set.
#[pyclass(frozen, name = "_DataSource", module = "gt._core")]
pub struct PySource(pub(crate) Arc<dyn Source>);

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

#[pymethods]
impl PySource {
    /// Parquet files, with a table of events or a row a sample.
    #[staticmethod]
    fn parquet(py: Python<'_>, patterns: Vec<String>, read: ReadArgs, events: Option<TableArgs>) -> PyResult<Self> {
        let options = read.options();
        let Some(table) = events else {
            let opened = py.detach(|| ParquetSource::open(&patterns, &options)).map_err(raised)?;
            return Ok(PySource(Arc::new(opened)));
        };
        let column = table.end.1;
        let end = match table.end.0.as_str() {
            "last" => RangeEnd::Last(column),
            "end" => RangeEnd::End(column),
            _ => RangeEnd::Length(column),
        };
        let TableArgs { patterns: tables, first, file, columns, .. } = table;
        let table = EventTable { patterns: tables, first, end, file, columns };
        let opened = py.detach(|| EventSource::open(&patterns, &table, &options)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// Arrow IPC files.
    #[staticmethod]
    fn arrow(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let options = read.options();
        let opened = py.detach(|| ArrowSource::open(&patterns, &options)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// JSON Lines files.
    #[staticmethod]
    fn jsonl(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let options = read.options();
        let opened = py.detach(|| JsonlSource::open(&patterns, &options)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// `.npy` files, by column.
    #[staticmethod]
    fn npy(py: Python<'_>, columns: Vec<(String, Vec<String>)>, skip_errors: bool) -> PyResult<Self> {
        let opened = py.detach(|| open_npy(&columns, skip_errors)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// Safetensors files.
    #[staticmethod]
    fn safetensors(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let (columns, skip) = (read.columns, read.skip_errors);
        let opened = py.detach(|| open_safetensors(&patterns, columns.as_deref(), skip)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// Tar files of samples.
    #[staticmethod]
    fn tar(py: Python<'_>, patterns: Vec<String>, read: ReadArgs) -> PyResult<Self> {
        let (columns, skip) = (read.columns, read.skip_errors);
        let opened = py.detach(|| TarSource::open(&patterns, columns.as_deref(), skip)).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// What `gt data cache` wrote.
    #[staticmethod]
    fn cached(py: Python<'_>, folder: PathBuf, columns: Option<Vec<String>>) -> PyResult<Self> {
        let opened = py.detach(|| open_cached(&folder, columns.as_deref())).map_err(raised)?;
        Ok(PySource(Arc::new(opened)))
    }

    /// Columns: name, stored type, `fixed`, `ragged`, `text` or `bytes`, and the shape of an item.
    fn fields(&self) -> Vec<(String, &'static str, &'static str, Vec<usize>)> {
        let kind = |k| match k {
            Kind::Fixed => "fixed",
            Kind::Ragged => "ragged",
            Kind::Text { utf8: true } => "text",
            Kind::Text { utf8: false } => "bytes",
        };
        self.0.fields().iter().map(|f| (f.name.clone(), f.elem.name(), kind(f.kind), f.item.clone())).collect()
    }

    /// Blocks: samples, bytes in memory, number of the file.
    fn blocks(&self) -> Vec<(u32, u64, u32)> {
        self.0.blocks().iter().map(|b| (b.samples, b.memory_bytes, b.file)).collect()
    }

    /// Samples in all.
    fn __len__(&self) -> usize {
        self.0.blocks().iter().map(|b| b.samples as usize).sum()
    }

    fn file(&self, file: u32) -> String {
        self.0.file(file)
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }

    /// Files left out while opening, with the reason.
    fn left_out(&self) -> Vec<(String, String)> {
        self.0.left_out().to_vec()
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PySource>()
}
