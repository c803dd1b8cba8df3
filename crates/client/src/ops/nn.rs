//! Composites: what networks are made of, recorded whole.

use gt_ir::ops::{Attention, CrossEntropy, Update, UpdateKind};
use gt_ir::{OpError, Scalar};
use smallvec::SmallVec;

use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An optimizer step for many tensors.
pub struct Step<'a> {
    /// Which arithmetic; see [`UpdateKind`] for its scalars.
    pub kind: UpdateKind,
    /// What is updated.
    pub params: &'a [Tensor],
    /// Their gradients.
    pub grads: &'a [Tensor],
    /// One list for each kind of state, each as long as `params`.
    pub states: &'a [Vec<Tensor>],
    /// The numbers of the step.
    pub scalars: &'a [f64],
    /// Rmsprop around the mean.
    pub centered: bool,
    /// Up the gradient instead of down.
    pub maximize: bool,
}

impl Tensor {
    /// Scaled dot-product attention of queries `[b, h, t, d]`, keys `[b, g, s, d]` and values `[b, g, s, e]`, with `mask` added
    /// to the scores; query head `i` reads key head `i / (h / g)`.
    #[track_caller]
    pub fn attention(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
        scale: f64,
    ) -> Result<Tensor> {
        let op = Attention { causal, masked: mask.is_some() };
        let ins: SmallVec<[&Tensor; 4]> = [q, k, v].into_iter().chain(mask).collect();
        Ok(Tensor::apply(op.into(), &ins, &[Scalar::F64(scale)])?.swap_remove(0))
    }

    /// The cross-entropy of each row of logits `[n, classes]` with its class; rows of class `ignore` count nothing.
    #[track_caller]
    pub fn cross_entropy_rows(&self, classes: &Tensor, ignore: i64) -> Result<Tensor> {
        Ok(Tensor::apply(CrossEntropy {}.into(), &[self, classes], &[Scalar::I64(ignore)])?.swap_remove(0))
    }

    /// One optimizer step: parameters and states get new values, all of them or, when something failed, none.
    #[track_caller]
    pub fn step(step: &Step<'_>) -> Result<()> {
        let n = step.params.len();
        if step.grads.len() != n || step.states.iter().any(|s| s.len() != n) {
            return Err(Error::Value(format!("expected {n} gradients and {n} states for {n} parameters")));
        }
        if n == 0 {
            return Ok(());
        }
        let states = u8::try_from(step.states.len()).map_err(|_| OpError::argument("too many states"))?;
        if step.scalars.len() != step.kind.scalars() {
            let (name, wanted) = (step.kind.name(), step.kind.scalars());
            return Err(Error::Value(format!("{name} takes {wanted} scalars, got {}", step.scalars.len())));
        }
        let op = Update { kind: step.kind, states, centered: step.centered, maximize: step.maximize };
        let written: Vec<&Tensor> = step.params.iter().chain(step.states.iter().flatten()).collect();
        let ins: Vec<&Tensor> = step.params.iter().chain(step.grads).chain(step.states.iter().flatten()).collect();
        let scalars: SmallVec<[Scalar; 6]> = step.scalars.iter().map(|&x| Scalar::F64(x)).collect();
        no_grad(|| {
            let new = Tensor::apply(op.into(), &ins, &scalars)?;
            Tensor::assign_all(&written, &new)
        })
    }
}
