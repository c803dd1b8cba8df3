//! Samples into Parquet files.
//!
//! WRITE-1: a file gets its name when it is complete; until then it lies beside it as `….part`, and goes away with its writer.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};
use gt_observe::output;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::batch::{Picked, cast};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::parquet::schema::arrow_type;
use crate::stored_rows::schema_of;

/// Writes samples to one file, a row each.
pub struct ParquetWriter {
    fields: Vec<Field>,
    schema: SchemaRef,
    writer: Option<ArrowWriter<File>>,
    path: PathBuf,
    part: PathBuf,
}

impl std::fmt::Debug for ParquetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ParquetWriter {
    /// Begins a file, with snappy as most tools do.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, fields: &[Field], rows_per_group: usize) -> Result<ParquetWriter> {
        ParquetWriter::begin(path, fields, schema_of(fields), rows_per_group)
    }

    /// Begins a file of rows that are arrays already.
    pub(crate) fn create_for_rows(path: &Path, schema: SchemaRef, rows_per_group: usize) -> Result<ParquetWriter> {
        ParquetWriter::begin(path, &[], schema, rows_per_group)
    }

    fn begin(path: &Path, fields: &[Field], schema: SchemaRef, rows_per_group: usize) -> Result<ParquetWriter> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(rows_per_group.max(1)))
            .build();
        let file = output::create(&part).map_err(|e| DataError::io(&part, &e))?;
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(|e| failed(path, &e))?;
        Ok(ParquetWriter { fields: fields.to_vec(), schema, writer: Some(writer), path: path.to_owned(), part })
    }

    /// Adds samples.
    ///
    /// # Errors
    /// When the disk is full, or the file cannot be written.
    pub fn write(&mut self, samples: &[Picked<'_>]) -> Result<()> {
        let batch = batch_of(&self.fields, &self.schema, samples)?;
        self.write_rows(&batch)
    }

    /// Adds rows of the schema that the file was begun with.
    pub(crate) fn write_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(rows).map_err(|e| failed(&self.path, &e))
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// When the end cannot be written.
    pub fn close(mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let file = writer.into_inner().map_err(|e| failed(&self.path, &e))?;
            file.sync_all().map_err(|e| DataError::io(&self.path, &e))?;
        }
        output::rename(&self.part, &self.path).map_err(|e| DataError::io(&self.path, &e))
    }
}

impl Drop for ParquetWriter {
    fn drop(&mut self) {
        // After `close` nothing lies there any more.
        let _ = output::remove_file(&self.part);
    }
}

fn failed(path: &Path, error: &parquet::errors::ParquetError) -> DataError {
    DataError::Io { path: path.display().to_string(), why: format!("writing failed: {error}") }
}

/// Samples as rows.
pub(crate) fn batch_of(fields: &[Field], schema: &SchemaRef, samples: &[Picked<'_>]) -> Result<RecordBatch> {
    let arrays = fields.iter().enumerate().map(|(i, field)| array(field, i, samples)).collect::<Result<_>>()?;
    RecordBatch::try_new(schema.clone(), arrays)
        .map_err(|e| DataError::Internal(format!("the columns do not match: {e}")))
}

/// A column of samples.
fn array(field: &Field, column: usize, samples: &[Picked<'_>]) -> Result<ArrayRef> {
    let mut values = Vec::new();
    let mut offsets = vec![0i32];
    let mut items = 0usize;
    for sample in samples {
        let of = &sample.block.columns[column];
        items += of.len(sample.row);
        values.extend_from_slice(of.sample(sample.row));
        offsets.push(i32::try_from(items).map_err(|_| {
            DataError::Argument(format!("column {:?} has more than 2^31 items in a row group", field.name))
        })?);
    }
    let wrong = |e: arrow_schema::ArrowError| DataError::Internal(format!("column {:?}: {e}", field.name));
    let of = arrow_type(field);
    let data = match (&field.kind, &of) {
        (Kind::Fixed, _) => numbers(field, &of, values, items).map_err(wrong)?,
        (Kind::Ragged, DataType::List(inner)) => ArrayData::builder(of.clone())
            .len(samples.len())
            .add_buffer(Buffer::from_vec(offsets))
            .add_child_data(numbers(field, inner.data_type(), values, items).map_err(wrong)?)
            .build()
            .map_err(wrong)?,
        _ => ArrayData::builder(of.clone())
            .len(samples.len())
            .add_buffer(Buffer::from_vec(offsets))
            .add_buffer(Buffer::from_vec(values))
            .build()
            .map_err(wrong)?,
    };
    Ok(make_array(data))
}

/// Numbers as an array, inside however many fixed-size lists.
fn numbers(
    field: &Field,
    of: &DataType,
    values: Vec<u8>,
    len: usize,
) -> std::result::Result<ArrayData, arrow_schema::ArrowError> {
    if let DataType::FixedSizeList(inner, n) = of {
        let child = numbers(field, inner.data_type(), values, len * *n as usize)?;
        return ArrayData::builder(of.clone()).len(len).add_child_data(child).build();
    }
    let buffer = match field.elem {
        Elem::Bool => BooleanBuffer::from_iter(values.iter().map(|&b| b != 0)).into_inner(),
        Elem::BF16 => {
            let mut wide = vec![0; values.len() * 2];
            cast(Elem::BF16, gt_ir::DType::F32)(&values, &mut wide);
            aligned(&wide)
        }
        _ => aligned(&values),
    };
    ArrayData::builder(of.clone()).len(len).add_buffer(buffer).build()
}

/// A copy that is aligned for every type of number.
fn aligned(bytes: &[u8]) -> Buffer {
    Buffer::from_slice_ref(bytes)
}
