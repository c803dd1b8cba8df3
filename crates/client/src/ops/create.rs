//! Tensors from nothing.

use gt_ir::ops::{Fill, Iota};
use gt_ir::rows::CompareKind;
use gt_ir::{DType, OpError, Scalar, Shape, TensorType};

use super::{default_dtype, dtype_of_number};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// Every element is `value`; its own dtype unless one is given.
    #[track_caller]
    pub fn full(shape: &[usize], value: impl Into<Scalar>, dtype: Option<DType>) -> Result<Tensor> {
        let value = value.into();
        let dtype = dtype.unwrap_or_else(|| dtype_of_number(value));
        Tensor::apply1(Fill { dtype, shape: Shape::try_new(shape)? }, &[], &[value])
    }

    /// Zeros; the default dtype unless a dtype is given.
    #[track_caller]
    pub fn zeros(shape: &[usize], dtype: Option<DType>) -> Result<Tensor> {
        Tensor::full(shape, 0.0, Some(dtype.unwrap_or_else(default_dtype)))
    }

    /// Zeros of a type.
    #[track_caller]
    pub fn zeros_of(ty: TensorType) -> Result<Tensor> {
        Tensor::full(&ty.shape, 0.0, Some(ty.dtype))
    }

    /// Ones; the default dtype unless a dtype is given.
    #[track_caller]
    pub fn ones(shape: &[usize], dtype: Option<DType>) -> Result<Tensor> {
        Tensor::full(shape, 1.0, Some(dtype.unwrap_or_else(default_dtype)))
    }

    /// Numbers from `start` up to but without `end`, `step` apart.
    #[track_caller]
    pub fn arange(start: Scalar, end: Scalar, step: Scalar, dtype: Option<DType>) -> Result<Tensor> {
        let floats = [start, end, step].iter().any(|s| s.category() == 2);
        let dtype = dtype.unwrap_or(if floats { default_dtype() } else { DType::I64 });
        let (a, b, s) = (start.as_f64(), end.as_f64(), step.as_f64());
        if s == 0.0 {
            return Err(Error::Argument("step must be nonzero".into()));
        }
        if !(a.is_finite() && b.is_finite()) {
            return Err(Error::Argument(format!("unsupported range: {a} -> {b}")));
        }
        if (b - a) * s.signum() < 0.0 {
            return Err(Error::Argument("upper bound and lower bound inconsistent with step sign".into()));
        }
        let n = if floats {
            ((b - a) / s).ceil() as usize
        } else {
            let (a, b, s) = (start.as_i64() as i128, end.as_i64() as i128, step.as_i64() as i128);
            ((b - a + s - s.signum()) / s) as usize
        };
        if dtype == DType::Bool {
            return Err(OpError::dtype("arange does not support dtype bool").into());
        }
        Tensor::apply1(Iota { dtype, shape: Shape::try_new(&[n])? }, &[], &[start, step])
    }

    /// `0, 1, …, n - 1` as int64.
    #[track_caller]
    pub(crate) fn iota(n: usize) -> Result<Tensor> {
        Tensor::apply1(Iota { dtype: DType::I64, shape: Shape::try_new(&[n])? }, &[], &[0.into(), 1.into()])
    }

    /// `steps` numbers from `start` to `end`, both included.
    #[track_caller]
    pub fn linspace(start: f64, end: f64, steps: usize, dtype: Option<DType>) -> Result<Tensor> {
        let dtype = dtype.unwrap_or_else(default_dtype);
        // As in PyTorch the ends are numbers of the dtype.
        let (start, end) = if dtype.is_int() { (start.trunc(), end.trunc()) } else { (start, end) };
        let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
        // From both ends towards the middle, so that the last one is exactly `end`.
        let i =
            Tensor::apply1(Iota { dtype: DType::F64, shape: Shape::try_new(&[steps])? }, &[], &[0.into(), 1.into()])?;
        let up = i.mul(step)?.add(start)?;
        let last = steps.saturating_sub(1) as f64;
        let down = Tensor::binary(gt_ir::rows::BinaryKind::Sub, end, &i.sub(last)?.mul(-step)?)?;
        let first_half = Tensor::compare(CompareKind::Lt, &i, (steps / 2).max(1) as f64)?;
        Tensor::select_by(&first_half, &up, &down)?.to_dtype(dtype)
    }

    /// Ones on the diagonal, zeros elsewhere.
    #[track_caller]
    pub fn eye(n: usize, m: usize, dtype: Option<DType>) -> Result<Tensor> {
        let rows = Tensor::iota(n)?.reshape(&[n as i64, 1])?;
        let columns = Tensor::iota(m)?;
        Tensor::compare(CompareKind::Eq, &rows, &columns)?.to_dtype(dtype.unwrap_or_else(default_dtype))
    }
}
