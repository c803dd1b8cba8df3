//! WebDataset: tar files in which members with the same name before the first dot are one sample.
//!
//! TAR-1: members are found by one walk over headers, which is kept on disk; contents are read with their block.
//! TAR-2: the endings of the first shard are the columns. `cls` and `id` are whole numbers, `txt` and `json` are text, anything else
//!        is bytes; `__key__` is the name. A sample that lacks an ending has an empty one.

use std::ops::Range;

use arrow_buffer::Buffer;
use serde::{Deserialize, Serialize};

use crate::block::{Block, Column, Extents};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{self, FileAccess, Location, SourceFiles, Stamp};
use crate::index_cache;
use crate::parquet::named_once;
use crate::source::{BlockInfo, LoadTimes, Source};

const RECORD: u64 = 512;
/// About how much a block takes.
const BLOCK_BYTES: u64 = 4 << 20;
/// Longer names than this are no names.
const MAX_NAME_BYTES: u64 = 1 << 16;

/// A file inside a tar file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    ending: String,
    at_bytes: u64,
    len_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sample {
    key: String,
    members: Vec<Member>,
}

impl Sample {
    /// Where the member with an ending lies; an empty range where there is none.
    fn range_of(&self, ending: &str) -> Range<u64> {
        let member = self.members.iter().find(|m| m.ending == ending);
        member.map_or(0..0, |m| m.at_bytes..m.at_bytes.saturating_add(m.len_bytes))
    }
}

/// Tar files as a source.
#[derive(Debug)]
pub struct TarSource {
    files: SourceFiles,
    fields: Vec<Field>,
    blocks: Vec<BlockInfo>,
    /// The samples of each block, and the number of the first.
    places: Vec<(Vec<Sample>, u64)>,
}

/// The number in a field of a header: octal text, or binary where the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let big = field[1..].iter().try_fold(0u64, |n, &b| n.checked_mul(256)?.checked_add(b as u64));
        return big;
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The samples of a tar file (TAR-1).
fn walk(path: &Location) -> Result<(Stamp, Vec<Sample>)> {
    let mut reader = path.open()?.sequential();
    let (stamp, whole) = (reader.file().stamp().clone(), reader.file().len_bytes());
    let mut samples: Vec<Sample> = Vec::new();
    let (mut at, mut long_name, mut ended) = (0, None::<String>, false);
    while at + RECORD <= whole {
        let header = reader.read_at(at, RECORD)?;
        if header.iter().all(|&b| b == 0) {
            ended = true;
            break;
        }
        let sum: u64 =
            header.iter().enumerate().map(|(i, &b)| if (148..156).contains(&i) { 32 } else { b as u64 }).sum();
        if number(&header[148..156]) != Some(sum) {
            return Err(DataError::corrupt(path, format!("there is no tar header at byte {at}")));
        }
        let len_bytes =
            number(&header[124..136]).ok_or_else(|| DataError::corrupt(path, "a tar member has no length"))?;
        let content = at + RECORD;
        let next = len_bytes.checked_next_multiple_of(RECORD).and_then(|n| n.checked_add(content));
        let Some(next) = next.filter(|_| content.checked_add(len_bytes).is_some_and(|end| end <= whole)) else {
            return Err(DataError::corrupt(path, format!("the tar member at byte {at} ends outside the file")));
        };
        let mut read_name = || reader.read_at(content, len_bytes.min(MAX_NAME_BYTES));
        match header[156] {
            b'L' => long_name = Some(text(&read_name()?)),
            // Attributes of the next member: only its path is of interest.
            b'x' => long_name = pax_path(&read_name()?).or(long_name),
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| {
                    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
                    if prefix.is_empty() || &header[257..262] != b"ustar" { name } else { format!("{prefix}/{name}") }
                });
                let base = name.rfind('/').map_or(0, |slash| slash + 1);
                if let Some(dot) = name[base..].find('.').filter(|&dot| dot > 0) {
                    let (key, ending) = (name[..base + dot].to_owned(), name[base + dot + 1..].to_owned());
                    let member = Member { ending, at_bytes: content, len_bytes };
                    match samples.last_mut() {
                        Some(sample) if sample.key == key => sample.members.push(member),
                        _ => samples.push(Sample { key, members: vec![member] }),
                    }
                }
            }
            _ => long_name = None,
        }
        at = next;
    }
    // Some writers leave out the zeros at the end; none ends inside a record.
    match ended || at == whole {
        true => Ok((stamp, samples)),
        false => Err(DataError::corrupt(path, format!("the file ends inside a tar member, at byte {whole}"))),
    }
}

/// The path among a member's attributes: lines of `length key=value`.
fn pax_path(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    text.lines().find_map(|line| Some(line.split_once(' ')?.1.strip_prefix("path=")?.to_owned()))
}

impl TarSource {
    /// Opens the shards that patterns mean.
    ///
    /// # Errors
    /// When a shard cannot be read or is no tar file, unless such are to be left out.
    pub fn open(
        access: &FileAccess,
        patterns: &[String],
        columns: Option<&[String]>,
        skip_errors: bool,
    ) -> Result<TarSource> {
        named_once(columns.unwrap_or_default())?;
        let paths = files::expand(patterns, &[".tar"], access)?;
        let walked = index_cache::looked("tar", &paths, true, walk);
        let mut files = SourceFiles::default();
        let (mut blocks, mut places, mut next) = (Vec::new(), Vec::<(Vec<Sample>, u64)>::new(), 0);
        let mut endings: Vec<String> = Vec::new();
        for (path, walked) in paths.iter().zip(walked) {
            let (stamp, samples) = match walked {
                Ok(walked) => walked,
                Err(e) => {
                    files.leave_out(path, e, skip_errors)?;
                    continue;
                }
            };
            if endings.is_empty() {
                let all = samples.iter().flat_map(|s| &s.members).map(|m| m.ending.clone());
                endings = all.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
            }
            let size = |s: &Sample| s.members.iter().map(|m| m.len_bytes).sum::<u64>();
            let (mut now, mut bytes) = (Vec::new(), 0);
            let file = files.add(path.clone(), stamp);
            let mut close = |now: &mut Vec<Sample>, bytes: &mut u64| {
                if !now.is_empty() {
                    blocks.push(BlockInfo { samples: now.len() as u32, memory_bytes: *bytes, file });
                    next += now.len() as u64;
                    places.push((std::mem::take(now), next - blocks[blocks.len() - 1].samples as u64));
                    *bytes = 0;
                }
            };
            for sample in samples {
                bytes += size(&sample);
                now.push(sample);
                if bytes >= BLOCK_BYTES {
                    close(&mut now, &mut bytes);
                }
            }
            close(&mut now, &mut bytes);
        }
        if files.len() == 0 {
            return Err(files.none_left());
        }
        let names = match columns {
            Some(names) => names.to_vec(),
            None => std::iter::once("__key__".to_owned()).chain(endings.iter().cloned()).collect(),
        };
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            if name != "__key__" && !endings.contains(&name) {
                return Err(DataError::Argument(format!(
                    "no member has the extension {name:?}; the extensions are {}",
                    endings.join(", ")
                )));
            }
            let (elem, kind) = match name.as_str() {
                "cls" | "id" => (Elem::I64, Kind::Fixed),
                "__key__" | "txt" | "json" => (Elem::U8, Kind::Text { utf8: true }),
                _ => (Elem::U8, Kind::Text { utf8: false }),
            };
            fields.push(Field { name, elem, kind, item: vec![] });
        }
        Ok(TarSource { files, fields, blocks, places })
    }
}

impl Source for TarSource {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn blocks(&self) -> &[BlockInfo] {
        &self.blocks
    }

    fn load(&self, block: u32, times: &mut LoadTimes) -> Result<Block> {
        let info = self.blocks[block as usize];
        let (path, samples) = (self.files.location(info.file), &self.places[block as usize].0);
        // What every column wants of every sample, so that all of it is read at once.
        let wanted: Vec<Range<u64>> = self
            .fields
            .iter()
            .flat_map(|field| samples.iter().map(move |sample| sample.range_of(&field.name)))
            .collect();
        times.read_bytes += wanted.iter().map(|r| r.end - r.start).sum::<u64>();
        let read = times.reading(|| self.files.open(info.file)?.read_ranges(&wanted))?;
        let mut columns = Vec::with_capacity(self.fields.len());
        for (n, field) in self.fields.iter().enumerate() {
            let (mut values, mut offsets) = (Vec::new(), vec![0u32]);
            for (sample, content) in samples.iter().zip(&read[n * samples.len()..]) {
                let start = values.len();
                if field.name == "__key__" {
                    values.extend_from_slice(sample.key.as_bytes());
                } else {
                    values.extend_from_slice(content);
                }
                if field.kind == Kind::Fixed {
                    let text = String::from_utf8_lossy(&values[start..]).trim().to_owned();
                    let number: i64 = text.parse().map_err(|_| {
                        let why = format!("{}.{} is {text:?}, which is not a whole number", sample.key, field.name);
                        DataError::corrupt(path, why)
                    })?;
                    values.truncate(start);
                    values.extend_from_slice(&number.to_le_bytes());
                }
                let end = u32::try_from(values.len());
                offsets.push(end.map_err(|_| DataError::unsupported(path, "a block has more than 4 GiB"))?);
            }
            let extents = if field.kind == Kind::Fixed { Extents::One } else { Extents::Offsets(offsets.into()) };
            let column = Column::new(field, Buffer::from_vec(values), extents, samples.len());
            columns.push(column.map_err(DataError::Internal)?);
        }
        Ok(Block { columns, samples: samples.len() })
    }

    fn sample_id(&self, block: u32, row: u32) -> u64 {
        self.places[block as usize].1 + row as u64
    }

    fn files(&self) -> &SourceFiles {
        &self.files
    }
}
