//! Columns of a shuffled block, laid side by side: all numbers of a sample in one place.
//!
//! A shuffled batch takes each sample from another place of the pool. Column by column that is as many places as there are
//! columns; in records it is one. The block is laid out once, while it is in the cache.
//!
//! RECORDS-1: a batch holds the same bits whether its blocks are records or columns.

use std::sync::Arc;

use super::pages::Pages;
use crate::block::{Block, Column, Record, RecordPart};
use crate::field::{Field, Kind};

/// Larger items, and larger samples, are read at once from wherever they are: to move them gains nothing.
const MAX_FIXED_BYTES: usize = 64;
const MAX_MEAN_BYTES: usize = 4096;
/// Bytes that are copied at a time.
const STEP_BYTES: usize = 64;

/// The block as records; none where that would gain nothing.
pub(super) fn lay_out(block: &Block, fields: &[Field], pages: &Arc<Pages>) -> Option<Block> {
    let mut parts: Vec<(usize, RecordPart)> = Vec::new();
    let mut before = 0u32;
    for (number, column) in block.columns.iter().enumerate() {
        if column.is_one_each()
            && fields[number].kind == Kind::Fixed
            && (1..=MAX_FIXED_BYTES).contains(&column.item_bytes())
        {
            parts.push((number, RecordPart::One(before)));
            before = before.checked_add(column.item_bytes() as u32)?;
        }
    }
    let lead = fields.iter().position(|f| f.kind == Kind::Ragged).map(|n| &block.columns[n]);
    let mut each = 0u32;
    for (number, column) in block.columns.iter().enumerate() {
        let ragged = fields[number].kind == Kind::Ragged && lead.is_some_and(|lead| column.has_lengths_of(lead));
        if ragged && column.item_bytes() > 0 {
            parts.push((number, RecordPart::Items(before, each)));
            each = each.checked_add(u32::try_from(column.item_bytes()).ok()?)?;
        }
    }
    if parts.len() < 2 {
        return None;
    }
    let mut records = Vec::with_capacity(block.samples);
    let mut end = 0u32;
    for row in 0..block.samples as u32 {
        let items = u32::try_from(lead.map_or(0, |lead| lead.len(row))).ok()?;
        records.push(Record { start_bytes: end, items });
        end = items.checked_mul(each)?.checked_add(before)?.checked_add(end)?;
    }
    if end as usize > block.samples * MAX_MEAN_BYTES {
        return None;
    }
    let mut memory = pages.take(end as usize + STEP_BYTES)?;
    let out = memory.bytes_mut();
    // What is the same for every row is found out once: a block has some thousand of them.
    let sources: Vec<(&[u8], usize, bool)> = parts
        .iter()
        .map(|&(number, part)| {
            let column = &block.columns[number];
            (column.values().as_slice(), column.item_bytes(), matches!(part, RecordPart::One(_)))
        })
        .collect();
    let mut at = 0;
    for (row, record) in records.iter().enumerate() {
        let first = lead.map_or(0, |lead| lead.first_item(row as u32));
        for &(values, width, one) in &sources {
            let (from, items) = if one { (row, 1) } else { (first, record.items as usize) };
            copy(values, from * width, items * width, out, at);
            at += items * width;
        }
    }
    let (values, records): (_, Arc<[Record]>) = (memory.freeze(), records.into());
    let mut columns = block.columns.clone();
    for (number, part) in parts {
        columns[number] = Column::of_records(values.clone(), records.clone(), part, block.columns[number].item_bytes());
    }
    Some(Block { columns, samples: block.samples })
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
