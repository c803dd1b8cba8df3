//! A loader as a description: what another process needs to make the same batches.
//!
//! DESCRIPTION-1: a source is what its description opens, and nothing else: whoever has the files opens the same.
//! DESCRIPTION-2: what a description asks for is checked where it is opened, as arguments are; reading it never panics.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::arrays::{open_cached, open_npy, open_safetensors};
use crate::arrow_file::ArrowSource;
use crate::error::{DataError, Result};
use crate::files::FileAccess;
use crate::jsonl::JsonlSource;
use crate::parquet::{EventSource, EventTable, ParquetOptions, ParquetSource};
use crate::run::RunSpec;
use crate::source::Source;
use crate::tar_shards::TarSource;

/// Which files a data set is in, and how they are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum SourceSpec {
    /// Parquet files: a row a sample, or ranges of rows by a table.
    Parquet { patterns: Vec<String>, options: ParquetOptions, events: Option<EventTable> },
    /// Arrow IPC files.
    Arrow { patterns: Vec<String>, options: ParquetOptions },
    /// JSON Lines files.
    Jsonl { patterns: Vec<String>, options: ParquetOptions },
    /// `.npy` files, by column.
    Npy { columns: Vec<(String, Vec<String>)>, skip_errors: bool },
    /// Safetensors files.
    Safetensors { patterns: Vec<String>, columns: Option<Vec<String>>, skip_errors: bool },
    /// Tar files of samples.
    Tar { patterns: Vec<String>, columns: Option<Vec<String>>, skip_errors: bool },
    /// What [`crate::write_cache`] wrote.
    Cached { folder: String, columns: Option<Vec<String>> },
}

impl SourceSpec {
    /// Opens the files, as far as they may be opened.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn open(&self, access: &FileAccess) -> Result<Arc<dyn Source>> {
        Ok(match self {
            SourceSpec::Parquet { patterns, options, events: None } => {
                Arc::new(ParquetSource::open(access, patterns, options)?)
            }
            SourceSpec::Parquet { patterns, options, events: Some(table) } => {
                Arc::new(EventSource::open(access, patterns, table, options)?)
            }
            SourceSpec::Arrow { patterns, options } => Arc::new(ArrowSource::open(access, patterns, options)?),
            SourceSpec::Jsonl { patterns, options } => Arc::new(JsonlSource::open(access, patterns, options)?),
            SourceSpec::Npy { columns, skip_errors } => Arc::new(open_npy(access, columns, *skip_errors)?),
            SourceSpec::Safetensors { patterns, columns, skip_errors } => {
                Arc::new(open_safetensors(access, patterns, columns.as_deref(), *skip_errors)?)
            }
            SourceSpec::Tar { patterns, columns, skip_errors } => {
                Arc::new(TarSource::open(access, patterns, columns.as_deref(), *skip_errors)?)
            }
            SourceSpec::Cached { folder, columns } => Arc::new(open_cached(access, folder, columns.as_deref())?),
        })
    }

    /// The same for processes whose working folder is another one: paths are as seen from `folder`.
    #[must_use]
    pub fn from_folder(mut self, folder: &Path) -> SourceSpec {
        let all = |patterns: &mut Vec<String>| patterns.iter_mut().for_each(|pattern| absolute(pattern, folder));
        match &mut self {
            SourceSpec::Parquet { patterns, events, .. } => {
                all(patterns);
                if let Some(table) = events {
                    all(&mut table.patterns);
                    if let Some((_, pattern)) = &mut table.file {
                        absolute(pattern, folder);
                    }
                }
            }
            SourceSpec::Npy { columns, .. } => columns.iter_mut().for_each(|(_, patterns)| all(patterns)),
            SourceSpec::Arrow { patterns, .. }
            | SourceSpec::Jsonl { patterns, .. }
            | SourceSpec::Safetensors { patterns, .. }
            | SourceSpec::Tar { patterns, .. } => all(patterns),
            SourceSpec::Cached { folder: of_cache, .. } => absolute(of_cache, folder),
        }
        self
    }
}

/// A path as seen from a folder. An address that says how it is reached is the same everywhere.
fn absolute(pattern: &mut String, folder: &Path) {
    if Path::new(pattern.as_str()).is_absolute() || pattern.contains("://") {
        return;
    }
    let magic = ['*', '?', '['];
    let folder = folder.to_string_lossy();
    let folder = match pattern.contains(magic) && folder.contains(magic) {
        true => glob::Pattern::escape(&folder),
        false => folder.into_owned(),
    };
    *pattern = format!("{}/{pattern}", folder.trim_end_matches('/'));
}

/// A loader, for another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoaderSpec {
    /// The data set.
    pub source: SourceSpec,
    /// What tells it from the client's other data sets: as long as this stays the same, so do its files.
    pub number: u64,
    /// What [`Source::fingerprint`] has to be.
    pub fingerprint: u64,
    /// The order of samples, where to begin, and what batches are.
    pub run: RunSpec,
}

impl LoaderSpec {
    /// The description.
    ///
    /// # Errors
    /// When something in it cannot be written, such as a path that is no text.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| DataError::Internal(format!("the loader cannot be sent to a worker: {e}")))
    }

    /// The loader that a description means.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &[u8]) -> Result<LoaderSpec> {
        serde_json::from_slice(bytes)
            .map_err(|e| DataError::Argument(format!("the description of a loader is malformed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;
    use proptest::prelude::*;

    use super::*;
    use crate::batch::{BatchSpec, Collate, Outliers, Output, Step};
    use crate::order::{OrderSpec, Shuffle};
    use crate::parquet::RangeEnd;
    use crate::run::{Cut, Position, RowPart};

    fn described() -> LoaderSpec {
        let output = Output {
            name: "log".into(),
            field: 3,
            dtype: DType::BF16,
            steps: vec![Step::Clip(f64::NEG_INFINITY, 1e-3), Step::Log10, Step::Mul(-0.0)],
            max_len: Some(7),
            pad_value: f64::INFINITY,
            multiple: 8,
        };
        let options = ParquetOptions {
            columns: Some(vec!["time".into()]),
            skip_errors: true,
            null_values: vec![(String::new(), f64::INFINITY)],
            no_index_cache: false,
        };
        let events = EventTable {
            patterns: vec!["meta.parquet".into()],
            first: "first".into(),
            end: RangeEnd::Last("last".into()),
            file: Some(("id".into(), "train/{}.parquet".into())),
            columns: vec!["az".into()],
        };
        LoaderSpec {
            source: SourceSpec::Parquet {
                patterns: vec!["train/*.parquet".into(), "/data/x.parquet".into()],
                options,
                events: Some(events),
            },
            number: 1 << 63,
            fingerprint: u64::MAX,
            run: RunSpec {
                order: OrderSpec { seed: u64::MAX - 1, shuffle: Shuffle::Pool { blocks: 128, lanes: 16 } },
                epoch: 3,
                start: Position { position: 1 << 40, batch: 2 },
                cut: Cut { batch_size: 256, drop_last: true, max_tokens: Some(9), bucket: true },
                batch: BatchSpec {
                    outputs: vec![output],
                    collate: Collate::Packed,
                    lengths_each: true,
                    outliers: Outliers::Subsample,
                    sample_ids: true,
                    seed: 5,
                },
                threads: 2,
                prefetch: 4,
                memory_budget: 1 << 31,
                skip_errors: true,
                part: RowPart { number: 1, of: 4 },
            },
        }
    }

    #[test]
    fn a_description_means_the_loader_it_was_made_of() {
        let spec = described();
        assert_eq!(LoaderSpec::decode(&spec.encode().unwrap()).unwrap(), spec);
    }

    #[test]
    fn paths_are_seen_from_the_folder_of_who_described_them() {
        let SourceSpec::Parquet { patterns, events: Some(table), .. } =
            described().source.from_folder("/home/me/[1]".as_ref())
        else {
            panic!("the same kind")
        };
        assert_eq!(patterns, ["/home/me/[[]1[]]/train/*.parquet", "/data/x.parquet"]);
        assert_eq!(table.patterns, ["/home/me/[1]/meta.parquet"]);
        assert_eq!(table.file.unwrap().1, "/home/me/[1]/train/{}.parquet");
        let tar = SourceSpec::Tar { patterns: vec!["s3://bucket/x.tar".into()], columns: None, skip_errors: false };
        assert_eq!(tar.clone().from_folder("/home".as_ref()), tar);
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_description_are_an_error(cut in 0usize..500, at in 0usize..500, byte: u8) {
            let mut bytes = described().encode().unwrap();
            bytes.truncate(cut.max(1));
            let at = at % bytes.len();
            bytes[at] = byte;
            // Never a panic; what can still be read is some loader.
            let _ = LoaderSpec::decode(&bytes);
        }
    }
}
