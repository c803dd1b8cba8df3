//! JSON Lines: an object a line is a sample.
//!
//! A byte order mark is no part of the first line; `NaN`, `Infinity` and `-Infinity` are floats.
//!
//! JSONL-1: blocks are whole lines, found by one scan that is kept on disk; empty lines are no samples.
//! JSONL-2: what a column holds is decided by the first lines of the first file; a line that does not fit is an error that
//!          names it.

mod line;

use std::io::BufRead;

use arrow_buffer::Buffer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::line::{BYTE_ORDER_MARK, field_of, float_of, object_of};
use crate::batch::number_bytes;
use crate::block::{Block, Column, Extents};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{self, FileAccess, Location, SourceFiles, Stamp};
use crate::index_cache;
use crate::parquet::{NullValue, ParquetOptions};
use crate::source::{BlockInfo, LoadTimes, Source};
use crate::stored_rows::StoredRows;

/// About how many bytes of text a block has.
const BLOCK_BYTES: u64 = 1 << 20;
/// Lines that decide what columns hold.
const LOOKED_AT: usize = 100;

/// Lines of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lines {
    at_bytes: u64,
    len_bytes: u64,
    /// Samples.
    samples: u32,
    /// The number of its first line, from one.
    line: u64,
}

/// JSON Lines files as a source.
#[derive(Debug)]
pub struct JsonlSource {
    files: SourceFiles,
    fields: Vec<Field>,
    nulls: Vec<NullValue>,
    unread: Vec<(String, String)>,
    blocks: Vec<BlockInfo>,
    places: Vec<(Lines, u64)>,
}

fn scan(path: &Location) -> Result<(Stamp, Vec<Lines>)> {
    let io = |e: std::io::Error| DataError::io(path, &e);
    let file = path.open()?;
    let stamp = file.stamp().clone();
    let mut reader = file.sequential();
    let (mut blocks, mut text) = (Vec::new(), Vec::new());
    let (mut at, mut line) = (0, 1);
    let mut now = Lines { at_bytes: 0, len_bytes: 0, samples: 0, line: 1 };
    loop {
        text.clear();
        let read = reader.read_until(b'\n', &mut text).map_err(io)? as u64;
        if read == 0 || now.len_bytes >= BLOCK_BYTES {
            let next = Lines { at_bytes: at, len_bytes: 0, samples: 0, line };
            let full = std::mem::replace(&mut now, next);
            if full.samples > 0 {
                blocks.push(full);
            }
        }
        if read == 0 {
            return Ok((stamp, blocks));
        }
        let mark = if at == 0 && text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        now.at_bytes += mark as u64;
        now.len_bytes += read - mark as u64;
        now.samples += u32::from(!text[mark..].trim_ascii().is_empty());
        at += read;
        line += 1;
    }
}

impl JsonlSource {
    /// Opens the files that patterns mean.
    ///
    /// # Errors
    /// When a file cannot be read, or its first lines are no objects.
    pub fn open(access: &FileAccess, patterns: &[String], options: &ParquetOptions) -> Result<JsonlSource> {
        options.check()?;
        let paths = files::expand(patterns, &[".jsonl", ".ndjson"], access).or_else(|e| match e {
            // In a folder of such files, a `.json` says something about them; alone it may have the lines itself.
            DataError::Missing { .. } => files::expand(patterns, &[".json"], access),
            e => Err(e),
        })?;
        let scanned = index_cache::looked("jsonl", &paths, !options.no_index_cache, scan);
        let mut files = SourceFiles::default();
        let (mut blocks, mut places, mut next) = (Vec::new(), Vec::new(), 0);
        let mut fields = None;
        for (path, scanned) in paths.iter().zip(scanned) {
            let looked = scanned.and_then(|found| match fields.is_some() || found.1.is_empty() {
                true => Ok((found, None)),
                false => infer(path, options.columns.as_deref()).map(|fields| (found, Some(fields))),
            });
            match looked {
                Ok(((stamp, lines), inferred)) => {
                    fields = fields.or(inferred);
                    let file = files.add(path.clone(), stamp);
                    for lines in lines {
                        blocks.push(BlockInfo { samples: lines.samples, memory_bytes: lines.len_bytes * 2, file });
                        let samples = lines.samples as u64;
                        places.push((lines, next));
                        next += samples;
                    }
                }
                Err(e) => files.leave_out(path, e, options.skip_errors)?,
            }
        }
        let (fields, unread) = fields.ok_or_else(|| match files.len() {
            0 => files.none_left(),
            _ => DataError::Argument("the files have no samples".into()),
        })?;
        let nulls = fields.iter().map(|f| options.null_value(&f.name)).collect();
        let unread = if options.columns.is_none() { unread } else { Vec::new() };
        Ok(JsonlSource { files, fields, nulls, unread, blocks, places })
    }
}

/// What the columns hold, from the first lines (JSONL-2), and which of them are not read.
fn infer(path: &Location, names: Option<&[String]>) -> Result<(Vec<Field>, Vec<(String, String)>)> {
    let (mut fields, mut others) = (Vec::<Field>::new(), Vec::<String>::new());
    let (mut reader, mut text) = (path.open()?.sequential(), Vec::new());
    for number in 1..=LOOKED_AT as u64 {
        text.clear();
        if reader.read_until(b'\n', &mut text).map_err(|e| DataError::io(path, &e))? == 0 {
            break;
        }
        let line = if number == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text) } else { &text[..] };
        if line.trim_ascii().is_empty() {
            continue;
        }
        for (name, value) in &object_of(line).map_err(|e| bad_line(path, number, &e))? {
            if names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            let Some(found) = field_of(name, value) else {
                if !others.contains(name) {
                    others.push(name.clone());
                }
                continue;
            };
            match fields.iter_mut().find(|f| f.name == *name) {
                None => fields.push(found),
                Some(known) if known.elem != found.elem && known.kind == found.kind => known.elem = Elem::F64,
                Some(_) => {}
            }
        }
    }
    if let Some(names) = names {
        for name in names {
            if !fields.iter().any(|f| f.name == *name) {
                return Err(DataError::schema(path, format!("the first lines have no column {name:?}")));
            }
        }
        fields.sort_by_key(|f| names.iter().position(|n| *n == f.name));
    }
    others.retain(|name| !fields.iter().any(|f| f.name == *name));
    let why = |name: &String| format!("column {name:?} holds neither numbers nor text in the first lines of {path}");
    match fields.is_empty() {
        true => Err(DataError::schema(path, "the first lines have no column of a type that GT reads")),
        false => Ok((fields, others.into_iter().map(|name| (name.clone(), why(&name))).collect())),
    }
}

fn bad_line(path: &Location, line: u64, why: &dyn std::fmt::Display) -> DataError {
    let is_json = line == 1 && path.file_name().ends_with(b".json");
    let hint = if is_json { "; GT reads JSON Lines: one JSON object per line" } else { "" };
    DataError::corrupt(path, format!("line {line}: {why}{hint}"))
}

/// A column that is being filled.
struct Filling<'a> {
    field: &'a Field,
    null: NullValue,
    values: Vec<u8>,
    offsets: Vec<u32>,
    items: u32,
    /// Which samples have a value, where nulls are to stay nulls.
    valid: Option<Vec<bool>>,
}

impl Filling<'_> {
    fn number(&mut self, value: &Value) -> std::result::Result<(), String> {
        let elem = self.field.elem;
        let bytes = match (value, elem) {
            (Value::Number(n), Elem::I64) if n.is_i64() => n.as_i64().unwrap_or(0).to_le_bytes(),
            (value, Elem::F64) if float_of(value).is_some() => number_bytes(elem, float_of(value).unwrap_or(f64::NAN)),
            (Value::Bool(b), Elem::Bool) => number_bytes(elem, f64::from(*b)),
            (Value::Null, _) if self.valid.is_some() => {
                return Err(format!("column {:?} has nulls inside its lists, which GT cannot store", self.field.name));
            }
            (Value::Null, _) => match (self.null.0, elem) {
                (Some(v), _) => number_bytes(elem, v),
                (None, Elem::F64) => number_bytes(elem, f64::NAN),
                (None, _) => {
                    return Err(format!("column {:?} is null; choose a replacement with null_value=", self.field.name));
                }
            },
            _ => return Err(format!("column {:?} is {value} here, but was {} before", self.field.name, self.field)),
        };
        self.values.extend_from_slice(&bytes[..elem.size()]);
        Ok(())
    }

    fn push(&mut self, value: &Value) -> std::result::Result<(), String> {
        let field = self.field;
        let wrong = || format!("column {:?} is not {field} here, but was before", field.name);
        if let Some(valid) = &mut self.valid {
            valid.push(!value.is_null());
            if value.is_null() {
                let stand_in = if field.kind == Kind::Fixed { field.elem.size() } else { 0 };
                self.values.extend(std::iter::repeat_n(0, stand_in));
                self.offsets.push(self.items);
                return Ok(());
            }
        }
        match (self.field.kind, value) {
            (Kind::Fixed, value) => self.number(value)?,
            (Kind::Text { .. }, Value::String(text)) => {
                self.values.extend_from_slice(text.as_bytes());
                self.items += text.len() as u32;
            }
            (Kind::Text { .. } | Kind::Ragged, Value::Null) => {}
            (Kind::Ragged, Value::Array(items)) => {
                for item in items {
                    match (&field.item[..], item) {
                        ([], item) => self.number(item)?,
                        ([n], Value::Array(inner)) if inner.len() == *n => {
                            inner.iter().try_for_each(|v| self.number(v))?;
                        }
                        _ => return Err(wrong()),
                    }
                }
                self.items += items.len() as u32;
            }
            _ => return Err(wrong()),
        }
        self.offsets.push(self.items);
        Ok(())
    }
}

impl Source for JsonlSource {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        Ok(self.read(block, false, times)?.0)
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.places[block as usize].1 + row as u64
    }

    fn files(&self) -> &SourceFiles {
        &self.files
    }

    fn unread(&self) -> &[(String, String)] {
        &self.unread
    }

    fn stored_rows(&self, block: u32) -> Result<Option<StoredRows>> {
        let (block, valid) = self.read(block, true, &mut LoadTimes::default())?;
        StoredRows::of_block(&self.fields, &block)?.with_nulls(valid).map(Some)
    }
}

impl JsonlSource {
    /// Reads a block; where nulls are to stay nulls, with which samples have a value in each column.
    fn read(&self, block: u32, with_nulls: bool, times: &mut LoadTimes) -> Result<(Block, Vec<Vec<bool>>)> {
        let info = self.blocks[block as usize];
        let path = self.files.location(info.file);
        let lines = &self.places[block as usize].0;
        let range = lines.at_bytes..lines.at_bytes.saturating_add(lines.len_bytes);
        let text = times.reading(|| self.files.open(info.file)?.read(range))?;
        times.read_bytes += lines.len_bytes;
        let begun = std::time::Instant::now();
        let mut filling: Vec<Filling<'_>> = self
            .fields
            .iter()
            .zip(&self.nulls)
            .map(|(field, &null)| Filling {
                field,
                null,
                values: Vec::new(),
                offsets: vec![0],
                items: 0,
                valid: with_nulls.then(Vec::new),
            })
            .collect();
        let mut samples = 0;
        for (number, line) in text.split(|&b| b == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let number = lines.line + number as u64;
            let object = object_of(line).map_err(|e| bad_line(path, number, &e))?;
            for column in &mut filling {
                let value = object.get(&column.field.name).unwrap_or(&Value::Null);
                column.push(value).map_err(|why| bad_line(path, number, &why))?;
            }
            samples += 1;
        }
        let valid = filling.iter_mut().filter_map(|f| f.valid.take()).collect();
        let columns = filling.into_iter().map(|f| {
            let extents = match f.field.kind {
                Kind::Fixed => Extents::One,
                Kind::Ragged | Kind::Text { .. } => Extents::Offsets(f.offsets.into()),
            };
            Column::new(f.field, Buffer::from_vec(f.values), extents, samples)
        });
        let columns = columns.collect::<std::result::Result<_, _>>().map_err(|why| DataError::corrupt(path, why))?;
        times.decode_s += begun.elapsed().as_secs_f64();
        Ok((Block { columns, samples }, valid))
    }
}
