//! Arrays in files, whose first axis is samples: `.npy`, safetensors, and what `gt data cache` writes.
//!
//! ARRAYS-3: every column has the same number of samples, whatever files they lie in.

mod cached;
mod npy;
mod safetensors;

use std::ops::Range;

use arrow_buffer::Buffer;

use crate::block::{Block, Column, Extents};
use crate::error::{DataError, Result};
use crate::field::{Field, Kind};
use crate::files::SourceFiles;
use crate::source::{BlockInfo, LoadTimes, Source};

pub(crate) use cached::CACHE_CONTENTS;
pub use cached::{open_cached, write_cache};
pub use npy::{NpyHeader, open_npy, write_npy_header};
pub use safetensors::open_safetensors;

/// About how much a block takes.
const BLOCK_BYTES: u64 = 4 << 20;

/// Consecutive rows of an array in one file.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub file: u32,
    /// Where they begin.
    pub at_bytes: u64,
    pub rows: u64,
}

/// An array over one or more files.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub parts: Vec<Part>,
    pub row_bytes: u64,
}

impl Spread {
    fn rows(&self) -> u64 {
        self.parts.iter().map(|p| p.rows).sum()
    }

    /// Reads rows into aligned memory.
    fn read(&self, files: &SourceFiles, rows: Range<u64>, times: &mut LoadTimes) -> Result<Vec<u64>> {
        let len_bytes = ((rows.end - rows.start) * self.row_bytes) as usize;
        // Asked for first, as what is cleared by the allocator cannot fail.
        drop(gt_ir::vec_for_bytes(len_bytes).map_err(|failure| DataError::Memory(failure.message))?);
        let mut words = vec![0u64; len_bytes.div_ceil(8)];
        let mut start = 0;
        let mut filled = 0usize;
        let out: &mut [u8] = as_bytes_mut(&mut words);
        for part in &self.parts {
            let (from, to) = (rows.start.max(start), rows.end.min(start + part.rows));
            if from < to {
                let n = ((to - from) * self.row_bytes) as usize;
                let at = part.at_bytes + (from - start) * self.row_bytes;
                times.reading(|| files.open(part.file)?.read_into(at, &mut out[filled..filled + n]))?;
                filled += n;
            }
            start += part.rows;
        }
        times.read_bytes += filled as u64;
        Ok(words)
    }
}

/// Words as bytes.
fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the bytes of integers are bytes, the length is the same memory's, and the borrow is passed on.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// A column of an [`ArraySource`].
#[derive(Debug)]
pub(crate) struct ArrayColumn {
    pub field: Field,
    pub values: Spread,
    /// For ragged columns and text: where each sample begins among the values, and where the last ends.
    pub offsets: Option<Vec<u64>>,
}

/// Arrays in files as a source.
#[derive(Debug)]
pub struct ArraySource {
    files: SourceFiles,
    columns: Vec<ArrayColumn>,
    fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    /// The first sample of each block, and the end.
    starts: Vec<u64>,
}

impl ArraySource {
    /// Columns that belong together (ARRAYS-3).
    pub(crate) fn new(files: SourceFiles, columns: Vec<ArrayColumn>) -> Result<ArraySource> {
        let samples = |c: &ArrayColumn| c.offsets.as_ref().map_or(c.values.rows(), |o| o.len() as u64 - 1);
        let Some(first) = columns.first() else { return Err(files.none_left()) };
        let total = samples(first);
        for column in &columns {
            if samples(column) != total {
                return Err(DataError::Argument(format!(
                    "column {:?} has {} samples, but {:?} has {total}",
                    column.field.name,
                    samples(column),
                    first.field.name
                )));
            }
            if let Some(offsets) = &column.offsets
                && (!offsets.is_sorted() || offsets.last().is_some_and(|&end| end > column.values.rows()))
            {
                let name = &column.field.name;
                return Err(DataError::Argument(format!("the offsets of column {name:?} do not match its values")));
            }
        }
        let bytes = |from: u64, to: u64| -> u64 {
            let of = |c: &ArrayColumn| match &c.offsets {
                None => (to - from) * c.values.row_bytes,
                Some(o) => (o[to as usize] - o[from as usize]) * c.values.row_bytes + (to - from) * 4,
            };
            columns.iter().map(of).sum()
        };
        let whole = bytes(0, total);
        let step = (total as f64 * BLOCK_BYTES as f64 / whole.max(1) as f64).ceil().clamp(1.0, u32::MAX as f64) as u64;
        let (mut blocks, mut starts, mut at) = (Vec::new(), vec![0], 0);
        while at < total {
            let end = (at + step).min(total);
            let file = first.values.parts.first().map_or(0, |p| p.file);
            blocks.push(BlockInfo { samples: (end - at) as u32, memory_bytes: bytes(at, end), file });
            starts.push(end);
            at = end;
        }
        let fields = columns.iter().map(|c| c.field.clone()).collect();
        Ok(ArraySource { files, columns, fields, blocks, starts })
    }
}

impl Source for ArraySource {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        let (from, to) = (self.starts[block as usize], self.starts[block as usize + 1]);
        let samples = (to - from) as usize;
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let (rows, extents) = match &column.offsets {
                None => (from..to, Extents::One),
                Some(o) => {
                    let (first, last) = (o[from as usize], o[to as usize]);
                    let within = o[from as usize..=to as usize].iter().map(|&x| u32::try_from(x - first));
                    let within: std::result::Result<Vec<u32>, _> = within.collect();
                    let within = within.map_err(|_| DataError::Argument("a block has more than 2^32 items".into()))?;
                    (first..last, Extents::Offsets(within.into()))
                }
            };
            let len_bytes = ((rows.end - rows.start) * column.values.row_bytes) as usize;
            let mut values = column.values.read(&self.files, rows, times)?;
            if column.field.elem == crate::field::Elem::Bool && !matches!(column.field.kind, Kind::Text { .. }) {
                // Outside a bool may be any byte; inside it is 0 or 1.
                as_bytes_mut(&mut values).iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
            let values = Buffer::from_vec(values).slice_with_length(0, len_bytes);
            columns.push(Column::new(&column.field, values, extents, samples).map_err(DataError::Internal)?);
        }
        Ok(Block { columns, samples })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.starts[block as usize] + row as u64
    }

    fn sample_len(&self, field: usize, block: u32, row: u32) -> Option<usize> {
        let at = (self.starts[block as usize] + row as u64) as usize;
        let offsets = self.columns.get(field)?.offsets.as_ref()?;
        Some((offsets[at + 1] - offsets[at]) as usize)
    }

    fn files(&self) -> &SourceFiles {
        &self.files
    }
}
