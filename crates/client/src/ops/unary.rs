//! Functions of one tensor, and those built from them.

use gt_ir::rows::{Accepts, BinaryKind, CompareKind, UnaryKind};
use gt_ir::{DType, OpError, Scalar, ops};

use super::Arg;
use crate::autograd::no_grad;
use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// `kind(x)`; integers become float32 where the function is defined on floats only.
    #[inline]
    #[track_caller]
    pub fn unary(&self, kind: UnaryKind) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.unary_of_integers(kind);
        }
        if kind.row().keeps_floats() {
            return Tensor::apply_known(ops::Unary { kind }.into(), [self], &[], &self.0.ty);
        }
        Tensor::apply1(ops::Unary { kind }, &[self], &[])
    }

    #[track_caller]
    fn unary_of_integers(&self, kind: UnaryKind) -> Result<Tensor> {
        match kind {
            _ if kind.row().accepts == Accepts::Floats => {
                Tensor::apply1(ops::Unary { kind }, &[&self.to_float()?], &[])
            }
            UnaryKind::Sign if self.dtype() == DType::Bool => self.alias(),
            UnaryKind::Square if self.dtype() == DType::Bool => self.to_dtype(DType::I64)?.unary(kind),
            _ => Tensor::apply1(ops::Unary { kind }, &[self], &[]),
        }
    }

    /// Refuses integers: PyTorch computes these functions on floats only and does not promote.
    #[track_caller]
    fn require_float(&self, name: &str) -> Result<()> {
        if self.dtype().is_float() {
            return Ok(());
        }
        Err(OpError::dtype(format!("{name} is not defined on {}", self.dtype().long_name())).into())
    }

    /// The tanh approximation of gelu.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Result<Tensor> {
        let cube = self.mul(self)?.mul(self)?;
        let inner = self.add(&cube.mul(0.044715)?)?.mul((2.0 / std::f64::consts::PI).sqrt())?;
        Ok(self.mul(0.5)?.mul(&inner.unary(UnaryKind::Tanh)?.add(1.0)?)?.named("Gelu"))
    }

    /// Exponentials that sum to one along an axis.
    #[track_caller]
    pub fn softmax(&self, dim: i64) -> Result<Tensor> {
        super::axis(dim, self.rank())?;
        self.require_float("softmax")?;
        if self.is_narrow() {
            return Ok(self.to_dtype(DType::F32)?.softmax(dim)?.to_dtype(self.dtype())?.named("Softmax"));
        }
        let shifted = self.sub(&self.peak(dim)?)?;
        let e = shifted.unary(UnaryKind::Exp)?;
        let total = e.sum(&[dim], true, None)?;
        Ok(e.div(&total)?.named("Softmax"))
    }

    /// The logarithm of [`Tensor::softmax`].
    #[track_caller]
    pub fn log_softmax(&self, dim: i64) -> Result<Tensor> {
        super::axis(dim, self.rank())?;
        self.require_float("log_softmax")?;
        if self.is_narrow() {
            return Ok(self.to_dtype(DType::F32)?.log_softmax(dim)?.to_dtype(self.dtype())?.named("LogSoftmax"));
        }
        let shifted = self.sub(&self.peak(dim)?)?;
        let total = shifted.unary(UnaryKind::Exp)?.sum(&[dim], true, None)?;
        Ok(shifted.sub(&total.unary(UnaryKind::Log)?)?.named("LogSoftmax"))
    }

    /// `log(sum(exp(x)))` along axes, without overflow.
    #[track_caller]
    pub fn logsumexp(&self, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        if self.is_narrow() {
            let wide = self.to_dtype(DType::F32)?.logsumexp(dims, keepdim)?;
            return Ok(wide.to_dtype(self.dtype())?.named("Logsumexp"));
        }
        let x = self.to_float()?;
        let axes = super::axis_set(dims, x.rank())?;
        let peak = no_grad(|| -> Result<Tensor> {
            if axes.iter().any(|a| x.shape()[a] == 0) {
                // Nothing to sum: the logarithm of zero, whatever is subtracted.
                return x.detach().sum(dims, true, None);
            }
            let m = x.detach().extreme(ops::ReduceKind::Max, dims, true)?;
            // An infinite peak would make inf - inf: take 0 there.
            Tensor::select_by(&m.unary(UnaryKind::IsInf)?, 0.0, &m)
        })?;
        let total = x.sub(&peak)?.unary(UnaryKind::Exp)?.sum(dims, true, None)?;
        let out = total.unary(UnaryKind::Log)?.add(&peak)?;
        if keepdim {
            return Ok(out.named("Logsumexp"));
        }
        let shape: Vec<i64> =
            x.shape().iter().enumerate().filter(|(a, _)| !axes.contains(*a)).map(|(_, &d)| d as i64).collect();
        Ok(out.reshape(&shape)?.named("Logsumexp"))
    }

    /// The largest element along an axis, kept as an axis and outside of autograd: what softmax subtracts.
    #[track_caller]
    fn peak(&self, dim: i64) -> Result<Tensor> {
        let x = self.detach();
        if x.shape().get(super::axis(dim, x.rank())?) == Some(&0) {
            return x.sum(&[dim], true, None);
        }
        no_grad(|| x.extreme(ops::ReduceKind::Max, &[dim], true))
    }

    /// `nan` and infinities replaced by numbers.
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.alias();
        }
        let largest = match self.dtype() {
            DType::F16 => 65504.0,
            DType::BF16 => half::bf16::MAX.to_f64(),
            DType::F32 => f32::MAX as f64,
            _ => f64::MAX,
        };
        let x = Tensor::select_by(&self.unary(UnaryKind::IsNan)?, nan, self)?;
        let x =
            Tensor::select_by(&Tensor::compare(CompareKind::Eq, &x, f64::INFINITY)?, posinf.unwrap_or(largest), &x)?;
        Tensor::select_by(&Tensor::compare(CompareKind::Eq, &x, f64::NEG_INFINITY)?, neginf.unwrap_or(-largest), &x)
    }

    /// `a + weight * (b - a)`, and from a weight of one half on `b - (1 - weight) * (b - a)`: exact at both ends.
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, weight: Arg<'_>) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(OpError::dtype(format!("lerp is not defined on {}", self.dtype().long_name())).into());
        }
        let step = end.sub(self)?;
        let out = match weight {
            Arg::Tensor(w) => {
                let near = Tensor::compare(CompareKind::Lt, &w.detach(), 0.5)?;
                let from = Tensor::select_by(&near, self, end)?;
                from.add(&step.mul(&Tensor::select_by(&near, w, &w.sub(1)?)?)?)?
            }
            Arg::Number(n) if n.as_f64() < 0.5 => self.add(&step.mul(n)?)?,
            Arg::Number(n) => end.add(&step.mul(n.as_f64() - 1.0)?)?,
        };
        Ok(out.named("Lerp"))
    }

    /// `self + value * a * b`, or `a / b`.
    #[track_caller]
    pub fn addc(&self, kind: BinaryKind, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
        if kind == BinaryKind::Div && !a.dtype().is_float() && !b.dtype().is_float() {
            return Err(OpError::dtype("Integer division with addcdiv is not supported: divide floats").into());
        }
        let both = Tensor::binary(kind, a, b)?;
        let value = value.for_dtype(both.dtype());
        let scaled = if value.as_f64() == 1.0 { both } else { both.mul(value)? };
        Ok(self.add(&scaled)?.named(if kind == BinaryKind::Mul { "Addcmul" } else { "Addcdiv" }))
    }

    /// Truth of every element.
    #[track_caller]
    pub fn to_bool(&self) -> Result<Tensor> {
        self.to_dtype(DType::Bool)
    }
}
