//! Elementwise families as rows: engines, docs, C source and tests all read the same ones.
//!
//! A row says what a function is (on doubles, on 64-bit integers, in C), which dtypes it takes, what its backward pass keeps,
//! and its gradient; also what users call it, how it is explained to them, and how it is tested. Nothing else in GT compares
//! op names.
//!
//! ROWS-1: a function of one or two numbers is added in its file here and nowhere else. Engines, the methods and functions of
//! the Python package with their stubs, and the tests of both languages walk the rows.

/// Makes the enum of a list of rows, and gives its variants their names; see [`unary_rows`](crate::unary_rows).
macro_rules! kinds {
    ($enum:ident $doc:literal $(
        $kind:ident $text:literal [$($name:ident $($in_place:ident)?),*] $(($takes:ident $operand:ident))?
        $($says:literal $(, $example:literal => $result:literal)?)?;
    )*) => {
        $crate::attr::choice! {
            #[doc = $doc]
            #[allow(missing_docs)]
            pub enum $enum { $($kind = $text),* }
        }

        impl $enum {
            /// What users call it, and how it is explained to them.
            pub fn names(self) -> $crate::rows::Names {
                match self {
                    $($enum::$kind => $crate::rows::Names {
                        names: &[$((stringify!($name), concat!($(stringify!($in_place))?))),*],
                        operand: concat!($(stringify!($operand))?),
                        tensors_only: matches!(concat!($(stringify!($takes))?), "tensor"),
                        says: concat!($($says)?),
                        example: (concat!($($($example)?)?), concat!($($($result)?)?)),
                    },)*
                }
            }
        }
    };
}

/// Gives an enum that has `make` the table of its rows.
macro_rules! table {
    ($enum:ident, $row:ident) => {
        impl $enum {
            /// The row of this function.
            #[inline]
            pub fn row(self) -> &'static $row {
                static ROWS: [$row; $enum::ALL.len()] = {
                    let mut rows = [$enum::ALL[0].make(); $enum::ALL.len()];
                    let mut i = 0;
                    while i < rows.len() {
                        rows[i] = $enum::ALL[i].make();
                        i += 1;
                    }
                    rows
                };
                &ROWS[self as usize]
            }
        }
    };
}

mod binary;
mod compare;
mod special;
mod unary;

pub use binary::{BinaryCx, BinaryGrad, BinaryKind, BinaryRow};
pub use compare::{CompareKind, CompareRow};
pub use unary::{Keeps, UnaryGrad, UnaryKind, UnaryRow};

use crate::DType;

/// What users call a function, and how it is explained to them.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Its names, the usual one first, each with that of the method that works in place if there is one.
    pub names: &'static [(&'static str, &'static str)],
    /// What the second operand is called, if there is one.
    pub operand: &'static str,
    /// Whether the second operand must be a tensor.
    pub tensors_only: bool,
    /// What it does.
    pub says: &'static str,
    /// A call and what Python prints for it.
    pub example: (&'static str, &'static str),
}

/// What users see of a row besides its names, and how it is tested.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// How far an engine's result may be from the reference's in units of the last place. Zero if both are the same number.
    pub ulps: f64,
    /// The same in units of the epsilon the dtype is computed with, on top.
    pub absolute: f64,
    /// How many times the rounding of one operation a result may be from NumPy's.
    pub slack: f64,
    /// A Python expression of `x`, and of `y` if there are two operands, in terms of NumPy. If empty, the function of the same
    /// name in NumPy, unless the row has exact values.
    pub numpy: &'static str,
    /// Whether autocast computes it in float32.
    pub autocast: bool,
    /// Its names in `gt.special`.
    pub special: &'static [&'static str],
}

impl Surface {
    /// Of a function that gives the same number everywhere.
    pub const EXACT: Surface = Surface::near(0.0, 0.0);

    const fn near(ulps: f64, absolute: f64) -> Self {
        Surface { ulps, absolute, slack: 1.0, numpy: "", autocast: false, special: &[] }
    }
}

/// What a row says of its surface, one word each. For an `impl` that has `with`.
macro_rules! surface_setters {
    () => {
        /// Terms cancel inside: one end of the range is only as exact as the largest of them.
        const fn cancels(self) -> Self {
            self.with(Surface { absolute: 4.0, ..self.surface })
        }
        const fn numpy(self, numpy: &'static str) -> Self {
            self.with(Surface { numpy, ..self.surface })
        }
        const fn autocast(self) -> Self {
            self.with(Surface { autocast: true, ..self.surface })
        }
    };
}
use surface_setters;

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
    /// Floats that are computed in their own precision: float32 and float64.
    Wide,
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
    /// Whether every float dtype is one of them.
    pub const fn takes_every_float(self) -> bool {
        matches!(self, Accepts::Floats | Accepts::Numbers | Accepts::All)
    }

    /// Whether `dtype` is one of them.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Accepts::Floats => dtype.is_float(),
            Accepts::Wide => matches!(dtype, DType::F32 | DType::F64),
            Accepts::Numbers => dtype != DType::Bool,
            Accepts::All => true,
            Accepts::Bits => !dtype.is_float(),
            Accepts::Ints => dtype.is_int(),
            Accepts::Bools => dtype == DType::Bool,
        }
    }
}
