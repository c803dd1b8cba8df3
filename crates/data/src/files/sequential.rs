//! A file from its beginning to its end, in pieces.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use bytes::Bytes;

use super::OpenFile;
use super::remote_store::is_interrupted;
use crate::error::{DataError, Result};

/// The first piece: the beginning alone may be all that is needed.
const FIRST_BYTES: u64 = 256 << 10;
/// The shortest and the longest piece. To a server every question costs the way, so more comes with each.
const LOCAL_BYTES: (u64, u64) = (4 << 10, 256 << 10);
const REMOTE_BYTES: (u64, u64) = (1 << 20, 8 << 20);

/// Reads a file piece by piece: longer ones while it goes straight on, shorter ones where it skips more than it reads.
pub(crate) struct Sequential {
    file: OpenFile,
    /// What was read and not given yet, and where it begins.
    piece: Bytes,
    at: u64,
    next_bytes: u64,
}

impl Sequential {
    pub(super) fn new(file: OpenFile) -> Sequential {
        Sequential { file, piece: Bytes::new(), at: 0, next_bytes: FIRST_BYTES }
    }

    /// The file.
    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The `len` bytes at `at`, which lies not before what was asked for last.
    pub(crate) fn read_at(&mut self, at: u64, len: u64) -> Result<Bytes> {
        let ahead = at.saturating_sub(self.at);
        if at < self.at || ahead + len > self.piece.len() as u64 {
            let skipped = ahead.saturating_sub(self.piece.len() as u64);
            if skipped > self.next_bytes {
                self.next_bytes = (self.next_bytes / 8).max(self.limits().0);
            }
            let wanted = len.max(self.next_bytes).min(self.file.len_bytes().saturating_sub(at)).max(len);
            self.piece = self.piece(at..at.saturating_add(wanted))?;
            self.at = at;
            self.grow();
            return Ok(self.piece.slice(..len as usize));
        }
        self.piece = self.piece.slice(ahead as usize..);
        self.at = at;
        Ok(self.piece.slice(..len as usize))
    }

    /// Reads a piece, unless the caller is interrupted: a file may have many.
    fn piece(&self, range: Range<u64>) -> Result<Bytes> {
        match is_interrupted() {
            true => Err(DataError::Interrupted),
            false => self.file.read(range),
        }
    }

    fn limits(&self) -> (u64, u64) {
        if self.file.is_remote() { REMOTE_BYTES } else { LOCAL_BYTES }
    }

    fn grow(&mut self) {
        self.next_bytes = (self.next_bytes * 2).min(self.limits().1);
    }
}

impl BufRead for Sequential {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.file.len_bytes().saturating_sub(self.at);
        if self.piece.is_empty() && left > 0 {
            let end = self.at + self.next_bytes.min(left);
            self.piece = self.piece(self.at..end).map_err(io::Error::other)?;
            self.grow();
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, n: usize) {
        let n = n.min(self.piece.len());
        self.piece = self.piece.slice(n..);
        self.at += n as u64;
    }
}

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let given = self.fill_buf()?.read(out)?;
        self.consume(given);
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Location;

    #[test]
    fn a_file_is_read_whole_and_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let content: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let open = || Location::from(path.clone()).open().unwrap().sequential();
        let mut all = Vec::new();
        open().read_to_end(&mut all).unwrap();
        assert!(all == content);
        let mut parts = open();
        for at in [0, 100, 512, 400_000, 400_001, 900_000, 1_500_000, 1_500_512, 2_999_000] {
            assert_eq!(parts.read_at(at as u64, 512).unwrap()[..], content[at..at + 512]);
        }
        assert!(parts.read_at(2_999_999, 2).is_err());
    }
}
