//! Comparisons: two numbers in, a bool out.

use crate::attr::choice;

choice! {
    /// A comparison.
    #[allow(missing_docs)]
    pub enum CompareKind { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" }
}

/// One row.
pub struct CompareRow {
    /// On floats; a NaN compares as IEEE says.
    pub f64: fn(f64, f64) -> bool,
    /// On integers.
    pub i64: fn(i64, i64) -> bool,
    /// In C: the body of a function of `x` and `y`, on floats and on integers.
    pub c: &'static str,
}

impl CompareKind {
    /// The row of this comparison.
    pub fn row(self) -> CompareRow {
        match self {
            CompareKind::Eq => CompareRow { f64: |x, y| x == y, i64: |x, y| x == y, c: "return x == y;" },
            CompareKind::Ne => CompareRow { f64: |x, y| x != y, i64: |x, y| x != y, c: "return x != y;" },
            CompareKind::Lt => CompareRow { f64: |x, y| x < y, i64: |x, y| x < y, c: "return x < y;" },
            CompareKind::Le => CompareRow { f64: |x, y| x <= y, i64: |x, y| x <= y, c: "return x <= y;" },
            CompareKind::Gt => CompareRow { f64: |x, y| x > y, i64: |x, y| x > y, c: "return x > y;" },
            CompareKind::Ge => CompareRow { f64: |x, y| x >= y, i64: |x, y| x >= y, c: "return x >= y;" },
        }
    }
}
