//! A data set by the endings of its files.

use std::path::Path;
use std::sync::Arc;

use crate::arrays::{open_cached, open_npy, open_safetensors};
use crate::arrow_file::ArrowSource;
use crate::error::{DataError, Result};
use crate::jsonl::JsonlSource;
use crate::parquet::{ParquetOptions, ParquetSource};
use crate::source::Source;
use crate::tar_shards::TarSource;

/// Opens whatever patterns mean; the first file decides the format.
///
/// # Errors
/// When no file has an ending that GT knows, or the files cannot be opened.
pub fn open(patterns: &[String], options: &ParquetOptions) -> Result<Arc<dyn Source>> {
    let first = patterns.first().ok_or_else(|| DataError::Argument("no files are given".into()))?;
    let path = Path::new(first);
    let ending = match path.is_dir() {
        true if path.join("cache.json").exists() => {
            return Ok(Arc::new(open_cached(path, options.columns.as_deref())?));
        }
        true => {
            let entries = std::fs::read_dir(path).map_err(|e| DataError::io(path, &e))?;
            let mut endings: Vec<String> = entries
                .filter_map(|e| Some(e.ok()?.path().extension()?.to_string_lossy().into_owned()))
                .filter(|e| format_of(e).is_some())
                .collect();
            endings.sort();
            endings.into_iter().next().unwrap_or_default()
        }
        false => path.extension().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let columns = options.columns.as_deref();
    Ok(match format_of(&ending) {
        Some(Format::Parquet) => Arc::new(ParquetSource::open(patterns, options)?),
        Some(Format::Arrow) => Arc::new(ArrowSource::open(patterns, options)?),
        Some(Format::Jsonl) => Arc::new(JsonlSource::open(patterns, options)?),
        Some(Format::Npy) => Arc::new(open_npy(&[("data".to_owned(), patterns.to_vec())], options.skip_errors)?),
        Some(Format::Safetensors) => Arc::new(open_safetensors(patterns, columns, options.skip_errors)?),
        Some(Format::Tar) => Arc::new(TarSource::open(patterns, columns, options.skip_errors)?),
        None => {
            let why = "its ending is not one of parquet, arrow, feather, jsonl, npy, safetensors, tar";
            return Err(DataError::Unsupported { path: first.clone(), why: why.into() });
        }
    })
}

enum Format {
    Parquet,
    Arrow,
    Jsonl,
    Npy,
    Safetensors,
    Tar,
}

fn format_of(ending: &str) -> Option<Format> {
    Some(match ending {
        "parquet" | "parq" | "pq" => Format::Parquet,
        "arrow" | "feather" | "ipc" => Format::Arrow,
        "jsonl" | "ndjson" => Format::Jsonl,
        "npy" => Format::Npy,
        "safetensors" => Format::Safetensors,
        "tar" => Format::Tar,
        _ => return None,
    })
}
