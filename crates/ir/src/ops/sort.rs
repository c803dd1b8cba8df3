//! Sorting along an axis.

use crate::attr::op_struct;
use crate::*;

op_struct! {
    /// Sorted values and where they stood (int64). Stable; a NaN counts as larger than every number.
    pub struct Sort {
        /// Along which axis.
        axis: u8,
        /// Largest first.
        descending: bool,
    }
}

impl Primitive for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("sort", ins, 1)?;
        check_axis("sort", self.axis, ins[0].shape.rank())?;
        Ok(smallvec::smallvec![ins[0], ins[0].with_dtype(DType::I64)])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outs(2)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(smallvec::smallvec![None]) };
        let zeros = e.fill(cx.ins[0], 0.0)?;
        let order = cx.output(1)?;
        let back = e.one(ops::Scatter { axis: self.axis, mode: ops::PutMode::Add }.into(), &[zeros, order, g], &[])?;
        Ok(smallvec::smallvec![Some(back)])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        let n = ins[0].shape.get(self.axis as usize).copied().unwrap_or(1).max(2);
        elementwise_cost(ins, outs, n.ilog2() as u64)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for (shape, axis) in [(&[7][..], 0), (&[3, 5], 1), (&[3, 5], 0), (&[2, 3, 4], 1), (&[0], 0), (&[300], 0)] {
            for descending in [false, true] {
                out.push(Sample::new(Sort { axis, descending }, &[input(dtype, shape, Domain::Distinct)]));
            }
        }
        out
    }
}
