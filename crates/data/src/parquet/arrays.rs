//! Arrow's arrays as columns of a block.
//!
//! PARQUET-ARRAYS-1: one array is taken over without a copy, unless it holds bits or nulls.
//! PARQUET-ARRAYS-2: a null number is what the caller said, or NaN in a column of floats; anything else is an error, as no number
//!           could be told from it. A null list or text is an empty one.
//! PARQUET-ARRAYS-3: what a dictionary says is looked up here; nothing after this knows of dictionaries.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::block::Extents;
use crate::field::{Elem, Field, Kind};

/// What stands for a null number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NullValue(pub Option<f64>);

/// Decoded pieces of one column, in order.
#[derive(Default)]
pub(crate) struct Pieces {
    values: Vec<Buffer>,
    /// Offsets of samples, over all pieces. Empty for one item a sample.
    offsets: Vec<u32>,
    /// Items so far.
    items: u64,
}

impl Pieces {
    /// Adds an array.
    pub(crate) fn push(&mut self, field: &Field, array: &ArrayRef, null: NullValue) -> Result<(), String> {
        if let Some(found) = looked_up(array)? {
            return self.push(field, &found, null);
        }
        if let (Kind::Text { .. }, DataType::Utf8View | DataType::BinaryView) = (field.kind, array.data_type()) {
            return self.push_views(field, array);
        }
        let data = array.to_data();
        match (field.kind, data.data_type()) {
            (Kind::Fixed, _) => {
                self.push_numbers(numbers(field, &data, null)?, data.len());
                Ok(())
            }
            (Kind::Ragged, DataType::List(_)) | (Kind::Text { .. }, DataType::Utf8 | DataType::Binary) => {
                self.push_ragged(field, &data, |d, i| d.buffer::<i32>(0).get(i).map(|&o| o as i64), null)
            }
            (Kind::Ragged, DataType::LargeList(_))
            | (Kind::Text { .. }, DataType::LargeUtf8 | DataType::LargeBinary) => {
                self.push_ragged(field, &data, |d, i| d.buffer::<i64>(0).get(i).copied(), null)
            }
            (_, other) => Err(format!("column {:?} is of type {other} where {field} was expected", field.name)),
        }
    }

    /// Adds the values of so many items of a column that has one for each sample.
    pub(super) fn push_numbers(&mut self, values: Buffer, items: usize) {
        self.items += items as u64;
        self.values.push(values);
    }

    /// Adds texts that lie anywhere in their buffers, one after another.
    fn push_views(&mut self, field: &Field, array: &ArrayRef) -> Result<(), String> {
        let bytes = |i: usize| match array.as_string_view_opt() {
            Some(texts) => texts.value(i).as_bytes(),
            None => array.as_binary_view().value(i),
        };
        let rows = || (0..array.len()).map(|i| if array.is_null(i) { &[] } else { bytes(i) });
        let mut values = Vec::with_capacity(rows().map(<[u8]>::len).sum());
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        for row in rows() {
            values.extend_from_slice(row);
            let end = u32::try_from(self.items + values.len() as u64);
            self.offsets.push(end.map_err(|_| too_many(field))?);
        }
        self.items += values.len() as u64;
        self.values.push(Buffer::from_vec(values));
        Ok(())
    }

    fn push_ragged(
        &mut self,
        field: &Field,
        data: &ArrayData,
        offset: impl Fn(&ArrayData, usize) -> Option<i64>,
        null: NullValue,
    ) -> Result<(), String> {
        let broken = || format!("column {:?} has offsets that do not match its values", field.name);
        let at = |i| offset(data, i).and_then(|o| usize::try_from(o).ok()).ok_or_else(broken);
        // An empty array may have no offsets at all.
        let (first, last) = if data.is_empty() { (0, 0) } else { (at(0)?, at(data.len())?) };
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let base = self.items as i64 - first as i64;
        for i in 1..=data.len() {
            let end = at(i)? as i64 + base;
            self.offsets.push(u32::try_from(end).map_err(|_| too_many(field))?);
        }
        let values = if let Some(child) = data.child_data().first() {
            if last > child.len() || first > last {
                return Err(broken());
            }
            numbers(field, &child.slice(first, last - first), null)?
        } else {
            let bytes = data.buffers().get(1).ok_or_else(broken)?;
            if last > bytes.len() || first > last {
                return Err(broken());
            }
            bytes.slice_with_length(first, last - first)
        };
        self.items += (last - first) as u64;
        self.values.push(values);
        Ok(())
    }

    /// The values and extents of all pieces together.
    pub(crate) fn finish(self, field: &Field) -> (Buffer, Extents) {
        let values = match <[Buffer; 1]>::try_from(self.values) {
            Ok([one]) => one,
            Err(many) => {
                let mut all = Vec::with_capacity(many.iter().map(Buffer::len).sum());
                many.iter().for_each(|b| all.extend_from_slice(b));
                Buffer::from_vec(all)
            }
        };
        let extents = match field.kind {
            Kind::Fixed => Extents::One,
            Kind::Ragged | Kind::Text { .. } => {
                Extents::Offsets(if self.offsets.is_empty() { Arc::new([0]) } else { self.offsets.into() })
            }
        };
        (values, extents)
    }
}

/// The values that an array of a dictionary's numbers stands for; none where it is no such array (PARQUET-ARRAYS-3).
fn looked_up(array: &ArrayRef) -> Result<Option<ArrayRef>, String> {
    let Some(numbers) = array.as_any_dictionary_opt() else { return Ok(None) };
    arrow_select::take::take(numbers.values(), numbers.keys(), None).map(Some).map_err(|e| e.to_string())
}

/// The numbers of an array, through however many fixed-size lists.
fn numbers(field: &Field, data: &ArrayData, null: NullValue) -> Result<Buffer, String> {
    if matches!(data.data_type(), DataType::Dictionary(..)) {
        let found = looked_up(&arrow_array::make_array(data.clone()))?;
        return match found {
            Some(found) => numbers(field, &found.to_data(), null),
            None => Err(format!("column {:?} has a dictionary that cannot be read", field.name)),
        };
    }
    if let DataType::FixedSizeList(_, n) = data.data_type() {
        if data.null_count() > 0 {
            return Err(format!("column {:?} has nulls among its fixed-size lists", field.name));
        }
        let n = usize::try_from(*n).unwrap_or(0);
        let child = data.child_data().first().ok_or_else(|| format!("column {:?} has no values", field.name))?;
        // A slice of a fixed-size list leaves its child whole.
        let (from, len) = (data.offset() * n, data.len() * n);
        let child = if child.len() == len { child.clone() } else { child.slice(from, len) };
        return numbers(field, &child, null);
    }
    let (offset, len) = (data.offset(), data.len());
    let values = data.buffers().first().ok_or_else(|| format!("column {:?} has no values", field.name))?;
    let plain = match field.elem {
        Elem::Bool => Buffer::from_vec(bits(values, offset, len)),
        elem => values.slice_with_length(offset * elem.size(), len * elem.size()),
    };
    if data.null_count() == 0 {
        return Ok(plain);
    }
    let fill = null_bytes(field.elem, null).ok_or_else(|| holds_nulls(field))?;
    let mut filled = plain.to_vec();
    let size = field.elem.size();
    for (i, value) in filled.chunks_exact_mut(size).enumerate() {
        if data.is_null(i) {
            value.copy_from_slice(&fill[..size]);
        }
    }
    Ok(Buffer::from_vec(filled))
}

fn too_many(field: &Field) -> String {
    format!("column {:?} has more than 2^32 items in one block; write smaller row groups", field.name)
}

/// Bits as bytes.
fn bits(packed: &[u8], offset: usize, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 16);
    let skip = offset % 8;
    for byte in packed.iter().skip(offset / 8).take((skip + len).div_ceil(8)) {
        let mut eight = [0; 8];
        for (i, bit) in eight.iter_mut().enumerate() {
            *bit = (byte >> i) & 1;
        }
        out.extend_from_slice(&eight);
    }
    if skip > 0 {
        out.drain(..skip);
    }
    out.truncate(len);
    out
}

/// What is wrong with a column of nulls for which nothing stands (PARQUET-ARRAYS-2).
pub(super) fn holds_nulls(field: &Field) -> String {
    let (name, elem) = (&field.name, field.elem.name());
    format!("column {name:?} of {elem} holds nulls; choose a replacement with null_value=")
}

/// The bytes that stand for a null number, if anything does.
pub(super) fn null_bytes(elem: Elem, null: NullValue) -> Option<[u8; 8]> {
    let value = match (null.0, elem) {
        (Some(v), _) => v,
        (None, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64) => f64::NAN,
        (None, _) => return None,
    };
    Some(crate::batch::number_bytes(elem, value))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{BooleanArray, DictionaryArray, Float32Array, Int32Array, Int64Array, ListArray};

    use super::*;
    use crate::parquet::schema;

    fn pieces(arrays: &[ArrayRef], null: Option<f64>) -> Result<(Vec<u8>, Extents), String> {
        let field = schema::field("x", arrays[0].data_type()).unwrap();
        let mut pieces = Pieces::default();
        for array in arrays {
            pieces.push(&field, array, NullValue(null))?;
        }
        let (values, extents) = pieces.finish(&field);
        Ok((values.to_vec(), extents))
    }

    #[test]
    fn bits_become_bytes_also_from_the_middle() {
        let array: ArrayRef =
            Arc::new(BooleanArray::from(vec![true, false, true, true, false, false, true, true, true, false]));
        let (values, _) = pieces(&[array.slice(3, 7), array.slice(0, 2)], None).unwrap();
        assert_eq!(values, [1, 0, 0, 1, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn nulls_are_nan_or_said_or_an_error() {
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), None]));
        let (values, _) = pieces(&[floats], None).unwrap();
        assert!(f32::from_le_bytes(values[4..8].try_into().unwrap()).is_nan());
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert!(pieces(std::slice::from_ref(&ints), None).unwrap_err().contains("null_value"));
        let (values, _) = pieces(&[ints], Some(-7.0)).unwrap();
        assert_eq!(i64::from_le_bytes(values[8..16].try_into().unwrap()), -7);
    }

    #[test]
    fn dictionaries_are_looked_up() {
        let words: DictionaryArray<Int32Type> = vec![Some("up"), Some("down"), None, Some("up")].into_iter().collect();
        let (values, extents) = pieces(&[Arc::new(words)], None).unwrap();
        assert_eq!(values, b"updownup");
        assert!(matches!(extents, Extents::Offsets(o) if *o == [0, 2, 6, 6, 8]));
        let numbers = DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(vec![Some(1), Some(0), None, Some(1)]),
            Arc::new(Float32Array::from(vec![0.5, 2.0])),
        );
        let numbers: ArrayRef = Arc::new(numbers.unwrap());
        let (values, _) = pieces(&[numbers.slice(0, 2), numbers.slice(2, 2)], Some(-1.0)).unwrap();
        let floats: Vec<f32> = values.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        assert_eq!(floats, [2.0, 0.5, -1.0, 2.0]);
    }

    #[test]
    fn lists_of_two_pieces_join() {
        let list = |rows: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
        };
        let a = list(vec![Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3)])]);
        let b = list(vec![Some(vec![]), Some(vec![Some(4)])]);
        let (values, extents) = pieces(&[a.slice(1, 2), b], None).unwrap();
        assert_eq!(values.chunks(4).map(|c| c[0]).collect::<Vec<_>>(), [3, 4]);
        assert!(matches!(extents, Extents::Offsets(o) if *o == [0, 0, 1, 1, 2]));
    }
}
