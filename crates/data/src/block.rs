//! A block in memory: samples that were read and decoded together.
//!
//! BLOCK-1: every column of a block has the same samples; offsets are ascending and end inside the values, so that a
//!          sample is a range of bytes that exists. Checked when the block is made, once, and relied on afterwards.

use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::field::{Field, Kind};
use crate::record::{Located, RecordLayout, RecordPart, Records};

/// Where the items of each sample are.
#[derive(Clone, Debug)]
pub enum Extents {
    /// Sample `i` is item `i`.
    One,
    /// Sample `i` has items `o[i]..o[i + 1]`.
    Offsets(Arc<[u32]>),
    /// Sample `i` has these items; several columns share them, and they need not be in order.
    Ranges(Arc<[(u32, u32)]>),
    /// Sample `i` is part of record `i`, where several columns lie side by side.
    Records(Arc<Records>, RecordPart),
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
            Extents::Records(r, part) => r.fit(samples, values.len(), *part, item_bytes),
        };
        match fits {
            true => Ok(Column { values, extents, item_bytes }),
            false => Err(format!("column {:?} does not have as many samples as its block ({samples})", field.name)),
        }
    }

    /// A column of records, which the caller has laid out: their parts lie inside the values (BLOCK-1).
    pub(crate) fn of_records(values: Buffer, records: Arc<Records>, part: RecordPart, item_bytes: usize) -> Column {
        Column { values, extents: Extents::Records(records, part), item_bytes }
    }

    /// How many items a sample has.
    #[inline]
    pub fn len(&self, sample: u32) -> usize {
        let i = sample as usize;
        match &self.extents {
            Extents::One | Extents::Records(_, RecordPart::One(_)) => 1,
            Extents::Offsets(o) => (o[i + 1] - o[i]) as usize,
            Extents::Ranges(r) => (r[i].1 - r[i].0) as usize,
            Extents::Records(r, RecordPart::Items(..)) => r.items(sample) as usize,
        }
    }

    /// The bytes of a sample.
    #[inline(always)]
    pub fn sample(&self, sample: u32) -> &[u8] {
        if let Extents::Records(r, part) = &self.extents {
            return r.locate(&self.values, sample).part(*part, self.item_bytes);
        }
        let start = self.first_item(sample) * self.item_bytes;
        &self.values[start..start + self.len(sample) * self.item_bytes]
    }

    /// From the first byte of a sample on, and what follows.
    #[inline(always)]
    pub(crate) fn sample_onward(&self, sample: u32) -> &[u8] {
        if let Extents::Records(r, part) = &self.extents {
            return r.locate(&self.values, sample).part_onward(*part, self.item_bytes);
        }
        &self.values[self.first_item(sample) * self.item_bytes..]
    }

    /// The record a sample's items are in, if it is one of this layout.
    #[inline(always)]
    pub(crate) fn record(&self, sample: u32, layout: &Arc<RecordLayout>) -> Option<Located<'_>> {
        let Extents::Records(r, _) = &self.extents else { return None };
        (Arc::ptr_eq(r.layout(), layout) || r.layout() == layout).then(|| r.locate(&self.values, sample))
    }

    /// Asks memory for where a sample's record is.
    #[inline(always)]
    pub(crate) fn ask_for_record(&self, sample: u32) {
        if let Extents::Records(r, _) = &self.extents {
            r.ask_for(sample);
        }
    }

    /// What the records are made of that it lies in, if it does.
    pub(crate) fn layout(&self) -> Option<&Arc<RecordLayout>> {
        match &self.extents {
            Extents::Records(r, _) => Some(r.layout()),
            _ => None,
        }
    }

    /// Whether samples have as many items as in another column, known without looking at each.
    #[inline]
    pub(crate) fn shares_items_with(&self, other: &Column) -> bool {
        match (&self.extents, &other.extents) {
            (Extents::Ranges(a), Extents::Ranges(b)) => Arc::ptr_eq(a, b),
            (Extents::Records(a, RecordPart::Items(..)), Extents::Records(b, RecordPart::Items(..))) => {
                Arc::ptr_eq(a, b)
            }
            _ => false,
        }
    }

    /// Whether samples have as many items as in another column.
    pub(crate) fn has_lengths_of(&self, other: &Column) -> bool {
        match (&self.extents, &other.extents) {
            (Extents::Offsets(a), Extents::Offsets(b)) => a == b,
            _ => self.shares_items_with(other),
        }
    }

    /// Whether sample `i` is item `i`.
    pub(crate) fn is_one_each(&self) -> bool {
        matches!(self.extents, Extents::One)
    }

    /// The number of a sample's first item among the values. Records have none.
    #[inline(always)]
    pub(crate) fn first_item(&self, sample: u32) -> usize {
        let i = sample as usize;
        match &self.extents {
            Extents::One => i,
            Extents::Offsets(o) => o[i] as usize,
            Extents::Ranges(r) => r[i].0 as usize,
            Extents::Records(..) => 0,
        }
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
        match &self.extents {
            Extents::One | Extents::Ranges(_) => self.values.capacity(),
            Extents::Offsets(o) => self.values.capacity() + size_of_val(&**o),
            // The column at the beginning stands for all of them.
            Extents::Records(r, RecordPart::One(0) | RecordPart::Items(0, 0)) => {
                self.values.capacity() + r.memory_bytes()
            }
            Extents::Records(..) => 0,
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
