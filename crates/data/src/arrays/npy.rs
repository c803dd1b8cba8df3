//! NumPy's `.npy` files.

use super::{ArrayColumn, ArraySource, Part, Spread};
use crate::error::{DataError, Result};
use crate::field::{Elem, Field, Kind};
use crate::files::{self, FileAccess, Location, SourceFiles, Stamp, in_parallel};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer headers are not NumPy's.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// What a file says of its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// The type of its numbers.
    pub elem: Elem,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where the numbers begin.
    pub at_bytes: u64,
}

impl NpyHeader {
    /// Reads and checks the header of a file, and gives what the file is recognised by.
    ///
    /// # Errors
    /// When the file is not an array of numbers in row-major order, or is shorter than it says.
    pub fn read(path: &Location) -> Result<(NpyHeader, Stamp)> {
        let mut file = path.open()?.sequential();
        let (stamp, len_bytes) = (file.file().stamp().clone(), file.file().len_bytes());
        let head = file.read_at(0, 8)?;
        if &head[..6] != MAGIC {
            return Err(DataError::corrupt(path, "this is not an .npy file: the first bytes are wrong"));
        }
        let width = if head[6] == 1 { 2 } else { 4 };
        let text_len = file.read_at(8, width)?.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
        if text_len > MAX_HEADER_BYTES {
            return Err(DataError::corrupt(
                path,
                format!("the header claims an impossible length of {text_len} bytes"),
            ));
        }
        let text = String::from_utf8_lossy(&file.read_at(8 + width, text_len)?).into_owned();
        let (elem, shape) = parse(&text).map_err(|why| DataError::unsupported(path, why))?;
        let at_bytes = 8 + width + text_len;
        let extents = gt_ir::Shape::try_new(&shape).map_err(|e| DataError::unsupported(path, e))?;
        match (extents.numel() * elem.size()) as u64 <= len_bytes.saturating_sub(at_bytes) {
            true => Ok((NpyHeader { elem, shape, at_bytes }, stamp)),
            false => Err(DataError::corrupt(path, format!("the file is too short for its array of shape {shape:?}"))),
        }
    }
}

/// Type and shape from the header's Python dict.
fn parse(text: &str) -> std::result::Result<(Elem, Vec<usize>), String> {
    let after = |key: &str| text.find(key).map(|at| text[at + key.len()..].trim_start_matches([' ', ':']));
    let wrong = || format!("GT cannot read the header: {}", text.trim());
    let descr = after("'descr'").ok_or_else(wrong)?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split('\'').next()).ok_or_else(wrong)?;
    if after("'fortran_order'").ok_or_else(wrong)?.starts_with("True") {
        return Err("the array is in column-major (Fortran) order; save np.ascontiguousarray(array) instead".into());
    }
    let elem = match descr {
        "|b1" => Elem::Bool,
        "|u1" => Elem::U8,
        "|i1" => Elem::I8,
        "<u2" => Elem::U16,
        "<i2" => Elem::I16,
        "<u4" => Elem::U32,
        "<i4" => Elem::I32,
        "<u8" => Elem::U64,
        "<i8" => Elem::I64,
        "<f2" => Elem::F16,
        "<f4" => Elem::F32,
        "<f8" => Elem::F64,
        other => return Err(format!("GT does not read numbers of type {other:?}")),
    };
    let shape =
        after("'shape'").and_then(|s| s.strip_prefix('(')).and_then(|s| s.split(')').next()).ok_or_else(wrong)?;
    let shape: std::result::Result<Vec<usize>, _> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect();
    Ok((elem, shape.map_err(|_| wrong())?))
}

/// The header of an array of this type and shape, as NumPy writes it.
pub fn write_npy_header(elem: Elem, shape: &[usize]) -> Vec<u8> {
    let descr = match elem {
        Elem::Bool => "|b1",
        Elem::U8 => "|u1",
        Elem::I8 => "|i1",
        Elem::U16 | Elem::BF16 => "<u2",
        Elem::I16 => "<i2",
        Elem::U32 => "<u4",
        Elem::I32 => "<i4",
        Elem::U64 => "<u8",
        Elem::I64 => "<i8",
        Elem::F16 => "<f2",
        Elem::F32 => "<f4",
        Elem::F64 => "<f8",
    };
    let dims: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", dims.trim_end());
    // Numbers begin at a multiple of 64, with room for a first dimension that is written when it is known.
    let len = (10 + text.len() + 21).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(len - text.len() - 1));
    text.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// Columns of one or more files each, one after another.
///
/// # Errors
/// When a file cannot be read, or files of a column do not fit together.
pub fn open_npy(access: &FileAccess, columns: &[(String, Vec<String>)], skip_errors: bool) -> Result<ArraySource> {
    let (mut files, mut out) = (SourceFiles::default(), Vec::new());
    // Left out, a file of one column would shift its samples against the other columns'.
    let skip_errors = skip_errors && columns.len() == 1;
    for (name, patterns) in columns {
        let mut found: Option<(Field, Spread)> = None;
        let paths = files::expand(patterns, &[".npy"], access)?;
        for (path, header) in paths.iter().zip(in_parallel(&paths, |_, path| NpyHeader::read(path))) {
            let (header, stamp) = match header {
                Ok(read) => read,
                Err(e) => {
                    files.leave_out(path, e, skip_errors)?;
                    continue;
                }
            };
            let Some((&rows, item)) = header.shape.split_first() else {
                return Err(DataError::unsupported(
                    path,
                    "the array is 0-dimensional; samples are taken along the first axis",
                ));
            };
            let field = Field { name: name.clone(), elem: header.elem, kind: Kind::Fixed, item: item.to_vec() };
            let row_bytes = (field.width() * field.elem.size()) as u64;
            let (first, spread) = found.get_or_insert_with(|| (field.clone(), Spread { parts: vec![], row_bytes }));
            if *first != field {
                let why = format!("samples of this file are {field}, but {first} in earlier files");
                return Err(DataError::schema(path, why));
            }
            let file = files.add_once(path, &stamp);
            spread.parts.push(Part { file, at_bytes: header.at_bytes, rows: rows as u64 });
        }
        let Some((field, values)) = found else {
            return Err(files.none_left());
        };
        out.push(ArrayColumn { field, values, offsets: None });
    }
    ArraySource::new(files, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        let location = Location::from(path.clone());
        for elem in Elem::ALL.into_iter().filter(|&e| e != Elem::BF16) {
            for shape in [vec![3], vec![2, 3], vec![1, 2, 3]] {
                let mut bytes = write_npy_header(elem, &shape);
                let at_bytes = bytes.len() as u64;
                assert_eq!(at_bytes % 64, 0);
                bytes.extend(vec![0; elem.size() * shape.iter().product::<usize>()]);
                std::fs::write(&path, &bytes).unwrap();
                assert_eq!(NpyHeader::read(&location).unwrap().0, NpyHeader { elem, shape, at_bytes });
                std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
                assert!(NpyHeader::read(&location).unwrap_err().to_string().contains("x.npy"));
            }
        }
    }
}
