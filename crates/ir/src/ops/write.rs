//! The write: where a cell takes its next value, or keeps the last good one.

use crate::attr::op_struct;
use crate::*;

op_struct! {
    /// Ins: n old values, then n new ones; outs: the new ones. All or nothing: when any new value is
    /// poisoned the outs are the old values instead, and the error is kept for the next read.
    ///
    /// In-place ops and optimizer steps end in a write; that is how a failure never destroys state.
    /// An engine may give a new value the buffer of its old one, as it may for any input that dies, as long
    /// as it does so only once nothing can fail any more.
    pub struct Write {}
}

impl Primitive for Write {
    fn name(&self) -> &'static str {
        "write"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let n = ins.len() / 2;
        if ins.is_empty() || !ins.len().is_multiple_of(2) || ins[..n] != ins[n..] {
            return Err(OpError::malformed("write needs as many new values as old ones, with the same types"));
        }
        Ok(ins[n..].iter().copied().collect())
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        let n = cx.ins.len() / 2;
        Ok((0..cx.ins.len()).map(|i| if i < n { None } else { cx.grads[i - n] }).collect())
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let x = |s: &[usize]| input(dtype, s, Domain::Any);
        vec![
            Sample::new(Write {}, &[x(&[2, 3]), x(&[2, 3])]),
            Sample::new(Write {}, &[x(&[2]), x(&[3]), x(&[2]), x(&[3])]),
        ]
    }
}
