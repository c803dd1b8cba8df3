//! Parquet files as a source: row groups are blocks.
//!
//! PARQUET-1: a block is a row group, or part of one that would take too much memory at once.

use std::collections::HashMap;
use std::ops::Range;

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use serde::{Deserialize, Serialize};

use crate::block::{Block, Column};
use crate::caught::caught;
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::files::{self, FileAccess, Location, SourceFiles};
use crate::parquet::arrays::NullValue;
use crate::parquet::footer::{self, Opened};
use crate::parquet::index::{Index, IndexedFile};
use crate::parquet::{rows, stored};
use crate::source::{BlockInfo, LoadTimes, Source};
use crate::stored_rows::StoredRows;

/// The largest block where pages can be read alone, and where reading part of a row group means reading all of it.
const MAX_PAGED_BLOCK_BYTES: u64 = 32 << 20;
const MAX_WHOLE_BLOCK_BYTES: u64 = 256 << 20;
/// Parts of a row group at most: a footer may claim anything.
const MAX_PARTS: u64 = 1 << 16;
/// Footers that are kept parsed.
const KEPT_FOOTERS: usize = 4096;

/// What is read of Parquet files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParquetOptions {
    /// Which columns; all that can be read where none are named.
    pub columns: Option<Vec<String>>,
    /// Leave out files that cannot be read instead of failing.
    pub skip_errors: bool,
    /// What stands for a null number, by column; the empty name is every other column.
    #[serde(with = "crate::travel::named_bits")]
    pub null_values: Vec<(String, f64)>,
    /// Look at every footer, and keep nothing between runs.
    pub no_index_cache: bool,
}

impl ParquetOptions {
    /// Whether columns are named once each.
    pub(crate) fn check(&self) -> Result<()> {
        named_once(self.columns.as_deref().unwrap_or_default())
    }

    pub(crate) fn null_value(&self, column: &str) -> NullValue {
        let named = |name: &str| self.null_values.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        NullValue(named(column).or_else(|| named("")))
    }
}

/// An error where a column is named twice: a batch has one of each name.
pub(crate) fn named_once(columns: &[String]) -> Result<()> {
    let twice = columns.iter().enumerate().find(|(i, name)| columns[..*i].contains(name));
    twice.map_or(Ok(()), |(_, name)| Err(DataError::Argument(format!("column {name:?} is named twice"))))
}

/// A block: rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct RowBlock {
    pub file: u32,
    pub rows: Range<u64>,
}

/// Parquet files that are open for reading by rows.
#[derive(Debug)]
pub(crate) struct RowReader {
    pub files: SourceFiles,
    pub fields: Vec<(Field, NullValue)>,
    /// The columns that were named, if any were.
    names: Option<Vec<String>>,
    /// Columns that are not read, and why, where none were named.
    pub unread: Vec<(String, String)>,
    footers: Mutex<HashMap<u32, ArrowReaderMetadata>>,
}

impl RowReader {
    /// Opens files and divides them into blocks of rows, with what each takes in memory.
    pub(crate) fn open(locations: &[Location], options: &ParquetOptions) -> Result<(RowReader, Vec<(RowBlock, u64)>)> {
        options.check()?;
        let mut index = Index::open(locations, options.skip_errors, !options.no_index_cache)?;
        let fields = index.select(options.columns.as_deref(), options.skip_errors)?;
        let mut blocks = Vec::new();
        for (number, file) in index.files.iter().enumerate() {
            divide(number as u32, file, &fields, &mut blocks);
        }
        let fields = fields.into_iter().map(|f| {
            let null = options.null_value(&f.name);
            (f, null)
        });
        let unread = if options.columns.is_none() { index.unread() } else { Vec::new() };
        let mut files = index.left_out;
        index.files.into_iter().for_each(|f| _ = files.add(f.location, f.stamp));
        let (names, fields) = (options.columns.clone(), fields.collect());
        Ok((RowReader { files, fields, names, unread, footers: Mutex::default() }, blocks))
    }

    /// Reads rows: values and extents of each field.
    pub(crate) fn read(
        &self,
        block: &RowBlock,
        times: &mut LoadTimes,
    ) -> Result<Vec<(arrow_buffer::Buffer, crate::block::Extents)>> {
        caught(self.files.location(block.file), || {
            let opened = times.reading(|| self.opened(block.file))?;
            rows::read(&opened, block.rows.clone(), &self.fields, times)
        })
    }

    /// Reads rows with all that the file says of them (STORED-1).
    fn read_stored(&self, block: &RowBlock) -> Result<StoredRows> {
        let read = || stored::read(&self.opened(block.file)?, block, self.names.as_deref()).map(StoredRows);
        caught(self.files.location(block.file), read)
    }

    fn opened(&self, file: u32) -> Result<Opened> {
        let opened = self.files.open(file)?;
        let kept = self.footers.lock().get(&file).cloned();
        if let Some(meta) = kept {
            return Ok(Opened { file: opened, meta });
        }
        let opened = footer::parse(opened, true)?;
        let mut footers = self.footers.lock();
        if footers.len() >= KEPT_FOOTERS {
            footers.clear();
        }
        footers.insert(file, opened.meta.clone());
        Ok(opened)
    }
}

/// Divides a file into blocks (PARQUET-1).
fn divide(number: u32, file: &IndexedFile, fields: &[Field], blocks: &mut Vec<(RowBlock, u64)>) {
    let columns: Vec<usize> =
        fields.iter().filter_map(|f| file.footer.columns.iter().position(|c| c.name == f.name)).collect();
    let limit = if file.footer.paged { MAX_PAGED_BLOCK_BYTES } else { MAX_WHOLE_BLOCK_BYTES };
    let mut start = 0;
    for group in &file.footer.groups {
        let memory =
            columns.iter().filter_map(|&c| group.memory_bytes.get(c)).fold(0u64, |sum, &b| sum.saturating_add(b));
        let parts =
            memory.div_ceil(limit).max(group.rows.div_ceil(u32::MAX as u64)).clamp(1, group.rows.clamp(1, MAX_PARTS));
        for part in 0..parts {
            let (from, to) = (group.rows * part / parts, group.rows * (part + 1) / parts);
            if from < to {
                blocks.push((RowBlock { file: number, rows: start + from..start + to }, memory / parts));
            }
        }
        start += group.rows;
    }
}

/// Parquet files where a row is a sample.
#[derive(Debug)]
pub struct ParquetSource {
    reader: RowReader,
    fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    places: Vec<RowBlock>,
    /// The number of each block's first sample.
    first_ids: Vec<u64>,
}

impl ParquetSource {
    /// Opens the files that patterns mean.
    ///
    /// # Errors
    /// When one of them cannot be read or has other columns than the first, unless such files are to be left out.
    pub fn open(access: &FileAccess, patterns: &[String], options: &ParquetOptions) -> Result<ParquetSource> {
        let paths = files::expand(patterns, &[".parquet", ".parq", ".pq"], access)?;
        let (reader, divided) = RowReader::open(&paths, options)?;
        let mut next = 0;
        let (mut blocks, mut places, mut first_ids) = (Vec::new(), Vec::new(), Vec::new());
        for (place, memory_bytes) in divided {
            let samples = (place.rows.end - place.rows.start) as u32;
            first_ids.push(next);
            next += samples as u64;
            blocks.push(BlockInfo { samples, memory_bytes, file: place.file });
            places.push(place);
        }
        let fields = reader.fields.iter().map(|(f, _)| f.clone()).collect();
        Ok(ParquetSource { reader, fields, blocks, places, first_ids })
    }
}

impl Source for ParquetSource {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        let place = &self.places[block as usize];
        let samples = self.blocks[block as usize].samples as usize;
        let path = self.reader.files.location(place.file);
        let read = self.reader.read(place, times)?;
        let columns = read
            .into_iter()
            .zip(&self.fields)
            .map(|((values, extents), field)| Column::new(field, values, extents, samples))
            .collect::<std::result::Result<_, _>>()
            .map_err(|why| DataError::corrupt(path, why))?;
        Ok(Block { columns, samples })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.first_ids[block as usize] + row as u64
    }

    fn files(&self) -> &SourceFiles {
        &self.reader.files
    }

    fn unread(&self) -> &[(String, String)] {
        &self.reader.unread
    }

    fn stored_rows(&self, block: u32) -> Result<Option<StoredRows>> {
        self.reader.read_stored(&self.places[block as usize]).map(Some)
    }
}
