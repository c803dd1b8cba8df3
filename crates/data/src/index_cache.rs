//! What GT found out about files, kept between runs.
//!
//! INDEX-CACHE-1: an entry is only a hint. One that is missing, unreadable or of another version is as if it were not there.
//! INDEX-CACHE-2: an entry is written beside its place and moved there, so that nobody ever reads half of one.

use std::path::{Path, PathBuf};

use gt_observe::output;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::files::{Location, Stamp, in_parallel};
use crate::fingerprint::Fingerprint;

/// Changes whenever what is stored changes its meaning.
const VERSION: u32 = 3;

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    version: u32,
    content: T,
}

/// The folder: `GT_CACHE_DIR`, or `gt` in the user's cache folder. None where there is no home.
pub fn dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("GT_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("gt")))
        .or_else(|| set("HOME").map(|d| d.join(".cache").join("gt")))
}

/// The name of the entry for a set of files.
pub(crate) fn key(kind: &str, files: &[Location]) -> String {
    let mut print = Fingerprint::default();
    for file in files {
        print.eat(&file.absolute());
        print.eat(&[0]);
    }
    format!("index-{kind}-{:016x}.json", print.finish())
}

/// Reads an entry (INDEX-CACHE-1).
pub(crate) fn read<T: DeserializeOwned>(key: &str) -> Option<T> {
    let bytes = std::fs::read(dir()?.join("data").join(key)).ok()?;
    let entry: Entry<T> = serde_json::from_slice(&bytes).ok()?;
    (entry.version == VERSION).then_some(entry.content)
}

/// Writes an entry. Where that is not possible the next run looks at the files again; that is all.
pub(crate) fn write<T: Serialize>(key: &str, content: &T) {
    let Some(dir) = dir().map(|d| d.join("data")) else { return };
    let Ok(bytes) = serde_json::to_vec(&Entry { version: VERSION, content }) else { return };
    if !output::is_planned() && output::create_dir_all(&dir).is_ok() {
        let _ = replace(&dir.join(key), &bytes);
    }
}

/// What a look at each file finds out, with the file's stamp; for files that are as they were, what was found before.
pub(crate) fn looked<T: Serialize + DeserializeOwned + Clone + Send + Sync>(
    kind: &str,
    files: &[Location],
    cached: bool,
    look: impl Fn(&Location) -> Result<(Stamp, T)> + Sync,
) -> Vec<Result<(Stamp, T)>> {
    let key = key(kind, files);
    let known: Vec<(Option<String>, Option<(Stamp, T)>)> = cached.then(|| read(&key)).flatten().unwrap_or_default();
    let found = in_parallel(files, |i, file| match known.get(i) {
        Some((Some(name), Some((stamp, found))))
            if Some(name.as_str()) == file.as_text() && *stamp == file.stamp()? =>
        {
            Ok((stamp.clone(), found.clone()))
        }
        _ => look(file),
    });
    let news = found.iter().zip(0..).any(|(now, i)| match (now, known.get(i)) {
        (Ok((now, _)), Some((_, Some((before, _))))) => now != before,
        (now, _) => now.is_ok(),
    });
    if cached && news {
        let name = |file: &Location| file.as_text().map(str::to_owned);
        let kept: Vec<_> = files.iter().zip(&found).map(|(file, now)| (name(file), now.as_ref().ok())).collect();
        write(&key, &kept);
    }
    found
}

/// Puts bytes under a name, all or nothing (INDEX-CACHE-2).
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.part", std::process::id()));
    let done = output::write(&beside, bytes).and_then(|()| output::rename(&beside, path));
    if done.is_err() {
        let _ = output::remove_file(&beside);
    }
    done
}
