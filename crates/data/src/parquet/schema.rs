//! Which columns of a Parquet or Arrow file GT reads, and as what.

use arrow_schema::DataType;

use crate::field::{Elem, Field, Kind};

/// The field of a column, or why GT does not read it.
pub(crate) fn field(name: &str, of: &DataType) -> Result<Field, String> {
    let unread = || format!("column {name:?} has type {of}, which GT does not read");
    let made = |elem, kind, item| Ok(Field { name: name.to_owned(), elem, kind, item });
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => made(Elem::U8, Kind::Text { utf8: true }, vec![]),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            made(Elem::U8, Kind::Text { utf8: false }, vec![])
        }
        DataType::List(inner) | DataType::LargeList(inner) => {
            let (elem, item) = item(inner.data_type()).ok_or_else(unread)?;
            made(elem, Kind::Ragged, item)
        }
        // Text that repeats is often stored as numbers of a dictionary; samples have the text.
        DataType::Dictionary(_, inner) => field(name, inner).map_err(|_| unread()),
        other => {
            let (elem, item) = item(other).ok_or_else(unread)?;
            made(elem, Kind::Fixed, item)
        }
    }
}

/// Numbers, or arrays of a fixed shape of them.
fn item(of: &DataType) -> Option<(Elem, Vec<usize>)> {
    let elem = match of {
        DataType::Boolean => Elem::Bool,
        DataType::UInt8 => Elem::U8,
        DataType::Int8 => Elem::I8,
        DataType::UInt16 => Elem::U16,
        DataType::Int16 => Elem::I16,
        DataType::UInt32 => Elem::U32,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Elem::I32,
        DataType::UInt64 => Elem::U64,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => Elem::I64,
        DataType::Float16 => Elem::F16,
        DataType::Float32 => Elem::F32,
        DataType::Float64 => Elem::F64,
        DataType::FixedSizeList(inner, n) => {
            let (elem, rest) = item(inner.data_type())?;
            let n = usize::try_from(*n).ok().filter(|&n| n > 0)?;
            let item = [vec![n], rest].concat();
            // Lists within lists may have more numbers than can be counted.
            gt_ir::Shape::try_new(&item).ok()?;
            return Some((elem, item));
        }
        DataType::Dictionary(_, inner) => return item(inner),
        _ => return None,
    };
    Some((elem, vec![]))
}

/// The Arrow type a field is written as.
pub(crate) fn arrow_type(field: &Field) -> DataType {
    let mut of = match field.elem {
        Elem::Bool => DataType::Boolean,
        Elem::U8 => DataType::UInt8,
        Elem::I8 => DataType::Int8,
        Elem::U16 => DataType::UInt16,
        Elem::I16 => DataType::Int16,
        Elem::U32 => DataType::UInt32,
        Elem::I32 => DataType::Int32,
        Elem::U64 => DataType::UInt64,
        Elem::I64 => DataType::Int64,
        Elem::F16 => DataType::Float16,
        // Arrow has no bfloat16; every value of it is one of float32.
        Elem::BF16 | Elem::F32 => DataType::Float32,
        Elem::F64 => DataType::Float64,
    };
    let named = |of| std::sync::Arc::new(arrow_schema::Field::new("item", of, false));
    for &n in field.item.iter().rev() {
        of = DataType::FixedSizeList(named(of), n as i32);
    }
    match field.kind {
        Kind::Fixed => of,
        Kind::Ragged => DataType::List(named(of)),
        Kind::Text { utf8: true } => DataType::Utf8,
        Kind::Text { utf8: false } => DataType::Binary,
    }
}
