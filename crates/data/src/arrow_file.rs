//! Arrow IPC files (`.arrow`, `.feather`): record batches are blocks.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_ipc::Block as IpcBlock;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_schema::SchemaRef;
use bytes::Bytes;

use crate::block::{Block, Column};
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::files::{self, Location, SourceFiles, Stamp, in_parallel};
use crate::parquet::{NullValue, ParquetOptions, Pieces, field as read_as};
use crate::source::{BlockInfo, LoadTimes, Source};

/// How much of a file's end is read at first: most footers fit.
const TAIL_BYTES: u64 = 64 << 10;
/// What follows the footer: its length, and the letters that end the file.
const TRAILER_BYTES: u64 = 10;

/// Arrow files as a source: a row is a sample.
#[derive(Debug)]
pub struct ArrowSource {
    files: SourceFiles,
    /// Of each file what decodes its record batches, with its dictionaries.
    decoders: Vec<FileDecoder>,
    fields: Vec<(Field, NullValue)>,
    plain_fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    /// Of each block where its record batch lies in its file, and the number of its first sample in all.
    places: Vec<(IpcBlock, u64)>,
}

/// What is known of a file before its batches are read.
struct Looked {
    stamp: Stamp,
    schema: SchemaRef,
    decoder: FileDecoder,
    /// Each record batch, and its rows.
    batches: Vec<(IpcBlock, u64)>,
}

impl Looked {
    fn columns(&self) -> Vec<(String, std::result::Result<Field, String>)> {
        self.schema.fields().iter().map(|f| (f.name().clone(), read_as(f.name(), f.data_type()))).collect()
    }
}

fn look(path: &Location) -> Result<Looked> {
    let broken = |e: &dyn std::fmt::Display| DataError::corrupt(path, e);
    let file = path.open()?;
    let whole = file.len_bytes();
    if whole < 18 {
        return Err(broken(&"it is too short for an Arrow file"));
    }
    let mut tail = file.read(whole.saturating_sub(TAIL_BYTES)..whole)?;
    let (_, trailer) = tail.split_last_chunk().ok_or_else(|| broken(&"it is too short for an Arrow file"))?;
    let footer_bytes = read_footer_length(*trailer).map_err(|e| broken(&e))? as u64;
    if footer_bytes + TRAILER_BYTES > whole {
        return Err(broken(&"its footer does not lie inside it"));
    }
    if footer_bytes + TRAILER_BYTES > tail.len() as u64 {
        tail = file.read(whole - footer_bytes - TRAILER_BYTES..whole)?;
    }
    let footer_end = tail.len() - TRAILER_BYTES as usize;
    let footer = aligned(tail.slice(footer_end - footer_bytes as usize..footer_end));
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| broken(&e))?;
    let schema = footer.schema().ok_or_else(|| broken(&"it has no schema"))?;
    let schema = SchemaRef::new(arrow_ipc::convert::try_fb_to_schema(schema).map_err(|e| broken(&e))?);
    let mut decoder = FileDecoder::new(schema.clone(), footer.version());
    let outside = || broken(&"a dictionary does not lie inside it");
    let dictionaries: Vec<IpcBlock> = footer.dictionaries().iter().flatten().copied().collect();
    let ranges = dictionaries.iter().map(|block| range_of(block).filter(|r| r.end <= whole).ok_or_else(outside));
    let bytes = file.read_ranges(&ranges.collect::<Result<Vec<_>>>()?)?;
    for (block, bytes) in dictionaries.iter().zip(bytes) {
        decoder.read_dictionary(block, &aligned(bytes)).map_err(|e| broken(&e))?;
    }
    let blocks: Vec<IpcBlock> = footer.recordBatches().iter().flatten().copied().collect();
    let heads = blocks.iter().map(|block| {
        let head = head_of(block).filter(|r| r.end - r.start >= 8 && r.end <= whole);
        head.ok_or_else(|| broken(&"a record batch does not lie inside it"))
    });
    let heads = file.read_ranges(&heads.collect::<Result<Vec<_>>>()?)?;
    let mut batches = Vec::with_capacity(blocks.len());
    for (block, head) in blocks.into_iter().zip(heads) {
        // A marker and the length come first; old files have the length alone.
        let message = aligned(head.slice(if head[..4] == [0xFF; 4] { 8.. } else { 4.. }));
        let message = arrow_ipc::root_as_message(&message).map_err(|e| broken(&e))?;
        let batch = message.header_as_record_batch().ok_or_else(|| broken(&"a record batch is none"))?;
        let rows = u64::try_from(batch.length()).map_err(|_| broken(&"a record batch has negative rows"))?;
        batches.push((block, rows));
    }
    Ok(Looked { stamp: file.stamp().clone(), schema, decoder, batches })
}

/// Bytes where numbers of any width may be read in place; those of an answer or of a file's end may lie anywhere.
fn aligned(bytes: Bytes) -> Buffer {
    match bytes.as_ptr().align_offset(16) {
        0 => Buffer::from(bytes),
        _ => Buffer::from(&bytes[..]),
    }
}

/// Where the description of a record batch lies.
fn head_of(block: &IpcBlock) -> Option<Range<u64>> {
    let start = u64::try_from(block.offset()).ok()?;
    Some(start..start.checked_add(u64::try_from(block.metaDataLength()).ok()?)?)
}

/// Where all of a record batch lies.
fn range_of(block: &IpcBlock) -> Option<Range<u64>> {
    let head = head_of(block)?;
    Some(head.start..head.end.checked_add(u64::try_from(block.bodyLength()).ok()?)?)
}

impl ArrowSource {
    /// Opens the files that patterns mean.
    ///
    /// # Errors
    /// When one of them cannot be read or has other columns than the first, unless such files are to be left out.
    pub fn open(patterns: &[String], options: &ParquetOptions) -> Result<ArrowSource> {
        let paths = files::expand(patterns, &[".arrow", ".feather", ".ipc"])?;
        let looked = in_parallel(&paths, |_, path| look(path));
        let (mut files, mut decoders, mut chosen) = (SourceFiles::default(), Vec::new(), None::<Vec<Field>>);
        let (mut blocks, mut places, mut next) = (Vec::new(), Vec::new(), 0);
        for (path, looked) in paths.iter().zip(looked) {
            let fits = looked.and_then(|looked| {
                let fields = select(path, &looked.columns(), options.columns.as_deref(), chosen.as_deref())?;
                Ok((looked, fields))
            });
            match fits {
                Ok((looked, fields)) => {
                    let wanted = fields.iter().filter_map(|f| looked.schema.index_of(&f.name).ok());
                    decoders.push(looked.decoder.with_projection(wanted.collect()));
                    chosen.get_or_insert(fields);
                    let file = files.add(path.clone(), looked.stamp);
                    for (batch, rows) in looked.batches {
                        let samples = u32::try_from(rows)
                            .map_err(|_| DataError::unsupported(path, "a record batch has more than 2^32 rows"))?;
                        if samples > 0 {
                            let memory_bytes = u64::try_from(batch.bodyLength()).unwrap_or(0);
                            blocks.push(BlockInfo { samples, memory_bytes, file });
                            places.push((batch, next));
                            next += rows;
                        }
                    }
                }
                Err(e) => files.leave_out(path, e, options.skip_errors)?,
            }
        }
        let plain_fields = chosen.ok_or_else(|| DataError::Argument("no file is left".into()))?;
        let fields = plain_fields.iter().map(|f| (f.clone(), options.null_value(&f.name))).collect();
        Ok(ArrowSource { files, decoders, fields, plain_fields, blocks, places })
    }
}

/// The columns asked for, which must be those of the first file.
fn select(
    path: &Location,
    columns: &[(String, std::result::Result<Field, String>)],
    names: Option<&[String]>,
    first: Option<&[Field]>,
) -> Result<Vec<Field>> {
    let find = |name: &str| match columns.iter().find(|(n, _)| n == name) {
        Some((_, Ok(field))) => Ok(field.clone()),
        Some((_, Err(why))) => Err(DataError::unsupported(path, why)),
        None => Err(DataError::schema(path, format!("there is no column {name:?}"))),
    };
    match (first, names) {
        (Some(first), _) => {
            for expected in first {
                let found = find(&expected.name)?;
                if found != *expected {
                    let why = format!("column {:?} is {found}, and {expected} in the files before", expected.name);
                    return Err(DataError::schema(path, why));
                }
            }
            Ok(first.to_vec())
        }
        (None, Some(names)) => names.iter().map(|n| find(n)).collect(),
        (None, None) => {
            let fields: Vec<Field> = columns.iter().filter_map(|(_, f)| f.as_ref().ok().cloned()).collect();
            if fields.is_empty() { Err(DataError::schema(path, "it has no column that GT reads")) } else { Ok(fields) }
        }
    }
}

impl Source for ArrowSource {
    fn fields(&self) -> &[Field] {
        &self.plain_fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        let info = self.blocks[block as usize];
        let (path, place) = (self.files.location(info.file), &self.places[block as usize].0);
        let range = range_of(place).ok_or_else(|| DataError::corrupt(path, "a record batch does not lie inside it"))?;
        times.read_bytes += range.end - range.start;
        let bytes = times.reading(|| self.files.open(info.file)?.read(range))?;
        let begun = std::time::Instant::now();
        let batch = self.decoders[info.file as usize]
            .read_record_batch(place, &aligned(bytes))
            .map_err(|e| DataError::corrupt(path, e))?
            .ok_or_else(|| DataError::corrupt(path, "a record batch is missing"))?;
        let mut columns = Vec::with_capacity(self.fields.len());
        for (field, null) in &self.fields {
            let array = batch
                .column_by_name(&field.name)
                .ok_or_else(|| DataError::schema(path, format!("column {:?} is missing", field.name)))?;
            let mut pieces = Pieces::default();
            pieces.push(field, array, *null).map_err(|why| DataError::schema(path, why))?;
            let (values, extents) = pieces.finish(field);
            let column = Column::new(field, values, extents, info.samples as usize);
            columns.push(column.map_err(|why| DataError::corrupt(path, why))?);
        }
        times.decode_s += begun.elapsed().as_secs_f64();
        Ok(Block { columns, samples: batch.num_rows() })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.places[block as usize].1 + row as u64
    }

    fn files(&self) -> &SourceFiles {
        &self.files
    }
}
