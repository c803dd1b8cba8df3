//! Data on disk to batches in memory: readers, shuffling, batching, prefetch.
//!
//! A [`Source`] is a data set as blocks of samples. An [`EpochOrder`] says which sample comes when. A [`Run`] reads blocks
//! ahead with its own threads and gathers batches in that order.
//!
//! ```
//! use gt_data::{BatchSpec, Cut, OrderSpec, ParquetOptions, Position, RowPart, Run, RunSpec, Shuffle};
//!
//! let file = std::env::temp_dir().join(format!("gt-data-example-{}.jsonl", std::process::id()));
//! std::fs::write(&file, "{\"x\": 1}\n{\"x\": 2}\n{\"x\": 3}\n")?;
//! let options = ParquetOptions { no_index_cache: true, ..ParquetOptions::default() };
//! let source = gt_data::open(&[file.display().to_string()], &options)?;
//! let spec = RunSpec {
//!     order: OrderSpec { seed: 0, shuffle: Shuffle::Off },
//!     epoch: 0,
//!     start: Position::default(),
//!     cut: Cut::every(2),
//!     batch: BatchSpec::plain(source.fields()),
//!     threads: 1,
//!     prefetch: 2,
//!     memory_budget: 1 << 20,
//!     skip_errors: false,
//!     part: RowPart::default(),
//! };
//! let mut run = Run::start(source, spec)?;
//! let mut samples = Vec::new();
//! while let Some((batch, _)) = run.next(&|| false)? {
//!     samples.push(batch.samples);
//! }
//! assert_eq!(samples, [2, 1]);
//! # std::fs::remove_file(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod announcement;
mod arrays;
mod arrow_file;
mod ask;
mod batch;
mod block;
mod caught;
mod description;
mod error;
mod field;
mod files;
mod fingerprint;
mod index_cache;
mod jsonl;
mod open;
mod order;
mod parquet;
mod record;
mod report;
mod run;
mod safetensors_header;
mod samples;
mod shuffle_files;
mod source;
mod stored_rows;
mod tar_shards;
mod travel;

pub use announcement::{Announced, Announcement, Outcome};
pub use arrays::{ArraySource, NpyHeader, open_cached, open_npy, open_safetensors, write_cache, write_npy_header};
pub use arrow_file::ArrowSource;
pub use batch::{Batch, BatchSpec, BatchText, Collate, Entry, Outliers, Output, Picked, Step};
pub use block::{Block, Column, Extents};
pub use description::{LoaderSpec, SourceSpec};
pub use error::{DataError, Result};
pub use field::{Elem, Field, Kind};
pub use files::{FileAccess, Location, Named, SourceFiles, Stamp, expand, interruptible};
pub use index_cache::dir as cache_dir;
pub use jsonl::JsonlSource;
pub use open::{Format, open};
pub use order::{EpochOrder, OrderSpec, Place, Shuffle, Walk};
pub use parquet::{
    EventSource, EventTable, NullValue, ParquetOptions, ParquetSource, ParquetWriter, RangeEnd, TableBeside,
};
pub use record::{RecordLayout, RecordPart, Records};
pub use report::{Mixing, ReportSpec, ShuffleReport, shuffle_report};
pub use run::{Cut, MemoryAccount, PoolMemory, Position, RowPart, Run, RunSpec, Stats, most_parts};
pub use safetensors_header::{HeaderError, LENGTH_BYTES, MAX_HEADER_BYTES, SafetensorsHeader};
pub use samples::{KeptBlocks, Value, sample};
pub use shuffle_files::{ShuffleFiles, shuffle_files};
pub use source::{BlockInfo, LoadTimes, Source};
pub use stored_rows::StoredRows;
pub use tar_shards::TarSource;
