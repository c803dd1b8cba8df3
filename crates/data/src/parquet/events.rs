//! Parquet files of flat rows, with a table that says which rows make a sample.
//!
//! EVENTS-1: a sample belongs to the block in which its first row lies; its last rows may lie in the next row group, and are
//!           read with the block.
//! EVENTS-2: every row range of the table lies inside its file, or opening is an error that names the event. So is a file that the
//!           table names and that is not there; either may be left out where the caller allows it. A file that is there and was
//!           not asked for is no part of the data set.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_buffer::Buffer;
use serde::{Deserialize, Serialize};

use crate::batch::cast;
use crate::block::{Block, Column, Extents};
use crate::error::{DataError, Result};
use crate::field::{Field, Kind};
use crate::files::{self, FileAccess, Location, SourceFiles};
use crate::parquet::source::{ParquetOptions, RowBlock, RowReader, named_once};
use crate::source::{BlockInfo, LoadTimes, Source};

/// How the table says where a sample ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeEnd {
    /// The column of its last row.
    Last(String),
    /// The column of the row after its last.
    End(String),
    /// The column of how many rows it has.
    Length(String),
}

/// Which columns of a table say where samples are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTable {
    /// The table's files.
    pub patterns: Vec<String>,
    /// The column of a sample's first row, counted from the beginning of its file.
    pub first: String,
    /// Where it ends.
    pub end: RangeEnd,
    /// The column that says in which file it is, and the file's name with `{}` for what that column holds. Not needed for one
    /// file.
    pub file: Option<(String, String)>,
    /// Columns of the table that become columns of the samples.
    pub columns: Vec<String>,
}

/// Samples as ranges of rows.
#[derive(Debug)]
pub struct EventSource {
    reader: RowReader,
    fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    places: Vec<EventBlock>,
    /// Events by file and first row: the number in the table, the first row, the row after the last.
    events: Vec<Event>,
    /// Columns of the whole table.
    table: Block,
    table_fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    id: u64,
    start: u64,
    end: u64,
}

#[derive(Debug)]
struct EventBlock {
    rows: RowBlock,
    events: std::ops::Range<usize>,
}

impl EventSource {
    /// Opens the files and their table.
    ///
    /// # Errors
    /// When one of them cannot be read, or the table names rows that are not there.
    pub fn open(
        access: &FileAccess,
        patterns: &[String],
        table: &EventTable,
        options: &ParquetOptions,
    ) -> Result<EventSource> {
        let paths = files::expand(patterns, &[".parquet", ".parq", ".pq"], access)?;
        let (mut reader, divided) = RowReader::open(&paths, options)?;
        for (field, _) in &reader.fields {
            if field.kind != Kind::Fixed {
                let why = format!(
                    "column {:?} is {field}; an event table needs columns with one plain value per row",
                    field.name
                );
                return Err(DataError::Unsupported { path: patterns.join(", "), why });
            }
        }
        if let Some((field, _)) = reader.fields.iter().find(|(f, _)| table.columns.contains(&f.name)) {
            let why = format!(
                "column {:?} is in the files and in the event table; choose columns so that each name comes from one of them",
                field.name
            );
            return Err(DataError::Argument(why));
        }
        let read = Table::read(access, table, options)?;
        let mut events = read.events(access, table, &mut reader, options.skip_errors)?;
        leave_out_short(&divided, &mut events, &mut reader, table, options.skip_errors)?;
        if events.iter().all(Vec::is_empty) && !reader.files.left_out().is_empty() {
            return Err(reader.files.none_left());
        }
        let (blocks, places, events) = distribute(&divided, events, &reader, table)?;
        let mut fields: Vec<Field> =
            reader.fields.iter().map(|(f, _)| Field { kind: Kind::Ragged, ..f.clone() }).collect();
        fields.extend(read.fields.iter().cloned());
        Ok(EventSource { reader, fields, blocks, places, events, table: read.block, table_fields: read.fields })
    }
}

/// The table in memory.
struct Table {
    /// Columns for samples.
    block: Block,
    fields: Vec<Field>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// The text of the file column.
    files: Option<Vec<String>>,
}

impl Table {
    fn read(access: &FileAccess, table: &EventTable, options: &ParquetOptions) -> Result<Table> {
        named_once(&table.columns)?;
        let end = match &table.end {
            RangeEnd::Last(c) | RangeEnd::End(c) | RangeEnd::Length(c) => c.clone(),
        };
        let mut names = vec![table.first.clone(), end];
        names.extend(table.file.iter().map(|(column, _)| column.clone()));
        names.extend(table.columns.iter().cloned());
        let mut unique = Vec::new();
        names.iter().for_each(|n| {
            if !unique.contains(n) {
                unique.push(n.clone());
            }
        });
        let options = ParquetOptions { columns: Some(unique.clone()), skip_errors: false, ..options.clone() };
        let paths = files::expand(&table.patterns, &[".parquet", ".parq", ".pq"], access)?;
        let (reader, blocks) = RowReader::open(&paths, &options)?;
        let loaded: Vec<Result<(Vec<Column>, usize)>> = files::in_parallel(&blocks, |_, (rows, _)| {
            let samples = (rows.rows.end - rows.rows.start) as usize;
            let read = reader.read(rows, &mut LoadTimes::default())?;
            let columns: std::result::Result<Vec<Column>, String> = read
                .into_iter()
                .zip(&reader.fields)
                .map(|((values, extents), (field, _))| Column::new(field, values, extents, samples))
                .collect();
            columns.map(|c| (c, samples)).map_err(|why| DataError::corrupt(reader.files.location(rows.file), why))
        });
        let parts: Vec<(Vec<Column>, usize)> = loaded.into_iter().collect::<Result<_>>()?;
        let samples = parts.iter().map(|(_, n)| n).sum();
        let all: Vec<Column> = reader
            .fields
            .iter()
            .enumerate()
            .map(|(i, (field, _))| {
                let rows = parts.iter().flat_map(|(c, n)| (0..*n as u32).map(move |row| (&c[i], row)));
                copied(field, rows, samples)
            })
            .collect::<std::result::Result<_, _>>()
            .map_err(DataError::Internal)?;
        let at = |name: &str| unique.iter().position(|n| n == name).unwrap_or(0);
        let integers = |name: &str| -> Result<Vec<i64>> {
            let (field, _) = &reader.fields[at(name)];
            if field.kind != Kind::Fixed || !field.item.is_empty() {
                return Err(DataError::Argument(format!("column {name:?} of the event table must hold row numbers")));
            }
            let mut wide = vec![0; samples * 8];
            cast(field.elem, gt_ir::DType::I64)(all[at(name)].values(), &mut wide);
            Ok(wide.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c)).collect())
        };
        let starts = integers(&table.first)?;
        let ends: Vec<i64> = match &table.end {
            RangeEnd::End(c) => integers(c)?,
            RangeEnd::Last(c) => integers(c)?.into_iter().map(|last| last.saturating_add(1)).collect(),
            RangeEnd::Length(c) => integers(c)?.iter().zip(&starts).map(|(n, s)| s.saturating_add(*n)).collect(),
        };
        let files = match &table.file {
            None => None,
            Some((column, _)) => match reader.fields[at(column)].0.kind {
                Kind::Text { .. } => {
                    let of = &all[at(column)];
                    let text = |i| String::from_utf8_lossy(of.sample(i)).into_owned();
                    Some((0..samples as u32).map(text).collect())
                }
                Kind::Fixed | Kind::Ragged => Some(integers(column)?.iter().map(i64::to_string).collect()),
            },
        };
        let fields = table.columns.iter().map(|c| reader.fields[at(c)].0.clone()).collect();
        let block = Block { columns: table.columns.iter().map(|c| all[at(c)].clone()).collect(), samples };
        Ok(Table { block, fields, starts, ends, files })
    }

    /// The events of each file that is part of the data set.
    fn events(
        &self,
        access: &FileAccess,
        table: &EventTable,
        reader: &mut RowReader,
        skip_errors: bool,
    ) -> Result<Vec<Vec<Event>>> {
        let mut events: Vec<Vec<Event>> = vec![Vec::new(); reader.files.len()];
        let known: HashMap<PathBuf, usize> =
            reader.files.locations().enumerate().map(|(i, file)| (file.identity(), i)).collect();
        let mut places: HashMap<&str, Option<usize>> = HashMap::new();
        // In order, so that the same file is named every time.
        let mut absent: BTreeSet<&str> = BTreeSet::new();
        if self.files.is_none() && reader.files.len() != 1 {
            return Err(DataError::Argument(format!(
                "with {} files, file= and file_pattern= must tell which file each event is in",
                reader.files.len()
            )));
        }
        for i in 0..self.starts.len() {
            let file = match (&self.files, &table.file) {
                (Some(files), Some((_, pattern))) => *places
                    .entry(&files[i])
                    .or_insert_with(|| known.get(&files::identity(&pattern.replace("{}", &files[i]), access)).copied()),
                _ => Some(0),
            };
            // Events of files that were not asked for, or left out, are not part of the data set.
            let Some(file) = file else {
                absent.extend(self.files.as_ref().map(|files| files[i].as_str()));
                continue;
            };
            let (start, end) = (self.starts[i], self.ends[i]);
            let (Ok(start), Ok(end)) = (u64::try_from(start), u64::try_from(end.max(start))) else {
                return Err(wrong_range(table, i, start, end, reader.files.location(file as u32)));
            };
            events[file].push(Event { id: i as u64, start, end });
        }
        let is_any = !events.iter().all(Vec::is_empty);
        if let Some((_, pattern)) = table.file.as_ref().filter(|_| is_any) {
            leave_out_missing(access, absent, pattern, reader, skip_errors)?;
        }
        if !is_any && !self.starts.is_empty() {
            return Err(DataError::Argument(format!(
                "no event of {} refers to any of the files; check that file_pattern={:?} matches their names",
                table.patterns.join(", "),
                table.file.as_ref().map_or("", |(_, p)| p)
            )));
        }
        Ok(events)
    }
}

/// Leaves out files that the table names and that are not there (EVENTS-2).
fn leave_out_missing(
    access: &FileAccess,
    absent: BTreeSet<&str>,
    pattern: &str,
    reader: &mut RowReader,
    skip_errors: bool,
) -> Result<()> {
    let known: BTreeSet<PathBuf> =
        reader.files.left_out().iter().map(|(name, _)| files::identity(name, access)).collect();
    let named = absent.into_iter().map(|text| pattern.replace("{}", text));
    let named: Vec<String> = named.filter(|name| !known.contains(&files::identity(name, access))).collect();
    let stamps = files::in_parallel(&named, |_, name| Location::of(name, access)?.stamp());
    for (name, stamp) in named.iter().zip(stamps) {
        match stamp {
            Err(missing @ DataError::Missing { .. }) => {
                reader.files.leave_out(&Location::of(name, access)?, missing, skip_errors)?;
            }
            Err(DataError::Interrupted) => return Err(DataError::Interrupted),
            // It is there, or may be.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Leaves out files that are shorter than the table says (EVENTS-2).
fn leave_out_short(
    divided: &[(RowBlock, u64)],
    events: &mut [Vec<Event>],
    reader: &mut RowReader,
    table: &EventTable,
    skip_errors: bool,
) -> Result<()> {
    let mut rows = vec![0; events.len()];
    for (block, _) in divided {
        let of_file = &mut rows[block.file as usize];
        *of_file = block.rows.end.max(*of_file);
    }
    for (file, (events, rows)) in events.iter_mut().zip(rows).enumerate() {
        if let Some(e) = events.iter().find(|e| e.end > rows) {
            let location = reader.files.location(file as u32).clone();
            let wrong = wrong_range(table, e.id as usize, e.start as i64, e.end as i64, &location);
            reader.files.leave_out(&location, wrong, skip_errors)?;
            events.clear();
        }
    }
    Ok(())
}

fn wrong_range(table: &EventTable, event: usize, start: i64, end: i64, file: &Location) -> DataError {
    let why = format!("event {event} names rows {start} to {end} of {file}, which has fewer rows");
    DataError::Schema { path: table.patterns.join(", "), why }
}

/// Puts events into the blocks where they begin (EVENTS-1).
fn distribute(
    divided: &[(RowBlock, u64)],
    mut events: Vec<Vec<Event>>,
    reader: &RowReader,
    table: &EventTable,
) -> Result<(Vec<BlockInfo>, Vec<EventBlock>, Vec<Event>)> {
    let (mut blocks, mut places, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for events in &mut events {
        if !events.is_sorted_by_key(|e| e.start) {
            events.sort_by_key(|e| e.start);
        }
    }
    let mut cursor = vec![0usize; events.len()];
    let last_of: HashMap<u32, usize> = divided.iter().enumerate().map(|(i, (b, _))| (b.file, i)).collect();
    // A file without rows may still have events: empty ones.
    let empty = (0..events.len() as u32).filter(|f| !last_of.contains_key(f));
    let empty: Vec<(RowBlock, u64)> = empty.map(|file| (RowBlock { file, rows: 0..0 }, 0)).collect();
    for (number, (block, memory)) in divided.iter().chain(&empty).enumerate() {
        let of_file = &events[block.file as usize];
        let at = cursor[block.file as usize];
        // Empty samples may begin where the file ends.
        let to = match last_of.get(&block.file).is_none_or(|&last| last == number) {
            true => of_file.len(),
            false => at + of_file[at..].partition_point(|e| e.start < block.rows.end),
        };
        cursor[block.file as usize] = to;
        let mine = &of_file[at..to];
        let (Some(first), Some(end)) = (mine.first(), mine.iter().map(|e| e.end).max()) else { continue };
        let rows = first.start..end.max(first.start);
        let per_row = *memory as f64 / (block.rows.end - block.rows.start).max(1) as f64;
        let memory_bytes = ((rows.end - rows.start) as f64 * per_row) as u64 + mine.len() as u64 * 8;
        let samples = u32::try_from(mine.len())
            .map_err(|_| DataError::Argument("a row group has more than 2^32 events".into()))?;
        if rows.end - rows.start > u32::MAX as u64 {
            return Err(wrong_range(
                table,
                first.id as usize,
                rows.start as i64,
                rows.end as i64,
                reader.files.location(block.file),
            ));
        }
        blocks.push(BlockInfo { samples, memory_bytes, file: block.file });
        places
            .push(EventBlock { rows: RowBlock { file: block.file, rows }, events: all.len()..all.len() + mine.len() });
        all.extend_from_slice(mine);
    }
    Ok((blocks, places, all))
}

/// A column of samples that lie anywhere.
fn copied<'a>(
    field: &Field,
    rows: impl Iterator<Item = (&'a Column, u32)>,
    samples: usize,
) -> std::result::Result<Column, String> {
    let mut values = Vec::new();
    let mut offsets = vec![0u32];
    let mut items = 0usize;
    for (column, row) in rows {
        items += column.len(row);
        offsets.push(u32::try_from(items).map_err(|_| "the event table has more than 2^32 items".to_owned())?);
        values.extend_from_slice(column.sample(row));
    }
    let extents = match field.kind {
        Kind::Fixed => Extents::One,
        Kind::Ragged | Kind::Text { .. } => Extents::Offsets(offsets.into()),
    };
    Column::new(field, Buffer::from_vec(values), extents, samples)
}

impl Source for EventSource {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        let place = &self.places[block as usize];
        let events = &self.events[place.events.clone()];
        let start = place.rows.rows.start;
        let ranges: Arc<[(u32, u32)]> =
            events.iter().map(|e| ((e.start - start) as u32, (e.end - start) as u32)).collect();
        let path = self.reader.files.location(place.rows.file);
        let read = self.reader.read(&place.rows, times)?;
        let mut columns = Vec::with_capacity(self.fields.len());
        for ((values, _), field) in read.into_iter().zip(&self.fields) {
            let column = Column::new(field, values, Extents::Ranges(ranges.clone()), events.len());
            columns.push(column.map_err(|why| DataError::corrupt(path, why))?);
        }
        for (column, field) in self.table.columns.iter().zip(&self.table_fields) {
            let rows = events.iter().map(|e| (column, e.id as u32));
            columns.push(copied(field, rows, events.len()).map_err(DataError::Internal)?);
        }
        Ok(Block { columns, samples: events.len() })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.events[self.places[block as usize].events.start + row as usize].id
    }

    fn sample_len(&self, field: usize, block: u32, row: u32) -> Option<usize> {
        let event = self.events[self.places[block as usize].events.start + row as usize];
        match field.checked_sub(self.reader.fields.len()) {
            None => Some((event.end - event.start) as usize),
            Some(column) => self.table.columns.get(column).map(|column| column.len(event.id as u32)),
        }
    }

    fn files(&self) -> &SourceFiles {
        &self.reader.files
    }

    fn unread(&self) -> &[(String, String)] {
        &self.reader.unread
    }

    fn fingerprint(&self) -> u64 {
        self.files().fingerprint() ^ self.events.len() as u64
    }
}
