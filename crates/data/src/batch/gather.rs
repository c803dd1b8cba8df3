//! Gathers a batch from decoded columns: each tensor is written once, cast on the way, with no object per sample.
//!
//! GATHER-1: every byte of a tensor is a function of the samples and the spec. All are written: the memory has held other things.
//! GATHER-2: samples are anywhere in the pool, so what will be read soon is asked of memory ahead; once for all columns
//!           that lie side by side.

use gt_ir::{Bytes, DType};

use super::lengths::{Kept, split};
use super::{Batch, BatchSpec, Buffers, Collate, Entry, Output, Step, cast, number_bytes};
use crate::block::{Block, Column};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};

/// How many samples ahead memory is asked for.
const AHEAD: usize = 16;
/// Bytes of a sample that are asked for ahead; what follows, the processor asks for by itself.
const AHEAD_BYTES: usize = 512;

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
    let entries = Vec::with_capacity(spec.outputs.len() + 3);
    let mut batch = Batch { entries, samples: samples.len(), of: samples.len() };
    let rows = spec.splits(fields).map(|(field, max)| split(samples, field, max));
    let samples = rows.as_deref().unwrap_or(samples);
    // The first column that was asked of memory.
    let mut asked: Option<usize> = None;
    let mut shared: Option<(&Output, Kept)> = None;
    for (number, output) in spec.outputs.iter().enumerate() {
        let elsewhere = longest.get(number).map_or(0, |&len| output.max_len.map_or(len, |max| len.min(max)));
        let field = &fields[output.field];
        // Whether it lies beside what was asked of memory before (GATHER-2).
        let beside =
            asked.is_some_and(|first| samples.iter().all(|s| column(s, output.field).lies_beside(column(s, first))));
        asked = asked.or(Some(output.field).filter(|_| !matches!(field.kind, Kind::Text { .. })));
        match field.kind {
            Kind::Fixed => {
                let entry = fixed(output, field, samples, !beside, buffers);
                batch.entries.push((output.name.clone(), entry));
            }
            Kind::Text { utf8 } => {
                let rows = samples.iter().map(|s| column(s, output.field).sample(s.row).to_vec()).collect();
                batch.entries.push((output.name.clone(), Entry::Text { utf8, rows }));
            }
            Kind::Ragged => {
                if let (Some((first, kept)), false) = (&shared, spec.lengths_each)
                    && ((beside && asked == Some(first.field))
                        || samples.iter().all(|s| column(s, output.field).shares_items_with(column(s, first.field))))
                {
                    let entry = ragged(spec, output, field, samples, (kept, elsewhere), !beside, buffers).1;
                    batch.entries.push((output.name.clone(), entry));
                    continue;
                }
                let mine = Kept::of(samples, output.field, output.max_len, spec.outliers, spec.seed);
                let (extent, entry) = ragged(spec, output, field, samples, (&mine, elsewhere), !beside, buffers);
                batch.entries.push((output.name.clone(), entry));
                match (&shared, spec.lengths_each) {
                    (_, true) => {
                        push_lengths(&mut batch, spec.collate, &format!("{}_", output.name), &mine, extent, buffers);
                    }
                    (None, false) => {
                        push_lengths(&mut batch, spec.collate, "", &mine, extent, buffers);
                        shared = Some((output, mine));
                    }
                    (Some((first, others)), false) => {
                        same_lengths((first, others), (output, &mine), samples, rows.is_some())?;
                    }
                }
            }
        }
    }
    if spec.sample_ids {
        let bytes = numbers(buffers, samples.iter().map(|s| (s.id as i64).to_le_bytes()));
        let entry = Entry::Tensor { dtype: DType::I64, shape: vec![samples.len()], bytes };
        batch.entries.push(("sample_id".into(), entry));
    }
    Ok(batch)
}

fn column<'a>(sample: &Picked<'a>, number: usize) -> &'a Column {
    &sample.block.columns[number]
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
            "sample {} has {} items in {:?} and {} in {:?}; ragged=\"each\" gives each column its own lengths",
            samples[i].id,
            lens(&samples[i]).0,
            first.name,
            lens(&samples[i]).1,
            output.name
        ))),
    }
}

/// A tensor of these numbers.
fn numbers<const N: usize>(buffers: Buffers<'_>, values: impl ExactSizeIterator<Item = [u8; N]>) -> Bytes {
    let mut out = buffers.take(values.len() * N);
    out.bytes_mut().as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    out.freeze()
}

/// Asks memory for the beginning of bytes that will be read soon (GATHER-2).
#[inline(always)]
fn ask_ahead(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes.len().min(AHEAD_BYTES)).step_by(64) {
        // SAFETY: the address is inside a slice, and a prefetch has no effect but on caches.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(bytes.as_ptr().add(at).cast())
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Asks for the samples before which none is that could ask for them.
fn ask_first(samples: &[Picked<'_>], field: usize) {
    samples.iter().take(AHEAD).for_each(|s| ask_ahead(s.block.columns[field].surroundings(s.row)));
}

/// Writes runs of stored numbers as elements.
struct Writer {
    cast: super::Cast,
    steps: Vec<Step>,
    to_wide: super::Cast,
    from_wide: super::Cast,
    from_size: usize,
    scratch: Vec<u8>,
}

impl Writer {
    fn new(output: &Output, elem: Elem) -> Writer {
        Writer {
            cast: cast(elem, output.dtype),
            steps: output.steps.clone(),
            to_wide: cast(elem, DType::F64),
            from_wide: cast(Elem::F64, output.dtype),
            from_size: elem.size(),
            scratch: Vec::new(),
        }
    }

    #[inline]
    fn write(&mut self, from: &[u8], to: &mut [u8]) {
        if self.steps.is_empty() {
            return (self.cast)(from, to);
        }
        self.scratch.resize(from.len() / self.from_size * 8, 0);
        (self.to_wide)(from, &mut self.scratch);
        for number in self.scratch.as_chunks_mut::<8>().0 {
            let x = self.steps.iter().fold(f64::from_le_bytes(*number), |x, step| step.apply(x));
            *number = x.to_le_bytes();
        }
        (self.from_wide)(&self.scratch, to);
    }
}

/// One item for each sample.
fn fixed(output: &Output, field: &Field, samples: &[Picked<'_>], asks: bool, buffers: Buffers<'_>) -> Entry {
    let row_bytes = field.width() * output.dtype.size();
    let mut out = buffers.take(samples.len() * row_bytes);
    let mut writer = Writer::new(output, field.elem);
    if row_bytes > 0 {
        if asks {
            ask_first(samples, output.field);
        }
        for (i, (sample, row)) in samples.iter().zip(out.bytes_mut().chunks_exact_mut(row_bytes)).enumerate() {
            if asks && let Some(soon) = samples.get(i + AHEAD) {
                ask_ahead(soon.block.columns[output.field].surroundings(soon.row));
            }
            writer.write(sample.block.columns[output.field].sample(sample.row), row);
        }
    }
    let shape = [&[samples.len()], &field.item[..]].concat();
    Entry::Tensor { dtype: output.dtype, shape, bytes: out.freeze() }
}

/// Any number of items for each sample; with how many a row has. Rows are as long as those `elsewhere` at least.
fn ragged(
    spec: &BatchSpec,
    output: &Output,
    field: &Field,
    samples: &[Picked<'_>],
    (kept, elsewhere): (&Kept, usize),
    asks: bool,
    buffers: Buffers<'_>,
) -> (usize, Entry) {
    let item_bytes = field.width() * output.dtype.size();
    let longest = kept.lens().max().unwrap_or(0).max(elsewhere);
    let (extent, items) = match spec.collate {
        Collate::Padded => {
            let extent = longest.next_multiple_of(output.multiple);
            (extent, extent * samples.len())
        }
        Collate::Packed => (longest, kept.lens().sum()),
    };
    let mut out = buffers.take(items * item_bytes);
    let pad = number_bytes(Elem::of(output.dtype), output.pad_value);
    let pad = &pad[..output.dtype.size()];
    let mut writer = Writer::new(output, field.elem);
    let mut picked = Vec::new();
    if asks {
        ask_first(samples, output.field);
    }
    let mut rest = out.bytes_mut();
    for (i, sample) in samples.iter().enumerate() {
        if asks && let Some(soon) = samples.get(i + AHEAD) {
            ask_ahead(soon.block.columns[output.field].surroundings(soon.row));
        }
        let column = &sample.block.columns[output.field];
        let stored = column.sample(sample.row);
        let len = kept.runs[i].1 as usize;
        let (row, after) = rest.split_at_mut(len * item_bytes);
        match kept.thinned.get(&i) {
            None => {
                let from = kept.runs[i].0 as usize * column.item_bytes();
                writer.write(&stored[from..from + len * column.item_bytes()], row);
            }
            Some(chosen) => {
                let width = column.item_bytes();
                picked.clear();
                chosen.iter().for_each(|&k| picked.extend_from_slice(&stored[k as usize * width..][..width]));
                writer.write(&picked, row);
            }
        }
        rest = after;
        if spec.collate == Collate::Padded {
            let (padding, after) = rest.split_at_mut((extent - len) * item_bytes);
            match pad.iter().all(|&b| b == 0) {
                true => padding.fill(0),
                false => padding.chunks_exact_mut(pad.len()).for_each(|p| p.copy_from_slice(pad)),
            }
            rest = after;
        }
    }
    let shape = match spec.collate {
        Collate::Padded => [&[samples.len(), extent], &field.item[..]].concat(),
        Collate::Packed => [&[items], &field.item[..]].concat(),
    };
    (extent, Entry::Tensor { dtype: output.dtype, shape, bytes: out.freeze() })
}

/// Adds what says where samples end.
fn push_lengths(batch: &mut Batch, collate: Collate, prefix: &str, kept: &Kept, extent: usize, buffers: Buffers<'_>) {
    match collate {
        Collate::Padded => {
            let samples = kept.runs.len();
            let bytes = numbers(buffers, kept.lens().map(|len| (len as i64).to_le_bytes()));
            let lengths = Entry::Tensor { dtype: DType::I64, shape: vec![samples], bytes };
            let mut out = buffers.take(samples * extent);
            if extent > 0 {
                for (row, len) in out.bytes_mut().chunks_exact_mut(extent).zip(kept.lens()) {
                    row[..len].fill(1);
                    row[len..].fill(0);
                }
            }
            let bytes = out.freeze();
            let mask = Entry::Tensor { dtype: DType::Bool, shape: vec![samples, extent], bytes };
            batch.entries.push((format!("{prefix}lengths"), lengths));
            batch.entries.push((format!("{prefix}mask"), mask));
        }
        Collate::Packed => {
            let mut ends = vec![0i32];
            ends.extend(kept.lens().scan(0i32, |end, len| {
                *end = end.saturating_add(len as i32);
                Some(*end)
            }));
            let bytes = numbers(buffers, ends.iter().map(|end| end.to_le_bytes()));
            let entry = Entry::Tensor { dtype: DType::I32, shape: vec![kept.runs.len() + 1], bytes };
            batch.entries.push((format!("{prefix}cu_seqlens"), entry));
        }
    }
}
