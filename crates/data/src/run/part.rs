//! Which rows of its batches a run makes: all of them, or those of one of several workers.
//!
//! PART-1: the parts of a batch, one after another, are the batch: the same bits as if one run had made it.
//! PART-2: who makes a part reads the blocks of its own rows only. What it has to know of the others, how long they are, comes from
//!         the source's index; where that does not tell, batches are not made in parts.
//! PART-3: rows are cut as a tensor is that is split over so many workers. A batch of fewer rows than workers is whole on each.

use std::ops::Range;

use gt_ir::shard::bounds;
use serde::{Deserialize, Serialize};

use super::RunSpec;
use crate::batch::{BatchSpec, Collate, Outliers};
use crate::error::{DataError, Result};
use crate::field::{Field, Kind};
use crate::order::Place;
use crate::source::Source;

/// One of several runs that make the same batches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowPart {
    /// Which of them, from zero.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

impl Default for RowPart {
    fn default() -> Self {
        RowPart { number: 0, of: 1 }
    }
}

impl RowPart {
    /// Which rows of a batch of so many are its own (PART-3).
    pub fn rows(self, rows: usize) -> Range<usize> {
        if rows < self.of {
            return 0..rows;
        }
        let (start, len) = bounds(rows, 1, self.of, self.number);
        start..start + len
    }

    /// Fails unless batches of a spec can be made so.
    pub(super) fn check(self, source: &dyn Source, spec: &RunSpec) -> Result<()> {
        match self.of {
            1 if self.number == 0 => Ok(()),
            of if self.number < of && divides(source, spec) => Ok(()),
            of => Err(DataError::Argument(format!("this loader's batches cannot be divided among {of} workers"))),
        }
    }
}

/// In how many parts the batches of a spec can be made by runs of which each reads only its share of the files.
pub fn most_parts(source: &dyn Source, spec: &RunSpec) -> usize {
    let lens: Vec<u32> = source.blocks().iter().map(|block| block.samples).collect();
    if divides(source, spec) { spec.order.shuffle.lanes(&lens) } else { 1 }
}

/// Whether every row of a batch is a sample whose place and length are known before anything is read (PART-2).
fn divides(source: &dyn Source, spec: &RunSpec) -> bool {
    let BatchSpec { collate, outliers, .. } = spec.batch;
    // Which samples are left out is only known to who has tried to read them.
    if !spec.cut.is_plain() || spec.skip_errors || outliers == Outliers::Split {
        return false;
    }
    let mut ragged = lists(&spec.batch, source.fields()).peekable();
    if ragged.peek().is_none() {
        return true;
    }
    let Some(block) = source.blocks().iter().position(|block| block.samples > 0) else { return false };
    collate == Collate::Padded && ragged.all(|(_, field)| source.sample_len(field, block as u32, 0).is_some())
}

/// The outputs that are columns of lists, and their fields.
fn lists<'a>(spec: &'a BatchSpec, fields: &'a [Field]) -> impl Iterator<Item = (usize, usize)> + 'a {
    let outputs = spec.outputs.iter().map(|output| output.field).enumerate();
    outputs.filter(|(_, field)| fields.get(*field).is_some_and(|field| field.kind == Kind::Ragged))
}

/// How long the longest of samples that others have is, for each output; nothing where there are none.
pub(super) fn longest(source: &dyn Source, spec: &BatchSpec, others: &[Place]) -> Vec<usize> {
    if others.is_empty() {
        return Vec::new();
    }
    let mut longest = vec![0; spec.outputs.len()];
    let mut shared = None;
    for (output, field) in lists(spec, source.fields()) {
        let look = || others.iter().filter_map(|p| source.sample_len(field, p.block, p.row)).max().unwrap_or(0);
        longest[output] = match spec.lengths_each {
            true => look(),
            // All have the lengths of the first, or the batch is an error: a large table is looked at once.
            false => *shared.get_or_insert_with(look),
        };
    }
    longest
}
