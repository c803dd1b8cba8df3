//! `gt data shuffle`: a data set written anew in random order, in memory that does not grow with it.
//!
//! SHUFFLE-1: the new files hold every sample exactly once, in the order of an epoch of the loader, so what mixes batches well
//!            mixes files well.
//! SHUFFLE-2: the folder appears when everything in it is written (FOLDER-1).
//! SHUFFLE-3: a sample keeps all its columns, their types and their nulls; what cannot be kept is an error (STORED-1).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use crate::error::{DataError, Result};
use crate::files::PartFolder;
use crate::order::{EpochOrder, OrderSpec, Place, Shuffle};
use crate::parquet::ParquetWriter;
use crate::source::{LoadTimes, Source};
use crate::stored_rows::{StoredRows, picked_rows, schema_of};

/// How files are written.
#[derive(Clone, Debug)]
pub struct ShuffleFiles {
    /// Samples in a file.
    pub rows_per_file: u64,
    /// Samples in a row group.
    pub rows_per_group: usize,
    /// Keys the order.
    pub seed: u64,
    /// Bytes that decoded blocks may take.
    pub memory_budget: u64,
}

/// Writes every sample of a source into Parquet files of a folder, in random order. Gives how many files it wrote.
///
/// # Errors
/// When a file cannot be read or written, has columns that the new files could not have, or the folder is there already and not
/// empty; then nothing is left behind.
pub fn shuffle_files(
    source: &Arc<dyn Source>,
    folder: &Path,
    how: &ShuffleFiles,
    interrupted: &dyn Fn() -> bool,
) -> Result<u64> {
    let part = PartFolder::create(folder)?;
    let mut held = Held { source, interrupted, schema: None, blocks: HashMap::new(), left: lens(source) };
    let order =
        EpochOrder::new(OrderSpec { seed: how.seed, shuffle: mixing(source, how.memory_budget) }, 0, &held.left);
    let schema = match source.blocks().is_empty() {
        true => schema_of(source.fields()),
        false => held.schema(0)?,
    };
    let files = order.len().div_ceil(how.rows_per_file.max(1)).max(1);
    let digits = files.to_string().len();
    let mut walk = order.from(0);
    for number in 0..files {
        let path = part.path().join(format!("part_{number:0digits$}.parquet"));
        let mut writer = ParquetWriter::create_for_rows(&path, schema.clone(), how.rows_per_group)?;
        let mut rest = how.rows_per_file.max(1);
        while rest > 0 {
            let n = rest.min(how.rows_per_group.max(1) as u64);
            let places: Vec<Place> = walk.by_ref().take(n as usize).collect();
            if places.is_empty() {
                break;
            }
            held.write(&places, &schema, &mut writer)?;
            rest -= places.len() as u64;
        }
        writer.close()?;
    }
    part.finish()?;
    Ok(files)
}

fn lens(source: &Arc<dyn Source>) -> Vec<u32> {
    source.blocks().iter().map(|b| b.samples).collect()
}

/// The best mixing for which there is memory.
fn mixing(source: &Arc<dyn Source>, memory_budget: u64) -> Shuffle {
    let infos = source.blocks();
    let mean = infos.iter().map(|b| b.memory_bytes).sum::<u64>() / infos.len().max(1) as u64;
    let fit = (memory_budget / (mean.max(1) * 2)).max(1) as usize;
    if fit >= infos.len() { Shuffle::Full } else { Shuffle::Pool { blocks: fit, lanes: fit.min(16) } }
}

/// Blocks in memory, as long as samples of theirs are to be written.
struct Held<'a> {
    source: &'a Arc<dyn Source>,
    interrupted: &'a dyn Fn() -> bool,
    /// The columns of the new files, once they are known.
    schema: Option<SchemaRef>,
    blocks: HashMap<u32, StoredRows>,
    /// Samples of each block that are not written yet.
    left: Vec<u32>,
}

impl Held<'_> {
    /// The columns of the new files: those that a block has.
    fn schema(&mut self, block: u32) -> Result<SchemaRef> {
        let schema = self.load(block)?.schema();
        let lost: Vec<String> = self.source.unread().iter().map(|(name, _)| name.clone()).collect();
        let lost: Vec<String> = lost.into_iter().filter(|name| schema.index_of(name).is_err()).collect();
        if !lost.is_empty() {
            return Err(DataError::Argument(format!(
                "these columns cannot be written to the new files: {}; name the columns to keep with --columns",
                lost.join(", ")
            )));
        }
        self.schema = Some(schema.clone());
        Ok(schema)
    }

    fn load(&mut self, block: u32) -> Result<&StoredRows> {
        // Many blocks may have to be loaded for the first row group.
        if (self.interrupted)() {
            return Err(DataError::Interrupted);
        }
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.blocks.entry(block) {
            let rows = match self.source.stored_rows(block)? {
                Some(rows) => rows,
                None => {
                    let decoded = self.source.load(block, &mut LoadTimes::default())?;
                    StoredRows::of_block(self.source.fields(), &decoded)?
                }
            };
            let rows = match &self.schema {
                None => rows,
                Some(schema) => rows.fitted(schema).map_err(|why| {
                    let path = self.source.file(self.source.blocks()[block as usize].file);
                    DataError::Schema { path, why: format!("{why}; name the columns to keep with --columns") }
                })?,
            };
            vacant.insert(rows);
        }
        Ok(&self.blocks[&block])
    }

    /// Writes samples, and forgets the blocks of which none is left.
    fn write(&mut self, places: &[Place], schema: &SchemaRef, writer: &mut ParquetWriter) -> Result<()> {
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut blocks = Vec::new();
        let mut rows = Vec::with_capacity(places.len());
        for place in places {
            let number = *numbers.entry(place.block).or_insert_with(|| {
                blocks.push(place.block);
                blocks.len() - 1
            });
            rows.push((number, place.row as usize));
        }
        blocks.iter().try_for_each(|&block| self.load(block).map(|_| ()))?;
        let held: Vec<&StoredRows> = blocks.iter().map(|block| &self.blocks[block]).collect();
        writer.write_rows(&picked_rows(schema, &held, &rows)?)?;
        for place in places {
            self.left[place.block as usize] -= 1;
            if self.left[place.block as usize] == 0 {
                self.blocks.remove(&place.block);
            }
        }
        Ok(())
    }
}
