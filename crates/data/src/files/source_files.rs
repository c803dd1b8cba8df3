//! The files a data set was opened with.

use super::{Location, OpenFile, Stamp};
use crate::error::{DataError, Result};
use crate::fingerprint::Fingerprint;

/// How many files an error names.
const REASONS: usize = 5;

/// Files with the stamps they had when they were opened, and those that were left out.
#[derive(Debug, Default)]
pub struct SourceFiles {
    files: Vec<(Location, Stamp)>,
    left_out: Vec<(String, String)>,
}

impl SourceFiles {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Adds a file and gives its number.
    pub(crate) fn add(&mut self, location: Location, stamp: Stamp) -> u32 {
        self.files.push((location, stamp));
        self.files.len() as u32 - 1
    }

    /// Adds a file that may be among them already, and gives its number.
    pub(crate) fn add_once(&mut self, location: &Location, stamp: &Stamp) -> u32 {
        let same = |(known, _): &(Location, Stamp)| known.absolute() == location.absolute();
        match self.files.iter().position(same) {
            Some(known) => known as u32,
            None => self.add(location.clone(), stamp.clone()),
        }
    }

    /// Leaves a file out where the caller allows it and the error is about this file alone.
    pub(crate) fn leave_out(&mut self, location: &Location, error: DataError, allowed: bool) -> Result<()> {
        if !(allowed && error.is_of_one_file()) {
            return Err(error);
        }
        self.left_out.push((location.to_string(), error.to_string()));
        Ok(())
    }

    /// The error where no file is left: which were left out, and why.
    pub(crate) fn none_left(&self) -> DataError {
        let reasons: Vec<&str> = self.left_out.iter().take(REASONS).map(|(_, why)| why.as_str()).collect();
        let more = self.left_out.len() - reasons.len();
        DataError::Argument(match (reasons.is_empty(), more) {
            (true, _) => "no files were given".into(),
            (false, 0) => format!("no file could be read: {}", reasons.join("; ")),
            (false, more) => format!("no file could be read: {}; and {more} more", reasons.join("; ")),
        })
    }

    /// Where a file lies.
    pub(crate) fn location(&self, file: u32) -> &Location {
        &self.files[file as usize].0
    }

    /// Every file, in order.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &Location> {
        self.files.iter().map(|(location, _)| location)
    }

    /// Opens a file for reading, as it was (FILES-2).
    pub(crate) fn open(&self, file: u32) -> Result<OpenFile> {
        let (location, stamp) = &self.files[file as usize];
        location.open_as(stamp)
    }

    /// What a file is called; nothing where there is none of this number.
    pub fn name(&self, file: u32) -> String {
        self.files.get(file as usize).map_or(String::new(), |(location, _)| location.to_string())
    }

    /// A number that differs where the files differ.
    pub fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        self.files.iter().for_each(|(location, stamp)| print.eat_file(&location.file_name(), stamp.len_bytes));
        print.finish()
    }

    /// Files that were left out, with the reason.
    pub fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }
}
