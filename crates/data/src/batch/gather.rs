//! Gathers a batch from decoded columns: each tensor is written once, cast on the way, with no object per sample.
//!
//! GATHER-1: every byte of a tensor is a function of the samples and the spec.
//! GATHER-2: samples are anywhere in the pool, so what will be read soon is asked of memory ahead.

use std::sync::Arc;

use gt_ir::DType;

use super::lengths::Kept;
use super::{Batch, BatchSpec, Collate, Entry, Output, Step, cast, number_bytes};
use crate::block::Block;
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};

/// How many samples ahead memory is asked for.
const AHEAD: usize = 16;
/// Bytes of a sample that are asked for ahead; what follows, the processor asks for by itself.
const AHEAD_BYTES: usize = 256;

/// A sample in memory.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a> {
    /// The block it is in.
    pub block: &'a Block,
    /// Its number there.
    pub row: u32,
    /// Its number in the whole.
    pub id: u64,
}

/// Makes a batch of samples.
///
/// # Errors
/// When ragged columns that share lengths differ in them.
pub fn gather(spec: &BatchSpec, fields: &[Field], samples: &[Picked<'_>]) -> Result<Batch> {
    let mut batch = Batch { entries: Vec::with_capacity(spec.outputs.len() + 3), samples: samples.len() };
    let mut shared: Option<(&Output, Kept)> = None;
    for output in &spec.outputs {
        let field = &fields[output.field];
        match field.kind {
            Kind::Fixed => batch.entries.push((output.name.clone(), fixed(output, field, samples))),
            Kind::Text { utf8 } => {
                let column = |s: &Picked<'_>| {
                    let column = &s.block.columns[output.field];
                    column.bytes(column.items(s.row)).to_vec()
                };
                let rows = samples.iter().map(column).collect();
                batch.entries.push((output.name.clone(), Entry::Text { utf8, rows }));
            }
            Kind::Ragged => {
                if let (Some((first, kept)), false) = (&shared, spec.lengths_each)
                    && samples
                        .iter()
                        .all(|s| s.block.columns[output.field].shares_items_with(&s.block.columns[first.field]))
                {
                    batch.entries.push((output.name.clone(), ragged(spec, output, field, samples, kept).1));
                    continue;
                }
                let mine = Kept::of(samples, output.field, output.max_len, spec.outliers, spec.seed);
                let (extent, entry) = ragged(spec, output, field, samples, &mine);
                batch.entries.push((output.name.clone(), entry));
                match (&shared, spec.lengths_each) {
                    (_, true) => push_lengths(&mut batch, spec.collate, &format!("{}_", output.name), &mine, extent),
                    (None, false) => {
                        push_lengths(&mut batch, spec.collate, "", &mine, extent);
                        shared = Some((output, mine));
                    }
                    (Some((first, others)), false) => same_lengths(first, others, output, &mine, samples)?,
                }
            }
        }
    }
    if spec.sample_ids {
        let bytes = samples.iter().flat_map(|s| (s.id as i64).to_le_bytes()).collect();
        let entry = Entry::Tensor { dtype: DType::I64, shape: vec![samples.len()], bytes };
        batch.entries.push(("sample_id".into(), entry));
    }
    Ok(batch)
}

fn same_lengths(first: &Output, others: &Kept, output: &Output, mine: &Kept, samples: &[Picked<'_>]) -> Result<()> {
    let differs = others.lens().zip(mine.lens()).position(|(a, b)| a != b);
    match differs {
        None => Ok(()),
        Some(i) => Err(DataError::Argument(format!(
            "sample {} has {} items in {:?} and {} in {:?}; ragged=\"each\" gives each column its own lengths",
            samples[i].id, others.runs[i].1, first.name, mine.runs[i].1, output.name
        ))),
    }
}

/// Zeros that nobody else has yet.
fn zeros(len_bytes: usize) -> Arc<[u8]> {
    let bytes = Arc::<[u8]>::new_zeroed_slice(len_bytes);
    // SAFETY: a zeroed byte is a byte.
    unsafe { bytes.assume_init() }
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
fn fixed(output: &Output, field: &Field, samples: &[Picked<'_>]) -> Entry {
    let row_bytes = field.width() * output.dtype.size();
    let mut bytes = zeros(samples.len() * row_bytes);
    let mut writer = Writer::new(output, field.elem);
    if let Some(out) = Arc::get_mut(&mut bytes)
        && row_bytes > 0
    {
        for (sample, row) in samples.iter().zip(out.chunks_exact_mut(row_bytes)) {
            let column = &sample.block.columns[output.field];
            writer.write(column.bytes(column.items(sample.row)), row);
        }
    }
    let shape = [&[samples.len()], &field.item[..]].concat();
    Entry::Tensor { dtype: output.dtype, shape, bytes }
}

/// Any number of items for each sample; with how many a row has.
fn ragged(spec: &BatchSpec, output: &Output, field: &Field, samples: &[Picked<'_>], kept: &Kept) -> (usize, Entry) {
    let item_bytes = field.width() * output.dtype.size();
    let longest = kept.lens().max().unwrap_or(0);
    let (extent, items) = match spec.collate {
        Collate::Padded => {
            let extent = longest.next_multiple_of(output.multiple);
            (extent, extent * samples.len())
        }
        Collate::Packed => (longest, kept.lens().sum()),
    };
    let mut bytes = zeros(items * item_bytes);
    let pad = number_bytes(Elem::of(output.dtype), output.pad_value);
    let pad = &pad[..output.dtype.size()];
    let mut writer = Writer::new(output, field.elem);
    let mut picked = Vec::new();
    let runs: Vec<&[u8]> = samples
        .iter()
        .zip(&kept.runs)
        .map(|(s, &(start, len))| s.block.columns[output.field].bytes(start as usize..(start + len) as usize))
        .collect();
    let mut rest = Arc::get_mut(&mut bytes).unwrap_or_default();
    for (i, &run) in runs.iter().enumerate() {
        if let Some(soon) = runs.get(i + AHEAD) {
            ask_ahead(soon);
        }
        let len = kept.runs[i].1 as usize;
        let (row, after) = rest.split_at_mut(len * item_bytes);
        match kept.thinned.get(&i) {
            None => writer.write(run, row),
            Some(chosen) => {
                let column = &samples[i].block.columns[output.field];
                picked.clear();
                chosen.iter().for_each(|&k| picked.extend_from_slice(column.bytes(k as usize..k as usize + 1)));
                writer.write(&picked, row);
            }
        }
        rest = after;
        if spec.collate == Collate::Padded {
            let (padding, after) = rest.split_at_mut((extent - len) * item_bytes);
            if pad.iter().any(|&b| b != 0) {
                padding.chunks_exact_mut(pad.len()).for_each(|p| p.copy_from_slice(pad));
            }
            rest = after;
        }
    }
    let shape = match spec.collate {
        Collate::Padded => [&[samples.len(), extent], &field.item[..]].concat(),
        Collate::Packed => [&[items], &field.item[..]].concat(),
    };
    (extent, Entry::Tensor { dtype: output.dtype, shape, bytes })
}

/// Adds what says where samples end.
fn push_lengths(batch: &mut Batch, collate: Collate, prefix: &str, kept: &Kept, extent: usize) {
    match collate {
        Collate::Padded => {
            let samples = kept.runs.len();
            let bytes = kept.lens().flat_map(|len| (len as i64).to_le_bytes()).collect();
            let lengths = Entry::Tensor { dtype: DType::I64, shape: vec![samples], bytes };
            let mut bytes = zeros(samples * extent);
            if let Some(out) = Arc::get_mut(&mut bytes)
                && extent > 0
            {
                for (row, len) in out.chunks_exact_mut(extent).zip(kept.lens()) {
                    row[..len].fill(1);
                }
            }
            let mask = Entry::Tensor { dtype: DType::Bool, shape: vec![samples, extent], bytes };
            batch.entries.push((format!("{prefix}lengths"), lengths));
            batch.entries.push((format!("{prefix}mask"), mask));
        }
        Collate::Packed => {
            let mut end = 0i32;
            let ends = kept.lens().map(|len| {
                end = end.saturating_add(len as i32);
                end
            });
            let bytes = std::iter::once(0).chain(ends).flat_map(i32::to_le_bytes).collect::<Vec<u8>>().into();
            let entry = Entry::Tensor { dtype: DType::I32, shape: vec![kept.runs.len() + 1], bytes };
            batch.entries.push((format!("{prefix}cu_seqlens"), entry));
        }
    }
}
