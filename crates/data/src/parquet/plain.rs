//! Whole row groups of plain numbers, read column by column with the parquet crate's typed readers.
//!
//! Most training data is such a table. Through Arrow's arrays, which everything else is read through (`rows`), booleans would be
//! packed into bits only to be unpacked again, and small integers would be held twice.
//!
//! PLAIN-1: values are those that `rows` reads: a test holds one to the other.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType as ArrowType;
use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::parquet::arrays::{NullValue, Pieces, holds_nulls, null_bytes};
use crate::parquet::footer::Opened;
use crate::source::LoadTimes;

/// Rows that are asked for at once: what a damaged footer claims is not reserved before it is there.
const STEP_ROWS: usize = 1 << 16;

/// The numbers of a column's leaf among those of the file, for each field; none where a field is not of plain numbers.
pub(super) fn leaves(opened: &Opened, fields: &[(Field, NullValue)]) -> Option<Vec<usize>> {
    let (arrow, parquet) = (opened.meta.schema(), opened.meta.parquet_schema());
    let leaf = |(field, _): &(Field, NullValue)| {
        let root = arrow.fields().iter().position(|column| *column.name() == field.name)?;
        let leaf = (0..parquet.num_columns()).find(|&leaf| parquet.get_column_root_idx(leaf) == root)?;
        let column = parquet.column(leaf);
        let stored = matches!(
            (arrow.field(root).data_type(), column.physical_type(), field.elem),
            (ArrowType::Boolean, Type::BOOLEAN, Elem::Bool)
                | (ArrowType::UInt8, Type::INT32, Elem::U8)
                | (ArrowType::Int8, Type::INT32, Elem::I8)
                | (ArrowType::UInt16, Type::INT32, Elem::U16)
                | (ArrowType::Int16, Type::INT32, Elem::I16)
                | (ArrowType::UInt32, Type::INT32, Elem::U32)
                | (ArrowType::Int32, Type::INT32, Elem::I32)
                | (ArrowType::UInt64, Type::INT64, Elem::U64)
                | (ArrowType::Int64, Type::INT64, Elem::I64)
                | (ArrowType::Float32, Type::FLOAT, Elem::F32)
                | (ArrowType::Float64, Type::DOUBLE, Elem::F64)
        );
        let plain = field.kind == Kind::Fixed && field.item.is_empty() && parquet.get_column_root(leaf).is_primitive();
        (stored && plain && column.max_rep_level() == 0 && column.max_def_level() <= 1).then_some(leaf)
    };
    fields.iter().map(leaf).collect()
}

/// Reads all rows of row groups: the numbers of each field, of which `leaves` are the columns in the file.
pub(super) fn read(
    opened: &Opened,
    groups: &[usize],
    fields: &[(Field, NullValue)],
    leaves: &[usize],
    pieces: &mut [Pieces],
    times: &mut LoadTimes,
) -> Result<()> {
    let file = &opened.file;
    let broken = |e: ParquetError| DataError::corrupt(file, e);
    let meta = opened.meta.metadata();
    for &group in groups {
        let group = meta.row_group(group);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let range = |&leaf: &usize| {
            let (start, len) = group.column(leaf).byte_range();
            start..start.saturating_add(len)
        };
        let ranges: Vec<Range<u64>> = leaves.iter().map(range).collect();
        let data = times.reading(|| file.read_ranges(&ranges))?;
        times.read_bytes += ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        let columns = fields.iter().zip(leaves).zip(ranges.iter().zip(data)).zip(&mut *pieces);
        for ((((field, null), &leaf), (range, bytes)), piece) in columns {
            let chunk = Arc::new(Chunk { start: range.start, bytes });
            let pages = SerializedPageReader::new(chunk, group.column(leaf), rows, None).map_err(broken)?;
            let column = Pages { descr: group.column(leaf).column_descr_ptr(), pages: Box::new(pages), rows };
            let numbers = column.numbers(field, *null).map_err(|wrong| match wrong {
                Wrong::Broken(e) => broken(e),
                Wrong::Nulls => DataError::schema(file, holds_nulls(field)),
            })?;
            piece.push_numbers(numbers, rows);
        }
    }
    Ok(())
}

/// Why there are no numbers.
enum Wrong {
    Broken(ParquetError),
    Nulls,
}

impl From<ParquetError> for Wrong {
    fn from(e: ParquetError) -> Wrong {
        Wrong::Broken(e)
    }
}

/// A column of a row group, still as pages.
struct Pages {
    descr: ColumnDescPtr,
    pages: Box<dyn PageReader>,
    rows: usize,
}

impl Pages {
    fn numbers(self, field: &Field, null: NullValue) -> std::result::Result<Buffer, Wrong> {
        let null = null_bytes(field.elem, null);
        match field.elem {
            Elem::Bool => self.read::<BoolType, u8>(null, |v| v.into_iter().map(u8::from).collect()),
            Elem::U8 => self.read::<Int32Type, u8>(null, |v| v.into_iter().map(|x| x as u8).collect()),
            Elem::I8 => self.read::<Int32Type, i8>(null, |v| v.into_iter().map(|x| x as i8).collect()),
            Elem::U16 => self.read::<Int32Type, u16>(null, |v| v.into_iter().map(|x| x as u16).collect()),
            Elem::I16 => self.read::<Int32Type, i16>(null, |v| v.into_iter().map(|x| x as i16).collect()),
            // The same bits, whether they stand for a sign or not.
            Elem::U32 | Elem::I32 => self.read::<Int32Type, i32>(null, |v| v),
            Elem::U64 | Elem::I64 => self.read::<Int64Type, i64>(null, |v| v),
            Elem::F32 => self.read::<FloatType, f32>(null, |v| v),
            Elem::F64 => self.read::<DoubleType, f64>(null, |v| v),
            Elem::F16 | Elem::BF16 => Err(ParquetError::General("numbers of 16 bits are not plain".into()).into()),
        }
    }

    /// Reads all rows, as numbers of another type where they are smaller than what Parquet stores.
    fn read<T: DataType, O: ArrowNativeType>(
        self,
        null: Option<[u8; 8]>,
        narrowed: impl Fn(Vec<T::T>) -> Vec<O>,
    ) -> std::result::Result<Buffer, Wrong> {
        let there = self.descr.max_def_level();
        let mut reader = ColumnReaderImpl::<T>::new(self.descr, self.pages);
        let (mut values, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
        while rows < self.rows {
            let step = STEP_ROWS.min(self.rows - rows);
            let (found, ..) = reader.read_records(step, Some(&mut levels), None, &mut values)?;
            if found == 0 {
                let why = format!("a column has {rows} rows where its row group has {}", self.rows);
                return Err(ParquetError::General(why).into());
            }
            rows += found;
        }
        let values = Buffer::from_vec(narrowed(values));
        let size = size_of::<O>();
        if values.len() == rows * size {
            return Ok(values);
        }
        let null = null.ok_or(Wrong::Nulls)?;
        let (mut out, mut values) = (Vec::with_capacity(rows * size), values.chunks_exact(size));
        for level in levels {
            let value = if level == there { values.next() } else { None };
            out.extend_from_slice(value.unwrap_or(&null[..size]));
        }
        Ok(Buffer::from_vec(out))
    }
}

/// The bytes of a column, at their place in the file.
struct Chunk {
    start: u64,
    bytes: Bytes,
}

impl Chunk {
    fn onward(&self, at: u64) -> parquet::errors::Result<Bytes> {
        let at = at.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        match at.filter(|&at| at <= self.bytes.len()) {
            Some(at) => Ok(self.bytes.slice(at..)),
            None => Err(ParquetError::EOF("a page lies outside of its column".into())),
        }
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Cursor<Bytes>> {
        self.onward(start).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let onward = self.onward(start)?;
        match length <= onward.len() {
            true => Ok(onward.slice(..length)),
            false => Err(ParquetError::EOF("a page ends outside of its column".into())),
        }
    }
}
