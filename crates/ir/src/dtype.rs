//! Element types and PyTorch's promotion rules.

use std::fmt;

/// The type of a tensor's elements.
///
/// The order is the order of promotion inside a category, and the discriminants are wire codes.
///
/// ```
/// use gt_ir::DType;
/// assert_eq!(DType::I64.promote(DType::F16), DType::F16);
/// assert_eq!(DType::U8.promote(DType::I8), DType::I32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    Bool = 0,
    U8 = 1,
    I8 = 2,
    I32 = 3,
    I64 = 4,
    F16 = 5,
    BF16 = 6,
    F32 = 7,
    F64 = 8,
}

impl DType {
    /// Every dtype, in wire order.
    pub const ALL: [DType; 9] =
        [DType::Bool, DType::U8, DType::I8, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The short name used in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The name users type: `float32`, `int64`, …
    pub const fn long_name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
        }
    }

    /// The dtype of a short or a long name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name || d.long_name() == name)
    }

    /// The dtype of a wire code.
    pub fn from_code(code: u8) -> Option<DType> {
        DType::ALL.get(code as usize).copied()
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether this is an integer type; `bool` is not.
    pub const fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I32 | DType::I64)
    }

    /// The dtype PyTorch gives a binary operation on two tensors of equal standing.
    pub const fn promote(self, other: DType) -> DType {
        use DType::*;
        if self as u8 == other as u8 {
            return self;
        }
        match (self, other) {
            (Bool, d) | (d, Bool) => d,
            (F64, _) | (_, F64) => F64,
            (F32, _) | (_, F32) => F32,
            (F16, BF16) | (BF16, F16) => F32,
            (F16, _) | (_, F16) => F16,
            (BF16, _) | (_, BF16) => BF16,
            (I64, _) | (_, I64) => I64,
            (I32, _) | (_, I32) => I32,
            // u8 and i8 share no type of eight bits; PyTorch would answer int16, which GT does not have.
            _ => I32,
        }
    }

    /// 0 for bool, 1 for integers, 2 for floats: a scalar or 0-d operand only raises the result
    /// when its category is higher.
    pub const fn category(self) -> u8 {
        match self {
            DType::Bool => 0,
            d if d.is_int() => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
