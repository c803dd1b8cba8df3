//! What a Parquet file's footer says, as far as GT needs it: this is what the index keeps.

use std::sync::Arc;

use parquet::DecodeResult;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};
use serde::{Deserialize, Serialize};

use crate::caught::caught;
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{Location, OpenFile, Stamp};
use crate::parquet::schema;

/// More rows than this in a row group are not meant.
const MAX_GROUP_ROWS: u64 = 1 << 40;

/// How much of a file's end is read at first: most footers fit, and are there with one read.
const TAIL_BYTES: u64 = 64 << 10;

/// A row group, for every column of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub rows: u64,
    /// Bytes that each column takes in memory once decoded.
    pub memory_bytes: Vec<u64>,
}

/// A column's name and what it holds, or why GT does not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FooterColumn {
    pub name: String,
    pub field: std::result::Result<Field, String>,
}

/// A file's footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub columns: Arc<Vec<FooterColumn>>,
    pub groups: Vec<Group>,
    /// Whether the file says where its pages are, so that a part of a row group can be read alone.
    pub paged: bool,
}

/// A file that is open, with its footer parsed.
pub(crate) struct Opened {
    pub file: OpenFile,
    pub meta: ArrowReaderMetadata,
}

/// Parses the footer of a file; with its page index where asked for and there is one.
pub(crate) fn parse(file: OpenFile, page_index: bool) -> Result<Opened> {
    let broken = |e: parquet::errors::ParquetError| DataError::corrupt(&file, e);
    let policy = if page_index { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let len_bytes = file.len_bytes();
    let mut decoder = ParquetMetaDataPushDecoder::try_new(len_bytes)
        .map_err(broken)?
        .with_offset_index_policy(policy)
        .with_column_index_policy(PageIndexPolicy::Skip);
    let tail = len_bytes.saturating_sub(TAIL_BYTES)..len_bytes;
    decoder.push_range(tail.clone(), file.read(tail)?).map_err(broken)?;
    let meta = loop {
        match decoder.try_decode().map_err(broken)? {
            DecodeResult::Data(meta) => break meta,
            DecodeResult::NeedsData(ranges) => {
                let read = file.read_ranges(&ranges)?;
                decoder.push_ranges(ranges, read).map_err(broken)?;
            }
            DecodeResult::Finished => return Err(DataError::Internal("the footer is missing".into())),
        }
    };
    let meta = ArrowReaderMetadata::try_new(Arc::new(meta), ArrowReaderOptions::new()).map_err(broken)?;
    Ok(Opened { file, meta })
}

impl Footer {
    /// Reads the footer of a file.
    pub(crate) fn read(location: &Location) -> Result<(Footer, Stamp)> {
        let file = location.open()?;
        caught(location, || {
            let opened = parse(file, false)?;
            Ok((Footer::of(&opened)?, opened.file.stamp().clone()))
        })
    }

    fn of(opened: &Opened) -> Result<Footer> {
        let meta = &opened.meta;
        let mut columns: Vec<FooterColumn> = meta
            .schema()
            .fields()
            .iter()
            .map(|f| FooterColumn { name: f.name().clone(), field: schema::field(f.name(), f.data_type()) })
            .collect();
        let parquet = meta.metadata();
        let descr = parquet.file_metadata().schema_descr();
        for (leaf, chunk) in parquet.row_groups().iter().flat_map(|g| g.columns().iter().enumerate()) {
            if let (Compression::LZO, Some(column)) =
                (chunk.compression(), columns.get_mut(descr.get_column_root_idx(leaf)))
            {
                column.field = Err(format!("column {:?} uses LZO compression, which GT does not support", column.name));
            }
        }
        let rows = |rows: i64| match u64::try_from(rows) {
            Ok(rows) if rows <= MAX_GROUP_ROWS => Ok(rows),
            _ => Err(DataError::corrupt(
                &opened.file,
                format!("a row group claims an impossible number of rows: {rows}"),
            )),
        };
        let groups = (0..parquet.num_row_groups())
            .map(|g| {
                let group_rows = rows(parquet.row_group(g).num_rows())?;
                Ok(Group { rows: group_rows, memory_bytes: memory_bytes(parquet, g, &columns, group_rows) })
            })
            .collect::<Result<_>>()?;
        let paged = parquet.row_groups().iter().all(|g| g.columns().iter().all(|c| c.offset_index_offset().is_some()));
        Ok(Footer { columns: Arc::new(columns), groups, paged })
    }
}

/// What each column of a row group takes once decoded: exact for numbers, close for text.
fn memory_bytes(meta: &ParquetMetaData, group: usize, columns: &[FooterColumn], rows: u64) -> Vec<u64> {
    let mut out = vec![0u64; columns.len()];
    let descr = meta.file_metadata().schema_descr();
    for (leaf, chunk) in meta.row_group(group).columns().iter().enumerate() {
        let Some(bytes) = out.get_mut(descr.get_column_root_idx(leaf)) else { continue };
        let Some(column) = columns.get(descr.get_column_root_idx(leaf)) else { continue };
        let values = u64::try_from(chunk.num_values()).unwrap_or(0);
        let decoded = match &column.field {
            Ok(Field { elem, kind: Kind::Fixed | Kind::Ragged, .. }) => values.saturating_mul(elem.size() as u64),
            Ok(Field { kind: Kind::Text { .. }, .. }) | Err(_) => chunk
                .unencoded_byte_array_data_bytes()
                .and_then(|b| u64::try_from(b).ok())
                .unwrap_or_else(|| u64::try_from(chunk.uncompressed_size()).unwrap_or(0)),
        };
        *bytes = bytes.saturating_add(decoded);
        if matches!(&column.field, Ok(f) if f.kind != Kind::Fixed) {
            *bytes = bytes.saturating_add(rows * 4);
        }
    }
    out
}

/// A footer as the index cache keeps it: columns by the number of a schema that many files share.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredFooter {
    pub schema: usize,
    pub groups: Vec<Group>,
    pub paged: bool,
}

/// A column as the index cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredColumn {
    name: String,
    /// The name of the element type; none where `why` says why the column is not read.
    elem: Option<String>,
    kind: u8,
    item: Vec<usize>,
    why: String,
}

impl StoredColumn {
    pub(crate) fn of(column: &FooterColumn) -> StoredColumn {
        let name = column.name.clone();
        match &column.field {
            Err(why) => StoredColumn { name, elem: None, kind: 0, item: vec![], why: why.clone() },
            Ok(f) => {
                let kind = match f.kind {
                    Kind::Fixed => 0,
                    Kind::Ragged => 1,
                    Kind::Text { utf8: true } => 2,
                    Kind::Text { utf8: false } => 3,
                };
                let elem = Some(f.elem.name().to_owned());
                StoredColumn { name, elem, kind, item: f.item.clone(), why: String::new() }
            }
        }
    }

    /// The column, if the cache holds one.
    pub(crate) fn column(&self) -> Option<FooterColumn> {
        let name = self.name.clone();
        let Some(elem) = &self.elem else { return Some(FooterColumn { name, field: Err(self.why.clone()) }) };
        let elem = Elem::ALL.into_iter().find(|e| e.name() == elem)?;
        let kind = match self.kind {
            0 => Kind::Fixed,
            1 => Kind::Ragged,
            2 => Kind::Text { utf8: true },
            3 => Kind::Text { utf8: false },
            _ => return None,
        };
        gt_ir::Shape::try_new(&self.item).ok()?;
        Some(FooterColumn { name: name.clone(), field: Ok(Field { name, elem, kind, item: self.item.clone() }) })
    }
}
