//! Records: all numbers of a sample in one place, one column after another.
//!
//! RECORD-1: a record is first the item of each column that has one for a sample, then all items of each column of lists. Which
//!           columns those are and where each begins is the same in every record of a layout.

use std::sync::Arc;

use crate::ask::ask_for;

/// Where a column is in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPart {
    /// One item, after so many bytes.
    One(u32),
    /// All its items, after so many bytes, and so many more for each item.
    Items(u32, u32),
}

impl RecordPart {
    /// Where it begins in a record of so many items, and how many bytes it has.
    #[inline(always)]
    fn place(self, items: usize, item_bytes: usize) -> (usize, usize) {
        match self {
            RecordPart::One(before) => (before as usize, item_bytes),
            RecordPart::Items(before, each) => (before as usize + items * each as usize, items * item_bytes),
        }
    }
}

/// Which columns are in a record, and where (RECORD-1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordLayout {
    /// For each column of the block its part, if it has one.
    parts: Vec<Option<RecordPart>>,
    one_bytes: u32,
    each_bytes: u32,
}

impl RecordLayout {
    /// Adds a column that has one item for each sample. None where records would be too long.
    pub(crate) fn push_one(&mut self, column: usize, item_bytes: usize) -> Option<()> {
        let after = self.one_bytes.checked_add(u32::try_from(item_bytes).ok()?)?;
        self.set(column, RecordPart::One(self.one_bytes));
        self.one_bytes = after;
        Some(())
    }

    /// Adds a column of lists, after all of one item. None where records would be too long.
    pub(crate) fn push_items(&mut self, column: usize, item_bytes: usize) -> Option<()> {
        let after = self.each_bytes.checked_add(u32::try_from(item_bytes).ok()?)?;
        self.set(column, RecordPart::Items(self.one_bytes, self.each_bytes));
        self.each_bytes = after;
        Some(())
    }

    fn set(&mut self, column: usize, part: RecordPart) {
        self.parts.resize(self.parts.len().max(column + 1), None);
        self.parts[column] = Some(part);
    }

    /// Where a column is, if it is in the records.
    pub(crate) fn part(&self, column: usize) -> Option<RecordPart> {
        self.parts.get(column).copied().flatten()
    }

    /// The columns in it, as they follow each other.
    pub(crate) fn columns(&self) -> Vec<(usize, RecordPart)> {
        let mut columns: Vec<_> = self.parts.iter().enumerate().filter_map(|(i, part)| Some((i, (*part)?))).collect();
        columns.sort_by_key(|(_, part)| match part {
            RecordPart::One(before) => (0, *before),
            RecordPart::Items(_, each) => (1, *each),
        });
        columns
    }

    /// The bytes of a record of so many items; none where it would be too long.
    pub(crate) fn len_bytes(&self, items: u32) -> Option<u32> {
        items.checked_mul(self.each_bytes)?.checked_add(self.one_bytes)
    }
}

/// Where the samples of a block are, and what their records are made of.
#[derive(Clone, Debug)]
pub struct Records {
    /// Where each begins, in bytes, and where the last one ends. How many items one has follows from how long it is: this is read at
    /// random, and what is half as long is found in the cache more often.
    starts: Vec<u32>,
    layout: Arc<RecordLayout>,
}

/// One sample's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// From where it begins.
    bytes: &'a [u8],
    pub(crate) items: u32,
}

impl<'a> Located<'a> {
    /// The bytes of a column's part.
    #[inline(always)]
    pub(crate) fn part(&self, part: RecordPart, item_bytes: usize) -> &'a [u8] {
        let (start, len) = part.place(self.items as usize, item_bytes);
        &self.bytes[start..start + len]
    }

    /// From the beginning of a column's part on, and what follows.
    #[inline(always)]
    pub(crate) fn part_onward(&self, part: RecordPart, item_bytes: usize) -> &'a [u8] {
        &self.bytes[part.place(self.items as usize, item_bytes).0..]
    }
}

impl Records {
    /// Records that begin where these say, and end where the last one says.
    pub(crate) fn new(starts: Vec<u32>, layout: Arc<RecordLayout>) -> Records {
        Records { starts, layout }
    }

    /// What they are made of. Blocks of one run share it.
    pub(crate) fn layout(&self) -> &Arc<RecordLayout> {
        &self.layout
    }

    /// How many items of each column of lists a sample has.
    #[inline(always)]
    pub(crate) fn items(&self, sample: u32) -> u32 {
        let len = self.starts[sample as usize + 1] - self.starts[sample as usize];
        (len - self.layout.one_bytes).checked_div(self.layout.each_bytes).unwrap_or(0)
    }

    /// The record of a sample in values that hold it.
    #[inline(always)]
    pub(crate) fn locate<'a>(&self, values: &'a [u8], sample: u32) -> Located<'a> {
        Located { bytes: &values[self.starts[sample as usize] as usize..], items: self.items(sample) }
    }

    /// Asks memory for where a sample's record is.
    #[inline(always)]
    pub(crate) fn ask_for(&self, sample: u32) {
        if let Some(start) = self.starts.get(sample as usize) {
            ask_for(start);
        }
    }

    /// Bytes that it takes to say where they are.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&self.starts[..])
    }

    /// Whether there are records of so many samples in so many bytes, and a column's part in each.
    pub(crate) fn fit(&self, samples: usize, len_bytes: usize, part: RecordPart, item_bytes: usize) -> bool {
        let RecordLayout { one_bytes, each_bytes, .. } = *self.layout;
        let fits = |ends: &[u32; 2]| {
            let Some(len) = ends[1].checked_sub(ends[0]) else { return false };
            let Some(of_items) = len.checked_sub(one_bytes) else { return false };
            let items = of_items.checked_div(each_bytes).unwrap_or(0);
            let (start, part_len) = part.place(items as usize, item_bytes);
            items * each_bytes == of_items && start + part_len <= len as usize && ends[1] as usize <= len_bytes
        };
        self.starts.len() == samples + 1 && self.starts.array_windows().all(fits)
    }
}
