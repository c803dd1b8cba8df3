//! Reads rows of a Parquet file: the bytes of the pages that are needed, then their columns.

use std::ops::Range;

use arrow_buffer::Buffer;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;

use crate::block::Extents;
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::parquet::arrays::{NullValue, Pieces};
use crate::parquet::footer::Opened;
use crate::parquet::plain;
use crate::source::LoadTimes;

/// Rows decoded at once. Decoders reserve memory for as many, and a damaged footer may claim any number.
const MAX_BATCH_ROWS: usize = 1 << 20;

/// Reads `rows` of a file: values and extents of each field.
pub(crate) fn read(
    opened: &Opened,
    rows: Range<u64>,
    fields: &[(Field, NullValue)],
    times: &mut LoadTimes,
) -> Result<Vec<(Buffer, Extents)>> {
    let start = std::time::Instant::now();
    let read_before = times.read_s;
    let mut pieces: Vec<Pieces> = fields.iter().map(|_| Pieces::default()).collect();
    if let Some((groups, skip)) = groups_of(opened, &rows) {
        let held: u64 = groups.iter().map(|&g| group_rows(opened, g)).sum();
        let whole = held == rows.end - rows.start;
        match plain::leaves(opened, fields).filter(|_| whole) {
            Some(leaves) => plain::read(opened, &groups, fields, &leaves, &mut pieces, times)?,
            None => {
                let wanted = (rows.end - rows.start) as usize;
                let selected = vec![RowSelector::skip(skip as usize), RowSelector::select(wanted)];
                let selected = (!whole).then(|| RowSelection::from(selected));
                read_arrays(opened, groups, (wanted, selected), fields, &mut pieces, times)?;
            }
        }
    }
    times.decode_s += start.elapsed().as_secs_f64() - (times.read_s - read_before);
    Ok(pieces.into_iter().zip(fields).map(|(p, (field, _))| p.finish(field)).collect())
}

/// Reads so many rows of row groups, those that are selected, as Arrow's arrays.
pub(super) fn read_arrays(
    opened: &Opened,
    groups: Vec<usize>,
    (wanted, selected): (usize, Option<RowSelection>),
    fields: &[(Field, NullValue)],
    pieces: &mut [Pieces],
    times: &mut LoadTimes,
) -> Result<()> {
    let file = &opened.file;
    let broken = |e: parquet::errors::ParquetError| DataError::corrupt(file, e);
    let schema = opened.meta.schema();
    let roots: Vec<usize> =
        fields.iter().filter_map(|(f, _)| schema.fields().iter().position(|c| *c.name() == f.name)).collect();
    let mask = ProjectionMask::roots(opened.meta.parquet_schema(), roots);
    let mut builder = ParquetPushDecoderBuilder::new_with_metadata(opened.meta.clone())
        .with_projection(mask)
        .with_batch_size(wanted.clamp(1, MAX_BATCH_ROWS));
    if let Some(selected) = selected {
        builder = builder.with_row_selection(selected);
    }
    let mut decoder = builder.with_row_groups(groups).build().map_err(broken)?;
    loop {
        match decoder.try_decode().map_err(broken)? {
            DecodeResult::NeedsData(ranges) => {
                let data = times.reading(|| opened.file.read_ranges(&ranges))?;
                times.read_bytes += ranges.iter().map(|r| r.end - r.start).sum::<u64>();
                decoder.push_ranges(ranges, data).map_err(broken)?;
            }
            DecodeResult::Data(batch) => {
                for (piece, (field, null)) in pieces.iter_mut().zip(fields) {
                    let array = batch
                        .column_by_name(&field.name)
                        .ok_or_else(|| DataError::schema(file, format!("column {:?} is missing", field.name)))?;
                    piece.push(field, array, *null).map_err(|why| DataError::schema(file, why))?;
                }
            }
            DecodeResult::Finished => return Ok(()),
        }
    }
}

fn group_rows(opened: &Opened, group: usize) -> u64 {
    u64::try_from(opened.meta.metadata().row_group(group).num_rows()).unwrap_or(0)
}

/// The row groups that hold rows, and how many rows of theirs come before. None where there are no rows to read.
fn groups_of(opened: &Opened, rows: &Range<u64>) -> Option<(Vec<usize>, u64)> {
    let (mut start, mut groups, mut skip) = (0, Vec::new(), 0);
    for group in 0..opened.meta.metadata().num_row_groups() {
        let end = start + group_rows(opened, group);
        if start < rows.end && rows.start < end {
            if groups.is_empty() {
                skip = rows.start - start;
            }
            groups.push(group);
        }
        start = end;
    }
    (rows.start < rows.end && !groups.is_empty()).then_some((groups, skip))
}
