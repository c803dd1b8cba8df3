//! Gathers a batch from decoded columns: each tensor is written once, cast on the way, with no object per sample.
//!
//! GATHER-1: every byte of a tensor is a function of the samples and the spec. All are written: the memory has held other things.
//! GATHER-2: samples are anywhere in the pool, so what will be read soon is asked of memory ahead.
//! GATHER-3: where samples are records, a few are written into all tensors before the next few: what is asked of memory then comes
//!           while there is enough to do, and what of a record one column brought into the cache, the next one finds there.
//! GATHER-4: nothing that grows with the batch is made before it is reserved: sizes come first, checked, then memory (ACCOUNT-3).

use gt_ir::{Bytes, DType};

use super::buffers::Buffer;
use super::lengths::{Kept, pieces, split};
use super::sheet::{AHEAD, Pen, Rows, Sheet, Stored};
use super::{Batch, BatchSpec, BatchText, Buffers, Collate, Entry, Output};
use crate::ask::ask_for;
use crate::block::{Block, Column};
use crate::error::{DataError, Result};
use crate::field::{Field, Kind};
use crate::record::{Located, RecordLayout, RecordPart};

/// Samples that are written into all tensors before the next ones (GATHER-3).
const STRIP: usize = 16;
/// What a row takes while its batch is made: where it lies, and what is kept of it.
const ROW_BYTES: u64 = 160;
/// What a string takes beside its bytes, and how often there are these: in the batch, and twice in what is said of it.
const STRING_BYTES: u64 = 64;
const STRING_COPIES: u64 = 3;

/// A sample in memory.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a> {
    /// The block it is in.
    pub block: &'a Block,
    /// Its number there.
    pub row: u32,
    /// Its number in the whole.
    pub id: u64,
    /// Which of its rows this is, where long samples are split into several.
    pub piece: u32,
}

/// An entry that will be made.
enum Part<'a> {
    Sheet(Box<Sheet<'a>>),
    /// What these lengths say, as numbers.
    Lengths(usize),
    /// The same as a mask of rows, each with this many items.
    Mask(usize, usize),
    /// The same as the ends of samples.
    Ends(usize),
    Ids,
    /// The strings of a field.
    Text {
        field: usize,
        utf8: bool,
    },
}

/// A batch before it is written.
struct Draft<'a> {
    spec: &'a BatchSpec,
    samples: &'a [Picked<'a>],
    buffers: Buffers<'a>,
    /// Entries in their order.
    parts: Vec<(String, Part<'a>)>,
    /// What is kept of each sample, for each kind of lengths there is.
    kept: Vec<Kept>,
}

/// Makes a batch of samples, or the part of one. `longest` says for each output how long samples of the other parts are; nothing
/// where there are none.
/// The tensors are written into `buffers`.
///
/// # Errors
/// When ragged columns that share lengths differ in them.
pub fn gather(
    spec: &BatchSpec,
    fields: &[Field],
    samples: &[Picked<'_>],
    longest: &[usize],
    buffers: Buffers<'_>,
) -> Result<Batch> {
    let given = samples.len();
    let row_count = match spec.splits(fields) {
        Some((field, max)) => pieces(samples, field, max),
        None => given as u64,
    };
    buffers.reserved().grow_to(row_count.saturating_mul(ROW_BYTES))?;
    let rows = spec.splits(fields).map(|(field, max)| split(samples, field, max));
    let samples = rows.as_deref().unwrap_or(samples);
    let records = located(spec, samples);
    let parts = Vec::with_capacity(spec.outputs.len() + 3);
    let mut draft = Draft { spec, samples, buffers, parts, kept: Vec::new() };
    let mut shared: Option<(&Output, Option<RecordPart>)> = None;
    for (number, output) in spec.outputs.iter().enumerate() {
        let elsewhere = longest.get(number).map_or(0, |&len| output.max_len.map_or(len, |max| len.min(max)));
        let field = &fields[output.field];
        let record = records.as_ref().and_then(|(layout, found)| Some((&found[..], layout.part(output.field)?)));
        let part = record.map(|(_, part)| part);
        let stored = match record {
            Some((found, part)) => Stored::Records(found, part, field.width() * field.elem.size()),
            None => Stored::Columns(samples, output.field),
        };
        match field.kind {
            Kind::Fixed => {
                let sheet = Sheet::new(output, field, stored, Rows::One, &[samples.len()])?;
                draft.parts.push((output.name.clone(), Part::Sheet(Box::new(sheet))));
            }
            Kind::Text { utf8 } => {
                draft.parts.push((output.name.clone(), Part::Text { field: output.field, utf8 }));
            }
            Kind::Ragged => {
                let same = |(first, its): &(&Output, Option<RecordPart>)| match (its, &part) {
                    _ if !spec.is_cut_as(output, first) => false,
                    (Some(RecordPart::Items(..)), Some(RecordPart::Items(..))) => true,
                    (None, None) => {
                        samples.iter().all(|s| column(s, output.field).shares_items_with(column(s, first.field)))
                    }
                    _ => false,
                };
                if shared.as_ref().is_some_and(same) {
                    draft.push_ragged(output, field, stored, 0, elsewhere)?;
                    continue;
                }
                let mine = match record {
                    Some((found, RecordPart::Items(..))) => Kept::of(spec, output, samples, |i| found[i].items),
                    _ => Kept::of(spec, output, samples, |i| {
                        column(&samples[i], output.field).len(samples[i].row) as u32
                    }),
                };
                draft.kept.push(mine);
                let known = draft.kept.len() - 1;
                let extent = draft.push_ragged(output, field, stored, known, elsewhere)?;
                match &shared {
                    None if !spec.lengths_each => {
                        draft.push_lengths("", known, extent);
                        shared = Some((output, part));
                    }
                    Some((first, _)) if spec.is_cut_as(output, first) => {
                        let (others, mine) = (&draft.kept[0], &draft.kept[known]);
                        same_lengths((first, others), (output, mine), samples, rows.is_some())?;
                    }
                    _ => draft.push_lengths(&format!("{}_", output.name), known, extent),
                }
            }
        }
    }
    if spec.sample_ids {
        draft.parts.push(("sample_id".into(), Part::Ids));
    }
    // Columns that lie apart bring nothing for each other.
    let strip = if records.is_some() { STRIP } else { samples.len().max(1) };
    let text_bytes = draft.text_bytes();
    let tensor_bytes =
        draft.parts.iter().try_fold(0u64, |sum, (name, part)| sum.checked_add(draft.counts(name, part)?));
    let len_bytes =
        tensor_bytes.and_then(|sum| sum.checked_add(text_bytes)?.checked_add(row_count.checked_mul(ROW_BYTES)?));
    let impossible = || DataError::Memory("the batch needs more bytes than there can be".into());
    buffers.reserved().grow_to(len_bytes.ok_or_else(impossible)?)?;
    let entries = draft.written(strip)?;
    let text = BatchText::new(buffers.reserved().split(text_bytes)?);
    Ok(Batch { entries, samples: given, of: given, text })
}

fn column<'a>(sample: &Picked<'a>, number: usize) -> &'a Column {
    &sample.block.columns[number]
}

/// The records of samples, if all are in records that are made of the same columns.
fn located<'a>(spec: &BatchSpec, samples: &[Picked<'a>]) -> Option<(&'a RecordLayout, Vec<Located<'a>>)> {
    let first = samples.first()?;
    let lead = spec.outputs.iter().map(|o| o.field).find(|&field| column(first, field).layout().is_some())?;
    let layout = column(first, lead).layout()?;
    let mut found = Vec::with_capacity(samples.len());
    // From a sample to its record it is several steps from one place of memory to another (GATHER-2).
    for (i, sample) in samples.iter().enumerate() {
        if let Some(later) = samples.get(i + 2 * AHEAD) {
            ask_for(later.block);
        }
        if let Some(soon) = samples.get(i + AHEAD) {
            column(soon, lead).ask_for_record(soon.row);
        }
        found.push(column(sample, lead).record(sample.row, layout)?);
    }
    Some((layout, found))
}

fn same_lengths(
    (first, others): (&Output, &Kept),
    (output, mine): (&Output, &Kept),
    samples: &[Picked<'_>],
    split: bool,
) -> Result<()> {
    let lens = |s: &Picked<'_>| (column(s, first.field).len(s.row), column(s, output.field).len(s.row));
    // Rows of a split sample may agree where the samples do not.
    let differ = |i: usize| others.runs[i].1 != mine.runs[i].1 || (split && lens(&samples[i]).0 != lens(&samples[i]).1);
    match (0..samples.len()).find(|&i| differ(i)) {
        None => Ok(()),
        Some(i) => Err(DataError::Argument(format!(
            "sample {} has {} items in {:?} but {} in {:?}; use ragged=\"each\" to give each column its own lengths",
            samples[i].id,
            lens(&samples[i]).0,
            first.name,
            lens(&samples[i]).1,
            output.name
        ))),
    }
}

/// A tensor of these numbers.
fn numbers<const N: usize>(buffers: Buffers<'_>, values: impl ExactSizeIterator<Item = [u8; N]>) -> Result<Bytes> {
    let mut out = buffers.take(values.len() * N)?;
    out.bytes_mut().as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    Ok(out.freeze())
}

impl<'a> Draft<'a> {
    /// Adds a column of lists whose lengths are known; how many items a row has. Rows are as long as those `elsewhere` at least.
    fn push_ragged(
        &mut self,
        output: &Output,
        field: &Field,
        stored: Stored<'a>,
        known: usize,
        elsewhere: usize,
    ) -> Result<usize> {
        let kept = &self.kept[known];
        let longest = kept.lens().max().unwrap_or(0).max(elsewhere);
        let (extent, rows, leading) = match self.spec.collate {
            Collate::Padded => {
                let impossible = || {
                    DataError::Memory(format!(
                        "pad_to_multiple_of of {:?} makes rows of an impossible length",
                        output.name
                    ))
                };
                let extent = longest.checked_next_multiple_of(output.multiple).ok_or_else(impossible)?;
                (extent, Rows::Many(known, Some(extent)), vec![self.samples.len(), extent])
            }
            Collate::Packed => (longest, Rows::Many(known, None), vec![kept.lens().sum()]),
        };
        let sheet = Sheet::new(output, field, stored, rows, &leading)?;
        self.parts.push((output.name.clone(), Part::Sheet(Box::new(sheet))));
        Ok(extent)
    }

    /// Adds what says where samples end.
    fn push_lengths(&mut self, prefix: &str, known: usize, extent: usize) {
        let parts = match self.spec.collate {
            Collate::Padded => vec![("lengths", Part::Lengths(known)), ("mask", Part::Mask(known, extent))],
            Collate::Packed => vec![("cu_seqlens", Part::Ends(known))],
        };
        self.parts.extend(parts.into_iter().map(|(name, part)| (format!("{prefix}{name}"), part)));
    }

    /// What the strings of the batch count for.
    fn text_bytes(&self) -> u64 {
        let of = |part: &Part<'_>| match part {
            Part::Text { field, .. } => {
                let lens = self.samples.iter().map(|s| column(s, *field).sample(s.row).len() as u64);
                lens.fold(0u64, |sum, len| {
                    sum.saturating_add(len.saturating_mul(STRING_COPIES)).saturating_add(STRING_BYTES)
                })
            }
            _ => 0,
        };
        self.parts.iter().fold(0, |sum, (_, part)| sum.saturating_add(of(part)))
    }

    /// What a tensor counts for; none where that is more than there can be.
    fn counts(&self, name: &str, part: &Part<'_>) -> Option<u64> {
        let rows = |known: &usize| self.kept[*known].runs.len();
        let len_bytes = match part {
            Part::Text { .. } => return Some(0),
            Part::Sheet(sheet) => sheet.len_bytes(),
            Part::Lengths(known) => rows(known).checked_mul(size_of::<i64>())?,
            Part::Mask(known, extent) => rows(known).checked_mul(*extent)?,
            Part::Ends(known) => rows(known).checked_add(1)?.checked_mul(size_of::<i32>())?,
            Part::Ids => self.samples.len().checked_mul(size_of::<i64>())?,
        };
        Buffer::counts(len_bytes).checked_add(name.len() as u64)
    }

    /// An entry that is no sheet.
    fn made(&self, part: &Part<'_>) -> Result<Entry> {
        let tensor = |dtype, shape: Vec<usize>, bytes| Entry::Tensor { dtype, shape, bytes };
        Ok(match part {
            // Those are written together.
            Part::Sheet(_) => return Err(DataError::Internal("a tensor of a batch is made twice".into())),
            Part::Text { field, utf8 } => {
                let rows = self.samples.iter().map(|s| column(s, *field).sample(s.row).to_vec()).collect();
                Entry::Text { utf8: *utf8, rows }
            }
            Part::Lengths(known) => {
                let lens = self.kept[*known].lens();
                let bytes = numbers(self.buffers, lens.clone().map(|len| (len as i64).to_le_bytes()))?;
                tensor(DType::I64, vec![lens.len()], bytes)
            }
            Part::Mask(known, extent) => {
                let lens = self.kept[*known].lens();
                let mut out = self.buffers.take(lens.len() * extent)?;
                if *extent > 0 {
                    for (row, len) in out.bytes_mut().chunks_exact_mut(*extent).zip(lens.clone()) {
                        row[..len].fill(1);
                        row[len..].fill(0);
                    }
                }
                tensor(DType::Bool, vec![lens.len(), *extent], out.freeze())
            }
            Part::Ends(known) => {
                let lens = self.kept[*known].lens();
                let mut ends = vec![0i32];
                ends.extend(lens.clone().scan(0i32, |end, len| {
                    *end = end.saturating_add(len as i32);
                    Some(*end)
                }));
                let bytes = numbers(self.buffers, ends.iter().map(|end| end.to_le_bytes()))?;
                tensor(DType::I32, vec![lens.len() + 1], bytes)
            }
            Part::Ids => {
                let ids = self.samples.iter().map(|s| (s.id as i64).to_le_bytes());
                tensor(DType::I64, vec![self.samples.len()], numbers(self.buffers, ids)?)
            }
        })
    }

    /// The entries, with everything written, so many samples at a time (GATHER-3).
    fn written(mut self, strip: usize) -> Result<Vec<(String, Entry)>> {
        let (samples, buffers) = (self.samples.len(), self.buffers);
        let mut parts = std::mem::take(&mut self.parts);
        let sheets = parts.iter_mut().filter_map(|(_, part)| match part {
            Part::Sheet(sheet) => Some(sheet.open(buffers)),
            _ => None,
        });
        let mut open: Vec<(&mut Pen<'a>, &mut [u8])> = sheets.collect::<Result<_>>()?;
        for start in (0..samples).step_by(strip) {
            for (pen, rest) in &mut open {
                *rest = pen.write(std::mem::take(rest), start..samples.min(start + strip), &self.kept);
            }
        }
        let entry = |part| match part {
            Part::Sheet(sheet) => Ok(sheet.finish()),
            other => self.made(&other),
        };
        parts.into_iter().map(|(name, part)| Ok((name, entry(part)?))).collect()
    }
}
