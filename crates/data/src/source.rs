//! Where samples come from, whatever the format.

use std::time::Instant;

use crate::block::Block;
use crate::error::Result;
use crate::field::Field;
use crate::files::SourceFiles;
use crate::stored_rows::StoredRows;

/// What is known of a block before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Samples in it.
    pub samples: u32,
    /// What it will take in memory, closely.
    pub memory_bytes: u64,
    /// Which file it is in.
    pub file: u32,
}

/// Time spent on a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// Seconds until the bytes were there.
    pub read_s: f64,
    /// Seconds to make columns of them.
    pub decode_s: f64,
    /// Bytes that were read.
    pub read_bytes: u64,
}

impl LoadTimes {
    /// Runs a reading step and counts its time.
    pub fn reading<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = f();
        self.read_s += start.elapsed().as_secs_f64();
        out
    }
}

/// A data set as blocks of samples.
///
/// SOURCE-1: `load` gives exactly as many samples as `blocks` says, whenever it succeeds.
/// SOURCE-2: nothing about a source changes after it was opened; a file that did is an error that names it.
pub trait Source: Send + Sync {
    /// Its columns.
    fn fields(&self) -> &[Field];
    /// Its blocks in the order they are stored.
    fn blocks(&self) -> &[BlockInfo];
    /// Reads and decodes a block.
    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block>;
    /// A sample's number in the whole: stable over epochs and loaders.
    fn sample_id(&self, block: u32, row: u32) -> u64;
    /// How many items a sample has in a column of lists, if that is known before it is read: then it is of all samples.
    fn sample_len(&self, field: usize, block: u32, row: u32) -> Option<usize> {
        let _ = (field, block, row);
        None
    }
    /// Its files.
    fn files(&self) -> &SourceFiles;

    /// What files are called.
    fn file(&self, file: u32) -> String {
        self.files().name(file)
    }

    /// A number that differs where the data differ, so that a saved state is not resumed over other files.
    fn fingerprint(&self) -> u64 {
        self.files().fingerprint()
    }

    /// Files that were left out while the source was opened, with the reason, where the caller allowed it.
    fn left_out(&self) -> &[(String, String)] {
        self.files().left_out()
    }

    /// Columns of the files that GT does not read, with the reason, where none were named by the caller.
    fn unread(&self) -> &[(String, String)] {
        &[]
    }

    /// The samples of a block with everything that the files say of them, where the format says more than a [`Block`] holds: columns
    /// in [`Source::unread`] and nulls among it.
    fn stored_rows(&self, block: u32) -> Result<Option<StoredRows>> {
        let _ = block;
        Ok(None)
    }
}
