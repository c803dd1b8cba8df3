//! A data set by the endings of its files.

use std::path::Path;
use std::sync::Arc;

use crate::arrays::{CACHE_CONTENTS, open_cached, open_npy, open_safetensors};
use crate::arrow_file::ArrowSource;
use crate::error::{DataError, Result};
use crate::files::{FileAccess, expand, is_url, list_names, local_path};
use crate::jsonl::JsonlSource;
use crate::parquet::{ParquetOptions, ParquetSource};
use crate::source::Source;
use crate::tar_shards::TarSource;

/// The formats of data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// Arrow IPC.
    Arrow,
    /// JSON Lines.
    Jsonl,
    /// NumPy's arrays.
    Npy,
    /// Safetensors.
    Safetensors,
    /// Tar shards.
    Tar,
    /// What `gt data cache` wrote.
    Cached,
}

const ENDINGS: [(&str, Format); 12] = [
    ("parquet", Format::Parquet),
    ("parq", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("feather", Format::Arrow),
    ("ipc", Format::Arrow),
    ("jsonl", Format::Jsonl),
    ("ndjson", Format::Jsonl),
    ("json", Format::Jsonl),
    ("npy", Format::Npy),
    ("safetensors", Format::Safetensors),
    ("tar", Format::Tar),
];

impl Format {
    /// The name: `parquet`, `arrow`, `jsonl`, `npy`, `safetensors`, `tar` or `cached`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Jsonl => "jsonl",
            Format::Npy => "npy",
            Format::Safetensors => "safetensors",
            Format::Tar => "tar",
            Format::Cached => "cached",
        }
    }

    /// The format of what patterns mean; the first decides, and of a folder the first file with a known ending.
    ///
    /// # Errors
    /// When no file has an ending that GT knows, or a folder cannot be listed.
    pub fn of(patterns: &[String]) -> Result<Format> {
        let first = patterns.first().ok_or_else(|| DataError::Argument("no files were given".into()))?;
        let first = &*local_path(first)?;
        // The query of a URL is no part of the name.
        let named = first.split_once("://").map_or(first, |_| first.split('?').next().unwrap_or_default());
        // A folder may be called anything.
        if !Path::new(first).is_dir()
            && let Some(format) = Format::by_ending(first).or_else(|| Format::by_ending(named))
        {
            return Ok(format);
        }
        let mut names = list_names(first)?;
        // What a pattern means, and that there is a file at all.
        if names.is_empty() && !is_url(first) && !Path::new(first).is_dir() {
            let found = expand(&patterns[..1], &[], &FileAccess::everything())?;
            names = found.iter().map(ToString::to_string).collect();
        }
        if names.iter().any(|name| name == CACHE_CONTENTS) {
            return Ok(Format::Cached);
        }
        names.sort_by_cached_key(|name| (name.matches('/').count(), name.clone()));
        // Beside files of data there is often a `.json` that only says something about them.
        let (beside, data): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| name.ends_with(".json"));
        data.into_iter().chain(beside).find_map(|name| Format::by_ending(name)).ok_or_else(|| {
            let known: Vec<&str> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
            let is_packed = |name: &String| [".gz", ".tgz", ".bz2", ".xz"].iter().any(|e| name.ends_with(e));
            let why = match names.iter().chain([&first.to_owned()]).any(is_packed) {
                true => "GT does not read compressed text or tar files; decompress them first".to_owned(),
                false => format!("no file has one of the extensions {}", known.join(", ")),
            };
            DataError::Unsupported { path: first.to_owned(), why }
        })
    }

    fn by_ending(name: &str) -> Option<Format> {
        let ending = name.rsplit('/').next()?.rsplit_once('.')?.1;
        ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format)
    }
}

/// Opens whatever patterns mean; the first file decides the format.
///
/// # Errors
/// When no file has an ending that GT knows, or the files cannot be opened.
pub fn open(patterns: &[String], options: &ParquetOptions) -> Result<Arc<dyn Source>> {
    let (columns, skip, access) = (options.columns.as_deref(), options.skip_errors, &FileAccess::everything());
    Ok(match Format::of(patterns)? {
        Format::Parquet => Arc::new(ParquetSource::open(access, patterns, options)?),
        Format::Arrow => Arc::new(ArrowSource::open(access, patterns, options)?),
        Format::Jsonl => Arc::new(JsonlSource::open(access, patterns, options)?),
        Format::Npy => Arc::new(open_npy(access, &[("data".to_owned(), patterns.to_vec())], skip)?),
        Format::Safetensors => Arc::new(open_safetensors(access, patterns, columns, skip)?),
        Format::Tar => Arc::new(TarSource::open(access, patterns, columns, skip)?),
        Format::Cached => Arc::new(open_cached(access, &patterns[0], columns)?),
    })
}
