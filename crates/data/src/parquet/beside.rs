//! Tables of events that lie beside files of flat rows.
//!
//! BESIDE-1: a file is taken for a table of events if two of its columns are named for where something begins and ends, and what
//!           they hold are rows of the files that were asked for. Names alone do not suffice: times begin and end too.
//! BESIDE-2: a file with the same two columns as the files that were asked for is another part of their data, such as a test split.
//! BESIDE-3: columns of any name do if their values divide the rows of the files among them (TILING-1). A table with names that say
//!           so is preferred.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::batch::cast;
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{FileAccess, Location};
use crate::parquet::events::RangeEnd;
use crate::parquet::source::{ParquetOptions, RowBlock, RowReader};
use crate::parquet::tiling::{self, Numbers};
use crate::source::{LoadTimes, Source};

const ENDINGS: [&str; 3] = [".parquet", ".parq", ".pq"];
/// Types that hold no numbers of rows.
const NOT_ROWS: [Elem; 5] = [Elem::Bool, Elem::F16, Elem::BF16, Elem::F32, Elem::F64];
/// Other files that are looked at in a folder; those named like the files that were asked for come last.
const MOST_LOOKED_AT: usize = 32;
/// Numbers that are read of a file to know it by its values.
const MOST_NUMBERS: u64 = 1 << 24;

/// A Parquet file that says which rows of others belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableBeside {
    /// The file.
    pub path: PathBuf,
    /// The column of an event's first row; none where the table has only lengths.
    pub first: Option<String>,
    /// The column that says where it ends.
    pub end: RangeEnd,
}

impl TableBeside {
    /// The one beside the files of a source whose samples are rows, in their folders or the folders above, if there is one on this
    /// machine. The source has all columns of its files.
    ///
    /// # Errors
    /// When the caller asked for the end. What is wrong with other files is nobody's concern here.
    pub fn find(source: &dyn Source) -> Result<Option<TableBeside>> {
        let asked: BTreeSet<PathBuf> = source.files().locations().map(Location::identity).collect();
        let folders: BTreeSet<&Path> = asked.iter().filter_map(|path| path.parent()).collect();
        let above: BTreeSet<&Path> = folders.iter().filter_map(|folder| folder.parent()).collect();
        let candidates: Vec<PathBuf> =
            folders.union(&above).flat_map(|folder| other_parquet_files(folder, &asked)).collect();
        let has = |name: &str| source.fields().iter().any(|field| field.name == name);
        let mut rows_of_files = vec![0; source.files().len()];
        source.blocks().iter().for_each(|block| rows_of_files[block.file as usize] += u64::from(block.samples));
        let most_rows = rows_of_files.iter().copied().max().unwrap_or(0);
        let named = |path: &Path| TableBeside::named(path, most_rows, &has);
        let valued = |path: &Path| TableBeside::valued(path, &rows_of_files, &has);
        let ways: [&dyn Fn(&Path) -> Result<Option<TableBeside>>; 2] = [&named, &valued];
        for way in ways {
            for path in &candidates {
                match way(path) {
                    Err(DataError::Interrupted) => return Err(DataError::Interrupted),
                    Ok(Some(found)) => return Ok(Some(found)),
                    Ok(None) | Err(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// The file as a table of events of files with so many rows at most, by the names of its columns (BESIDE-1).
    fn named(path: &Path, most_rows: u64, has: &dyn Fn(&str) -> bool) -> Result<Option<TableBeside>> {
        let (reader, blocks) = opened(path, None)?;
        let fields: Vec<&Field> = reader.fields.iter().map(|(field, _)| field).collect();
        let first = named(&fields, &["first", "start", "begin", "offset"]);
        let ends: [(&[&str], fn(String) -> RangeEnd); 3] = [
            (&["last"], RangeEnd::Last),
            (&["end", "stop"], RangeEnd::End),
            (&["length", "len", "count", "size"], RangeEnd::Length),
        ];
        let end = ends.iter().find_map(|(words, made)| Some((named(&fields, words)?, made)));
        let (Some(first), Some((end, made)), Some((block, _))) = (first, end, blocks.first()) else { return Ok(None) };
        if has(&first) && has(&end) {
            return Ok(None);
        }
        let (starts, stops) = (column(path, &first, &[block])?, column(path, &end, &[block])?);
        let end = made(end);
        let is_range = |(&start, &stop): (&i64, &i64)| {
            let end = match end {
                RangeEnd::Last(_) => stop.saturating_add(1),
                RangeEnd::End(_) => stop,
                RangeEnd::Length(_) => start.saturating_add(stop),
            };
            0 <= start && start <= end && end.unsigned_abs() <= most_rows
        };
        let is_table = !starts.is_empty() && starts.iter().zip(&stops).all(is_range);
        Ok(is_table.then(|| TableBeside { path: path.to_owned(), first: Some(first), end }))
    }

    /// The file as a table of events of files with so many rows, by the values of its columns (BESIDE-3).
    fn valued(path: &Path, rows_of_files: &[u64], has: &dyn Fn(&str) -> bool) -> Result<Option<TableBeside>> {
        let (reader, blocks) = opened(path, None)?;
        let own = reader.fields.iter().map(|(field, _)| field).filter(|field| is_number(field) && !has(&field.name));
        let names: Vec<&str> = own.map(|field| field.name.as_str()).collect();
        let blocks: Vec<&RowBlock> = blocks.iter().map(|(block, _)| block).collect();
        let rows: u64 = blocks.iter().map(|block| block.rows.end - block.rows.start).sum();
        if rows.saturating_mul(names.len() as u64) > MOST_NUMBERS || rows >= rows_of_files.iter().sum() {
            return Ok(None);
        }
        let columns: Vec<Numbers> =
            names.iter().map(|name| Ok((name.to_string(), column(path, name, &blocks)?))).collect::<Result<_>>()?;
        let found = tiling::found(&columns, rows_of_files);
        Ok(found.map(|(first, end)| TableBeside { path: path.to_owned(), first, end }))
    }
}

/// The Parquet files of a folder that were not asked for, by name.
fn other_parquet_files(folder: &Path, asked: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_other = |path: &PathBuf| {
        ENDINGS.iter().any(|ending| path.to_string_lossy().ends_with(ending))
            && !asked.contains(&Location::local(path.clone(), &FileAccess::everything()).identity())
    };
    let mut found: Vec<PathBuf> = paths.filter(is_other).collect();
    let asked_names: BTreeSet<String> = asked.iter().map(|path| name_without_digits(path)).collect();
    found.sort_by_cached_key(|path| (asked_names.contains(&name_without_digits(path)), path.clone()));
    found.truncate(MOST_LOOKED_AT);
    found
}

/// `batch_.parquet` for `batch_17.parquet`.
fn name_without_digits(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The words of a column's name: those of `first_index`, `first-index` and `firstIndex` are the same.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || was_lower && c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    words
}

fn is_number(field: &Field) -> bool {
    field.kind == Kind::Fixed && field.item.is_empty() && !NOT_ROWS.contains(&field.elem)
}

/// The column of integers that has one of these words in its name.
fn named(fields: &[&Field], words: &[&str]) -> Option<String> {
    let has_word = |field: &&&Field| words_of(&field.name).iter().any(|word| words.contains(&word.as_str()));
    fields.iter().filter(|field| is_number(field)).find(has_word).map(|field| field.name.clone())
}

fn opened(path: &Path, columns: Option<Vec<String>>) -> Result<(RowReader, Vec<(RowBlock, u64)>)> {
    let options = ParquetOptions { columns, no_index_cache: true, ..ParquetOptions::default() };
    RowReader::open(&[Location::local(path.to_owned(), &FileAccess::everything())], &options)
}

fn column(path: &Path, name: &str, blocks: &[&RowBlock]) -> Result<Vec<i64>> {
    let (reader, _) = opened(path, Some(vec![name.to_owned()]))?;
    let mut numbers = Vec::new();
    for block in blocks {
        let read = reader.read(block, &mut LoadTimes::default())?;
        let rows = (block.rows.end - block.rows.start) as usize;
        let ((values, _), (field, _)) = read.first().zip(reader.fields.first()).ok_or_else(|| {
            DataError::Internal(format!("internal error: column {name:?} was requested but not read"))
        })?;
        let mut wide = vec![0; rows * 8];
        cast(field.elem, gt_ir::DType::I64)(values, &mut wide);
        numbers.extend(wide.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c)));
    }
    Ok(numbers)
}
