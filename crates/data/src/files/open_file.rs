//! A file that is open for reading.
//!
//! OPEN-1: nothing is mapped, and no position is kept: any number of threads may read.
//! OPEN-2: a range that does not lie inside the file is an error before anything is read.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytes::Bytes;

use super::location::RemoteFile;
use super::{Named, Sequential, Stamp};
use crate::error::{DataError, Result};

/// Ranges that lie closer than this are read at once: on a disk, and where every question costs the way to a server.
const GAP_BYTES: u64 = 64 << 10;
const REMOTE_GAP_BYTES: u64 = 1 << 20;

/// A file as it was when it had its stamp.
#[derive(Debug)]
pub(crate) struct OpenFile {
    at: At,
    stamp: Stamp,
}

#[derive(Debug)]
enum At {
    Local(PathBuf, File),
    Remote(RemoteFile),
}

impl Named for OpenFile {
    fn name(&self) -> String {
        match &self.at {
            At::Local(path, _) => path.name(),
            At::Remote(object) => object.url().to_owned(),
        }
    }
}

impl OpenFile {
    pub(super) fn local(path: PathBuf, file: File, stamp: Stamp) -> OpenFile {
        OpenFile { at: At::Local(path, file), stamp }
    }

    pub(super) fn remote(object: RemoteFile, stamp: Stamp) -> OpenFile {
        OpenFile { at: At::Remote(object), stamp }
    }

    /// What it is recognised by.
    pub(crate) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Its length.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.stamp.len_bytes
    }

    /// Whether a read is a question to a server.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.at, At::Remote(_))
    }

    fn check(&self, range: &Range<u64>) -> Result<()> {
        match range.start <= range.end && range.end <= self.stamp.len_bytes {
            true => Ok(()),
            false => Err(DataError::Corrupt { path: self.name(), why: "the file ends too early".into() }),
        }
    }

    /// Fills `out` with what begins at a byte.
    pub(crate) fn read_into(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        self.check(&(at..end))?;
        match &self.at {
            At::Local(path, file) => file.read_exact_at(out, at).map_err(|e| DataError::io(path, &e)),
            At::Remote(_) => {
                out.copy_from_slice(&self.read(at..end)?);
                Ok(())
            }
        }
    }

    /// A range of bytes.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.read_ranges(&[range])?.pop().unwrap_or_default())
    }

    /// Ranges of bytes; those that lie close together are read at once.
    pub(crate) fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|r| self.check(r))?;
        let gap = if self.is_remote() { REMOTE_GAP_BYTES } else { GAP_BYTES };
        let (runs, places) = coalesced(ranges, gap);
        let read = match &self.at {
            At::Local(path, file) => runs
                .iter()
                .map(|run| {
                    let mut bytes = vec![0; (run.end - run.start) as usize];
                    file.read_exact_at(&mut bytes, run.start).map_err(|e| DataError::io(path, &e))?;
                    Ok(Bytes::from(bytes))
                })
                .collect::<Result<Vec<Bytes>>>()?,
            At::Remote(object) => object.store.read(&object.path, &self.stamp, &runs)?,
        };
        let part = |(range, place): (&Range<u64>, &Option<usize>)| match place {
            None => Bytes::new(),
            Some(n) => {
                let start = runs[*n].start;
                read[*n].slice((range.start - start) as usize..(range.end - start) as usize)
            }
        };
        Ok(ranges.iter().zip(&places).map(part).collect())
    }

    /// Reads from the beginning to the end.
    pub(crate) fn sequential(self) -> Sequential {
        Sequential::new(self)
    }
}

/// Ranges that cover all of these, none empty, with the number of the one that holds each; none for an empty range.
fn coalesced(ranges: &[Range<u64>], gap: u64) -> (Vec<Range<u64>>, Vec<Option<usize>>) {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&i| !ranges[i].is_empty()).collect();
    order.sort_by_key(|&i| ranges[i].start);
    let (mut runs, mut places) = (Vec::<Range<u64>>::new(), vec![None; ranges.len()]);
    for i in order {
        match runs.last_mut() {
            Some(run) if ranges[i].start <= run.end.saturating_add(gap) => run.end = run.end.max(ranges[i].end),
            _ => runs.push(ranges[i].clone()),
        }
        places[i] = Some(runs.len() - 1);
    }
    (runs, places)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::Location;

    #[test]
    fn ranges_are_what_lies_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let content: Vec<u8> = (0..305_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = Location::from(path).open().unwrap();
        proptest!(|(wanted in prop::collection::vec((0u64..300_000, 0u64..5_000), 0..20))| {
            let ranges: Vec<Range<u64>> = wanted.iter().map(|&(at, len)| at..at + len).collect();
            let read = file.read_ranges(&ranges).unwrap();
            for (range, bytes) in ranges.iter().zip(read) {
                prop_assert_eq!(&bytes[..], &content[range.start as usize..range.end as usize]);
            }
        });
    }

    #[test]
    fn a_range_outside_the_file_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short.bin");
        std::fs::write(&path, [1, 2, 3]).unwrap();
        let file = Location::from(path).open().unwrap();
        for range in [0..4, 3..u64::MAX, 7..7] {
            let wrong = file.read(range).unwrap_err().to_string();
            assert!(wrong.contains("short.bin") && wrong.contains("too early"), "{wrong}");
        }
        assert!(file.read_into(u64::MAX, &mut [0; 2]).is_err());
        assert_eq!(file.read(1..3).unwrap()[..], [2, 3]);
    }
}
