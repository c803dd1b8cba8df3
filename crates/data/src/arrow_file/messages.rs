//! Where the record batches of an Arrow file or stream lie.
//!
//! MESSAGES-1: a file says so in its footer; a stream is walked from message to message, and only their heads are read.
//! MESSAGES-2: a record batch has the dictionaries that come before it; a stream may replace them on its way.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_footer_length, read_record_batch};
use arrow_ipc::{Block as IpcBlock, Message};
use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::bounds;
use crate::error::{DataError, Result};
use crate::files::{Location, OpenFile, Stamp};

/// How much of a file's end is read at first: most footers fit.
const TAIL_BYTES: u64 = 64 << 10;
/// What a file begins and ends with; a stream begins with a message.
const MAGIC: &[u8] = b"ARROW1";
/// What follows the footer: its length, and the letters that end the file.
const TRAILER_BYTES: u64 = 10;
/// What precedes the description of a message: a marker and its length; old files have the length alone.
const MARKER: [u8; 4] = [0xFF; 4];

/// Values of dictionaries by their numbers.
type Dictionaries = HashMap<i64, ArrayRef>;

/// A record batch of a file.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    place: Place,
    pub rows: u64,
    dictionaries: Arc<Dictionaries>,
}

/// Where a message lies: its head, which describes it, and its body.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    head_bytes: u64,
    body_bytes: u64,
}

impl Place {
    fn of(block: &IpcBlock) -> Option<Place> {
        let [at, body_bytes] = [block.offset(), block.bodyLength()].map(|n| u64::try_from(n).ok());
        let head_bytes = u64::try_from(block.metaDataLength()).ok().filter(|&n| n >= 8);
        Some(Place { at: at?, head_bytes: head_bytes?, body_bytes: body_bytes? })
    }

    fn head(&self) -> Option<Range<u64>> {
        Some(self.at..self.at.checked_add(self.head_bytes)?)
    }

    fn whole(&self) -> Option<Range<u64>> {
        let head = self.head()?;
        Some(head.start..head.end.checked_add(self.body_bytes)?)
    }
}

/// What is known of a file before its batches are read.
#[derive(Debug)]
pub(super) struct Contents {
    pub stamp: Stamp,
    pub schema: SchemaRef,
    pub batches: Vec<Batch>,
    dictionaries: Arc<Dictionaries>,
}

/// Bytes where numbers of any width may be read in place; those of an answer or of a file's end may lie anywhere.
fn aligned(bytes: Bytes) -> Buffer {
    match bytes.as_ptr().align_offset(16) {
        0 => Buffer::from(bytes),
        _ => Buffer::from(&bytes[..]),
    }
}

/// The message that a head describes.
fn message(head: &[u8]) -> std::result::Result<Message<'_>, String> {
    let skipped = if head.starts_with(&MARKER) { 8 } else { 4 };
    let described = head.get(skipped..).ok_or("a message is too short")?;
    arrow_ipc::root_as_message(described).map_err(|e| e.to_string())
}

impl Contents {
    /// Looks at a file.
    ///
    /// # Errors
    /// When it is neither an Arrow file nor a stream, or is damaged.
    pub(super) fn look(path: &Location) -> Result<Contents> {
        let file = path.open()?;
        let start = file.read(0..file.len_bytes().min(MAGIC.len() as u64))?;
        match &start[..] == MAGIC {
            true => Contents::of_file(path, file),
            false => Contents::of_stream(path, file, &start),
        }
    }

    fn of_file(path: &Location, file: OpenFile) -> Result<Contents> {
        let broken = |e: &dyn std::fmt::Display| DataError::corrupt(path, e);
        let whole = file.len_bytes();
        let mut tail = file.read(whole.saturating_sub(TAIL_BYTES)..whole)?;
        let (_, trailer) = tail.split_last_chunk().ok_or_else(|| broken(&"it is too short for an Arrow file"))?;
        let footer_bytes = read_footer_length(*trailer).map_err(|e| broken(&e))? as u64;
        if footer_bytes + TRAILER_BYTES > whole {
            return Err(broken(&"the footer lies outside the file"));
        }
        if footer_bytes + TRAILER_BYTES > tail.len() as u64 {
            tail = file.read(whole - footer_bytes - TRAILER_BYTES..whole)?;
        }
        let footer_end = tail.len() - TRAILER_BYTES as usize;
        let footer = aligned(tail.slice(footer_end - footer_bytes as usize..footer_end));
        let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| broken(&e))?;
        let schema = footer.schema().ok_or_else(|| broken(&"the file has no schema"))?;
        let mut contents = Contents::begin(path, &file, schema)?;
        let places = |blocks: Vec<&IpcBlock>, what: &str| -> Result<Vec<Place>> {
            let inside = |block| Place::of(block).filter(|p| p.whole().is_some_and(|r| r.end <= whole));
            let placed =
                blocks.into_iter().map(|b| inside(b).ok_or_else(|| broken(&format!("{what} lies outside the file"))));
            placed.collect()
        };
        let dictionaries = places(footer.dictionaries().iter().flatten().collect(), "a dictionary")?;
        let ranges: Vec<Range<u64>> = dictionaries.iter().filter_map(Place::whole).collect();
        for (place, bytes) in dictionaries.iter().zip(file.read_ranges(&ranges)?) {
            contents.add_dictionary(place, bytes).map_err(|e| broken(&e))?;
        }
        let batches = places(footer.recordBatches().iter().flatten().collect(), "a record batch")?;
        let heads: Vec<Range<u64>> = batches.iter().filter_map(Place::head).collect();
        for (place, head) in batches.into_iter().zip(file.read_ranges(&heads)?) {
            contents.add_batch(place, head).map_err(|e| broken(&e))?;
        }
        Ok(contents)
    }

    /// Walks over the messages of a stream (MESSAGES-1).
    fn of_stream(path: &Location, file: OpenFile, start: &[u8]) -> Result<Contents> {
        let broken = |e: &dyn std::fmt::Display| DataError::corrupt(path, e);
        let whole = file.len_bytes();
        // A stream of old has no marker: its first message is short, and long enough for a schema.
        let old = start.first_chunk().is_some_and(|n| (16..1 << 24).contains(&u32::from_le_bytes(*n)));
        if !(start.starts_with(&MARKER) || old) {
            return Err(broken(&"this is not an Arrow file or stream: the first bytes are wrong"));
        }
        let mut reader = file.sequential();
        let (mut at, mut contents) = (0, None::<Contents>);
        while whole - at >= 4 {
            let first = reader.read_at(at, 4)?;
            let prefix_bytes = if first[..] == MARKER { 8 } else { 4 };
            if whole - at < prefix_bytes {
                return Err(broken(&"the file ends too early"));
            }
            let prefix = reader.read_at(at, prefix_bytes)?;
            let len = prefix.last_chunk().map_or(0, |n| u32::from_le_bytes(*n)) as u64;
            // A message of no length ends the stream.
            if len == 0 {
                break;
            }
            if len > whole - at - prefix_bytes {
                return Err(broken(&"a message lies outside the file"));
            }
            let head = reader.read_at(at, prefix_bytes + len)?;
            let buffer = aligned(head.slice(prefix_bytes as usize..));
            let described = arrow_ipc::root_as_message(&buffer).map_err(|e| broken(&e))?;
            let body_bytes =
                u64::try_from(described.bodyLength()).map_err(|_| broken(&"a message has a negative length"))?;
            let place = Place { at, head_bytes: head.len() as u64, body_bytes };
            let range =
                place.whole().filter(|r| r.end <= whole).ok_or_else(|| broken(&"the file ends inside a message"))?;
            match &mut contents {
                None => {
                    let schema = described.header_as_schema().ok_or_else(|| broken(&"the file has no schema"))?;
                    contents = Some(Contents::begin(path, reader.file(), schema)?);
                }
                Some(contents) if described.header_as_dictionary_batch().is_some() => {
                    let bytes = reader.read_at(at, range.end - at)?;
                    contents.add_dictionary(&place, bytes).map_err(|e| broken(&e))?;
                }
                Some(contents) => contents.add_batch(place, head).map_err(|e| broken(&e))?,
            }
            at = range.end;
        }
        contents.ok_or_else(|| broken(&"the file has no schema"))
    }

    fn begin(path: &Location, file: &OpenFile, schema: arrow_ipc::Schema<'_>) -> Result<Contents> {
        let schema = arrow_ipc::convert::try_fb_to_schema(schema).map_err(|e| DataError::corrupt(path, e))?;
        Ok(Contents {
            stamp: file.stamp().clone(),
            schema: SchemaRef::new(schema),
            batches: Vec::new(),
            dictionaries: Arc::default(),
        })
    }

    fn add_dictionary(&mut self, place: &Place, bytes: Bytes) -> std::result::Result<(), String> {
        let bytes = aligned(bytes);
        let head = message(bytes.get(..place.head_bytes as usize).ok_or("a dictionary is too short")?)?;
        let dictionary =
            head.header_as_dictionary_batch().ok_or("a message that should be a dictionary is something else")?;
        let values = dictionary.data().ok_or("a dictionary has no values")?;
        #[expect(deprecated, reason = "the number of a dictionary is known nowhere else")]
        let fields = self.schema.fields_with_dict_id(dictionary.id());
        let Some(arrow_schema::DataType::Dictionary(_, of)) = fields.first().map(|f| f.data_type()) else {
            return Err("a dictionary belongs to no column".into());
        };
        let of = arrow_schema::Schema::new(vec![arrow_schema::Field::new("dictionary", of.as_ref().clone(), true)]);
        let body = bytes.slice(place.head_bytes as usize);
        bounds::check(&values, &of, head.version(), body.len() as u64)?;
        bounds::check_body(&values, &body)?;
        // Batches before this one keep the dictionaries they have (MESSAGES-2).
        let dictionaries = Arc::make_mut(&mut self.dictionaries);
        read_dictionary(&body, dictionary, &self.schema, dictionaries, &head.version()).map_err(|e| e.to_string())
    }

    fn add_batch(&mut self, place: Place, head: Bytes) -> std::result::Result<(), String> {
        let head = aligned(head);
        let head = message(&head)?;
        let batch = head.header_as_record_batch().ok_or("a message that should be a record batch is something else")?;
        let rows = bounds::check(&batch, &self.schema, head.version(), place.body_bytes)?;
        self.batches.push(Batch { place, rows, dictionaries: self.dictionaries.clone() });
        Ok(())
    }
}

impl Batch {
    /// Where all of it lies.
    pub(super) fn range(&self) -> Range<u64> {
        // Looking at the file has found that it lies inside.
        self.place.whole().unwrap_or_default()
    }

    /// What the body takes in the file.
    pub(super) fn body_bytes(&self) -> u64 {
        self.place.body_bytes
    }

    /// The columns with these numbers, of the bytes at [`Batch::range`].
    pub(super) fn decode(
        &self,
        bytes: Bytes,
        schema: &SchemaRef,
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, String> {
        let bytes = aligned(bytes);
        let head = message(bytes.get(..self.place.head_bytes as usize).ok_or("a record batch is too short")?)?;
        let batch = head.header_as_record_batch().ok_or("a message that should be a record batch is something else")?;
        let body = bytes.slice(self.place.head_bytes as usize);
        let rows = bounds::check(&batch, schema, head.version(), body.len() as u64)?;
        if rows != self.rows {
            return Err(format!("a record batch has {rows} rows now, but had {} when the file was indexed", self.rows));
        }
        bounds::check_body(&batch, &body)?;
        read_record_batch(&body, batch, schema.clone(), &self.dictionaries, Some(columns), &head.version())
            .map_err(|e| e.to_string())
    }
}
