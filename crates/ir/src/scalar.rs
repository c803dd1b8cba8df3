//! Immediates: numbers that travel beside an instruction and stay outside its hash.

use crate::DType;

/// A tagged number.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool(bool),
    I64(i64),
    F64(f64),
}

impl Scalar {
    /// The factor that multiplies a tensor of `dtype` without changing the dtype: whole where the elements are.
    pub fn for_dtype(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.as_bool()),
            _ if dtype.is_int() => Scalar::I64(self.as_i64()),
            _ => self,
        }
    }

    /// The number as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::I64(i) => i as f64,
            Scalar::F64(f) => f,
        }
    }

    /// The number as an integer; floats are truncated.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::I64(i) => i,
            Scalar::F64(f) => f as i64,
        }
    }

    /// Whether the number is not zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::I64(i) => i != 0,
            Scalar::F64(f) => f != 0.0,
        }
    }

    /// The dtype category of the number: see [`DType::category`].
    pub const fn category(self) -> u8 {
        match self {
            Scalar::Bool(_) => 0,
            Scalar::I64(_) => 1,
            Scalar::F64(_) => 2,
        }
    }

    /// The dtype a bare number takes: bool, int64 or float32.
    pub const fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::I64(_) => DType::I64,
            Scalar::F64(_) => DType::F32,
        }
    }
}

/// Bitwise, so that a NaN equals itself and a window can be compared with its template.
impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::I64(a), Scalar::I64(b)) => a == b,
            (Scalar::F64(a), Scalar::F64(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Self {
        Scalar::F64(v)
    }
}

impl From<f32> for Scalar {
    fn from(v: f32) -> Self {
        Scalar::F64(v as f64)
    }
}

impl From<i64> for Scalar {
    fn from(v: i64) -> Self {
        Scalar::I64(v)
    }
}

impl From<i32> for Scalar {
    fn from(v: i32) -> Self {
        Scalar::I64(v as i64)
    }
}

impl From<bool> for Scalar {
    fn from(v: bool) -> Self {
        Scalar::Bool(v)
    }
}
