//! A block in memory: samples that were read and decoded together.
//!
//! BLOCK-1: every column of a block has the same samples; offsets are ascending and end inside the values, so that a
//!          sample is a range of bytes that exists. Checked when the block is made, once, and relied on afterwards.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::field::{Field, Kind};

/// Where the items of each sample are.
#[derive(Clone, Debug)]
pub enum Extents {
    /// Sample `i` is item `i`.
    One,
    /// Sample `i` has items `o[i]..o[i + 1]`.
    Offsets(Arc<[u32]>),
    /// Sample `i` has these items; several columns share them, and they need not be in order.
    Ranges(Arc<[(u32, u32)]>),
}

/// One column of a block.
#[derive(Clone, Debug)]
pub struct Column {
    /// Numbers, little-endian, item after item.
    values: Buffer,
    extents: Extents,
    /// Bytes of an item.
    item_bytes: usize,
}

impl Column {
    /// A column of `samples` samples, or why there is none (BLOCK-1).
    pub fn new(field: &Field, values: Buffer, extents: Extents, samples: usize) -> Result<Column, String> {
        let item_bytes = match field.kind {
            Kind::Text { .. } => 1,
            Kind::Fixed | Kind::Ragged => field.width() * field.elem.size(),
        };
        let items = values.len().checked_div(item_bytes).unwrap_or(usize::MAX);
        let fits = match &extents {
            Extents::One => items >= samples,
            Extents::Offsets(o) => {
                o.len() == samples + 1 && o.is_sorted() && o.last().is_none_or(|&end| end as usize <= items)
            }
            Extents::Ranges(r) => r.len() == samples && r.iter().all(|&(from, to)| from <= to && to as usize <= items),
        };
        match fits {
            true => Ok(Column { values, extents, item_bytes }),
            false => Err(format!("column {:?} does not have the {samples} samples of its block", field.name)),
        }
    }

    /// The items of a sample.
    #[inline]
    pub fn items(&self, sample: u32) -> Range<usize> {
        let i = sample as usize;
        match &self.extents {
            Extents::One => i..i + 1,
            Extents::Offsets(o) => o[i] as usize..o[i + 1] as usize,
            Extents::Ranges(r) => r[i].0 as usize..r[i].1 as usize,
        }
    }

    /// Whether samples are the same items in another column, known without looking at them.
    #[inline]
    pub(crate) fn shares_items_with(&self, other: &Column) -> bool {
        match (&self.extents, &other.extents) {
            (Extents::Ranges(a), Extents::Ranges(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The bytes of a range of items.
    #[inline]
    pub fn bytes(&self, items: Range<usize>) -> &[u8] {
        &self.values[items.start * self.item_bytes..items.end * self.item_bytes]
    }

    pub(crate) fn values(&self) -> &Buffer {
        &self.values
    }

    /// The same samples as numbers of another type.
    pub(crate) fn with_values(&self, values: Buffer, field: &Field) -> Column {
        let item_bytes = field.width() * field.elem.size();
        debug_assert_eq!(values.len() * self.item_bytes, self.values.len() * item_bytes);
        Column { values, extents: self.extents.clone(), item_bytes }
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity()
            + match &self.extents {
                Extents::One => 0,
                Extents::Offsets(o) => size_of_val(&**o),
                Extents::Ranges(_) => 0,
            }
    }
}

/// Samples in memory.
#[derive(Clone, Debug)]
pub struct Block {
    /// One for each field of the source.
    pub columns: Vec<Column>,
    /// How many samples there are.
    pub samples: usize,
}

impl Block {
    /// What it takes of the memory budget.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(Column::memory_bytes).sum()
    }
}
