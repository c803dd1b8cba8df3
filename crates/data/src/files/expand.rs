//! Which files a pattern means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectMeta;

use super::file_url::{FileUrl, Scheme, is_url};
use super::remote_store::RemoteStore;
use super::{Location, Stamp};
use crate::error::{DataError, Result};

/// The files that patterns mean: a path or URL as it is, a folder as every file in it with one of the endings, a pattern with
/// `* ? [` as what fits it. Numbers inside names count as numbers, so that `batch_2` comes before `batch_10`.
///
/// # Errors
/// When a pattern fits nothing, or cannot be read as one.
pub fn expand(patterns: &[String], endings: &[&str]) -> Result<Vec<Location>> {
    let (mut out, mut stores) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let found = match is_url(pattern) {
            true => remote(FileUrl::parse(pattern)?, endings, &mut stores)?,
            false => local(pattern, endings)?,
        };
        match found {
            Found::One(file) => out.push(file),
            Found::Several(found) if found.is_empty() => return Err(DataError::Missing { path: pattern.clone() }),
            Found::Several(mut found) => {
                found.sort_by_cached_key(|f| natural(&f.to_string()));
                out.extend(found);
            }
        }
    }
    match out.is_empty() {
        true => Err(DataError::Argument("no files are given".into())),
        false => Ok(out),
    }
}

/// The names of what lies in a folder; none where the path is no folder.
pub(crate) fn list_names(text: &str) -> Result<Vec<String>> {
    if is_url(text) {
        let url = FileUrl::parse(text)?;
        if url.is_pattern() || (url.scheme == Scheme::Http && !is_folder(&url)) {
            return Ok(Vec::new());
        }
        let store = RemoteStore::open(url)?;
        let listed = store.list(&store.url().object(&store.url().path)?, false);
        return Ok(listed?.iter().filter_map(|o| o.location.filename().map(str::to_owned)).collect());
    }
    let path = Path::new(text);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let io = |e: std::io::Error| DataError::io(path, &e);
    let names =
        std::fs::read_dir(path).map_err(io)?.map(|e| Ok(e.map_err(io)?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// What one pattern means.
enum Found {
    /// The one file that was named, whether it is there or not.
    One(Location),
    /// What was found in a folder or by a pattern.
    Several(Vec<Location>),
}

fn local(pattern: &str, endings: &[&str]) -> Result<Found> {
    let path = Path::new(pattern);
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|e| DataError::io(path, &e))?;
        let mut found = Vec::new();
        for entry in entries {
            let file = entry.map_err(|e| DataError::io(path, &e))?.path();
            let name = file.to_string_lossy().into_owned();
            if endings.iter().any(|e| name.ends_with(e)) && file.is_file() {
                found.push(Location::from(file));
            }
        }
        return Ok(Found::Several(found));
    }
    if pattern.contains(['*', '?', '[']) && !path.exists() {
        let found: std::result::Result<Vec<PathBuf>, _> =
            glob::glob(pattern).map_err(|e| wrong(pattern, &e))?.collect();
        let found = found.map_err(|e| DataError::io(e.path(), e.error()))?;
        return Ok(Found::Several(found.into_iter().filter(|f| f.is_file()).map(Location::from).collect()));
    }
    Ok(Found::One(Location::from(path.to_path_buf())))
}

fn wrong(pattern: &str, why: &dyn std::fmt::Display) -> DataError {
    DataError::Argument(format!("{pattern:?} is not a pattern: {why}"))
}

fn is_folder(url: &FileUrl) -> bool {
    url.path.is_empty() || url.path.ends_with('/')
}

/// Files of a store; those of one store share it.
fn remote(url: FileUrl, endings: &[&str], stores: &mut Vec<Arc<RemoteStore>>) -> Result<Found> {
    let store = match stores.iter().find(|s| s.url().store == url.store) {
        Some(known) => known.clone(),
        None => {
            stores.push(Arc::new(RemoteStore::open(url.clone())?));
            stores[stores.len() - 1].clone()
        }
    };
    let listed = |folder: &str, deep: bool| -> Result<Vec<ObjectMeta>> {
        store.list(&url.object(folder)?, deep).map_err(|e| match (url.scheme, e) {
            (Scheme::Http, DataError::Io { path, why }) if why.contains("status code") => {
                let why = format!("the server does not list files ({why}); name each of them");
                DataError::Unsupported { path, why }
            }
            (_, e) => e,
        })
    };
    let located = |o: &ObjectMeta| Location::in_store(&store, o.location.as_ref(), Some(Stamp::from_object(o)));
    if url.is_pattern() {
        let special = url.path.find(['*', '?', '[']).unwrap_or(url.path.len());
        let (folder, rest) = url.path.split_at(url.path[..special].rfind('/').map_or(0, |slash| slash + 1));
        let pattern = glob::Pattern::new(&url.path).map_err(|e| wrong(&url.of(&url.path), &e))?;
        let how = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let found = listed(folder, rest.contains('/'))?;
        let fits = found.iter().filter(|o| pattern.matches_with(o.location.as_ref(), how));
        return Ok(Found::Several(fits.map(located).collect::<Result<_>>()?));
    }
    // A name with a known ending is a file. A server may have no folders at all, so there only a slash makes one.
    let named = endings.iter().any(|e| url.path.ends_with(e)) || url.scheme == Scheme::Http;
    if is_folder(&url) || !named {
        let found = listed(&url.path, false)?;
        let found: Vec<Location> = found
            .iter()
            .filter(|o| endings.iter().any(|e| o.location.as_ref().ends_with(e)))
            .map(located)
            .collect::<Result<_>>()?;
        if is_folder(&url) || !found.is_empty() {
            return Ok(Found::Several(found));
        }
    }
    Ok(Found::One(Location::in_store(&store, &url.path, None)?))
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
            found.iter().map(|f| String::from_utf8(f.file_name()).unwrap()).collect()
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
}
