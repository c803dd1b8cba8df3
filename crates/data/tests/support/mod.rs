//! Data sets for tests: random layouts, written by the crate's own writer.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::Buffer;
use gt_data::*;

/// A field.
pub fn field(name: &str, elem: Elem, kind: Kind) -> Field {
    Field { name: name.into(), elem, kind, item: vec![] }
}

/// Samples numbered from `first`: `id`, and `hits`, a list whose length and numbers follow from the id.
pub fn block(ids: std::ops::Range<i64>) -> Block {
    let ids: Vec<i64> = ids.collect();
    let mut offsets = vec![0u32];
    let mut hits: Vec<f32> = Vec::new();
    for &id in &ids {
        hits.extend((0..len_of(id)).map(|i| hit(id, i)));
        offsets.push(hits.len() as u32);
    }
    let samples = ids.len();
    let fields = fields();
    Block {
        columns: vec![
            Column::new(&fields[0], Buffer::from_vec(ids), Extents::One, samples).unwrap(),
            Column::new(&fields[1], Buffer::from_vec(hits), Extents::Offsets(offsets.into()), samples).unwrap(),
        ],
        samples,
    }
}

pub fn fields() -> Vec<Field> {
    vec![field("id", Elem::I64, Kind::Fixed), field("hits", Elem::F32, Kind::Ragged)]
}

/// How many hits a sample has.
pub fn len_of(id: i64) -> usize {
    (id as usize * 7919) % 13
}

/// One of them.
pub fn hit(id: i64, i: usize) -> f32 {
    id as f32 * 100.0 + i as f32
}

/// Writes files of these many rows, with row groups of at most `group` rows. Samples are numbered through.
pub fn write(dir: &Path, rows: &[usize], group: usize) -> Vec<PathBuf> {
    let mut next = 0i64;
    rows.iter()
        .enumerate()
        .map(|(i, &n)| {
            let path = dir.join(format!("part_{i}.parquet"));
            let block = block(next..next + n as i64);
            next += n as i64;
            let mut writer = ParquetWriter::create(&path, &fields(), group).unwrap();
            writer.write(&picked(&block)).unwrap();
            writer.close().unwrap();
            path
        })
        .collect()
}

/// Every sample of a block.
pub fn picked(block: &Block) -> Vec<Picked<'_>> {
    (0..block.samples as u32).map(|row| Picked { block, row, id: row as u64, piece: 0 }).collect()
}

/// Options that leave nothing in the user's cache.
pub fn uncached() -> ParquetOptions {
    ParquetOptions { no_index_cache: true, ..ParquetOptions::default() }
}

pub fn open_dir(dir: &Path) -> Arc<dyn Source> {
    let pattern = dir.join("*.parquet").display().to_string();
    Arc::new(ParquetSource::open(&FileAccess::everything(), &[pattern], &uncached()).unwrap())
}

/// A run over everything, one thread, plain batches with `sample_id`.
pub fn spec(source: &Arc<dyn Source>, shuffle: Shuffle, batch_size: usize) -> RunSpec {
    let mut batch = BatchSpec::plain(source.fields());
    batch.sample_ids = true;
    RunSpec {
        order: OrderSpec { seed: 5, shuffle },
        epoch: 0,
        start: Position::default(),
        cut: Cut::every(batch_size),
        batch,
        threads: 1,
        prefetch: 2,
        memory_budget: 1 << 30,
        skip_errors: false,
        part: RowPart::default(),
    }
}

/// Runs to the end: the ids of each batch, and the position after it.
pub fn ids(source: &Arc<dyn Source>, spec: &RunSpec) -> Vec<(Vec<i64>, Position)> {
    let mut run = Run::start(source.clone(), spec.clone()).unwrap();
    let mut out = Vec::new();
    while let Some((batch, position)) = run.next(&|| false).unwrap() {
        out.push((i64s(batch.get("sample_id").unwrap()), position));
    }
    out
}

pub fn i64s(entry: &Entry) -> Vec<i64> {
    let Entry::Tensor { bytes, .. } = entry else { panic!("not a tensor") };
    bytes.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap())).collect()
}

pub fn f32s(entry: &Entry) -> (Vec<usize>, Vec<f32>) {
    let Entry::Tensor { bytes, shape, .. } = entry else { panic!("not a tensor") };
    (shape.clone(), bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect())
}
