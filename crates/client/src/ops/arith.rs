//! Operators on two operands: tensors, or a tensor and a number.

use gt_ir::ops::{Binary, Compare, Complaint, Select, Side};
use gt_ir::rows::{Accepts, BinaryKind, CompareKind, UnaryKind};
use gt_ir::{DType, OpError, Scalar};
use smallvec::SmallVec;

use super::{check_fits, default_dtype, result_type};
use crate::autograd::{grad_enabled, no_grad};
use crate::error::{Error, Result};
use crate::known;
use crate::tensor::Tensor;

/// An operand: a tensor or a number.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Arg<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    #[track_caller]
    fn from(t: &'a Tensor) -> Self {
        Arg::Tensor(t)
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Arg<'_> {
            fn from(v: $ty) -> Self {
                Arg::Number(v.into())
            }
        }
    )*};
}

numbers!(f64, f32, i64, i32, bool, Scalar);

impl Arg<'_> {
    #[track_caller]
    fn category(&self) -> u8 {
        match self {
            Arg::Tensor(t) => t.dtype().category(),
            Arg::Number(n) => n.category(),
        }
    }

    #[track_caller]
    pub(crate) fn to_tensor(self, dtype: DType) -> Result<Tensor> {
        match self {
            Arg::Tensor(t) => t.to_dtype(dtype),
            Arg::Number(n) => Tensor::full(&[], n, Some(dtype)),
        }
    }
}

/// Whether a divisor of zero has no answer.
fn divides_ints(kind: BinaryKind, dtype: DType) -> bool {
    !dtype.is_float() && matches!(kind, BinaryKind::FloorDiv | BinaryKind::Rem | BinaryKind::Fmod)
}

impl Tensor {
    /// The quotient or remainder, which fails where it is read if a divisor was zero.
    #[track_caller]
    fn unless_divided_by_zero(&self, divisor: &Tensor) -> Result<Tensor> {
        self.checked(&Tensor::compare(CompareKind::Eq, divisor, 0)?, Complaint::ZeroDivision)
    }

    /// `kind(a, b)` with broadcasting and promotion. One operand at least must be a tensor.
    #[inline]
    #[track_caller]
    pub fn binary<'a>(kind: BinaryKind, a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        let (a, b) = (a.into(), b.into());
        if let (Arg::Tensor(x), Arg::Tensor(y)) = (&a, &b)
            && x.dtype() == y.dtype()
            && x.dtype().is_float()
        {
            let op = Binary { kind, scalar: Side::None };
            // A function that takes every float, on shapes that fit: the type of the result is plain.
            if kind.row().keeps_floats() {
                if x.shape() == y.shape() {
                    return Tensor::apply_known(op.into(), [x, y], &[], &x.0.ty);
                }
                if let Some(shape) = gt_ir::broadcast(x.shape(), y.shape()) {
                    return Tensor::apply_known(op.into(), [x, y], &[], &x.ty().with_shape(shape));
                }
            }
            return Tensor::apply1(op, &[x, y], &[]);
        }
        if let (Arg::Tensor(x), Arg::Number(n)) = (&a, &b)
            && x.dtype().is_float()
            && n.category() > 0
            && kind.row().keeps_floats()
        {
            let op = Binary { kind, scalar: Side::Right };
            return Tensor::apply_known(op.into(), [x], &[*n], &x.0.ty);
        }
        let out = Tensor::binary_promoted(kind, a, b)?;
        known::note_result(kind, a, b, &out);
        Ok(out)
    }

    #[track_caller]
    fn binary_promoted(kind: BinaryKind, a: Arg<'_>, b: Arg<'_>) -> Result<Tensor> {
        let mut dtype = result_type(&[a, b]);
        match kind {
            _ if kind.row().accepts == Accepts::Floats && !dtype.is_float() => dtype = default_dtype(),
            // As PyTorch: a bool on either side is more likely a mistake than a number.
            BinaryKind::Sub if a.category() == 0 && b.category() == 0 => {
                return Err(Error::Argument(
                    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
                     operator instead."
                        .into(),
                ));
            }
            BinaryKind::Sub if a.category() == 0 || b.category() == 0 => {
                return Err(Error::Argument(
                    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a \
                     mask, use the `~` or `logical_not()` operator instead."
                        .into(),
                ));
            }
            BinaryKind::Pow if !dtype.is_float() => {
                if let Arg::Number(n) = b
                    && n.as_i64() < 0
                {
                    return Err(Error::Argument("Integers to negative integer powers are not allowed.".into()));
                }
            }
            _ if divides_ints(kind, dtype) => {
                if let Arg::Number(n) = b
                    && n.as_i64() == 0
                {
                    return Err(Error::ZeroDivision);
                }
            }
            _ => {}
        }
        match (a, b) {
            (Arg::Tensor(x), Arg::Tensor(y)) => {
                let (x, y) = (x.to_dtype(dtype)?, y.to_dtype(dtype)?);
                let made = Tensor::apply1(Binary { kind, scalar: Side::None }, &[&x, &y], &[])?;
                if divides_ints(kind, dtype) { made.unless_divided_by_zero(&y) } else { Ok(made) }
            }
            (Arg::Tensor(x), Arg::Number(n)) => {
                let x = x.to_dtype(dtype)?;
                Tensor::apply1(Binary { kind, scalar: Side::Right }, &[&x], &[n])
            }
            (Arg::Number(n), Arg::Tensor(y)) => {
                let y = y.to_dtype(dtype)?;
                let made = Tensor::apply1(Binary { kind, scalar: Side::Left }, &[&y], &[n])?;
                if divides_ints(kind, dtype) { made.unless_divided_by_zero(&y) } else { Ok(made) }
            }
            (Arg::Number(_), Arg::Number(_)) => {
                let x = a.to_tensor(dtype)?;
                Tensor::binary(kind, &x, b)
            }
        }
    }

    /// `kind(a, b)` as bool, with broadcasting and promotion.
    #[track_caller]
    pub fn compare<'a>(kind: CompareKind, a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        let (a, b) = (a.into(), b.into());
        let dtype = result_type(&[a, b]);
        match (a, b) {
            (Arg::Tensor(x), Arg::Tensor(y)) => {
                let (x, y) = (x.to_dtype(dtype)?, y.to_dtype(dtype)?);
                Tensor::apply1(Compare { kind, scalar: Side::None }, &[&x, &y], &[])
            }
            (Arg::Tensor(x), Arg::Number(n)) => {
                let x = x.to_dtype(dtype)?;
                Tensor::apply1(Compare { kind, scalar: Side::Right }, &[&x], &[n])
            }
            (Arg::Number(n), Arg::Tensor(y)) => {
                let y = y.to_dtype(dtype)?;
                Tensor::apply1(Compare { kind, scalar: Side::Left }, &[&y], &[n])
            }
            (Arg::Number(_), Arg::Number(_)) => {
                let x = a.to_tensor(dtype)?;
                Tensor::compare(kind, &x, b)
            }
        }
    }

    /// `a + b`.
    #[inline]
    #[track_caller]
    pub fn add<'a>(&'a self, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        Tensor::binary(BinaryKind::Add, self, b)
    }

    /// `a - b`.
    #[track_caller]
    pub fn sub<'a>(&'a self, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        Tensor::binary(BinaryKind::Sub, self, b)
    }

    /// `a * b`.
    #[track_caller]
    pub fn mul<'a>(&'a self, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        Tensor::binary(BinaryKind::Mul, self, b)
    }

    /// `a / b`; integers become float32.
    #[track_caller]
    pub fn div<'a>(&'a self, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        Tensor::binary(BinaryKind::Div, self, b)
    }

    /// `a ** b`. Where the number selects the algorithm, another op is recorded.
    #[track_caller]
    pub fn pow<'a>(&'a self, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        let b = b.into();
        if let Arg::Number(n) = b {
            let x = self.to_dtype(result_type(&[self.into(), b]))?;
            let float = x.dtype().is_float();
            let out = match n.as_f64() {
                0.0 if x.dtype() == DType::Bool => Tensor::full(x.shape(), true, Some(DType::Bool)),
                1.0 => x.alias(),
                2.0 => x.unary(UnaryKind::Square),
                3.0 => x.unary(UnaryKind::Square)?.mul(&x),
                0.5 if float => x.unary(UnaryKind::Sqrt),
                -0.5 if float => x.unary(UnaryKind::Rsqrt),
                -1.0 if float => x.unary(UnaryKind::Reciprocal),
                _ => Tensor::binary(BinaryKind::Pow, &x, b),
            };
            return Ok(out?.named("Pow"));
        }
        Tensor::binary(BinaryKind::Pow, self, b)
    }

    /// `self` where `cond`, else `other`.
    #[track_caller]
    pub fn select_by<'a>(cond: &Tensor, a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> Result<Tensor> {
        let (a, b) = (a.into(), b.into());
        if cond.dtype() != DType::Bool && cond.dtype() != DType::U8 {
            return Err(OpError::dtype(format!(
                "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
                cond.dtype().long_name()
            ))
            .into());
        }
        let cond = cond.to_dtype(DType::Bool)?;
        let dtype = result_type(&[a, b]);
        let mut tensors = vec![cond];
        let mut scalars = Vec::new();
        let mut flags = [false; 2];
        for (flag, arg) in flags.iter_mut().zip([a, b]) {
            match arg {
                Arg::Tensor(t) => tensors.push(t.to_dtype(dtype)?),
                Arg::Number(n) => {
                    check_fits(n, dtype)?;
                    scalars.push(n);
                    *flag = true;
                }
            }
        }
        let refs: Vec<&Tensor> = tensors.iter().collect();
        Tensor::apply1(Select { a_scalar: flags[0], b_scalar: flags[1], dtype }, &refs, &scalars)
    }

    /// Limits from below and above; either may be missing.
    #[track_caller]
    pub fn clamp<'a>(&'a self, min: Option<Arg<'a>>, max: Option<Arg<'a>>) -> Result<Tensor> {
        let number = |limit: &Option<Arg<'a>>| match limit {
            Some(Arg::Number(n)) => Ok(Some(*n)),
            None => Ok(None),
            Some(Arg::Tensor(_)) => Err(()),
        };
        match (min, max) {
            (None, None) => Err(Error::Argument("clamp: At least one of 'min' or 'max' must not be None".into())),
            (min, max) => match (number(&min), number(&max)) {
                (Ok(low), Ok(high)) => Ok(self.clamp_to_numbers(low, high)?.named("ClampBackward1")),
                _ => {
                    // From below first: where the bounds cross, the upper one wins as in PyTorch.
                    let raised = match min {
                        Some(min) => Tensor::binary(BinaryKind::Max, self, min)?,
                        None => self.clone(),
                    };
                    let out = match max {
                        Some(max) => Tensor::binary(BinaryKind::Min, &raised, max)?,
                        None => raised,
                    };
                    Ok(out.named("Clamp"))
                }
            },
        }
    }

    /// No gradient passes at a limit, beyond it, or where an element is NaN, as in PyTorch; `maximum` would halve it at a
    /// limit.
    #[track_caller]
    fn clamp_to_numbers(&self, low: Option<Scalar>, high: Option<Scalar>) -> Result<Tensor> {
        let limits: SmallVec<[Arg<'_>; 3]> =
            [Some(self.into()), low.map(Arg::Number), high.map(Arg::Number)].into_iter().flatten().collect();
        let x = self.to_dtype(result_type(&limits))?;
        let within = |limit: Option<Scalar>, below| match limit {
            Some(limit) => limit_within(x.dtype(), limit, below),
            None => Ok(None),
        };
        let (low, high) = (within(low, true)?, within(high, false)?);
        let limited = || {
            let raised = low.map(|low| Tensor::binary(BinaryKind::Max, &x, low)).transpose()?;
            let raised = raised.as_ref().unwrap_or(&x);
            high.map_or_else(|| Ok(raised.clone()), |high| Tensor::binary(BinaryKind::Min, raised, high))
        };
        if low.is_none() && high.is_none() {
            // Nothing to limit; the result is a tensor of its own all the same.
            return x.alias();
        }
        if !x.requires_grad() || !grad_enabled() {
            return limited();
        }
        let above = low.map(|low| Tensor::compare(CompareKind::Gt, &x, low)).transpose()?;
        let below = high.map(|high| Tensor::compare(CompareKind::Lt, &x, high)).transpose()?;
        let inside = match (above, below) {
            (Some(above), Some(below)) => Tensor::binary(BinaryKind::And, &above, &below)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => unreachable!("one of the limits is there"),
        };
        Tensor::select_by(&inside, &x, &no_grad(limited)?)
    }
}

/// The limit of one side of a clamp, or nothing where every number of the dtype is within it. A limit that no number of
/// the dtype is within cannot be kept.
fn limit_within(dtype: DType, limit: Scalar, below: bool) -> Result<Option<Scalar>> {
    let range = match dtype {
        DType::U8 => 0..=u8::MAX as i64,
        DType::I8 => i8::MIN as i64..=i8::MAX as i64,
        DType::I32 => i32::MIN as i64..=i32::MAX as i64,
        DType::Bool | DType::I64 => return Ok(Some(limit)),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
            check_fits(limit, dtype)?;
            return Ok(Some(limit));
        }
    };
    let whole = limit.as_i64();
    if range.contains(&whole) {
        return Ok(Some(limit));
    }
    if (whole < *range.start()) == below {
        return Ok(None);
    }
    Err(Error::Argument(format!(
        "Clamp {} value {whole} is outside the representable range of {}",
        if below { "min" } else { "max" },
        dtype.long_name()
    )))
}

macro_rules! operators {
    ($($trait:ident $method:ident $kind:ident),*) => {$(
        impl std::ops::$trait<&Tensor> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: &Tensor) -> Result<Tensor> {
                Tensor::binary(BinaryKind::$kind, self, other)
            }
        }
        impl std::ops::$trait<f64> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: f64) -> Result<Tensor> {
                Tensor::binary(BinaryKind::$kind, self, other)
            }
        }
    )*};
}

operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);
