//! Comparisons: two numbers in, a bool out.

/// Every comparison, in the order of the wire codes; see [`binary_rows`](crate::binary_rows).
#[macro_export]
macro_rules! compare_rows {
    ($each:ident) => {
        $each! {
            Eq "eq" [eq eq_] (any other) "Whether elements are equal",
                "gt.eq(gt.tensor([2, 1]), 2)" => "tensor([ True, False])";
            Ne "ne" [ne ne_, not_equal not_equal_] (any other) "Whether elements differ",
                "gt.ne(gt.tensor([1, 2]), 2)" => "tensor([ True, False])";
            Lt "lt" [lt lt_, less less_] (any other) "Whether input < other",
                "gt.lt(gt.tensor([1, 2]), 2)" => "tensor([ True, False])";
            Le "le" [le le_, less_equal less_equal_] (any other) "Whether input <= other",
                "gt.le(gt.tensor([1, 2]), 1)" => "tensor([ True, False])";
            Gt "gt" [gt gt_, greater greater_] (any other) "Whether input > other",
                "gt.gt(gt.tensor([2, 1]), 1)" => "tensor([ True, False])";
            Ge "ge" [ge ge_, greater_equal greater_equal_] (any other) "Whether input >= other",
                "gt.ge(gt.tensor([2, 1]), 2)" => "tensor([ True, False])";
        }
    };
}

macro_rules! compare_kinds {
    ($($rows:tt)*) => {
        kinds!(CompareKind "A comparison." $($rows)*);
    };
}

compare_rows!(compare_kinds);

/// One row.
pub struct CompareRow {
    /// On floats; a NaN compares as IEEE says.
    pub f64: fn(f64, f64) -> bool,
    /// On integers.
    pub i64: fn(i64, i64) -> bool,
    /// In NumPy: an expression of `x` and `y`.
    pub numpy: &'static str,
    /// In C: the body of a function of `x` and `y`, on floats and on integers.
    pub c: &'static str,
}

impl CompareKind {
    /// The row of this comparison.
    pub fn row(self) -> CompareRow {
        match self {
            CompareKind::Eq => {
                CompareRow { f64: |x, y| x == y, i64: |x, y| x == y, numpy: "x == y", c: "return x == y;" }
            }
            CompareKind::Ne => {
                CompareRow { f64: |x, y| x != y, i64: |x, y| x != y, numpy: "x != y", c: "return x != y;" }
            }
            CompareKind::Lt => CompareRow { f64: |x, y| x < y, i64: |x, y| x < y, numpy: "x < y", c: "return x < y;" },
            CompareKind::Le => {
                CompareRow { f64: |x, y| x <= y, i64: |x, y| x <= y, numpy: "x <= y", c: "return x <= y;" }
            }
            CompareKind::Gt => CompareRow { f64: |x, y| x > y, i64: |x, y| x > y, numpy: "x > y", c: "return x > y;" },
            CompareKind::Ge => {
                CompareRow { f64: |x, y| x >= y, i64: |x, y| x >= y, numpy: "x >= y", c: "return x >= y;" }
            }
        }
    }
}
