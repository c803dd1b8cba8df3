//! Data on disk to batches in memory: readers, shuffling, batching, prefetch.
//!
//! A [`Source`] is a data set as blocks of samples. An [`EpochOrder`] says which sample comes when. A [`Loader`] reads
//! blocks ahead with its own threads and gathers batches in that order.

mod batch;
mod block;
mod error;
mod field;
mod files;
mod fingerprint;
mod index_cache;
mod order;
mod parquet;
mod run;
mod source;

pub use batch::{Batch, BatchSpec, Collate, Entry, Outliers, Output, Picked, Step, gather};
pub use block::{Block, Column, Extents};
pub use error::{DataError, Result};
pub use field::{Elem, Field, Kind};
pub use files::{Stamp, expand};
pub use index_cache::dir as cache_dir;
pub use order::{EpochOrder, OrderSpec, Place, Shuffle, Walk};
pub use parquet::{EventSource, EventTable, NullValue, RangeEnd, ParquetOptions, ParquetSource, ParquetWriter};
pub use run::{Cut, Position, Run, RunSpec, Stats};
pub use source::{BlockInfo, LoadTimes, Source};
