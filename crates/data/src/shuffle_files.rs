//! `gt data shuffle`: a data set written anew in random order, in memory that does not grow with it.
//!
//! SHUFFLE-1: the new files hold every sample exactly once, in the order of an epoch of the loader, so what mixes batches well
//!            mixes files well.
//! SHUFFLE-2: a file gets its name when it is complete; a failure leaves no file half-written, and none that was not finished.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::Picked;
use crate::block::Block;
use crate::error::{DataError, Result};
use crate::order::{EpochOrder, OrderSpec, Place, Shuffle};
use crate::parquet::ParquetWriter;
use crate::source::{LoadTimes, Source};

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

/// Writes every sample of a source into Parquet files of a folder, in random order. Gives the files.
///
/// # Errors
/// When a file cannot be read or written.
pub fn shuffle_files(
    source: &Arc<dyn Source>,
    folder: &Path,
    how: &ShuffleFiles,
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<PathBuf>> {
    let infos = source.blocks();
    let lens: Vec<u32> = infos.iter().map(|b| b.samples).collect();
    let mean = infos.iter().map(|b| b.memory_bytes).sum::<u64>() / infos.len().max(1) as u64;
    let fit = (how.memory_budget / (mean.max(1) * 2)).max(1) as usize;
    let shuffle = if fit >= lens.len() { Shuffle::Full } else { Shuffle::Pool { blocks: fit, lanes: fit.min(16) } };
    let order = EpochOrder::new(OrderSpec { seed: how.seed, shuffle }, 0, &lens);
    let mut left = lens.clone();
    let mut held: std::collections::HashMap<u32, Block> = std::collections::HashMap::new();
    std::fs::create_dir_all(folder).map_err(|e| DataError::io(folder, &e))?;
    let files = order.len().div_ceil(how.rows_per_file.max(1)).max(1);
    let digits = files.to_string().len();
    let mut out = Vec::new();
    let mut walk = order.from(0);
    for number in 0..files {
        let path = folder.join(format!("part_{number:0digits$}.parquet"));
        if path.exists() {
            return Err(DataError::Argument(format!("{} is there already", path.display())));
        }
        let mut writer = ParquetWriter::create(&path, source.fields(), how.rows_per_group)?;
        let mut rest = how.rows_per_file.max(1);
        while rest > 0 {
            if interrupted() {
                return Err(DataError::Interrupted);
            }
            let n = rest.min(how.rows_per_group.max(1) as u64);
            let places: Vec<Place> = walk.by_ref().take(n as usize).collect();
            if places.is_empty() {
                break;
            }
            for place in &places {
                if let std::collections::hash_map::Entry::Vacant(vacant) = held.entry(place.block) {
                    vacant.insert(source.load(place.block, &mut LoadTimes::default())?);
                }
            }
            let picked: Vec<Picked<'_>> =
                places.iter().map(|p| Picked { block: &held[&p.block], row: p.row, id: 0, piece: 0 }).collect();
            writer.write(&picked)?;
            drop(picked);
            for place in &places {
                left[place.block as usize] -= 1;
                if left[place.block as usize] == 0 {
                    held.remove(&place.block);
                }
            }
            rest -= places.len() as u64;
        }
        writer.close()?;
        out.push(path);
    }
    Ok(out)
}
