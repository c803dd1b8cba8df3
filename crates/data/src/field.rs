//! What a column holds, in a file and in a batch.

use gt_ir::DType;

/// The type of numbers as they are stored. Wider than GT's dtypes: files have what tensors have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Elem {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

impl Elem {
    /// Every type, in the order of their codes.
    pub const ALL: [Elem; 13] = [
        Elem::Bool,
        Elem::U8,
        Elem::I8,
        Elem::U16,
        Elem::I16,
        Elem::U32,
        Elem::I32,
        Elem::U64,
        Elem::I64,
        Elem::F16,
        Elem::BF16,
        Elem::F32,
        Elem::F64,
    ];

    /// Bytes of one number.
    pub const fn size(self) -> usize {
        match self {
            Elem::Bool | Elem::U8 | Elem::I8 => 1,
            Elem::U16 | Elem::I16 | Elem::F16 | Elem::BF16 => 2,
            Elem::U32 | Elem::I32 | Elem::F32 => 4,
            Elem::U64 | Elem::I64 | Elem::F64 => 8,
        }
    }

    /// The dtype a tensor of them has where nothing else is asked for: the same, or the next that holds every value (for
    /// unsigned 64-bit numbers there is none, and int64 is what other tools take).
    pub const fn dtype(self) -> DType {
        match self {
            Elem::Bool => DType::Bool,
            Elem::U8 => DType::U8,
            Elem::I8 => DType::I8,
            Elem::U16 | Elem::I16 | Elem::I32 => DType::I32,
            Elem::U32 | Elem::U64 | Elem::I64 => DType::I64,
            Elem::F16 => DType::F16,
            Elem::BF16 => DType::BF16,
            Elem::F32 => DType::F32,
            Elem::F64 => DType::F64,
        }
    }

    /// The type of a dtype's elements.
    pub const fn of(dtype: DType) -> Elem {
        match dtype {
            DType::Bool => Elem::Bool,
            DType::U8 => Elem::U8,
            DType::I8 => Elem::I8,
            DType::I32 => Elem::I32,
            DType::I64 => Elem::I64,
            DType::F16 => Elem::F16,
            DType::BF16 => Elem::BF16,
            DType::F32 => Elem::F32,
            DType::F64 => Elem::F64,
        }
    }

    /// The name NumPy would print.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::Bool => "bool",
            Elem::U8 => "uint8",
            Elem::I8 => "int8",
            Elem::U16 => "uint16",
            Elem::I16 => "int16",
            Elem::U32 => "uint32",
            Elem::I32 => "int32",
            Elem::U64 => "uint64",
            Elem::I64 => "int64",
            Elem::F16 => "float16",
            Elem::BF16 => "bfloat16",
            Elem::F32 => "float32",
            Elem::F64 => "float64",
        }
    }
}

/// How much of a column a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One item.
    Fixed,
    /// Any number of items.
    Ragged,
    /// A string of bytes; `utf8` where it is text.
    Text {
        /// Whether the bytes are text.
        utf8: bool,
    },
}

/// A column of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its numbers as they are stored; bytes for text.
    pub elem: Elem,
    /// How many items a sample has.
    pub kind: Kind,
    /// The shape of an item: empty for a number.
    pub item: Vec<usize>,
}

impl Field {
    /// Numbers in an item.
    pub fn width(&self) -> usize {
        self.item.iter().product()
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Fixed => write!(f, "{}", self.elem.name())?,
            Kind::Ragged => write!(f, "list of {}", self.elem.name())?,
            Kind::Text { utf8: true } => write!(f, "text")?,
            Kind::Text { utf8: false } => write!(f, "bytes")?,
        }
        if !self.item.is_empty() {
            write!(f, "{:?}", self.item)?;
        }
        Ok(())
    }
}
