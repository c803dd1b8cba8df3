//! Conditions on data that nothing waits for.

use gt_ir::ops::{Check, Complaint, ReduceKind};

use crate::autograd::no_grad;
use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// The same tensor, which fails where it is read, and its gradient with it, if any element of `wrong` is true.
    ///
    /// Best put on a result: then the condition is computed in the loops that compute the result.
    #[track_caller]
    pub fn checked(&self, wrong: &Tensor, complaint: Complaint) -> Result<Tensor> {
        let wrong = no_grad(|| wrong.detach().truth(ReduceKind::Max, &[], false))?;
        Tensor::apply1(Check { complaint }, &[self, &wrong], &[])
    }
}
