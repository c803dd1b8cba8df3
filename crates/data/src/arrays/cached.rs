//! What `gt data cache` writes: each column as plain `.npy` arrays, ready to be read without decoding.
//!
//! CACHED-1: the folder appears when everything in it is written (FOLDER-1).
//! CACHED-2: `cache.json` says what is in the folder; a column of lists is its items in one array and the offsets in another.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gt_observe::output;
use serde::{Deserialize, Serialize};

use super::npy::{NpyHeader, write_npy_header};
use super::{ArrayColumn, ArraySource, Part, Spread};
use crate::batch::{Batch, BatchSpec, Collate, Entry, Outliers};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{FileAccess, Location, PartFolder, SourceFiles};
use crate::order::{OrderSpec, Shuffle};
use crate::parquet::named_once;
use crate::run::{Cut, Position, RowPart, Run, RunSpec};
use crate::source::{LoadTimes, Source};

const VERSION: u32 = 1;
pub(crate) const CACHE_CONTENTS: &str = "cache.json";
const SAMPLES_AT_ONCE: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    samples: u64,
    columns: Vec<StoredColumn>,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    elem: String,
    kind: String,
    item: Vec<usize>,
    /// Files of the folder.
    values: String,
    offsets: Option<String>,
}

/// A column that is being written.
struct Writing {
    field: Field,
    values: BufWriter<File>,
    path: PathBuf,
    items: u64,
    offsets: Vec<u64>,
}

/// Writes a data set, as batches of `spec` would hold it, into a folder. Gives how many samples it has.
///
/// # Errors
/// When a file cannot be read, the disk is full, or the folder is there already and not empty; then nothing is left behind.
pub fn write_cache(
    source: &Arc<dyn Source>,
    spec: &BatchSpec,
    folder: &Path,
    threads: usize,
    interrupted: &dyn Fn() -> bool,
) -> Result<u64> {
    if spec.outliers == Outliers::Split {
        return Err(DataError::Argument(
            "a cache stores whole samples: write it without outliers=\"split\", and use that option when you load it"
                .into(),
        ));
    }
    let part = PartFolder::create(folder)?;
    let samples = write_into(source, spec, part.path(), threads, interrupted)?;
    part.finish()?;
    Ok(samples)
}

fn write_into(
    source: &Arc<dyn Source>,
    spec: &BatchSpec,
    folder: &Path,
    threads: usize,
    interrupted: &dyn Fn() -> bool,
) -> Result<u64> {
    let mut columns = Vec::new();
    for (number, output) in spec.outputs.iter().enumerate() {
        let of = &source.fields()[output.field];
        let elem = if matches!(of.kind, Kind::Text { .. }) { Elem::U8 } else { Elem::of(output.dtype) };
        let field = Field { name: output.name.clone(), elem, kind: of.kind, item: of.item.clone() };
        let path = folder.join(format!("{number}.npy"));
        let file = output::create(&path).map_err(|e| DataError::io(&path, &e))?;
        let mut values = BufWriter::with_capacity(1 << 20, file);
        let head = write_npy_header(elem, &[&[0], &field.item[..]].concat());
        values.write_all(&head).map_err(|e| DataError::io(&path, &e))?;
        columns.push(Writing { field, values, path, items: 0, offsets: vec![0] });
    }
    let spec = RunSpec {
        order: OrderSpec { seed: 0, shuffle: Shuffle::Off },
        epoch: 0,
        start: Position::default(),
        cut: Cut::every(SAMPLES_AT_ONCE),
        batch: BatchSpec { collate: Collate::Packed, lengths_each: true, sample_ids: false, ..spec.clone() },
        threads,
        prefetch: 2 * threads.max(1),
        memory_budget: 1 << 30,
        skip_errors: false,
        part: RowPart::default(),
    };
    let mut run = Run::start(source.clone(), spec)?;
    let mut samples = 0;
    while let Some((batch, _)) = run.next(interrupted)? {
        // Where batches are always ready, nobody waits, and nobody asks.
        if interrupted() {
            return Err(DataError::Interrupted);
        }
        samples += batch.samples as u64;
        columns.iter_mut().try_for_each(|c| c.push(&batch))?;
    }
    let mut stored = Vec::new();
    for (number, column) in columns.into_iter().enumerate() {
        stored.push(column.finish(folder, number)?);
    }
    let contents = Contents { version: VERSION, samples, columns: stored };
    let text = serde_json::to_vec_pretty(&contents).map_err(|e| DataError::Internal(e.to_string()))?;
    let path = folder.join(CACHE_CONTENTS);
    output::write(&path, &text).map_err(|e| DataError::io(&path, &e))?;
    Ok(samples)
}

impl Writing {
    fn push(&mut self, batch: &Batch) -> Result<()> {
        let io = |e: std::io::Error| DataError::io(&self.path, &e);
        match batch.get(&self.field.name) {
            Some(Entry::Tensor { bytes, shape, .. }) => {
                self.values.write_all(bytes).map_err(io)?;
                if let Some(Entry::Tensor { bytes: ends, .. }) = batch.get(&format!("{}_cu_seqlens", self.field.name)) {
                    let ends = ends.as_chunks::<4>().0.iter().skip(1).map(|c| i32::from_le_bytes(*c) as u64);
                    self.offsets.extend(ends.map(|end| self.items + end));
                }
                self.items += shape.first().copied().unwrap_or(0) as u64;
            }
            Some(Entry::Text { rows, .. }) => {
                for row in rows {
                    self.values.write_all(row).map_err(io)?;
                    self.items += row.len() as u64;
                    self.offsets.push(self.items);
                }
            }
            None => return Err(DataError::Internal(format!("a batch has no {:?}", self.field.name))),
        }
        Ok(())
    }

    /// Writes the number of items into the header, and the offsets beside it.
    fn finish(mut self, folder: &Path, number: usize) -> Result<StoredColumn> {
        let io = |e: std::io::Error| DataError::io(&self.path, &e);
        let head = write_npy_header(self.field.elem, &[&[self.items as usize], &self.field.item[..]].concat());
        let start = self.values.seek(SeekFrom::Start(0)).map_err(io)?;
        debug_assert_eq!(start, 0);
        self.values.write_all(&head).map_err(io)?;
        let file = self.values.into_inner().map_err(|e| DataError::io(&self.path, e.error()))?;
        file.sync_all().map_err(io)?;
        let offsets = match self.field.kind {
            Kind::Fixed => None,
            Kind::Ragged | Kind::Text { .. } => {
                let name = format!("{number}.offsets.npy");
                let mut bytes = write_npy_header(Elem::U64, &[self.offsets.len()]);
                self.offsets.iter().for_each(|o| bytes.extend_from_slice(&o.to_le_bytes()));
                let path = folder.join(&name);
                output::write(&path, &bytes).map_err(|e| DataError::io(&path, &e))?;
                Some(name)
            }
        };
        let kind = match self.field.kind {
            Kind::Fixed => "fixed",
            Kind::Ragged => "ragged",
            Kind::Text { utf8: true } => "text",
            Kind::Text { utf8: false } => "bytes",
        };
        Ok(StoredColumn {
            name: self.field.name,
            elem: self.field.elem.name().into(),
            kind: kind.into(),
            item: self.field.item,
            values: format!("{number}.npy"),
            offsets,
        })
    }
}

/// Opens what [`write_cache`] wrote.
///
/// # Errors
/// When the folder is not one, or was damaged.
pub fn open_cached(access: &FileAccess, folder: &str, names: Option<&[String]>) -> Result<ArraySource> {
    named_once(names.unwrap_or_default())?;
    let folder = Location::of(folder, access)?;
    let path = folder.join(CACHE_CONTENTS)?;
    let file = path.open()?;
    let text = file.read(0..file.len_bytes())?;
    let contents: Contents = serde_json::from_slice(&text).map_err(|e| DataError::corrupt(&path, e))?;
    if contents.version != VERSION {
        return Err(DataError::unsupported(
            &path,
            format!("cache format version {} is not supported by this GT; write the cache again", contents.version),
        ));
    }
    let wanted = |name: &str| names.is_none_or(|names| names.iter().any(|n| n == name));
    if let Some(missing) = names.iter().copied().flatten().find(|n| !contents.columns.iter().any(|c| c.name == **n)) {
        return Err(DataError::schema(&path, format!("there is no column {missing:?}")));
    }
    let (mut files, mut columns) = (SourceFiles::default(), Vec::new());
    for stored in contents.columns.iter().filter(|c| wanted(&c.name)) {
        let elem = Elem::ALL.into_iter().find(|e| e.name() == stored.elem);
        let kind = match stored.kind.as_str() {
            "fixed" => Some(Kind::Fixed),
            "ragged" => Some(Kind::Ragged),
            "text" => Some(Kind::Text { utf8: true }),
            "bytes" => Some(Kind::Text { utf8: false }),
            _ => None,
        };
        let (Some(elem), Some(kind)) = (elem, kind) else {
            return Err(DataError::corrupt(
                &path,
                format!("column {:?} has a type that GT does not know", stored.name),
            ));
        };
        let values = folder.join(&stored.values)?;
        let (header, stamp) = NpyHeader::read(&values)?;
        if header.elem.size() != elem.size() || header.shape.get(1..) != Some(&stored.item[..]) {
            return Err(DataError::corrupt(
                &values,
                format!("the array does not match its description in {CACHE_CONTENTS}"),
            ));
        }
        let field = Field { name: stored.name.clone(), elem, kind, item: stored.item.clone() };
        let rows = header.shape[0] as u64;
        let part = Part { file: files.add_once(&values, &stamp), at_bytes: header.at_bytes, rows };
        let row_bytes = (field.width() * elem.size()) as u64;
        let offsets = stored.offsets.as_ref().map(|name| read_offsets(&folder.join(name)?)).transpose()?;
        if offsets.is_none() != (kind == Kind::Fixed) || offsets.as_ref().is_some_and(Vec::is_empty) {
            return Err(DataError::corrupt(&path, format!("column {:?} has no offsets", stored.name)));
        }
        columns.push(ArrayColumn { field, values: Spread { parts: vec![part], row_bytes }, offsets });
    }
    ArraySource::new(files, columns)
}

fn read_offsets(path: &Location) -> Result<Vec<u64>> {
    let (header, stamp) = NpyHeader::read(path)?;
    if header.elem != Elem::U64 || header.shape.len() != 1 {
        return Err(DataError::corrupt(path, "the array of offsets must be one-dimensional and uint64"));
    }
    let mut files = SourceFiles::default();
    let part = Part { file: files.add(path.clone(), stamp), at_bytes: header.at_bytes, rows: header.shape[0] as u64 };
    Spread { parts: vec![part], row_bytes: 8 }.read(&files, 0..header.shape[0] as u64, &mut LoadTimes::default())
}
