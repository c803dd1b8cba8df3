//! Arrow IPC files (`.arrow`, `.feather`) and streams: record batches are blocks.

mod bounds;
mod frames;
mod messages;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use self::messages::{Batch, Contents};
use crate::block::{Block, Column};
use crate::caught::caught;
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::files::{self, FileAccess, Location, SourceFiles, in_parallel};
use crate::parquet::{NullValue, ParquetOptions, Pieces, field as read_as};
use crate::source::{BlockInfo, LoadTimes, Source};
use crate::stored_rows::StoredRows;

/// Arrow files as a source: a row is a sample.
#[derive(Debug)]
pub struct ArrowSource {
    files: SourceFiles,
    /// Of each file its columns, and the numbers of those that are read.
    schemas: Vec<(SchemaRef, Vec<usize>)>,
    /// Whether the caller has named columns.
    named: bool,
    fields: Vec<(Field, NullValue)>,
    plain_fields: Vec<Field>,
    unread: Vec<(String, String)>,
    blocks: Vec<BlockInfo>,
    /// Of each block its record batch, and the number of its first sample in all.
    places: Vec<(Batch, u64)>,
}

impl ArrowSource {
    /// Opens the files that patterns mean.
    ///
    /// # Errors
    /// When one of them cannot be read or has other columns than the first, unless such files are to be left out.
    pub fn open(access: &FileAccess, patterns: &[String], options: &ParquetOptions) -> Result<ArrowSource> {
        options.check()?;
        let paths = files::expand(patterns, &[".arrow", ".feather", ".ipc"], access)?;
        let looked = in_parallel(&paths, |_, path| caught(path, || Contents::look(path)));
        let (mut files, mut schemas, mut chosen) = (SourceFiles::default(), Vec::new(), None::<Vec<Field>>);
        let (mut unread, mut blocks, mut places, mut next) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (path, looked) in paths.iter().zip(looked) {
            let fits = looked.and_then(|looked| {
                let columns = columns_of(&looked.schema);
                let fields = select(path, &columns, options.columns.as_deref(), chosen.as_deref())?;
                Ok((looked, columns, fields))
            });
            match fits {
                Ok((looked, columns, fields)) => {
                    if chosen.is_none() && options.columns.is_none() {
                        unread = columns.into_iter().filter_map(|(name, field)| Some((name, field.err()?))).collect();
                    }
                    let wanted = fields.iter().filter_map(|f| looked.schema.index_of(&f.name).ok()).collect();
                    schemas.push((looked.schema, wanted));
                    chosen.get_or_insert(fields);
                    let file = files.add(path.clone(), looked.stamp);
                    for batch in looked.batches {
                        let rows = batch.rows;
                        let samples = u32::try_from(rows)
                            .map_err(|_| DataError::unsupported(path, "a record batch has more than 2^32 rows"))?;
                        if samples > 0 {
                            blocks.push(BlockInfo { samples, memory_bytes: batch.body_bytes(), file });
                            places.push((batch, next));
                            next += rows;
                        }
                    }
                }
                Err(e) => files.leave_out(path, e, options.skip_errors)?,
            }
        }
        let plain_fields = chosen.ok_or_else(|| files.none_left())?;
        let fields = plain_fields.iter().map(|f| (f.clone(), options.null_value(&f.name))).collect();
        let named = options.columns.is_some();
        Ok(ArrowSource { files, schemas, named, fields, plain_fields, unread, blocks, places })
    }

    /// Reads columns of a block.
    fn read(&self, block: u32, columns: &[usize], times: &mut LoadTimes) -> Result<RecordBatch> {
        let file = self.blocks[block as usize].file;
        let (path, batch) = (self.files.location(file), &self.places[block as usize].0);
        let range = batch.range();
        times.read_bytes += range.end - range.start;
        let bytes = times.reading(|| self.files.open(file)?.read(range))?;
        let begun = std::time::Instant::now();
        let schema = &self.schemas[file as usize].0;
        let read = caught(path, || batch.decode(bytes, schema, columns).map_err(|e| DataError::corrupt(path, e)));
        times.decode_s += begun.elapsed().as_secs_f64();
        read
    }
}

/// The columns of a file, each as GT reads it, or why it does not.
fn columns_of(schema: &SchemaRef) -> Vec<(String, std::result::Result<Field, String>)> {
    schema.fields().iter().map(|f| (f.name().clone(), read_as(f.name(), f.data_type()))).collect()
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
                    let why = format!("column {:?} is {found}, but {expected} in earlier files", expected.name);
                    return Err(DataError::schema(path, why));
                }
            }
            Ok(first.to_vec())
        }
        (None, Some(names)) => names.iter().map(|n| find(n)).collect(),
        (None, None) => {
            let fields: Vec<Field> = columns.iter().filter_map(|(_, f)| f.as_ref().ok().cloned()).collect();
            if fields.is_empty() {
                Err(DataError::schema(path, "the file has no column of a type that GT reads"))
            } else {
                Ok(fields)
            }
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
        let path = self.files.location(info.file);
        let batch = self.read(block, &self.schemas[info.file as usize].1, times)?;
        let begun = std::time::Instant::now();
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

    fn unread(&self) -> &[(String, String)] {
        &self.unread
    }

    fn stored_rows(&self, block: u32) -> Result<Option<StoredRows>> {
        let (schema, read) = &self.schemas[self.blocks[block as usize].file as usize];
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let batch = self.read(block, if self.named { read } else { &all }, &mut LoadTimes::default())?;
        Ok(Some(StoredRows(batch)))
    }
}
