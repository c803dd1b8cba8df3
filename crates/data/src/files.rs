//! Which files a pattern means, and how a file is recognised.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{DataError, Result};

/// What a file is recognised by: if none of it changed, neither did the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its length.
    pub len_bytes: u64,
    /// When it was written, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl Stamp {
    /// The stamp of a file as it is now.
    ///
    /// # Errors
    /// When the file is missing or may not be looked at.
    pub fn of(path: &Path) -> Result<Stamp> {
        let meta = std::fs::metadata(path).map_err(|e| DataError::io(path, &e))?;
        match meta.is_file() {
            true => Ok(Stamp::from_metadata(&meta)),
            false => Err(DataError::Io { path: path.display().to_string(), why: "it is not a file".into() }),
        }
    }

    /// The stamp in a file's metadata.
    pub fn from_metadata(meta: &std::fs::Metadata) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Stamp { len_bytes: meta.len(), mtime_ns }
    }
}

/// The files that patterns mean: a path as it is, a folder as every file in it with one of the endings, a pattern with
/// `* ? [` as what fits it. Numbers inside names count as numbers, so that `batch_2` comes before `batch_10`.
///
/// # Errors
/// When a pattern fits nothing, or cannot be read as one.
pub fn expand(patterns: &[String], endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for pattern in patterns {
        let path = Path::new(pattern);
        let found = if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|e| DataError::io(path, &e))?;
            let mut found = Vec::new();
            for entry in entries {
                let file = entry.map_err(|e| DataError::io(path, &e))?.path();
                let name = file.to_string_lossy().into_owned();
                if endings.iter().any(|e| name.ends_with(e)) && file.is_file() {
                    found.push(file);
                }
            }
            found
        } else if pattern.contains(['*', '?', '[']) && !path.exists() {
            let paths =
                glob::glob(pattern).map_err(|e| DataError::Argument(format!("{pattern:?} is not a pattern: {e}")))?;
            let found: std::result::Result<Vec<PathBuf>, _> = paths.collect();
            found.map_err(|e| DataError::io(e.path(), e.error()))?.into_iter().filter(|f| f.is_file()).collect()
        } else {
            out.push(path.to_path_buf());
            continue;
        };
        if found.is_empty() {
            return Err(DataError::Missing { path: pattern.clone() });
        }
        let mut found = found;
        found.sort_by_cached_key(|f| natural(&f.to_string_lossy()));
        out.extend(found);
    }
    match out.is_empty() {
        true => Err(DataError::Argument("no files are given".into())),
        false => Ok(out),
    }
}

/// A name cut into text and numbers.
fn natural(name: &str) -> Vec<(String, u128)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - text);
        parts.push((rest[..text].to_owned(), rest[text..text + digits].parse().unwrap_or(u128::MAX)));
        rest = &rest[text + digits..];
    }
    parts
}

/// Runs `f` over every item with several threads, results in order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(16).min(items.len());
    if threads <= 1 {
        return items.iter().enumerate().map(|(i, item)| f(i, item)).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(i) else { return out };
            out.push((i, f(i, item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(part) => all.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, r)| r).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["batch_10.parquet", "batch_2.parquet", "batch_1.parquet", "other.txt"] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let names = |patterns: &[String]| -> Vec<String> {
            let found = expand(patterns, &[".parquet"]).unwrap();
            found.iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let expected = ["batch_1.parquet", "batch_2.parquet", "batch_10.parquet"];
        assert_eq!(names(&[dir.path().display().to_string()]), expected);
        assert_eq!(names(&[dir.path().join("batch_*").display().to_string()]), expected);
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_named() {
        let wrong = expand(&["/nowhere/*.parquet".to_owned()], &[]).unwrap_err();
        assert_eq!(wrong, DataError::Missing { path: "/nowhere/*.parquet".into() });
    }

    #[test]
    fn results_come_in_order() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(in_parallel(&items, |i, &x| (i, x * x)), items.iter().map(|&x| (x, x * x)).collect::<Vec<_>>());
    }
}
