//! Columns of a shuffled block, laid side by side: all numbers of a sample in one place.
//!
//! A shuffled batch takes each sample from another place of the pool. Column by column that is as many places as there are
//! columns; in records it is one. The block is laid out once, while it is in the cache, and cast on the way.
//!
//! RECORDS-1: a batch holds the same bits whether its blocks are records or columns.

use std::sync::Arc;

use parking_lot::Mutex;

use super::pages::Pages;
use crate::batch::{Cast, cast};
use crate::block::{Block, Column};
use crate::field::{Field, Kind};
use crate::record::{Record, RecordLayout, RecordPart, Records};

/// Larger items, and larger samples, are read at once from wherever they are: to move them gains nothing.
const MAX_FIXED_BYTES: usize = 64;
const MAX_MEAN_BYTES: usize = 4096;
/// Bytes that are copied at a time.
const STEP_BYTES: usize = 64;

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
    from_bytes: usize,
    to_bytes: usize,
    /// Whether it has one item for each sample.
    one: bool,
    /// None where numbers are held as they are stored.
    cast: Option<Cast>,
}

impl RecordMaker {
    pub(super) fn new(pages: Arc<Pages>) -> RecordMaker {
        RecordMaker { pages, layout: Mutex::default() }
    }

    /// The block as records of the fields `to`; none where that would gain nothing.
    pub(super) fn lay_out(&self, block: &Block, from: &[Field], to: &[Field]) -> Option<Block> {
        let lead = to.iter().position(|f| f.kind == Kind::Ragged).map(|n| &block.columns[n]);
        let layout = self.layout(block, to, lead)?;
        let mut table = Vec::with_capacity(block.samples);
        let mut end = 0u32;
        for row in 0..block.samples as u32 {
            let items = u32::try_from(lead.map_or(0, |lead| lead.len(row))).ok()?;
            table.push(Record { start_bytes: end, items });
            end = layout.len_bytes(items)?.checked_add(end)?;
        }
        if end as usize > block.samples * MAX_MEAN_BYTES {
            return None;
        }
        let mut memory = self.pages.take(end as usize + STEP_BYTES)?;
        let out = memory.bytes_mut();
        // What is the same for every row is found out once: a block has some thousand of them.
        let columns = layout.columns();
        let item_bytes = |number: usize| to[number].width() * to[number].elem.size();
        let source = |&(number, part): &(usize, RecordPart)| Source {
            values: block.columns[number].values().as_slice(),
            from_bytes: block.columns[number].item_bytes(),
            to_bytes: item_bytes(number),
            one: matches!(part, RecordPart::One(_)),
            cast: (from[number].elem != to[number].elem).then(|| cast(from[number].elem, to[number].elem.dtype())),
        };
        let sources: Vec<Source<'_>> = columns.iter().map(source).collect();
        let mut at = 0;
        for (row, record) in table.iter().enumerate() {
            let first = lead.map_or(0, |lead| lead.first_item(row as u32));
            for source in &sources {
                let (first, items) = if source.one { (row, 1) } else { (first, record.items as usize) };
                let (start, len) = (first * source.from_bytes, items * source.to_bytes);
                match source.cast {
                    None => copy(source.values, start, len, out, at),
                    Some(cast) => {
                        cast(&source.values[start..start + items * source.from_bytes], &mut out[at..at + len])
                    }
                }
                at += len;
            }
        }
        let (values, records) = (memory.freeze(), Arc::new(Records { table, layout }));
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

/// Copies a short run in whole steps, as its length is not known to the processor before. What that writes too much, the
/// next run writes over.
#[inline(always)]
fn copy(from: &[u8], start: usize, len: usize, to: &mut [u8], at: usize) {
    let whole = len.next_multiple_of(STEP_BYTES);
    match (from.get(start..start + whole), to.get_mut(at..at + whole)) {
        (Some(from), Some(to)) => {
            let steps = from.as_chunks::<STEP_BYTES>().0.iter().zip(to.as_chunks_mut::<STEP_BYTES>().0);
            steps.for_each(|(from, to)| *to = *from);
        }
        _ => to[at..at + len].copy_from_slice(&from[start..start + len]),
    }
}
