//! Products of matrices and vectors.

use gt_ir::ops::Matmul;
use gt_ir::{OpError, Scalar};

use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// `a @ b` as Python has it: vectors, matrices, batches that broadcast.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() >= 2 && other.rank() >= 2 {
            return Tensor::apply1(Matmul::PLAIN, &[self, other], &[]);
        }
        if self.rank() == 0 || other.rank() == 0 {
            return Err(Error::Argument(format!(
                "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
                self.rank(),
                other.rank()
            )));
        }
        if self.dtype() != other.dtype() {
            return Err(OpError::dtype(format!(
                "expected both vectors to have same dtype, but found {} and {}",
                self.dtype().long_name(),
                other.dtype().long_name()
            ))
            .into());
        }
        let inner = (self.shape()[self.rank() - 1], other.shape()[other.rank().saturating_sub(2)]);
        if inner.0 != inner.1 {
            return Err(OpError::shape(format!(
                "size mismatch: matmul of shapes {} and {}, got {} and {}",
                self.shape(),
                other.shape(),
                inner.0,
                inner.1
            ))
            .into());
        }
        match (self.rank(), other.rank()) {
            (1, 1) => Ok(self.unsqueeze(0)?.matmul(&other.unsqueeze(1)?)?.reshape(&[])?.named("Dot")),
            (1, _) => self.unsqueeze(0)?.matmul(other)?.squeeze(&[-2]),
            _ => self.matmul(&other.unsqueeze(1)?)?.squeeze(&[-1]),
        }
    }

    /// `x @ weightᵀ + bias`, over the last axis of `x`: a linear layer.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let out = match (self.rank(), weight.rank()) {
            (2.., 2) => {
                if self.shape()[self.rank() - 1] != weight.shape()[1] {
                    let rows: usize = self.shape()[..self.rank() - 1].iter().product();
                    let (width, [n, k]) = (self.shape()[self.rank() - 1], [weight.shape()[0], weight.shape()[1]]);
                    return Err(OpError::shape(format!(
                        "mat1 and mat2 shapes cannot be multiplied ({rows}x{width} and {k}x{n}): an input of shape {} and a \
                         weight of shape {}",
                        self.shape(),
                        weight.shape()
                    ))
                    .into());
                }
                Tensor::apply1(Matmul { turn_a: false, turn_b: true }, &[self, weight], &[])?
            }
            (_, 0..=1) => self.matmul(weight)?,
            _ => self.matmul(&weight.transpose(-2, -1)?)?,
        };
        match bias {
            Some(bias) => out.add(bias),
            None => Ok(out),
        }
    }

    /// `a @ b` of two matrices.
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 2 || other.rank() != 2 {
            return Err(Error::Argument(format!("mm: {} and {} must be matrices", self.shape(), other.shape())));
        }
        self.matmul(other)
    }

    /// `a @ b` of two batches of matrices.
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 3 || other.rank() != 3 || self.shape()[0] != other.shape()[0] {
            return Err(OpError::shape(format!(
                "batch1 must be a 3D tensor and the batches must be equal: got {} and {}",
                self.shape(),
                other.shape()
            ))
            .into());
        }
        self.matmul(other)
    }

    /// `beta * self + alpha * (a @ b)`.
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
        let product = a.mm(b)?;
        let (alpha, beta) = (alpha.for_dtype(product.dtype()), beta.for_dtype(self.dtype()));
        let product = if alpha.as_f64() == 1.0 { product } else { product.mul(alpha)? };
        if beta.as_f64() == 0.0 {
            return Ok(product.with_zero_gradient("Addmm", &[self])?.named("Addmm"));
        }
        let own = if beta.as_f64() == 1.0 { self.clone() } else { self.mul(beta)? };
        Ok(own.add(&product)?.named("Addmm"))
    }

    /// The sum of products of two vectors.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || other.rank() != 1 {
            return Err(Error::Argument(format!(
                "1D tensors expected, but got {}D and {}D tensors",
                self.rank(),
                other.rank()
            )));
        }
        self.matmul(other)
    }

    /// All products of two vectors' elements.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || other.rank() != 1 {
            return Err(Error::Argument("outer: Expected 1-D arguments".into()));
        }
        self.unsqueeze(1)?.mul(&other.unsqueeze(0)?)
    }
}
