//! PyTorch's type promotion: tensors with dimensions count most, then 0-d tensors, then numbers.

use std::sync::atomic::{AtomicU8, Ordering};

use gt_ir::{DType, Scalar};

use super::Arg;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The default dtype's code, which is its place in [`DType::ALL`].
static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of floats that say nothing else: float32 unless [`set_default_dtype`] changed it.
#[inline]
pub fn default_dtype() -> DType {
    DType::ALL[DEFAULT.load(Ordering::Relaxed) as usize]
}

/// Changes the dtype of floats that say nothing else, in all threads.
///
/// # Errors
/// When it is not a float.
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::Type(format!(
            "only floating-point types are supported as the default type, not {}",
            dtype.long_name()
        )));
    }
    DEFAULT.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}

/// The dtype a bare number takes: bool, int64 or the default.
#[inline]
pub fn dtype_of_number(number: Scalar) -> DType {
    if number.category() == 2 { default_dtype() } else { number.default_dtype() }
}

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
            Arg::Number(n) => (&mut number, dtype_of_number(*n)),
        };
        *slot = Some(slot.map_or(dtype, |d| d.promote(dtype)));
    }
    combine(dim, combine(zero, number)).unwrap_or(default_dtype())
}

/// Refuses a number that becomes the content of a tensor of `dtype` and does not fit in it. Infinities and NaN fit
/// floats, and as in PyTorch a negative number may stand for the upper half of uint8.
///
/// # Errors
/// When it does not fit.
pub fn check_fits(number: Scalar, dtype: DType) -> Result<()> {
    let whole = |least: i64, most: i64| match number {
        // Compared as a float: beyond int64, `as` would saturate and seem to fit.
        Scalar::F64(f) => f.trunc() >= least as f64 && f.trunc() <= most as f64,
        _ => (least..=most).contains(&number.as_i64()),
    };
    let fraction = |most: f64| number.as_f64().abs() <= most || !number.as_f64().is_finite();
    let fits = match dtype {
        DType::Bool | DType::F64 => true,
        DType::U8 => whole(-255, 255),
        DType::I8 => whole(i8::MIN as i64, i8::MAX as i64),
        DType::I32 => whole(i32::MIN as i64, i32::MAX as i64),
        DType::I64 => whole(i64::MIN, i64::MAX),
        DType::F16 => fraction(65504.0),
        DType::BF16 => fraction(f32::from_bits(0x7f7f_0000) as f64),
        DType::F32 => fraction(f32::MAX as f64),
    };
    if fits {
        return Ok(());
    }
    Err(Error::Argument(format!("value cannot be converted to type {} without overflow", dtype.long_name())))
}

impl Tensor {
    /// The same numbers in another dtype; the tensor itself when it has it already.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        Tensor::apply1(gt_ir::ops::Cast { dtype }, &[self], &[])
    }

    /// The tensor as a float: itself, or of the default dtype.
    pub(crate) fn to_float(&self) -> Result<Tensor> {
        if self.dtype().is_float() { Ok(self.clone()) } else { self.to_dtype(default_dtype()) }
    }
}
