//! Gradient rules emit into here: plain tensors, tracked or not as the mode says.

use gt_ir::{Emit, Op, OpError, Scalar, TensorType, Val};
use smallvec::SmallVec;

use super::grad_enabled;
use crate::error::Error;
use crate::tensor::Tensor;

/// Values of one gradient rule.
#[derive(Default)]
pub(crate) struct Scratch {
    pub tensors: Vec<Tensor>,
    /// An error that is not the rule's: kept here, since a rule can only report its own kind.
    pub error: Option<Error>,
}

impl Scratch {
    pub fn put(&mut self, t: Tensor) -> Val {
        self.tensors.push(t);
        Val(self.tensors.len() as u32 - 1)
    }

    pub fn get(&self, v: Val) -> &Tensor {
        &self.tensors[v.0 as usize]
    }
}

impl Emit for Scratch {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        // What is differentiated again has to be spelled out: gradients of composites have no rule of their own.
        if grad_enabled()
            && let Some(composite) = op.composite()
        {
            return composite.expand(ins, scalars, self);
        }
        let result = {
            let tensors: SmallVec<[&Tensor; 3]> = ins.iter().map(|&v| self.get(v)).collect();
            Tensor::apply(op, &tensors, scalars)
        };
        match result {
            Ok(outs) => Ok(outs.into_iter().map(|t| self.put(t)).collect()),
            Err(Error::Op(e)) => Err(e),
            Err(e) => {
                let message = e.to_string();
                self.error = Some(e);
                Err(OpError::argument(message))
            }
        }
    }

    fn ty(&self, v: Val) -> TensorType {
        self.get(v).ty()
    }
}
