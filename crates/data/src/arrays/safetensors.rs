//! Safetensors files: each tensor is a column, its first axis samples.

use safetensors::Dtype;

use super::{ArrayColumn, ArraySource, Part, Spread};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{self, FileAccess, Location, SourceFiles, Stamp, in_parallel};
use crate::parquet::named_once;
use crate::safetensors_header::{HeaderError, SafetensorsHeader};

fn elem(dtype: Dtype) -> Option<Elem> {
    Some(match dtype {
        Dtype::BOOL => Elem::Bool,
        Dtype::U8 => Elem::U8,
        Dtype::I8 => Elem::I8,
        Dtype::U16 => Elem::U16,
        Dtype::I16 => Elem::I16,
        Dtype::U32 => Elem::U32,
        Dtype::I32 => Elem::I32,
        Dtype::U64 => Elem::U64,
        Dtype::I64 => Elem::I64,
        Dtype::F16 => Elem::F16,
        Dtype::BF16 => Elem::BF16,
        Dtype::F32 => Elem::F32,
        Dtype::F64 => Elem::F64,
        _ => return None,
    })
}

/// The tensors of a file by name, with where each begins and how many rows it has.
fn read(path: &Location) -> Result<(Vec<(Field, u64, u64)>, Stamp)> {
    let mut file = path.open()?.sequential();
    let (stamp, len_bytes) = (file.file().stamp().clone(), file.file().len_bytes());
    let header = SafetensorsHeader::read(len_bytes, |at, out| {
        out.copy_from_slice(&file.read_at(at, out.len() as u64)?);
        Ok::<(), DataError>(())
    });
    let header = header.map_err(|e| match e {
        HeaderError::Read(e) => e,
        HeaderError::Invalid(why) => DataError::corrupt(path, why),
    })?;
    let mut names = header.names();
    names.sort_unstable();
    let mut out = Vec::new();
    for name in names {
        let Some(info) = header.tensor(&name) else { continue };
        let Some(elem) = elem(info.dtype) else {
            let why = format!("tensor {name:?} has dtype {}, which GT does not read", info.dtype);
            return Err(DataError::unsupported(path, why));
        };
        let Some((&rows, item)) = info.shape.split_first() else {
            return Err(DataError::unsupported(
                path,
                format!("tensor {name:?} is 0-dimensional; samples are taken along the first axis"),
            ));
        };
        gt_ir::Shape::try_new(&info.shape)
            .map_err(|e| DataError::unsupported(path, format!("tensor {name:?} cannot be read: {e}")))?;
        let (at_bytes, _) = header.bytes_of(info);
        let field = Field { name, elem, kind: Kind::Fixed, item: item.to_vec() };
        out.push((field, at_bytes, rows as u64));
    }
    Ok((out, stamp))
}

/// Opens files that hold the same tensors, one after another along the first axis.
///
/// # Errors
/// When a file cannot be read, or does not have the columns of the first.
pub fn open_safetensors(
    access: &FileAccess,
    patterns: &[String],
    columns: Option<&[String]>,
    skip_errors: bool,
) -> Result<ArraySource> {
    named_once(columns.unwrap_or_default())?;
    let mut files = SourceFiles::default();
    let mut out: Vec<ArrayColumn> = Vec::new();
    let paths = files::expand(patterns, &[".safetensors"], access)?;
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
                format!("tensor {name:?} is {}, but {} in earlier files", tensor.0, first.field),
            ));
        }
        picked.push(tensor.clone());
    }
    if let Some(odd) = picked.iter().find(|t| t.2 != picked[0].2) {
        let why = format!("tensor {:?} has {} rows, but {:?} has {}", odd.0.name, odd.2, picked[0].0.name, picked[0].2);
        return Err(DataError::schema(path, why));
    }
    Ok(picked)
}
