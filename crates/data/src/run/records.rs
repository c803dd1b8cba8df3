//! Columns of a shuffled block, laid side by side: all numbers of a sample in one place.
//!
//! A shuffled batch takes each sample from another place of the pool. Column by column that is as many places as there are
//! columns; in records it is one. The block is laid out once, while it is in the cache, and cast on the way.
//!
//! RECORDS-1: a batch holds the same bits whether its blocks are records or columns.

use std::sync::Arc;

use parking_lot::Mutex;

use super::pages::Pages;
use crate::batch::{BEYOND_BYTES, Convert};
use crate::block::{Block, Column};
use crate::field::{Field, Kind};
use crate::record::{RecordLayout, RecordPart, Records};

/// Larger items, and larger samples, are read at once from wherever they are: to move them gains nothing.
const MAX_FIXED_BYTES: usize = 64;
const MAX_MEAN_BYTES: usize = 4096;
/// Lays out the blocks of a run.
#[derive(Debug, Default)]
pub(super) struct RecordMaker {
    pages: Arc<Pages>,
    /// As the last block was laid out. The blocks of a run are alike, and who has it for one has it for all.
    layout: Mutex<Arc<RecordLayout>>,
}

/// A column that goes into records.
struct Source<'a> {
    values: &'a [u8],
    /// Numbers in an item, and the bytes of an item as it is stored and as it is held.
    width: usize,
    from_bytes: usize,
    to_bytes: usize,
    /// Whether it has one item for each sample.
    one: bool,
    convert: Convert,
}

impl RecordMaker {
    pub(super) fn new(pages: Arc<Pages>) -> RecordMaker {
        RecordMaker { pages, layout: Mutex::default() }
    }

    /// The block as records of the fields `to`; none where that would gain nothing.
    pub(super) fn lay_out(&self, block: &Block, from: &[Field], to: &[Field]) -> Option<Block> {
        let lead = to.iter().position(|f| f.kind == Kind::Ragged).map(|n| &block.columns[n]);
        let layout = self.layout(block, to, lead)?;
        let mut starts = Vec::with_capacity(block.samples + 1);
        let mut end = 0u32;
        for row in 0..block.samples as u32 {
            let items = u32::try_from(lead.map_or(0, |lead| lead.len(row))).ok()?;
            starts.push(end);
            end = layout.len_bytes(items)?.checked_add(end)?;
        }
        starts.push(end);
        if end as usize > block.samples * MAX_MEAN_BYTES {
            return None;
        }
        let mut memory = self.pages.take(end as usize + BEYOND_BYTES)?;
        // What is the same for every row is found out once: a block has some thousand of them.
        let columns = layout.columns();
        let item_bytes = |number: usize| to[number].width() * to[number].elem.size();
        let source = |&(number, part): &(usize, RecordPart)| {
            let (width, from, to) = (to[number].width(), from[number].elem, to[number].elem);
            Source {
                values: block.columns[number].values().as_slice(),
                width,
                from_bytes: width * from.size(),
                to_bytes: width * to.size(),
                one: matches!(part, RecordPart::One(_)),
                convert: Convert::new(from, to),
            }
        };
        let sources: Vec<Source<'_>> = columns.iter().map(source).collect();
        let mut out = memory.bytes_mut();
        for row in 0..block.samples {
            let (first, len) = lead.map_or((0, 0), |lead| (lead.first_item(row as u32), lead.len(row as u32)));
            for source in &sources {
                let (first, items) = if source.one { (row, 1) } else { (first, len) };
                // What is written too much, the next ones write over.
                source.convert.write(&source.values[first * source.from_bytes..], items * source.width, out);
                out = &mut out[items * source.to_bytes..];
            }
        }
        let (values, records) = (memory.freeze(), Arc::new(Records::new(starts, layout)));
        let mut held = block.columns.clone();
        for (number, part) in columns {
            held[number] = Column::of_records(values.clone(), records.clone(), part, item_bytes(number));
        }
        Some(Block { columns: held, samples: block.samples })
    }

    /// What the records of a block are made of; none where it has no two columns that could lie side by side.
    fn layout(&self, block: &Block, fields: &[Field], lead: Option<&Column>) -> Option<Arc<RecordLayout>> {
        let mut layout = RecordLayout::default();
        let numbered = || block.columns.iter().zip(fields).enumerate();
        let held_bytes = |field: &Field| field.width() * field.elem.size();
        for (number, (column, field)) in numbered() {
            let width = held_bytes(field);
            if column.is_one_each() && field.kind == Kind::Fixed && (1..=MAX_FIXED_BYTES).contains(&width) {
                layout.push_one(number, width)?;
            }
        }
        for (number, (column, field)) in numbered() {
            let ragged = field.kind == Kind::Ragged && lead.is_some_and(|lead| column.has_lengths_of(lead));
            if ragged && held_bytes(field) > 0 {
                layout.push_items(number, held_bytes(field))?;
            }
        }
        if layout.columns().len() < 2 {
            return None;
        }
        let mut last = self.layout.lock();
        if **last != layout {
            *last = Arc::new(layout);
        }
        Some(last.clone())
    }
}

#[cfg(test)]
mod tests {
    use arrow_buffer::Buffer;

    use super::*;
    use crate::block::Extents;
    use crate::field::Elem;

    #[test]
    fn samples_of_any_length_are_whole_in_their_records() {
        let field = |elem, kind, item: &[usize]| Field { name: "x".into(), elem, kind, item: item.to_vec() };
        let lens = [0, 1, 31, 32, 33, 0, 64, 65, 200, 3, 30];
        let offsets: Vec<u32> = (0..=lens.len()).map(|i| lens[..i].iter().sum()).collect();
        let (samples, items) = (lens.len(), lens.iter().sum::<u32>() as usize);
        let stored = [
            field(Elem::I64, Kind::Ragged, &[]),
            field(Elem::U8, Kind::Ragged, &[]),
            field(Elem::F64, Kind::Fixed, &[]),
            field(Elem::I16, Kind::Ragged, &[3]),
        ];
        let held = [Elem::F32, Elem::U8, Elem::F32, Elem::I16].into_iter().zip(&stored);
        let held: Vec<Field> = held.map(|(elem, field)| Field { elem, ..field.clone() }).collect();
        let column = |field: &Field| {
            let (count, extents) = match field.kind {
                Kind::Fixed => (samples, Extents::One),
                _ => (items, Extents::Offsets(offsets.clone().into())),
            };
            let numbers = (0..count * field.width()).map(|i| crate::batch::number_bytes(field.elem, (i % 250) as f64));
            let values: Vec<u8> = numbers.flat_map(|n| n[..field.elem.size()].to_vec()).collect();
            Column::new(field, Buffer::from_vec(values), extents, samples).unwrap()
        };
        let block = Block { columns: stored.iter().map(column).collect(), samples };
        let laid_out = RecordMaker::default().lay_out(&block, &stored, &held).unwrap();
        for (number, (from, to)) in stored.iter().zip(&held).enumerate() {
            for row in 0..samples as u32 {
                let sample = block.columns[number].sample(row);
                let mut expected = sample.to_vec();
                if from.elem != to.elem {
                    expected = vec![0; sample.len() / from.elem.size() * to.elem.size()];
                    crate::batch::cast(from.elem, to.elem.dtype())(sample, &mut expected);
                }
                assert_eq!(laid_out.columns[number].sample(row), expected, "column {number}, sample {row}");
            }
        }
    }
}
