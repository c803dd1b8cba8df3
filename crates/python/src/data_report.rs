//! What `gt.data` does beside loading: reports on shuffles, caches, files for others.

use std::path::PathBuf;

use gt_data::{
    Block, Column, Elem, Extents, Field, Kind, Mixing, ParquetWriter, Picked, ReportSpec, interruptible,
    shuffle_report, write_cache,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data_source::PySource;
use crate::loader::{RunArgs, interrupted, raised};

fn mixing<'py>(py: Python<'py>, m: &Mixing) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("same_block", m.same_block)?;
    out.set_item("distinct_blocks", m.distinct_blocks)?;
    out.set_item("design_effect", m.design_effect)?;
    Ok(out)
}

/// How good a loader's shuffle is. `labels` are float32 numbers in the order samples are stored.
#[pyfunction]
fn _shuffle_report<'py>(
    py: Python<'py>,
    source: &Bound<'py, PySource>,
    args: RunArgs,
    batch_size: usize,
    correlation: f64,
    labels: Option<Vec<u8>>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = ReportSpec { order: args.order()?, epoch: args.epoch, batch_size, correlation };
    let lens: Vec<u32> = source.get().source.blocks().iter().map(|b| b.samples).collect();
    let labels: Option<Vec<f32>> =
        labels.map(|bytes| bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect());
    let report = py.detach(|| shuffle_report(&spec, &lens, labels.as_deref()));
    let out = PyDict::new(py);
    out.set_item("exactly_once", report.exactly_once)?;
    out.set_item("rank_correlation", report.rank_correlation)?;
    out.set_item("epoch_overlap", report.epoch_overlap)?;
    out.set_item("whole", mixing(py, &report.whole)?)?;
    out.set_item("first", mixing(py, &report.first)?)?;
    out.set_item("last", mixing(py, &report.last)?)?;
    Ok(out)
}

/// Writes what a loader's batches hold into a folder that `CachedDataset` opens. Gives the number of samples.
#[pyfunction]
fn _write_cache(py: Python<'_>, source: &Bound<'_, PySource>, args: RunArgs, folder: PathBuf) -> PyResult<u64> {
    let source = source.get().source.clone();
    let spec = args.spec(&*source)?;
    let write = || write_cache(&source, &spec.batch, &folder, spec.threads, &interrupted);
    py.detach(|| interruptible(interrupted, write)).map_err(raised)
}

/// A column to be written: name, type, shape of an item, numbers, and for lists where each sample begins and the last ends.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ColumnArgs {
    name: String,
    elem: String,
    item: Vec<usize>,
    values: Vec<u8>,
    offsets: Option<Vec<u32>>,
    text: bool,
}

/// Writes one Parquet file.
#[pyfunction]
fn _write_parquet(
    py: Python<'_>,
    path: PathBuf,
    columns: Vec<ColumnArgs>,
    samples: usize,
    rows_per_group: usize,
) -> PyResult<()> {
    let (mut fields, mut made) = (Vec::new(), Vec::new());
    for c in columns {
        let Some(elem) = Elem::ALL.into_iter().find(|e| e.name() == c.elem) else {
            return Err(PyValueError::new_err(format!(
                "column {:?} has type {}, which GT cannot write to files",
                c.name, c.elem
            )));
        };
        let kind = match (c.text, &c.offsets) {
            (true, _) => Kind::Text { utf8: true },
            (false, Some(_)) => Kind::Ragged,
            (false, None) => Kind::Fixed,
        };
        let field = Field { name: c.name, elem, kind, item: c.item };
        let extents = c.offsets.map_or(Extents::One, |o| Extents::Offsets(o.into()));
        let column = Column::new(&field, c.values.into(), extents, samples).map_err(PyValueError::new_err)?;
        fields.push(field);
        made.push(column);
    }
    let block = Block { columns: made, samples };
    py.detach(|| {
        let mut writer = ParquetWriter::create(&path, &fields, rows_per_group)?;
        let rows: Vec<Picked<'_>> =
            (0..samples as u32).map(|row| Picked { block: &block, row, id: 0, piece: 0 }).collect();
        writer.write(&rows)?;
        writer.close()
    })
    .map_err(raised)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_shuffle_report, m)?)?;
    m.add_function(wrap_pyfunction!(_write_cache, m)?)?;
    m.add_function(wrap_pyfunction!(_write_parquet, m)?)
}
