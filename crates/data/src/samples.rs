//! Samples one by one, for code that asks for them by number: decoded blocks are kept, so that one is decoded once for
//! all that is asked of it.
//!
//! SAMPLES-1: what is kept takes no more than the budget, or is the block that was asked for last.
//! SAMPLES-2: a sample has the numbers and dtypes that a batch of it alone would have; bfloat16, which NumPy has not, is float32.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::DType;

use crate::batch::cast;
use crate::block::Block;
use crate::field::{Elem, Field, Kind};
use crate::source::Source;

/// What a column holds for one sample.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    /// Numbers in row-major order.
    Numbers { dtype: DType, shape: Vec<usize>, bytes: Vec<u8> },
    /// A string, which is text where `utf8` says so.
    Text { utf8: bool, bytes: Vec<u8> },
}

/// The decoded blocks of a source that were asked for last.
///
/// ```
/// use gt_data::{KeptBlocks, LoadTimes, ParquetOptions, Value, sample};
///
/// let file = std::env::temp_dir().join(format!("gt-data-samples-{}.jsonl", std::process::id()));
/// std::fs::write(&file, "{\"x\": \"one\"}\n{\"x\": \"two\"}\n")?;
/// let options = ParquetOptions { no_index_cache: true, ..ParquetOptions::default() };
/// let source = gt_data::open(&[file.display().to_string()], &options)?;
/// let mut kept = KeptBlocks::new(&*source);
/// let (block, row) = kept.place(1).unwrap();
/// assert!(kept.get(block).is_none());
/// kept.keep(block, source.load(block, &mut LoadTimes::default())?.into(), 1 << 20);
/// let second = sample(source.fields(), &kept.get(block).unwrap(), row);
/// assert_eq!(second, [Value::Text { utf8: true, bytes: b"two".to_vec() }]);
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeptBlocks {
    /// For each block the number of samples up to its end.
    ends: Vec<u64>,
    kept: HashMap<u32, (Arc<Block>, u64)>,
    bytes: u64,
    clock: u64,
}

impl KeptBlocks {
    /// None of a source's blocks.
    pub fn new(source: &dyn Source) -> KeptBlocks {
        let ends = source.blocks().iter().scan(0, |end, block| {
            *end += u64::from(block.samples);
            Some(*end)
        });
        KeptBlocks { ends: ends.collect(), kept: HashMap::new(), bytes: 0, clock: 0 }
    }

    /// The block of a sample, in the order in which samples are stored, and its number there; none behind the last one.
    pub fn place(&self, sample: u64) -> Option<(u32, u32)> {
        let block = self.ends.partition_point(|&end| end <= sample);
        let before = block.checked_sub(1).map_or(0, |before| self.ends[before]);
        (block < self.ends.len()).then_some((block as u32, (sample - before) as u32))
    }

    /// A block that is kept.
    pub fn get(&mut self, block: u32) -> Option<Arc<Block>> {
        self.clock += 1;
        let (found, last_use) = self.kept.get_mut(&block)?;
        *last_use = self.clock;
        Some(found.clone())
    }

    /// Keeps a block; those that were not asked for the longest go until all fit the budget (SAMPLES-1).
    pub fn keep(&mut self, block: u32, loaded: Arc<Block>, budget_bytes: u64) {
        self.clock += 1;
        self.bytes += loaded.memory_bytes() as u64;
        if let Some((before, _)) = self.kept.insert(block, (loaded, self.clock)) {
            self.bytes -= before.memory_bytes() as u64;
        }
        while self.bytes > budget_bytes && self.kept.len() > 1 {
            let oldest = self.kept.iter().min_by_key(|(_, (_, last_use))| *last_use).map(|(&block, _)| block);
            let Some((gone, _)) = oldest.and_then(|oldest| self.kept.remove(&oldest)) else { return };
            self.bytes -= gone.memory_bytes() as u64;
        }
    }
}

/// The values of a sample of a block, one for each field.
pub fn sample(fields: &[Field], block: &Block, row: u32) -> Vec<Value> {
    let value = |(field, column): (&Field, &crate::block::Column)| {
        let stored = column.sample(row);
        if let Kind::Text { utf8 } = field.kind {
            return Value::Text { utf8, bytes: stored.to_vec() };
        }
        let dtype = match field.elem {
            Elem::BF16 => DType::F32,
            elem => elem.dtype(),
        };
        let mut shape = field.item.clone();
        if field.kind == Kind::Ragged {
            shape.insert(0, column.len(row));
        }
        let mut bytes = vec![0; stored.len() / field.elem.size() * dtype.size()];
        cast(field.elem, dtype)(stored, &mut bytes);
        Value::Numbers { dtype, shape, bytes }
    };
    fields.iter().zip(&block.columns).map(value).collect()
}

#[cfg(test)]
mod tests {
    use arrow_buffer::Buffer;

    use super::*;
    use crate::block::{Column, Extents};

    fn block(bytes: usize) -> Arc<Block> {
        let field = Field { name: "x".into(), elem: Elem::U8, kind: Kind::Fixed, item: vec![] };
        let column = Column::new(&field, Buffer::from_vec(vec![0u8; bytes]), Extents::One, bytes).unwrap();
        Arc::new(Block { columns: vec![column], samples: bytes })
    }

    #[test]
    fn what_was_asked_for_last_stays() {
        let mut kept = KeptBlocks { ends: vec![0, 3, 3, 5], kept: HashMap::new(), bytes: 0, clock: 0 };
        let places: Vec<_> = (0..6).map(|i| kept.place(i)).collect();
        let expected = [Some((1, 0)), Some((1, 1)), Some((1, 2)), Some((3, 0)), Some((3, 1)), None];
        assert_eq!(places, expected);
        for number in 0..3 {
            kept.keep(number, block(1000), 2500);
            assert!(kept.get(0).is_some(), "it was asked for after each of the others");
        }
        assert!(kept.get(1).is_none() && kept.get(2).is_some());
        kept.keep(3, block(9000), 2500);
        assert!(kept.get(3).is_some(), "one block is kept, whatever it takes");
        assert!(kept.get(0).is_none() && kept.get(2).is_none());
        kept.keep(3, block(100), 2500);
        kept.keep(0, block(100), 2500);
        assert!(kept.get(3).is_some() && kept.get(0).is_some(), "a block that is kept anew counts once");
    }

    #[test]
    fn samples_have_the_dtypes_of_batches() {
        let field = |elem, kind, item: &[usize]| Field { name: "x".into(), elem, kind, item: item.to_vec() };
        let fields = [field(Elem::U16, Kind::Ragged, &[2]), field(Elem::BF16, Kind::Fixed, &[])];
        let pairs: Vec<u8> = (0..6u16).flat_map(u16::to_le_bytes).collect();
        let ones: Vec<u8> = [1.5, -2.0].iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
        let extents = Extents::Offsets(vec![0, 1, 3].into());
        let columns = vec![
            Column::new(&fields[0], Buffer::from_vec(pairs), extents, 2).unwrap(),
            Column::new(&fields[1], Buffer::from_vec(ones), Extents::One, 2).unwrap(),
        ];
        let numbers = |dtype, shape: &[usize], bytes: Vec<u8>| Value::Numbers { dtype, shape: shape.to_vec(), bytes };
        let expected = [
            numbers(DType::I32, &[2, 2], (2..6i32).flat_map(i32::to_le_bytes).collect()),
            numbers(DType::F32, &[], (-2f32).to_le_bytes().to_vec()),
        ];
        assert_eq!(sample(&fields, &Block { columns, samples: 2 }, 1), expected);
    }
}
