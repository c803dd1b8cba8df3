//! Arrow IPC files (`.arrow`, `.feather`): record batches are blocks.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_ipc::reader::{FileReader, read_footer_length};

use crate::block::{Block, Column};
use crate::error::{DataError, Result};
use crate::field::Field;
use crate::files::{self, Stamp, in_parallel};
use crate::fingerprint::Fingerprint;
use crate::parquet::{NullValue, ParquetOptions, Pieces, field as read_as};
use crate::source::{BlockInfo, LoadTimes, Source};

/// Arrow files as a source: a row is a sample.
#[derive(Debug)]
pub struct ArrowSource {
    files: Vec<(PathBuf, Stamp)>,
    fields: Vec<(Field, NullValue)>,
    plain_fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    /// Of each block the number of its record batch in its file, and of its first sample in all.
    places: Vec<(usize, u64)>,
    left_out: Vec<(String, String)>,
}

/// What is known of a file before its batches are read.
struct Looked {
    stamp: Stamp,
    columns: Vec<(String, std::result::Result<Field, String>)>,
    /// Rows and body bytes of each record batch.
    batches: Vec<(u64, u64)>,
}

fn look(path: &Path) -> Result<Looked> {
    let io = |e: std::io::Error| DataError::io(path, &e);
    let broken = |e: &dyn std::fmt::Display| DataError::corrupt(path, e);
    let mut file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    let stamp = Stamp::from_metadata(&meta);
    let mut tail = [0; 10];
    let whole = meta.len();
    if whole < 18 {
        return Err(broken(&"it is too short for an Arrow file"));
    }
    file.seek(SeekFrom::End(-10)).and_then(|_| file.read_exact(&mut tail)).map_err(io)?;
    let footer_len = read_footer_length(tail).map_err(|e| broken(&e))?;
    if footer_len as u64 + 10 > whole {
        return Err(broken(&"its footer does not lie inside it"));
    }
    let mut footer = vec![0; footer_len];
    file.seek(SeekFrom::End(-10 - footer_len as i64)).and_then(|_| file.read_exact(&mut footer)).map_err(io)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| broken(&e))?;
    let schema = footer.schema().ok_or_else(|| broken(&"it has no schema"))?;
    let schema = arrow_ipc::convert::try_fb_to_schema(schema).map_err(|e| broken(&e))?;
    let columns = schema.fields().iter().map(|f| (f.name().clone(), read_as(f.name(), f.data_type()))).collect();
    let mut batches = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        let (at, len) = (block.offset(), block.metaDataLength());
        let fits = at >= 0 && len >= 8 && (at as u64).checked_add(len as u64).is_some_and(|end| end <= whole);
        if !fits {
            return Err(broken(&"a record batch does not lie inside it"));
        }
        let mut bytes = vec![0; len as usize];
        file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.read_exact(&mut bytes)).map_err(io)?;
        // A marker and the length come first; old files have the length alone.
        let message = if bytes[..4] == [0xFF; 4] { &bytes[8..] } else { &bytes[4..] };
        let message = arrow_ipc::root_as_message(message).map_err(|e| broken(&e))?;
        let batch = message.header_as_record_batch().ok_or_else(|| broken(&"a record batch is none"))?;
        let rows = u64::try_from(batch.length()).map_err(|_| broken(&"a record batch has negative rows"))?;
        batches.push((rows, u64::try_from(block.bodyLength()).unwrap_or(0)));
    }
    Ok(Looked { stamp, columns, batches })
}

impl ArrowSource {
    /// Opens the files that patterns mean.
    ///
    /// # Errors
    /// When one of them cannot be read or has other columns than the first, unless such files are to be left out.
    pub fn open(patterns: &[String], options: &ParquetOptions) -> Result<ArrowSource> {
        let paths = files::expand(patterns, &[".arrow", ".feather", ".ipc"])?;
        let looked = in_parallel(&paths, |_, path| look(path));
        let (mut files, mut left_out, mut chosen) = (Vec::new(), Vec::new(), None::<Vec<Field>>);
        let (mut blocks, mut places, mut next) = (Vec::new(), Vec::new(), 0);
        for (path, looked) in paths.iter().zip(looked) {
            let fits = looked.and_then(|looked| {
                let fields = select(path, &looked.columns, options.columns.as_deref(), chosen.as_deref())?;
                Ok((looked, fields))
            });
            match fits {
                Ok((looked, fields)) => {
                    chosen.get_or_insert(fields);
                    for (batch, &(rows, memory_bytes)) in looked.batches.iter().enumerate() {
                        let samples = u32::try_from(rows)
                            .map_err(|_| DataError::unsupported(path, "a record batch has more than 2^32 rows"))?;
                        if samples > 0 {
                            blocks.push(BlockInfo { samples, memory_bytes, file: files.len() as u32 });
                            places.push((batch, next));
                            next += rows;
                        }
                    }
                    files.push((path.clone(), looked.stamp));
                }
                Err(e) if options.skip_errors && e.is_of_one_file() => {
                    left_out.push((path.display().to_string(), e.to_string()));
                }
                Err(e) => return Err(e),
            }
        }
        let plain_fields = chosen.ok_or_else(|| DataError::Argument("no file is left".into()))?;
        let fields = plain_fields.iter().map(|f| (f.clone(), options.null_value(&f.name))).collect();
        Ok(ArrowSource { files, fields, plain_fields, blocks, places, left_out })
    }
}

/// The columns asked for, which must be those of the first file.
fn select(
    path: &Path,
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
        let (path, stamp) = &self.files[info.file as usize];
        let begun = std::time::Instant::now();
        let broken = |e: arrow_schema::ArrowError| DataError::corrupt(path, e);
        let file = File::open(path).map_err(|e| DataError::io(path, &e))?;
        if Stamp::from_metadata(&file.metadata().map_err(|e| DataError::io(path, &e))?) != *stamp {
            return Err(DataError::schema(path, "the file changed after it was indexed; open the data set anew"));
        }
        let mut reader = FileReader::try_new(BufReader::new(file), None).map_err(broken)?;
        reader.set_index(self.places[block as usize].0).map_err(broken)?;
        let batch = times
            .reading(|| reader.next())
            .ok_or_else(|| DataError::corrupt(path, "a record batch is missing"))?
            .map_err(broken)?;
        times.read_bytes += info.memory_bytes;
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
        times.decode_s += begun.elapsed().as_secs_f64() - times.read_s;
        Ok(Block { columns, samples: batch.num_rows() })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.places[block as usize].1 + row as u64
    }

    fn file(&self, file: u32) -> String {
        self.files[file as usize].0.display().to_string()
    }

    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        self.files.iter().for_each(|(path, stamp)| print.eat_file(path, stamp.len_bytes));
        print.finish()
    }

    fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }
}
