//! Whether a record batch can be what its metadata says, before anything is decoded.
//!
//! BOUNDS-1: every length in the metadata is bounded by the bytes that are there: buffers lie inside the body, columns have the rows
//!           of their batch, rows have room in their buffers, and what a compressed buffer claims to hold its frames can hold. So
//!           nothing that a damaged file claims is ever reserved.

use arrow_ipc::{Buffer, CompressionType, FieldNode, MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Schema, UnionMode};

use super::frames::{LZ4_RATIO, ZSTD_RATIO, lz4_most, zstd_most};

/// What precedes a compressed buffer: how much it holds.
const PREFIX_BYTES: usize = 8;
/// Such a buffer is not compressed after all.
const AS_IT_IS: i64 = -1;

/// Why the metadata of a batch of these columns cannot be true of a body of this length, if it cannot (BOUNDS-1). Gives its rows.
pub(super) fn check(
    batch: &RecordBatch<'_>,
    columns: &Schema,
    version: MetadataVersion,
    body_bytes: u64,
) -> Result<u64, String> {
    let rows = u64::try_from(batch.length()).map_err(|_| "a record batch has a negative number of rows")?;
    for buffer in batch.buffers().iter().flatten() {
        if range_of(buffer).is_none_or(|(_, end)| end > body_bytes) {
            return Err("a buffer lies outside its record batch".into());
        }
    }
    let mut walk = Walk {
        nodes: batch.nodes().iter().flatten().copied().collect::<Vec<_>>().into_iter(),
        buffers: batch.buffers().iter().flatten().copied().collect::<Vec<_>>().into_iter(),
        views: batch.variadicBufferCounts().iter().flatten().collect::<Vec<_>>().into_iter(),
        ratio: match codec(batch) {
            None => 1,
            Some(CompressionType::ZSTD) => ZSTD_RATIO,
            Some(_) => LZ4_RATIO,
        },
        version,
    };
    for column in columns.fields() {
        let found = walk.column(column.data_type()).map_err(|why| format!("column {:?} {why}", column.name()))?;
        if found != rows {
            return Err(format!("column {:?} has {found} rows in a record batch of {rows}", column.name()));
        }
    }
    Ok(rows)
}

/// Why a compressed buffer of a body cannot hold what it claims to, if one cannot (BOUNDS-1).
pub(super) fn check_body(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    let Some(codec) = codec(batch) else { return Ok(()) };
    for buffer in batch.buffers().iter().flatten() {
        let bytes = range_of(buffer).and_then(|(from, to)| body.get(from as usize..to as usize));
        let bytes = bytes.ok_or("a buffer lies outside its record batch")?;
        if bytes.is_empty() {
            continue;
        }
        let (prefix, frames) = bytes.split_first_chunk::<PREFIX_BYTES>().ok_or("a compressed buffer has no length")?;
        let claimed = i64::from_le_bytes(*prefix);
        if claimed == AS_IT_IS || claimed == 0 {
            continue;
        }
        let most = if codec == CompressionType::ZSTD { zstd_most(frames) } else { lz4_most(frames) };
        if !u64::try_from(claimed).is_ok_and(|claimed| most.is_some_and(|most| claimed <= most)) {
            return Err("a compressed buffer claims more data than it can hold".into());
        }
    }
    Ok(())
}

fn codec(batch: &RecordBatch<'_>) -> Option<CompressionType> {
    batch.compression().map(|how| how.codec())
}

/// Where a buffer begins and ends in the body.
fn range_of(buffer: &Buffer) -> Option<(u64, u64)> {
    let from = u64::try_from(buffer.offset()).ok()?;
    Some((from, from.checked_add(u64::try_from(buffer.length()).ok()?)?))
}

/// Goes over the nodes and buffers of columns, in the order in which the format lists them.
struct Walk {
    nodes: std::vec::IntoIter<FieldNode>,
    buffers: std::vec::IntoIter<Buffer>,
    /// How many buffers the views of each column have.
    views: std::vec::IntoIter<i64>,
    /// How many bytes a byte of a buffer may stand for.
    ratio: u64,
    version: MetadataVersion,
}

impl Walk {
    /// The rows of the next column, if there is room for them.
    fn column(&mut self, of: &DataType) -> Result<u64, String> {
        let node = self.nodes.next().ok_or("is missing in a record batch")?;
        let rows = u64::try_from(node.length()).map_err(|_| "has a negative number of rows")?;
        if !(0..=node.length()).contains(&node.null_count()) {
            return Err("has more nulls than rows".into());
        }
        if !matches!(of, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)) {
            // Which rows are null; left out where none is.
            self.buffer(0)?;
        }
        match of {
            DataType::Null => {}
            DataType::Boolean => self.buffer(rows.div_ceil(8))?,
            DataType::Utf8 | DataType::Binary => {
                self.buffer(rows.saturating_mul(4))?;
                self.buffer(0)?;
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.buffer(rows.saturating_mul(8))?;
                self.buffer(0)?;
            }
            DataType::Utf8View | DataType::BinaryView => {
                self.buffer(rows.saturating_mul(16))?;
                for _ in 0..self.views.next().ok_or("does not give the number of its buffers")? {
                    self.buffer(0)?;
                }
            }
            DataType::List(items) | DataType::Map(items, _) => {
                self.buffer(rows.saturating_mul(4))?;
                self.column(items.data_type())?;
            }
            DataType::LargeList(items) => {
                self.buffer(rows.saturating_mul(8))?;
                self.column(items.data_type())?;
            }
            DataType::ListView(items) | DataType::LargeListView(items) => {
                self.buffer(0)?;
                self.buffer(0)?;
                self.column(items.data_type())?;
            }
            DataType::FixedSizeList(items, n) => {
                let wanted = u64::try_from(*n).ok().and_then(|n| rows.checked_mul(n));
                let found = self.column(items.data_type())?;
                if wanted.is_none_or(|wanted| found < wanted) {
                    return Err("has fewer items than its lists".into());
                }
            }
            DataType::FixedSizeBinary(n) => self.buffer(rows.saturating_mul(u64::try_from(*n).unwrap_or(0)))?,
            DataType::Struct(parts) => {
                for part in parts {
                    self.column(part.data_type())?;
                }
            }
            DataType::RunEndEncoded(ends, values) => {
                self.column(ends.data_type())?;
                self.column(values.data_type())?;
            }
            DataType::Union(parts, mode) => {
                let buffers =
                    1 + usize::from(self.version < MetadataVersion::V5) + usize::from(*mode == UnionMode::Dense);
                for _ in 0..buffers {
                    self.buffer(0)?;
                }
                for (_, part) in parts.iter() {
                    self.column(part.data_type())?;
                }
            }
            DataType::Dictionary(keys, _) => self.numbers(keys, rows)?,
            other => self.numbers(other, rows)?,
        }
        Ok(rows)
    }

    fn numbers(&mut self, of: &DataType, rows: u64) -> Result<(), String> {
        self.buffer(rows.saturating_mul(of.primitive_width().unwrap_or(0) as u64))
    }

    /// Passes a buffer that has to hold so much.
    fn buffer(&mut self, least_bytes: u64) -> Result<(), String> {
        let buffer = self.buffers.next().ok_or("is missing in a record batch")?;
        match u64::try_from(buffer.length()).is_ok_and(|len| len.saturating_mul(self.ratio) >= least_bytes) {
            true => Ok(()),
            false => Err("has more rows than its buffers can hold".into()),
        }
    }
}
