//! Which files a pattern means.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectMeta;

use super::file_url::{FileUrl, Scheme, is_url, local_path};
use super::part_folder::ENDING as PART;
use super::remote_store::RemoteStore;
use super::{Location, Stamp};
use crate::error::{DataError, Result};

/// How patterns are matched with names of objects: as a shell does.
const HOW: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files that patterns mean: a path or URL as it is, a folder as every file below it with one of the endings, a pattern with
/// `* ? [` as what fits it. Numbers inside names count as numbers, so that `batch_2` comes before `batch_10`. Names with a dot in
/// front are hidden, as in a shell: only a pattern that says the dot means them.
///
/// # Errors
/// When a pattern fits nothing, or cannot be read as one.
pub fn expand(patterns: &[String], endings: &[&str]) -> Result<Vec<Location>> {
    let (mut out, mut stores) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let found = match is_url(pattern) {
            true => remote(FileUrl::parse(pattern)?, endings, &mut stores)?,
            false => local(&local_path(pattern)?, endings)?,
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

/// The names of the files below a folder, as seen from there; none where the path is no folder.
pub(crate) fn list_names(text: &str) -> Result<Vec<String>> {
    if is_url(text) {
        let url = FileUrl::parse(text)?;
        if url.is_pattern() || (url.scheme == Scheme::Http && !is_folder(&url)) {
            return Ok(Vec::new());
        }
        let store = RemoteStore::open(url)?;
        let folder = store.url().object(&store.url().path)?;
        let listed = store.list(&folder, lists_deep(store.url()))?;
        let below = |o: &ObjectMeta| {
            o.location
                .prefix_match(&folder)
                .map(|parts| parts.map(|p| p.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
        };
        return Ok(listed.iter().filter_map(below).filter(|name| !is_hidden(name)).collect());
    }
    let text = local_path(text)?;
    let path = Path::new(&*text);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let found = below(path)?;
    Ok(found.iter().filter_map(|file| Some(file.strip_prefix(path).ok()?.to_string_lossy().into_owned())).collect())
}

/// Whether a name, as seen from the folder that was asked for, is hidden or part of something half-written.
fn is_hidden(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    file.starts_with('.') || folders.split('/').any(|folder| folder.starts_with('.') || folder.ends_with(PART))
}

/// Whether a store lists all that lies below a folder. Servers seldom do.
fn lists_deep(url: &FileUrl) -> bool {
    url.scheme != Scheme::Http
}

/// The files below a folder that are not hidden. Folders that links lead to are among them, each once.
fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut seen, mut left) = (Vec::new(), HashSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let io = |e: std::io::Error| DataError::io(&folder, &e);
        if !seen.insert(folder.canonicalize().map_err(io)?) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || (name.ends_with(PART) && path.is_dir()) {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    Ok(found)
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
        let ends = |file: &PathBuf| endings.iter().any(|e| file.to_string_lossy().ends_with(e));
        return Ok(Found::Several(below(path)?.into_iter().filter(ends).map(Location::from).collect()));
    }
    if pattern.contains(['*', '?', '[']) && !path.exists() {
        let found: std::result::Result<Vec<PathBuf>, _> =
            glob::glob(pattern).map_err(|e| wrong(pattern, &e))?.collect();
        let found = found.map_err(|e| DataError::io(e.path(), e.error()))?;
        let found = found.into_iter().filter(|f| f.is_file() && is_meant(f, pattern));
        return Ok(Found::Several(found.map(Location::from).collect()));
    }
    Ok(Found::One(Location::from(path.to_path_buf())))
}

/// Whether a pattern that fits a file says the dots of its hidden names, and is not about something half-written by chance.
fn is_meant(file: &Path, pattern: &str) -> bool {
    let dotted =
        pattern.split('/').filter(|part| part.starts_with('.')).filter_map(|part| glob::Pattern::new(part).ok());
    let dotted: Vec<glob::Pattern> = dotted.collect();
    file.iter().map(|part| part.to_string_lossy()).all(|part| match &*part {
        "." | ".." => true,
        part if part.starts_with('.') => dotted.iter().any(|p| p.matches(part)),
        part => !part.ends_with(PART) || pattern.contains(PART),
    })
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
        let found = listed(folder, rest.contains('/'))?;
        let fits = found.iter().filter(|o| pattern.matches_with(o.location.as_ref(), HOW));
        return Ok(Found::Several(fits.map(located).collect::<Result<_>>()?));
    }
    // A name with a known ending is a file. A server may have no folders at all, so there only a slash makes one.
    let named = endings.iter().any(|e| url.path.ends_with(e)) || url.scheme == Scheme::Http;
    if is_folder(&url) || !named {
        let found = listed(&url.path, lists_deep(&url))?;
        let folder = url.object(&url.path)?;
        let is_meant = |o: &&ObjectMeta| {
            let name = o.location.as_ref();
            let inside = name.strip_prefix(folder.as_ref()).unwrap_or(name).trim_start_matches('/');
            endings.iter().any(|e| name.ends_with(e)) && !is_hidden(inside)
        };
        let found: Vec<Location> = found.iter().filter(is_meant).map(located).collect::<Result<_>>()?;
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
    fn folders_are_searched_below_and_hidden_names_are_not_meant() {
        let dir = tempfile::tempdir().unwrap();
        let all = [
            "year=2024/a.parquet",
            "year=2025/m=1/b.parquet",
            ".tmp/c.parquet",
            ".d.parquet",
            "out.1-0.part/e.parquet",
        ];
        for name in all {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("year=2024/loop")).unwrap();
        let found = |pattern: &str| -> Vec<String> {
            let found = expand(&[pattern.to_owned()], &[".parquet"]).unwrap();
            found.iter().map(|f| f.to_string().rsplit('/').next().unwrap().to_owned()).collect()
        };
        let path = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(found(&path("")), ["a.parquet", "b.parquet"]);
        assert_eq!(found(&format!("file://{}", path(""))), ["a.parquet", "b.parquet"]);
        assert_eq!(found(&path("year*/*.parquet")), ["a.parquet"]);
        assert_eq!(found(&path(".*.parquet")), [".d.parquet"]);
        assert_eq!(found(&path(".tmp/*")), ["c.parquet"]);
        assert_eq!(found(&path("*/*.parquet")), ["a.parquet"]);
        assert!(expand(&[path("*.parquet")], &[]).is_err());
        let mut names = list_names(&path("")).unwrap();
        names.sort();
        assert_eq!(names, ["year=2024/a.parquet", "year=2025/m=1/b.parquet"]);
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_named() {
        let wrong = expand(&["/nowhere/*.parquet".to_owned()], &[]).unwrap_err();
        assert_eq!(wrong, DataError::Missing { path: "/nowhere/*.parquet".into() });
    }
}
