//! Columns as a run holds them: in the batch's dtype already, where that is the smaller one; as records where samples are
//! shuffled.
//!
//! A pool is read at random from main memory; what is cast while it is still in the cache takes half of the pool's memory and half of
//! those reads.
//!
//! NARROW-1: a batch holds the same bits as if its columns had been cast when it was made.

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::pages::Pages;
use super::records::RecordMaker;
use crate::batch::{BatchSpec, cast};
use crate::block::Block;
use crate::field::{Elem, Field, Kind};

/// The fields of a run's blocks.
#[derive(Debug)]
pub(super) struct Held {
    stored: Vec<Field>,
    held: Vec<Field>,
    /// Makes records, where there are any.
    records: Option<RecordMaker>,
}

impl Held {
    pub(super) fn new(fields: &[Field], batch: &BatchSpec, pages: Option<Arc<Pages>>) -> Held {
        let held = fields.iter().enumerate().map(|(number, field)| {
            let mut of = batch.outputs.iter().filter(|o| o.field == number);
            let same = match of.next() {
                // A step computes from what is stored (NARROW-1).
                Some(first) if first.steps.is_empty() => {
                    of.all(|o| o.steps.is_empty() && o.dtype == first.dtype).then_some(first.dtype)
                }
                _ => None,
            };
            let elem = match (field.kind, same.map(Elem::of)) {
                (Kind::Fixed | Kind::Ragged, Some(elem)) if elem.size() < field.elem.size() => elem,
                _ => field.elem,
            };
            Field { elem, ..field.clone() }
        });
        Held { held: held.collect(), stored: fields.to_vec(), records: pages.map(RecordMaker::new) }
    }

    /// The fields of a narrowed block.
    pub(super) fn fields(&self) -> &[Field] {
        &self.held
    }

    /// A block as it is held.
    pub(super) fn hold(&self, block: Block) -> Block {
        let records = self.records.as_ref().and_then(|records| records.lay_out(&block, &self.stored, &self.held));
        let mut block = records.unwrap_or(block);
        self.narrow(&mut block);
        block
    }

    /// Casts what is not in records, where that was done already.
    fn narrow(&self, block: &mut Block) {
        for (column, (from, to)) in block.columns.iter_mut().zip(self.stored.iter().zip(&self.held)) {
            if from.elem == to.elem || column.layout().is_some() {
                continue;
            }
            let values = column.values();
            let mut out = vec![0; values.len() / from.elem.size() * to.elem.size()];
            cast(from.elem, to.elem.dtype())(values, &mut out);
            *column = column.with_values(Buffer::from_vec(out), to);
        }
    }
}
