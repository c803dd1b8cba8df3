//! Gradient rules emit into here: plain tensors, tracked or not as the mode says.

use gt_ir::{Emit, Op, OpError, Scalar, TensorType, Val};
use smallvec::SmallVec;

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
