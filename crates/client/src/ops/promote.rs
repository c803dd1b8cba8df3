//! PyTorch's type promotion: tensors with dimensions count most, then 0-d tensors, then numbers.

use gt_ir::DType;

use super::Arg;
use crate::error::Result;
use crate::tensor::Tensor;

/// The type of two standings together: the lower one matters only if its category is higher.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (None, l) => l,
        (h, None) => h,
        (Some(h), Some(l)) if h.is_float() => {
            let _ = l;
            Some(h)
        }
        (Some(h), Some(l)) if h == DType::Bool || l.is_float() => Some(h.promote(l)),
        (h, _) => h,
    }
}

/// The dtype an operation on these operands has.
///
/// ```
/// use gt_client::{Arg, DType, ops::result_type};
/// let args = [Arg::from(2i64), Arg::from(0.5f64)];
/// assert_eq!(result_type(&args), DType::F32);
/// ```
pub fn result_type(args: &[Arg<'_>]) -> DType {
    let (mut dim, mut zero, mut number) = (None::<DType>, None::<DType>, None::<DType>);
    for arg in args {
        let (slot, dtype) = match arg {
            Arg::Tensor(t) if t.rank() > 0 => (&mut dim, t.dtype()),
            Arg::Tensor(t) => (&mut zero, t.dtype()),
            Arg::Number(n) => (&mut number, n.default_dtype()),
        };
        *slot = Some(slot.map_or(dtype, |d| d.promote(dtype)));
    }
    combine(dim, combine(zero, number)).unwrap_or(DType::F32)
}

impl Tensor {
    /// The same numbers in another dtype; the tensor itself when it has it already.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        Tensor::apply1(gt_ir::ops::Cast { dtype }, &[self], &[])
    }

    /// The tensor as a float: itself, or float32.
    pub(crate) fn to_float(&self) -> Result<Tensor> {
        if self.dtype().is_float() { Ok(self.clone()) } else { self.to_dtype(DType::F32) }
    }
}
