//! Safetensors files: each tensor is a column, its first axis samples.

use super::{ArrayColumn, ArraySource, Part, Spread};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{self, Location, SourceFiles, Stamp, in_parallel};
use crate::parquet::named_once;

/// What readers of the format agree on as the longest header.
const MAX_HEADER_BYTES: u64 = 100_000_000;

#[derive(serde::Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

fn elem(dtype: &str) -> Option<Elem> {
    Some(match dtype {
        "BOOL" => Elem::Bool,
        "U8" => Elem::U8,
        "I8" => Elem::I8,
        "U16" => Elem::U16,
        "I16" => Elem::I16,
        "U32" => Elem::U32,
        "I32" => Elem::I32,
        "U64" => Elem::U64,
        "I64" => Elem::I64,
        "F16" => Elem::F16,
        "BF16" => Elem::BF16,
        "F32" => Elem::F32,
        "F64" => Elem::F64,
        _ => return None,
    })
}

/// The tensors of a file by name, with where each begins and how many rows it has.
fn read(path: &Location) -> Result<(Vec<(Field, u64, u64)>, Stamp)> {
    let mut file = path.open()?.sequential();
    let (stamp, len_bytes) = (file.file().stamp().clone(), file.file().len_bytes());
    let header_bytes = file.read_at(0, 8)?.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
    if header_bytes > MAX_HEADER_BYTES || header_bytes + 8 > len_bytes {
        return Err(DataError::corrupt(path, format!("it claims a header of {header_bytes} bytes")));
    }
    let text = file.read_at(8, header_bytes)?;
    let header: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&text).map_err(|e| DataError::corrupt(path, e))?;
    let mut out = Vec::new();
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let info: Info = serde_json::from_value(value).map_err(|e| DataError::corrupt(path, e))?;
        let Some(elem) = elem(&info.dtype) else {
            return Err(DataError::unsupported(path, format!("tensor {name:?} is of dtype {}", info.dtype)));
        };
        let Some((&rows, item)) = info.shape.split_first() else {
            return Err(DataError::unsupported(
                path,
                format!("tensor {name:?} has no first axis to take samples from"),
            ));
        };
        let bytes = info.shape.iter().try_fold(elem.size() as u64, |n, &d| n.checked_mul(d as u64));
        let (from, to) = info.data_offsets;
        let fits = from <= to
            && Some(to - from) == bytes
            && (8 + header_bytes).checked_add(to).is_some_and(|e| e <= len_bytes);
        if !fits {
            return Err(DataError::corrupt(path, format!("tensor {name:?} does not lie inside the file")));
        }
        let field = Field { name, elem, kind: Kind::Fixed, item: item.to_vec() };
        out.push((field, 8 + header_bytes + from, rows as u64));
    }
    Ok((out, stamp))
}

/// Opens files that hold the same tensors, one after another along the first axis.
///
/// # Errors
/// When a file cannot be read, or does not have the columns of the first.
pub fn open_safetensors(patterns: &[String], columns: Option<&[String]>, skip_errors: bool) -> Result<ArraySource> {
    named_once(columns.unwrap_or_default())?;
    let mut files = SourceFiles::default();
    let mut out: Vec<ArrayColumn> = Vec::new();
    let paths = files::expand(patterns, &[".safetensors"])?;
    for (path, read) in paths.iter().zip(in_parallel(&paths, |_, path| read(path))) {
        let fits = read.and_then(|(tensors, stamp)| Ok((pick(path, tensors, columns, &out)?, stamp)));
        match fits {
            Ok((tensors, stamp)) => {
                let file = files.add_once(path, &stamp);
                for (i, (field, at_bytes, rows)) in tensors.into_iter().enumerate() {
                    let part = Part { file, at_bytes, rows };
                    let row_bytes = (field.width() * field.elem.size()) as u64;
                    match out.get_mut(i) {
                        Some(column) => column.values.parts.push(part),
                        None => out.push(ArrayColumn {
                            field,
                            values: Spread { parts: vec![part], row_bytes },
                            offsets: None,
                        }),
                    }
                }
            }
            Err(e) => files.leave_out(path, e, skip_errors)?,
        }
    }
    ArraySource::new(files, out)
}

/// The tensors of a file that become columns, in their order.
fn pick(
    path: &Location,
    tensors: Vec<(Field, u64, u64)>,
    columns: Option<&[String]>,
    so_far: &[ArrayColumn],
) -> Result<Vec<(Field, u64, u64)>> {
    let names: Vec<String> = match (so_far.is_empty(), columns) {
        (false, _) => so_far.iter().map(|c| c.field.name.clone()).collect(),
        (true, Some(names)) => names.to_vec(),
        (true, None) => tensors.iter().map(|t| t.0.name.clone()).collect(),
    };
    let mut picked = Vec::with_capacity(names.len());
    for name in &names {
        let Some(tensor) = tensors.iter().find(|t| t.0.name == *name) else {
            return Err(DataError::schema(path, format!("there is no tensor {name:?}")));
        };
        if let Some(first) = so_far.iter().find(|c| c.field.name == *name)
            && first.field != tensor.0
        {
            return Err(DataError::schema(
                path,
                format!("tensor {name:?} is {}, and {} before", tensor.0, first.field),
            ));
        }
        picked.push(tensor.clone());
    }
    if let Some(odd) = picked.iter().find(|t| t.2 != picked[0].2) {
        let why = format!("tensor {:?} has {} rows, and {:?} has {}", odd.0.name, odd.2, picked[0].0.name, picked[0].2);
        return Err(DataError::schema(path, why));
    }
    Ok(picked)
}
