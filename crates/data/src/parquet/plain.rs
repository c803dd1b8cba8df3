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
                let why = format!("a column has {rows} rows, but its row group has {}", self.rows);
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
            None => Err(ParquetError::EOF("a page lies outside its column".into())),
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
            false => Err(ParquetError::EOF("a page ends outside its column".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{
        Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    };
    use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use proptest::prelude::*;

    use super::*;
    use crate::files::Location;
    use crate::parquet::{footer, rows, schema};

    /// Numbers that follow from a seed, some of them null where that is allowed.
    fn primitive<T: ArrowPrimitiveType>(rows: usize, nulls: bool, number: impl Fn(u64) -> T::Native) -> ArrayRef {
        let values = (0..rows as u64).map(|i| {
            let drawn = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
            (!nulls || drawn % 5 > 0).then(|| number(drawn))
        });
        Arc::new(values.collect::<PrimitiveArray<T>>())
    }

    fn columns(rows: usize, nulls: bool, many: u64) -> Vec<(&'static str, ArrayRef)> {
        let bools = (0..rows).map(|i| (!nulls || i % 7 > 0).then_some(i % 3 == 0));
        vec![
            ("bool", Arc::new(bools.collect::<BooleanArray>()) as ArrayRef),
            ("u8", primitive::<UInt8Type>(rows, nulls, |x| x as u8)),
            ("i8", primitive::<Int8Type>(rows, nulls, |x| x as i8)),
            ("u16", primitive::<UInt16Type>(rows, nulls, |x| x as u16)),
            ("i16", primitive::<Int16Type>(rows, nulls, |x| x as i16)),
            ("u32", primitive::<UInt32Type>(rows, nulls, |x| x as u32)),
            ("i32", primitive::<Int32Type>(rows, nulls, move |x| (x % many) as i32 - 3)),
            ("u64", primitive::<UInt64Type>(rows, nulls, |x| x)),
            ("i64", primitive::<Int64Type>(rows, nulls, move |x| (x % many) as i64 - 3)),
            ("f32", primitive::<Float32Type>(rows, nulls, |x| x as f32)),
            ("f64", primitive::<Float64Type>(rows, nulls, move |x| (x % many) as f64 / 7.0)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn plain_numbers_are_those_that_arrays_hold(
            rows in 0usize..3000, nulls: bool, many in 1u64..2000, dictionary: bool, second: bool, page in 50usize..2000, group in 100usize..1500,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.parquet");
            let batch = RecordBatch::try_from_iter_with_nullable(columns(rows, nulls, many).into_iter().map(|(n, a)| (n, a, nulls))).unwrap();
            let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
            let properties = WriterProperties::builder().set_writer_version(version).set_dictionary_enabled(dictionary)
                .set_data_page_row_count_limit(page).set_write_batch_size(64).set_max_row_group_row_count(Some(group))
                .set_compression(parquet::basic::Compression::SNAPPY).build();
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let opened = footer::parse(Location::from(path).open().unwrap(), true).unwrap();
            let fields: Vec<(Field, NullValue)> = batch.schema().fields().iter()
                .map(|f| (schema::field(f.name(), f.data_type()).unwrap(), NullValue(Some(7.0)))).collect();
            let groups: Vec<usize> = (0..opened.meta.metadata().num_row_groups()).collect();
            let leaves = leaves(&opened, &fields).unwrap();
            let pieces = || fields.iter().map(|_| Pieces::default()).collect::<Vec<_>>();
            let (mut plain, mut arrays) = (pieces(), pieces());
            read(&opened, &groups, &fields, &leaves, &mut plain, &mut LoadTimes::default()).unwrap();
            rows::read_arrays(&opened, groups, (rows, None), &fields, &mut arrays, &mut LoadTimes::default()).unwrap();
            for ((plain, arrays), (field, _)) in plain.into_iter().zip(arrays).zip(&fields) {
                let (plain, arrays) = (plain.finish(field).0, arrays.finish(field).0);
                prop_assert_eq!(plain.as_slice(), arrays.as_slice(), "{}", field.name);
            }
        }
    }
}
