//! Elementwise families as rows: engines, docs, C source and tests all read the same ones.
//!
//! A row says what a function is (on doubles, on 64-bit integers, in C), which dtypes it takes, what its backward pass keeps,
//! and its gradient. Nothing else in GT compares op names.

mod binary;
mod compare;
mod unary;

pub use binary::{BinaryCx, BinaryGrad, BinaryKind, BinaryRow};
pub use compare::{CompareKind, CompareRow};
pub use unary::{Keeps, UnaryGrad, UnaryKind, UnaryRow};

use crate::DType;

/// A row in C: bodies of functions of `x`, and of `y` where the row has two operands.
///
/// C and CUDA read the same text: names of `math.h` stand for the function in the precision of `T`, which C has by
/// `tgmath.h` and CUDA by overloading. Integers wrap without undefined behaviour.
#[derive(Clone, Copy, Debug)]
pub struct CBodies {
    /// On floats: operands and result are of type `T`, `float` or `double`. `None` where the row takes no floats.
    pub float: Option<&'static str>,
    /// On integers and bool: operands and result are of type `int64_t`, to be narrowed to the dtype. `None` where the row
    /// takes neither.
    pub int: Option<&'static str>,
}

impl CBodies {
    const fn both(float: &'static str, int: &'static str) -> Self {
        CBodies { float: Some(float), int: Some(int) }
    }

    const fn float(float: &'static str) -> Self {
        CBodies { float: Some(float), int: None }
    }

    const fn int(int: &'static str) -> Self {
        CBodies { float: None, int: Some(int) }
    }
}

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
