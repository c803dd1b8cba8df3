//! The tensors of a batch while they are written: rows of one column, from wherever the samples lie.
//!
//! SHEET-1: rows are written in order, each once, with what fills the rest of it.

use std::ops::Range;

use gt_ir::DType;

use super::buffers::Buffer;
use super::lengths::Kept;
use super::{Buffers, Convert, Entry, Output, Picked, Step, number_bytes};
use crate::ask::ask_for_bytes;
use crate::error::{DataError, Result};
use crate::field::{Elem, Field};
use crate::record::{Located, RecordPart};

/// How many samples ahead memory is asked for (GATHER-2).
pub(super) const AHEAD: usize = 16;
/// Bytes of a sample that are asked for ahead; what follows, the processor asks for by itself.
const AHEAD_BYTES: usize = 512;

/// Where the samples of a column are.
#[derive(Clone, Copy)]
pub(super) enum Stored<'a> {
    /// In a column of their block.
    Columns(&'a [Picked<'a>], usize),
    /// Part of a record, with the bytes of an item.
    Records(&'a [Located<'a>], RecordPart, usize),
}

/// How long rows are.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    /// One item each.
    One,
    /// As many items as these samples have: their number among those that are known. Padded to so many, or not at all.
    Many(usize, Option<usize>),
}

/// A tensor of one column.
pub(super) struct Sheet<'a> {
    shape: Vec<usize>,
    dtype: DType,
    len_bytes: usize,
    /// None until there is memory for it.
    buffer: Option<Buffer>,
    pen: Pen<'a>,
}

/// Writes the rows of a tensor.
pub(super) struct Pen<'a> {
    stored: Stored<'a>,
    rows: Rows,
    item_bytes: usize,
    /// What fills rows, as one element.
    pad: [u8; 8],
    pad_bytes: usize,
    writer: Writer,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(
        output: &Output,
        field: &Field,
        stored: Stored<'a>,
        rows: Rows,
        leading: &[usize],
    ) -> Result<Sheet<'a>> {
        let shape = [leading, &field.item[..]].concat();
        let item_bytes = field.width() * output.dtype.size();
        let len_bytes = leading.iter().try_fold(item_bytes, |product, &extent| product.checked_mul(extent));
        let too_large =
            || DataError::Memory(format!("column {:?} of the batch has the impossible shape {shape:?}", output.name));
        let len_bytes = len_bytes.ok_or_else(too_large)?;
        let pad = number_bytes(Elem::of(output.dtype), output.pad_value);
        let writer = Writer::new(output, field.elem);
        Ok(Sheet {
            shape,
            dtype: output.dtype,
            len_bytes,
            buffer: None,
            pen: Pen { stored, rows, item_bytes, pad, pad_bytes: output.dtype.size(), writer },
        })
    }

    /// What it takes.
    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Takes memory. Gives who writes it, and the memory to be written.
    pub(super) fn open(&mut self, buffers: Buffers<'_>) -> Result<(&mut Pen<'a>, &mut [u8])> {
        let buffer = self.buffer.insert(buffers.take(self.len_bytes)?);
        Ok((&mut self.pen, buffer.bytes_mut()))
    }

    pub(super) fn finish(self) -> Entry {
        let bytes = self.buffer.map_or_else(Default::default, Buffer::freeze);
        Entry::Tensor { dtype: self.dtype, shape: self.shape, bytes }
    }
}

impl<'a> Pen<'a> {
    /// Writes the next rows, which are these samples, at the beginning of the memory; what is left of it.
    pub(super) fn write<'b>(&mut self, rest: &'b mut [u8], range: Range<usize>, kept: &[Kept]) -> &'b mut [u8] {
        match self.stored {
            Stored::Columns(samples, field) => {
                let stored = |i: usize| samples[i].block.columns[field].sample_onward(samples[i].row);
                let soon = |i: usize| {
                    let (now, soon) = (samples[i], samples.get(i + AHEAD)?);
                    // What is read in the order it lies in, the processor asks for by itself.
                    let follows =
                        std::ptr::eq(now.block, soon.block) && soon.row.checked_sub(now.row) == Some(AHEAD as u32);
                    (!follows).then(|| soon.block.columns[field].sample(soon.row))
                };
                self.write_rows(rest, range, kept, stored, soon)
            }
            Stored::Records(records, part, item_bytes) => {
                let stored = |i: usize| records[i].part_onward(part, item_bytes);
                self.write_rows(rest, range, kept, stored, |i| Some(records.get(i + AHEAD)?.part(part, item_bytes)))
            }
        }
    }

    #[inline(always)]
    fn write_rows<'b>(
        &mut self,
        rest: &'b mut [u8],
        range: Range<usize>,
        kept: &[Kept],
        stored: impl Fn(usize) -> &'a [u8],
        soon: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> &'b mut [u8] {
        let ask = |i: usize| {
            if let Some(soon) = soon(i) {
                ask_for_bytes(soon, AHEAD_BYTES);
            }
        };
        if range.start == 0 {
            // Nothing was before these that could have asked for them.
            (0..AHEAD.min(range.end)).for_each(|i| ask_for_bytes(stored(i), AHEAD_BYTES));
        }
        match self.rows {
            Rows::One => one_each(&mut self.writer, self.item_bytes, rest, range, stored, ask),
            Rows::Many(number, extent) => {
                let pad = &self.pad[..self.pad_bytes];
                many_each(&mut self.writer, self.item_bytes, (extent, pad), rest, range, &kept[number], stored, ask)
            }
        }
    }
}

/// Writes one item for each sample; what is left of the memory.
#[inline(always)]
fn one_each<'a, 'b>(
    writer: &mut Writer,
    item_bytes: usize,
    mut rest: &'b mut [u8],
    range: Range<usize>,
    stored: impl Fn(usize) -> &'a [u8],
    ask: impl Fn(usize),
) -> &'b mut [u8] {
    let numbers = item_bytes / writer.to_bytes;
    for i in range {
        ask(i);
        writer.write(stored(i), numbers, rest);
        rest = &mut rest[item_bytes..];
    }
    rest
}

/// Writes any number of items for each sample, and what fills its row; what is left of the memory.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn many_each<'a, 'b>(
    writer: &mut Writer,
    item_bytes: usize,
    (extent, pad): (Option<usize>, &[u8]),
    mut rest: &'b mut [u8],
    range: Range<usize>,
    kept: &Kept,
    stored: impl Fn(usize) -> &'a [u8],
    ask: impl Fn(usize),
) -> &'b mut [u8] {
    let zeros = pad.iter().all(|&b| b == 0);
    let width = item_bytes / pad.len();
    let stored_bytes = width * writer.from_bytes;
    let mut picked = Vec::new();
    for i in range {
        ask(i);
        let sample = stored(i);
        let (first, len) = (kept.runs[i].0 as usize, kept.runs[i].1 as usize);
        let thinned = if kept.thinned.is_empty() { None } else { kept.thinned.get(&i) };
        match thinned {
            None => writer.write(&sample[first * stored_bytes..], len * width, rest),
            Some(chosen) => {
                picked.clear();
                let item = |&k: &u32| &sample[k as usize * stored_bytes..][..stored_bytes];
                chosen.iter().for_each(|k| picked.extend_from_slice(item(k)));
                writer.write(&picked, len * width, rest);
            }
        }
        rest = &mut rest[len * item_bytes..];
        if let Some(extent) = extent {
            let (padding, after) = rest.split_at_mut((extent - len) * item_bytes);
            match zeros {
                true => padding.fill(0),
                false => padding.chunks_exact_mut(pad.len()).for_each(|p| p.copy_from_slice(pad)),
            }
            rest = after;
        }
    }
    rest
}

/// Writes runs of stored numbers as elements.
struct Writer {
    convert: Convert,
    from_bytes: usize,
    to_bytes: usize,
    /// What is computed on the way, if something is.
    compute: Option<Box<Compute>>,
}

/// Steps that numbers go through.
struct Compute {
    steps: Vec<Step>,
    to_wide: Convert,
    from_wide: Convert,
    scratch: Vec<u8>,
}

impl Writer {
    fn new(output: &Output, from: Elem) -> Writer {
        let to = Elem::of(output.dtype);
        let compute = || Compute {
            steps: output.steps.clone(),
            to_wide: Convert::new(from, Elem::F64),
            from_wide: Convert::new(Elem::F64, to),
            scratch: Vec::new(),
        };
        Writer {
            convert: Convert::new(from, to),
            from_bytes: from.size(),
            to_bytes: to.size(),
            compute: (!output.steps.is_empty()).then(|| Box::new(compute())),
        }
    }

    /// Writes numbers from the beginning of `from`; what lies behind them in `to` may change, and is written later (SHEET-1).
    #[inline(always)]
    fn write(&mut self, from: &[u8], numbers: usize, to: &mut [u8]) {
        match &mut self.compute {
            None => self.convert.write(from, numbers, to),
            Some(compute) => compute.write(from, numbers, to),
        }
    }
}

impl Compute {
    fn write(&mut self, from: &[u8], numbers: usize, to: &mut [u8]) {
        self.scratch.resize(numbers * size_of::<f64>(), 0);
        self.to_wide.write(from, numbers, &mut self.scratch);
        for number in self.scratch.as_chunks_mut().0 {
            let x = self.steps.iter().fold(f64::from_le_bytes(*number), |x, step| step.apply(x));
            *number = x.to_le_bytes();
        }
        self.from_wide.write(&self.scratch, numbers, to);
    }
}
