//! Rows of a Parquet file with all that it says of them.

use arrow_array::RecordBatch;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;

use super::footer::Opened;
use super::source::RowBlock;
use crate::error::{DataError, Result};

/// Reads a block, which lies inside a row group (PARQUET-1): the columns of these names, or all.
pub(super) fn read(opened: &Opened, block: &RowBlock, names: Option<&[String]>) -> Result<RecordBatch> {
    let file = &opened.file;
    let broken = |e: parquet::errors::ParquetError| DataError::corrupt(file, e);
    let (mut first, mut group) = (0, 0);
    for rows in opened.meta.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0)) {
        if block.rows.start < first + rows {
            break;
        }
        (first, group) = (first + rows, group + 1);
    }
    let (before, wanted) = (block.rows.start.saturating_sub(first), block.rows.end - block.rows.start);
    let selected = vec![RowSelector::skip(before as usize), RowSelector::select(wanted as usize)];
    let mut builder = ParquetPushDecoderBuilder::new_with_metadata(opened.meta.clone())
        .with_row_groups(vec![group])
        .with_row_selection(RowSelection::from(selected))
        .with_batch_size(wanted as usize);
    if let Some(names) = names {
        let roots = opened.meta.schema().fields().iter().enumerate().filter(|(_, f)| names.contains(f.name()));
        let roots: Vec<usize> = roots.map(|(n, _)| n).collect();
        builder = builder.with_projection(ProjectionMask::roots(opened.meta.parquet_schema(), roots));
    }
    let mut decoder = builder.build().map_err(broken)?;
    let mut read = Vec::new();
    loop {
        match decoder.try_decode().map_err(broken)? {
            DecodeResult::NeedsData(ranges) => {
                let data = file.read_ranges(&ranges)?;
                decoder.push_ranges(ranges, data).map_err(broken)?;
            }
            DecodeResult::Data(batch) => read.push(batch),
            DecodeResult::Finished => break,
        }
    }
    let rows: usize = read.iter().map(RecordBatch::num_rows).sum();
    match read.first().map(RecordBatch::schema) {
        Some(schema) if rows as u64 == wanted => {
            arrow_select::concat::concat_batches(&schema, &read).map_err(|e| DataError::corrupt(file, e))
        }
        _ => Err(DataError::corrupt(file, format!("{rows} of {wanted} rows are present"))),
    }
}
