//! Files that GT writes: each is opened, made, renamed or removed here.
//!
//! OUTPUT-1: under `gt plan` nothing is written: values are zeros there, and what a file holds is not to be lost for them. The
//!           functions here return errors then, and whoever writes asks [`may_write`] first, which says once per path what is left out.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::say;

/// The variable that `gt plan` sets for the script: how many workers the plan is for.
pub const PLAN_WORKERS: &str = "GT_PLAN_WORKERS";

/// Whether this process is run by `gt plan`.
pub fn is_planned() -> bool {
    static PLANNED: OnceLock<bool> = OnceLock::new();
    *PLANNED.get_or_init(|| std::env::var_os(PLAN_WORKERS).is_some_and(|value| !value.is_empty()))
}

/// Paths that stderr was told of.
static LEFT_OUT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The paths that were not written, ascending.
pub fn left_out() -> Vec<PathBuf> {
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Whether GT may write to a path. Where it may not, stderr says so once for each path.
pub fn may_write(path: &Path) -> bool {
    if !is_planned() {
        return true;
    }
    if LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        say(format_args!("gt plan: did not write {}", path.display()));
    }
    false
}

fn permit() -> io::Result<()> {
    match is_planned() {
        true => Err(io::Error::other("gt plan writes no files")),
        false => Ok(()),
    }
}

/// As [`File::create`].
pub fn create(path: &Path) -> io::Result<File> {
    permit()?;
    File::create(path)
}

/// Opens a file to write to it, without taking what it holds away.
pub fn open(path: &Path) -> io::Result<File> {
    permit()?;
    OpenOptions::new().create(true).write(true).truncate(false).open(path)
}

/// Opens a file to add to its end.
pub fn append(path: &Path) -> io::Result<File> {
    permit()?;
    OpenOptions::new().create(true).append(true).open(path)
}

/// As [`fs::write`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    permit()?;
    fs::write(path, bytes)
}

/// As [`fs::rename`].
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    permit()?;
    fs::rename(from, to)
}

/// As [`fs::create_dir`].
pub fn create_dir(path: &Path) -> io::Result<()> {
    permit()?;
    fs::create_dir(path)
}

/// As [`fs::create_dir_all`].
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    permit()?;
    fs::create_dir_all(path)
}

/// As [`fs::remove_file`].
pub fn remove_file(path: &Path) -> io::Result<()> {
    permit()?;
    fs::remove_file(path)
}

/// As [`fs::remove_dir`].
pub fn remove_dir(path: &Path) -> io::Result<()> {
    permit()?;
    fs::remove_dir(path)
}

/// As [`fs::remove_dir_all`].
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    permit()?;
    fs::remove_dir_all(path)
}
