//! Elementwise families as rows: engines, docs, CUDA source and tests all read the same ones.
//!
//! A row says what a function is (on doubles, on 64-bit integers, as a C expression), which dtypes it
//! takes, what its backward pass keeps, and its gradient. Nothing else in GT compares op names.

mod binary;
mod compare;
mod unary;

pub use binary::{BinaryCx, BinaryGrad, BinaryKind, BinaryRow};
pub use compare::{CompareKind, CompareRow};
pub use unary::{Keeps, UnaryGrad, UnaryKind, UnaryRow};

use crate::DType;

/// Which dtypes a row takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Floating point only.
    Floats,
    /// Floats and integers, not bool.
    Numbers,
    /// Everything.
    All,
    /// Integers and bool.
    Bits,
    /// Integers only.
    Ints,
    /// Bool only.
    Bools,
}

impl Accepts {
    /// Whether `dtype` is one of them.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Accepts::Floats => dtype.is_float(),
            Accepts::Numbers => dtype != DType::Bool,
            Accepts::All => true,
            Accepts::Bits => !dtype.is_float(),
            Accepts::Ints => dtype.is_int(),
            Accepts::Bools => dtype == DType::Bool,
        }
    }
}
