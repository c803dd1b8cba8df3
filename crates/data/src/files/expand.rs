//! Which files a pattern means.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectMeta;

use super::file_url::{FileUrl, Scheme, is_url, local_path};
use super::part_folder::ENDING as PART;
use super::remote_store::RemoteStore;
use super::{FileAccess, Location, Stamp};
use crate::error::{DataError, Result};

/// How patterns are matched with names of objects: as a shell does.
const HOW: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files that patterns mean: a path or URL as it is, a folder as every file below it with one of the endings, a pattern with
/// `* ? [` as what fits it. Numbers inside names count as numbers, so that `batch_2` comes before `batch_10`. Names with a dot in
/// front are hidden, as in a shell: only a pattern that says the dot means them.
///
/// # Errors
/// When a pattern fits nothing, cannot be read as one, or means what may not be opened.
pub fn expand(patterns: &[String], endings: &[&str], access: &FileAccess) -> Result<Vec<Location>> {
    let (mut out, mut stores) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let found = match is_url(pattern) {
            true => remote(FileUrl::parse(pattern)?, endings, access, &mut stores)?,
            false => local(&local_path(pattern)?, endings, access)?,
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
        true => Err(DataError::Argument("no files were given".into())),
        false => Ok(out),
    }
}

/// The names of the files below a folder, as seen from there; none where the path is no folder.
pub(crate) fn list_names(text: &str) -> Result<Vec<String>> {
    let access = FileAccess::everything();
    if is_url(text) {
        let url = FileUrl::parse(text)?;
        if url.is_pattern() || (url.scheme == Scheme::Http && !is_folder(&url)) {
            return Ok(Vec::new());
        }
        let store = RemoteStore::open(url, &access)?;
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
    let found = below(path, &access)?;
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
fn below(folder: &Path, access: &FileAccess) -> Result<Vec<PathBuf>> {
    let (mut found, mut seen, mut left) = (Vec::new(), HashSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let entries = access.list(&folder)?;
        if !seen.insert(folder.canonicalize().map_err(|e| DataError::io(&folder, &e))?) {
            continue;
        }
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            let is_part = name.ends_with(PART);
            // A link to nothing is no file.
            let kind = match access.metadata(&path) {
                Err(DataError::NotServed { path, option }) => return Err(DataError::NotServed { path, option }),
                other => other.ok(),
            };
            match kind {
                Some(meta) if meta.is_dir() && !is_part => left.push(path),
                Some(meta) if meta.is_file() => found.push(path),
                _ => {}
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

fn local(pattern: &str, endings: &[&str], access: &FileAccess) -> Result<Found> {
    let path = Path::new(pattern);
    let is_pattern = pattern.contains(['*', '?', '[']);
    if is_pattern && access.is_limited() {
        check_searched(path, access)?;
    }
    // A file may have such a name.
    let is_there = is_pattern && access.metadata(path).is_ok();
    if (!is_pattern || is_there) && access.is_dir(path)? {
        let ends = |file: &PathBuf| endings.iter().any(|e| file.to_string_lossy().ends_with(e));
        let found = below(path, access)?.into_iter().filter(ends);
        return Ok(Found::Several(found.map(|file| Location::local(file, access)).collect()));
    }
    if is_pattern && !is_there {
        let found = match access.is_limited() {
            true => walked(pattern, access)?,
            false => {
                let found: std::result::Result<Vec<PathBuf>, _> =
                    glob::glob(pattern).map_err(|e| wrong(pattern, &e))?.collect();
                let found = found.map_err(|e| DataError::io(e.path(), e.error()))?;
                found.into_iter().filter(|file| file.is_file()).collect()
            }
        };
        let found = found.into_iter().filter(|file| is_meant(file, pattern));
        return Ok(Found::Several(found.map(|file| Location::local(file, access)).collect()));
    }
    Ok(Found::One(Location::local(path.to_path_buf(), access)))
}

/// The files that fit a pattern, where some may not be opened: every folder is listed and every name judged through `access`. A
/// name that fits and means something outside is refused whatever lies there, so that the answer does not depend on it (ACCESS-3).
fn walked(pattern: &str, access: &FileAccess) -> Result<Vec<PathBuf>> {
    let parts: Vec<String> =
        Path::new(pattern).components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let mut reached = vec![PathBuf::new()];
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        let folders = std::mem::take(&mut reached);
        if !is_special(part) {
            reached = folders.into_iter().map(|folder| folder.join(part)).collect();
            // Names above the first special one are not asked about one by one: they may lie above what is served.
            if parts[..number].iter().any(|part| is_special(part)) {
                reached = kept(reached, is_last, access)?;
            }
            continue;
        }
        let fits = glob::Pattern::new(part).map_err(|e| wrong(pattern, &e))?;
        for folder in folders {
            if part == "**" {
                reached.extend(folders_below(&folder, access)?);
                continue;
            }
            // What is not a folder has nothing in it.
            let entries = if access.is_dir(&folder)? { access.list(&folder)? } else { Vec::new() };
            let fitting = entries
                .into_iter()
                .filter(|path| path.file_name().is_some_and(|name| fits.matches(&name.to_string_lossy())));
            reached.extend(kept(fitting.collect(), is_last, access)?);
        }
    }
    // What ends with `**` means folders.
    if parts.last().is_some_and(|last| last == "**") { Ok(Vec::new()) } else { Ok(reached) }
}

/// Of paths that fit so far, the files if nothing follows, otherwise the folders.
fn kept(paths: Vec<PathBuf>, is_last: bool, access: &FileAccess) -> Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for path in paths {
        match access.metadata(&path) {
            Ok(meta) if if is_last { meta.is_file() } else { meta.is_dir() } => kept.push(path),
            Err(DataError::NotServed { path, option }) => return Err(DataError::NotServed { path, option }),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(kept)
}

/// A folder and all below it, each once. Links are not followed.
fn folders_below(folder: &Path, access: &FileAccess) -> Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|entry| entry.is_dir());
        left.extend(access.list(&folder)?.into_iter().filter(is_folder));
        found.push(folder);
    }
    Ok(found)
}

fn is_special(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Whether what a pattern searches may be looked at: the folder above its first special name, and from there only down.
fn check_searched(pattern: &Path, access: &FileAccess) -> Result<()> {
    let parts: Vec<_> = pattern.components().collect();
    let literal = parts.iter().take_while(|part| !is_special(&part.as_os_str().to_string_lossy())).count();
    access.is_dir(&parts[..literal].iter().collect::<PathBuf>())?;
    match parts[literal..].contains(&std::path::Component::ParentDir) {
        true => Err(DataError::Argument(format!(
            "{}: a worker does not expand patterns that contain .. after a wildcard",
            pattern.display()
        ))),
        false => Ok(()),
    }
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
fn remote(url: FileUrl, endings: &[&str], access: &FileAccess, stores: &mut Vec<Arc<RemoteStore>>) -> Result<Found> {
    let store = match stores.iter().find(|s| s.url().store == url.store) {
        Some(known) => known.clone(),
        None => {
            stores.push(Arc::new(RemoteStore::open(url.clone(), access)?));
            stores[stores.len() - 1].clone()
        }
    };
    let listed = |folder: &str, deep: bool| -> Result<Vec<ObjectMeta>> {
        access.check_listing(&url, folder)?;
        store.list(&url.object(folder)?, deep).map_err(|e| match (url.scheme, e) {
            (Scheme::Http, DataError::Io { path, why }) if why.contains("status code") => {
                let why = format!("this server cannot list files ({why}); name every file");
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
            let found = expand(patterns, &[".parquet"], &FileAccess::everything()).unwrap();
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
            let found = expand(&[pattern.to_owned()], &[".parquet"], &FileAccess::everything()).unwrap();
            found.iter().map(|f| f.to_string().rsplit('/').next().unwrap().to_owned()).collect()
        };
        let path = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(found(&path("")), ["a.parquet", "b.parquet"]);
        assert_eq!(found(&format!("file://{}", path(""))), ["a.parquet", "b.parquet"]);
        assert_eq!(found(&path("year*/*.parquet")), ["a.parquet"]);
        assert_eq!(found(&path(".*.parquet")), [".d.parquet"]);
        assert_eq!(found(&path(".tmp/*")), ["c.parquet"]);
        assert_eq!(found(&path("*/*.parquet")), ["a.parquet"]);
        assert!(expand(&[path("*.parquet")], &[], &FileAccess::everything()).is_err());
        let mut names = list_names(&path("")).unwrap();
        names.sort();
        assert_eq!(names, ["year=2024/a.parquet", "year=2025/m=1/b.parquet"]);
    }

    #[test]
    fn a_pattern_does_not_tell_what_lies_behind_a_link_out_of_the_served_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for folder in [root.join("in/deep"), root.join("none"), outside.clone()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in [root.join("in/a.npy"), root.join("in/deep/b.npy"), outside.join("secret-name.npy")] {
            std::fs::write(file, b"").unwrap();
        }
        let access = FileAccess::only(std::slice::from_ref(&root), &[]).unwrap();
        let at = |name: &str| root.join(name).display().to_string();
        let found = |pattern: &str| expand(&[at(pattern)], &[".npy"], &access);
        let everything = |pattern: &str| expand(&[at(pattern)], &[".npy"], &FileAccess::everything()).unwrap();
        for pattern in ["*/*.npy", "**/*.npy", "i[n]/deep/*", "in/*/b.npy", "*/deep/b.*"] {
            let names = |found: Vec<Location>| found.iter().map(Location::to_string).collect::<Vec<_>>();
            assert_eq!(names(found(pattern).unwrap()), names(everything(pattern)), "{pattern}");
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let said = |pattern: &str| found(pattern).unwrap_err().to_string();
        let answers: Vec<String> =
            ["lin?/*.npy", "lin?/zzz*.npy", "lin?/secret-name.npy", "lin?/none.npy", "l*/*/*"].map(said).into();
        assert!(answers.iter().all(|answer| *answer == answers[0] && !answer.contains("secret")), "{answers:?}");
        // Nor does one that ends with the link, whatever it leads to.
        let here = said("lin?");
        std::fs::remove_file(root.join("link")).unwrap();
        for target in ["outside/secret-name.npy", "nothing"] {
            std::os::unix::fs::symlink(dir.path().join(target), root.join("link")).unwrap();
            assert_eq!((said("lin?"), said("lin?/*")), (here.clone(), answers[0].clone()), "{target}");
            std::fs::remove_file(root.join("link")).unwrap();
        }
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_named() {
        let wrong = expand(&["/nowhere/*.parquet".to_owned()], &[], &FileAccess::everything()).unwrap_err();
        assert_eq!(wrong, DataError::Missing { path: "/nowhere/*.parquet".into() });
    }
}
