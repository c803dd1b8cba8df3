//! The file of an instruction log: its name, and that one process writes it.
//!
//! LOGFILE-1: a process locks its file before it empties it, and holds the lock until it ends. A second process gets an error, and
//!            the first one's lines stay whole.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::output;

/// Where launchers say which of a job's processes this one is.
const RANKS: [&str; 5] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// A file name in which `%p` stands for the process, `%h` for the host, `%r` for the rank that a launcher gave (0 without one),
/// and `%%` for a percent sign.
///
/// # Errors
/// When another letter follows a percent sign; the text says which ones may.
pub fn log_path(pattern: &str) -> Result<PathBuf, String> {
    let mut name = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            name.push(c);
            continue;
        }
        match rest.next() {
            Some('p') => name.push_str(&std::process::id().to_string()),
            Some('h') => name.push_str(&host()),
            Some('r') => name.push_str(&rank()),
            Some('%') => name.push('%'),
            other => {
                let found = other.map_or_else(|| "%".to_string(), |c| format!("%{c}"));
                return Err(format!("unknown placeholder {found}: use %p (process), %h (host), %r (rank) or %%"));
            }
        }
    }
    Ok(PathBuf::from(name))
}

fn plain(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

fn host() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    named.map(|name| plain(&name)).filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_string())
}

fn rank() -> String {
    let set = RANKS.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.map_or_else(|| "0".to_string(), |value| plain(&value))
}

/// Opens the file of a log, empty, for this process alone (LOGFILE-1).
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = output::open(path)?;
    // Pipes and terminals have no content to protect.
    if !file.metadata()?.is_file() {
        return Ok(file);
    }
    match file.try_lock() {
        // A file system without locks: nothing can be said of others.
        Ok(()) | Err(TryLockError::Error(_)) => {}
        Err(TryLockError::WouldBlock) => {
            let why = "another process is writing this log; put %p (process), %h (host) or %r (rank) into the name to give \
                       each process its own file";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
    }
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs_stand_for_the_process() {
        let name = |pattern: &str| log_path(pattern).map(|path| path.display().to_string());
        assert_eq!(name("a/gt.log"), Ok("a/gt.log".into()));
        assert_eq!(name("gt-%p.log"), Ok(format!("gt-{}.log", std::process::id())));
        assert_eq!(name("100%%-%h"), Ok(format!("100%-{}", host())));
        assert_eq!(plain("node 7/a\n"), "node_7_a");
        for bad in ["gt-%d.log", "gt-%"] {
            assert!(name(bad).is_err_and(|why| why.contains("%p (process)")), "{bad}");
        }
    }

    #[test]
    fn a_log_that_is_being_written_is_not_opened_again() {
        let path = std::env::temp_dir().join(format!("gt-log-file-{}.log", std::process::id()));
        let first = open(&path).unwrap();
        first.set_len(3).unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        assert_eq!(first.metadata().unwrap().len(), 3, "the first one's lines stay");
        drop(first);
        assert_eq!(open(&path).unwrap().metadata().unwrap().len(), 0);
        std::fs::remove_file(path).unwrap();
    }
}
