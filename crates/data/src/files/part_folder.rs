//! A folder that appears when everything in it is written.
//!
//! FOLDER-1: until then it lies beside its place as `NAME.….part`, under a name that nobody else uses, and goes away with whoever
//!           writes it: after an error, and after an interrupt. Only a process that is killed leaves it behind, under that name.
//! FOLDER-2: nothing is written over: the place is free, or an empty folder.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gt_observe::output;

use crate::error::{DataError, Result};

/// How the name of such a folder ends; what lies in one is no data set.
pub(super) const ENDING: &str = ".part";

/// A folder that is being written.
#[derive(Debug)]
pub(crate) struct PartFolder {
    part: PathBuf,
    place: PathBuf,
    /// Folders above it that were not there before, from the inside out.
    above: Vec<PathBuf>,
}

impl PartFolder {
    /// Begins a folder that is to lie at a place.
    pub(crate) fn create(place: &Path) -> Result<PartFolder> {
        // Without a slash at its end, or the part would lie inside.
        let place: PathBuf = place.components().collect();
        let Some(name) = place.file_name() else { return Err(taken(&place)) };
        match std::fs::read_dir(&place).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Ok(false) => return Err(taken(&place)),
            Err(e) if e.kind() == ErrorKind::NotADirectory => return Err(taken(&place)),
            Err(e) => return Err(DataError::io(&place, &e)),
        }
        let above = place.ancestors().skip(1).take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
        if let Some(parent) = above.first() {
            output::create_dir_all(parent).map_err(|e| DataError::io(parent, &e))?;
        }
        for number in 0u64.. {
            let mut beside = OsString::from(name);
            beside.push(format!(".{}-{number}{ENDING}", std::process::id()));
            let part = place.with_file_name(beside);
            match output::create_dir(&part) {
                Ok(()) => return Ok(PartFolder { part, place, above }),
                // Another one of this process, or one that was killed.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(DataError::io(&part, &e)),
            }
        }
        Err(taken(&place))
    }

    /// Where it lies for now.
    pub(crate) fn path(&self) -> &Path {
        &self.part
    }

    /// Puts it at its place.
    pub(crate) fn finish(self) -> Result<()> {
        output::rename(&self.part, &self.place).map_err(|e| match e.kind() {
            // Somebody was faster.
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory => taken(&self.place),
            _ => DataError::io(&self.place, &e),
        })
    }
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        // After `finish` nothing lies there any more.
        let _ = output::remove_dir_all(&self.part);
        // Those that hold something stay.
        self.above.iter().for_each(|folder| _ = output::remove_dir(folder));
    }
}

fn taken(place: &Path) -> DataError {
    let place = place.display();
    DataError::Argument(format!("{place} exists and is not empty; name a new or empty folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn two_at_once_do_not_share_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("out/");
        let (one, two) = (PartFolder::create(&place).unwrap(), PartFolder::create(&place).unwrap());
        assert_ne!(one.path(), two.path());
        std::fs::write(one.path().join("x"), b"1").unwrap();
        std::fs::write(two.path().join("x"), b"2").unwrap();
        one.finish().unwrap();
        let late = two.finish().unwrap_err();
        assert!(matches!(&late, DataError::Argument(why) if why.contains("not empty")), "{late}");
        assert_eq!(names(dir.path()), ["out"]);
        assert_eq!(std::fs::read(place.join("x")).unwrap(), b"1");
    }

    #[test]
    fn nothing_is_written_over_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        drop(PartFolder::create(&dir.path().join("empty")).unwrap());
        drop(PartFolder::create(&dir.path().join("a/b/c")).unwrap());
        PartFolder::create(&dir.path().join("empty")).unwrap().finish().unwrap();
        std::fs::write(dir.path().join("empty/x"), b"").unwrap();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        for wrong in ["empty", "file", "empty/.."] {
            let wrong = PartFolder::create(&dir.path().join(wrong)).unwrap_err();
            assert!(matches!(wrong, DataError::Argument(_)), "{wrong}");
        }
        assert_eq!(names(dir.path()).len(), 2);
    }
}
