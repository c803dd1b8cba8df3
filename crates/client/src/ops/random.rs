//! Random tensors: a seed and the number of the draw, the rest is the op's.

use gt_ir::ops::{Complaint, Random, RandomKind, ReduceKind};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{DType, OpError, Scalar, Shape};

use super::default_dtype;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::rng::{Generator, draw};
use crate::tensor::Tensor;

impl Tensor {
    #[track_caller]
    fn random(
        kind: RandomKind,
        shape: &[usize],
        dtype: DType,
        more: &[Scalar],
        g: Option<&Generator>,
    ) -> Result<Tensor> {
        let op = Random { kind, dtype, shape: Shape::try_new(shape)? };
        // Check before the stream of draws moves on.
        gt_ir::Primitive::infer(&op, &[])?;
        let (seed, ordinal) = draw(g);
        let mut scalars = vec![Scalar::I64(seed as i64), Scalar::I64(ordinal as i64)];
        scalars.extend_from_slice(more);
        Tensor::apply1(op, &[], &scalars)
    }

    /// Uniform in `[0, 1)`.
    #[track_caller]
    pub fn rand(shape: &[usize], dtype: Option<DType>, g: Option<&Generator>) -> Result<Tensor> {
        let dtype = dtype.unwrap_or_else(default_dtype);
        // Rounding a float32 could give 1; a short float takes as many bits as it holds exactly.
        let bits = match dtype {
            DType::F16 => 11,
            DType::BF16 => 8,
            _ => return Tensor::random(RandomKind::Uniform, shape, dtype, &[], g),
        };
        let scale = f64::from(1 << bits);
        let wide = Tensor::random(RandomKind::Uniform, shape, DType::F32, &[], g)?;
        wide.mul(scale)?.unary(UnaryKind::Floor)?.mul(1.0 / scale)?.to_dtype(dtype)
    }

    /// Normal with mean 0 and variance 1.
    #[track_caller]
    pub fn randn(shape: &[usize], dtype: Option<DType>, g: Option<&Generator>) -> Result<Tensor> {
        Tensor::random(RandomKind::Normal, shape, dtype.unwrap_or_else(default_dtype), &[], g)
    }

    /// Integers in `low..high`.
    #[track_caller]
    pub fn randint(
        low: i64,
        high: i64,
        shape: &[usize],
        dtype: Option<DType>,
        g: Option<&Generator>,
    ) -> Result<Tensor> {
        if low >= high {
            return Err(Error::Argument(format!(
                "random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )));
        }
        let dtype = dtype.unwrap_or(DType::I64);
        let drawn = if dtype.is_int() { dtype } else { DType::I64 };
        Tensor::random(RandomKind::Int, shape, drawn, &[low.into(), high.into()], g)?.to_dtype(dtype)
    }

    /// A random order of `0..n`.
    #[track_caller]
    pub fn randperm(n: usize, dtype: Option<DType>, g: Option<&Generator>) -> Result<Tensor> {
        let keys = Tensor::random(RandomKind::Int, &[n], DType::I64, &[i64::MIN.into(), i64::MAX.into()], g)?;
        let (_, order) = keys.sort(0, false)?;
        order.to_dtype(dtype.unwrap_or(DType::I64))
    }

    /// One with the probability each element gives, else zero. A probability outside `[0, 1]` fails where it is read.
    #[track_caller]
    pub fn bernoulli(&self, g: Option<&Generator>) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(OpError::dtype(format!("bernoulli is not defined on {}", self.dtype().long_name())).into());
        }
        let u = Tensor::rand(self.shape(), Some(self.dtype()), g)?;
        let drawn = no_grad(|| {
            let p = self.detach();
            let drawn = Tensor::compare(CompareKind::Lt, &u, &p)?.to_dtype(self.dtype())?;
            drawn.checked(&p.outside(0.0, 1.0)?, Complaint::Bernoulli)
        })?;
        drawn.with_zero_gradient("Bernoulli", &[self])
    }

    /// Positions drawn with the weights of the last axis. Weights that are negative or not finite, or all zero, fail where
    /// the result is read.
    #[track_caller]
    pub fn multinomial(&self, samples: usize, replacement: bool, g: Option<&Generator>) -> Result<Tensor> {
        let (rank, shape) = (self.rank(), *self.shape());
        if rank == 0 || rank > 2 {
            return Err(Error::Argument("prob_dist must be 1 or 2 dim".into()));
        }
        if !self.dtype().is_float() {
            return Err(Error::Argument("multinomial only supports floating-point dtypes for input".into()));
        }
        let n = shape[rank - 1];
        if samples == 0 {
            return Err(Error::Argument("cannot sample n_sample <= 0 samples".into()));
        }
        if !replacement && samples > n {
            return Err(Error::Argument(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement".into(),
            ));
        }
        let _guard = crate::autograd::GradModeGuard::new(false);
        let p = self.detach().to_dtype(DType::F64)?;
        Tensor::positions_drawn(&p, samples, replacement, g)?
            .checked(&p.outside(0.0, f64::MAX)?, Complaint::Weight)?
            .checked(&Tensor::compare(CompareKind::Le, &p.sum(&[-1], false, None)?, 0.0)?, Complaint::Weights)
    }

    /// [`Tensor::multinomial`] of weights `p` that are fine.
    #[track_caller]
    fn positions_drawn(p: &Tensor, samples: usize, replacement: bool, g: Option<&Generator>) -> Result<Tensor> {
        let (rank, shape) = (p.rank(), *p.shape());
        let n = shape[rank - 1];
        if !replacement {
            // Exponential races: the smallest arrival times win, and a weight of zero never arrives.
            let u = Tensor::rand(&shape, Some(DType::F64), g)?;
            let time = u.neg_log1m()?.div(p)?;
            let (_, order) = time.sort(-1, false)?;
            return order.narrow(-1, 0, samples as i64);
        }
        let total = p.scan(gt_ir::ops::ScanKind::Sum, -1, None)?;
        let whole = total.narrow(-1, n as i64 - 1, 1)?;
        let mut drawn: Vec<usize> = shape[..rank - 1].to_vec();
        drawn.push(samples);
        let u = Tensor::rand(&drawn, Some(DType::F64), g)?.mul(&whole)?;
        // How many running totals are not above the draw: the first that is above it is the one drawn.
        let below = Tensor::compare(CompareKind::Le, &total.unsqueeze(-2)?, &u.unsqueeze(-1)?)?;
        let index = below.sum(&[-1], false, None)?;
        // Rounding may leave the last total below the draw: then the last weight that is not zero was meant.
        let at = Tensor::iota(n)?;
        let last = Tensor::select_by(&Tensor::compare(CompareKind::Gt, p, 0.0)?, &at, 0)?.extreme(
            ReduceKind::Max,
            &[-1],
            true,
        )?;
        Tensor::binary(BinaryKind::Min, &index, &last)
    }

    /// Where an element does not lie in `low..=high`; a NaN does not.
    #[track_caller]
    fn outside(&self, low: f64, high: f64) -> Result<Tensor> {
        let (above, below) =
            (Tensor::compare(CompareKind::Ge, self, low)?, Tensor::compare(CompareKind::Le, self, high)?);
        Tensor::binary(BinaryKind::And, &above, &below)?.unary(UnaryKind::LogicalNot)
    }

    /// `-log(1 - u)`.
    #[track_caller]
    fn neg_log1m(&self) -> Result<Tensor> {
        self.unary(UnaryKind::Neg)?.unary(UnaryKind::Log1p)?.unary(UnaryKind::Neg)
    }
}
