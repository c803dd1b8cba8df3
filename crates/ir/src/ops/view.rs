//! The same elements seen another way. Engines answer these without copying where strides allow it.

use super::one;
use crate::attr::op_struct;
use crate::*;

op_struct! {
    /// The same elements, row-major, in another shape.
    pub struct Reshape {
        /// The new extents.
        shape: Shape,
    }
}

op_struct! {
    /// Axis `i` of the result is axis `perm[i]` of the input.
    pub struct Permute {
        /// A permutation of the axes.
        perm: Steps,
    }
}

op_struct! {
    /// Repeats axes of extent 1 and adds axes in front.
    pub struct Broadcast {
        /// The new extents.
        shape: Shape,
    }
}

op_struct! {
    /// `sizes` elements per axis from the scalars (the starts) on, `steps` apart; steps may be negative.
    pub struct Slice {
        /// The elements taken per axis.
        sizes: Shape,
        /// The distance between elements, not zero.
        steps: Steps,
        /// Axes of one element that the result does not have: `x[i]` drops the first.
        drop: AxisSet,
    }
}

/// The permutation that undoes `perm`.
pub fn inverse_permutation(perm: &Steps) -> Steps {
    let mut out = Steps::splat(perm.rank(), 0);
    for (i, &p) in perm.iter().enumerate() {
        out[p as usize] = i as i64;
    }
    out
}

impl Primitive for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("reshape", ins, 1)?;
        if ins[0].numel() != self.shape.numel() {
            return Err(OpError::shape(format!(
                "shape '{}' is invalid for input of size {} (from shape {})",
                self.shape,
                ins[0].numel(),
                ins[0].shape
            )));
        }
        one(ins[0].with_shape(self.shape))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let back = cx.grads[0].map(|g| e.reshape(g, cx.ins[0].shape)).transpose()?;
        Ok(smallvec::smallvec![back])
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let pairs: &[(&[usize], &[usize])] = &[
            (&[2, 6], &[3, 4]),
            (&[], &[1, 1]),
            (&[12], &[2, 3, 2]),
            (&[0, 3], &[3, 0, 2]),
            (&[2, 3], &[6]),
            (&[3, 1, 8, 2], &[3, 4, 2, 1, 2]),
            (&[6, 4], &[1, 4, 6]),
            (&[4, 5, 2, 3], &[20, 6]),
        ];
        pairs
            .iter()
            .map(|(from, to)| Sample::new(Reshape { shape: Shape::new(to) }, &[input(dtype, from, Domain::Any)]))
            .collect()
    }
}

impl Primitive for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("permute", ins, 1)?;
        let shape = ins[0].shape;
        match shape.permuted(&self.perm) {
            Some(permuted) => one(ins[0].with_shape(permuted)),
            None => Err(OpError::index(format!("permute: {} must name every axis of {shape} once", self.perm))),
        }
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let back = cx.grads[0].map(|g| e.permute(g, inverse_permutation(&self.perm))).transpose()?;
        Ok(smallvec::smallvec![back])
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let cases: &[(&[usize], &[i64])] =
            &[(&[3, 5], &[1, 0]), (&[2, 3, 4], &[2, 0, 1]), (&[], &[]), (&[2, 0, 3], &[1, 2, 0]), (&[33, 65], &[1, 0])];
        cases
            .iter()
            .map(|(s, p)| Sample::new(Permute { perm: Steps::new(p) }, &[input(dtype, s, Domain::Any)]))
            .collect()
    }
}

impl Primitive for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("broadcast", ins, 1)?;
        if crate::broadcast(&ins[0].shape, &self.shape) != Some(self.shape) {
            return Err(OpError::shape(format!(
                "a tensor of shape {} cannot be expanded to {}",
                ins[0].shape, self.shape
            )));
        }
        one(ins[0].with_shape(self.shape))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let back = cx.grads[0].map(|g| e.sum_to(g, &cx.ins[0].shape)).transpose()?;
        Ok(smallvec::smallvec![back])
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let pairs: &[(&[usize], &[usize])] =
            &[(&[1, 3], &[4, 3]), (&[], &[2, 2]), (&[3], &[2, 3]), (&[2, 1], &[2, 5]), (&[1], &[0])];
        pairs
            .iter()
            .map(|(from, to)| Sample::new(Broadcast { shape: Shape::new(to) }, &[input(dtype, from, Domain::Any)]))
            .collect()
    }
}

impl Primitive for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("slice", ins, 1)?;
        let rank = ins[0].shape.rank();
        if self.sizes.rank() != rank || self.steps.rank() != rank {
            return Err(OpError::shape(format!(
                "slice: sizes {} and steps {} do not fit shape {}",
                self.sizes, self.steps, ins[0].shape
            )));
        }
        for axis in 0..rank {
            let (size, step) = (self.sizes[axis], self.steps[axis]);
            let (extent, apart) = (ins[0].shape[axis], step.unsigned_abs() as usize);
            let reach = size.saturating_sub(1).saturating_mul(apart);
            if step == 0 || (size > 0 && reach >= extent) {
                return Err(OpError::shape(format!(
                    "slice: {size} elements with step {step} do not fit axis {axis} of {}",
                    ins[0].shape
                )));
            }
        }
        if self.drop.iter().any(|axis| self.sizes.get(axis) != Some(&1)) {
            return Err(OpError::shape(format!("slice: a dropped axis of {} must have one element", self.sizes)));
        }
        one(ins[0].with_shape(self.drop.remove_from(&self.sizes)))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        self.sizes.rank()
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(smallvec::smallvec![None]) };
        let zeros = e.fill(cx.ins[0], 0.0)?;
        let back = e.one(ops::UpdateSlice { steps: self.steps, drop: self.drop }.into(), &[zeros, g], cx.scalars)?;
        Ok(smallvec::smallvec![Some(back)])
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        slice_cases()
            .into_iter()
            .map(|(shape, sizes, starts, steps, drop)| {
                let op = Slice { sizes: Shape::new(sizes), steps: Steps::new(steps), drop: AxisSet::of(drop) };
                let starts: Vec<Scalar> = starts.iter().map(|&s| Scalar::I64(s)).collect();
                Sample::new(op, &[input(dtype, shape, Domain::Any)]).with(&starts)
            })
            .collect()
    }
}

type SliceCase = (&'static [usize], &'static [usize], &'static [i64], &'static [i64], &'static [usize]);

/// (shape, sizes, starts, steps, dropped axes), shared with `update_slice`.
pub(super) fn slice_cases() -> Vec<SliceCase> {
    vec![
        (&[5], &[2], &[1], &[1], &[]),
        (&[5, 6], &[2, 3], &[1, 0], &[2, 2], &[]),
        (&[5, 6], &[5, 6], &[4, 0], &[-1, 1], &[]),
        (&[4, 3, 2], &[1, 3, 1], &[2, 2, 1], &[1, -1, 1], &[]),
        (&[4, 3, 2], &[1, 3, 1], &[2, 2, 1], &[1, -1, 1], &[0]),
        (&[4, 3, 2], &[1, 3, 1], &[2, 0, 1], &[1, 1, 1], &[0, 2]),
        (&[5], &[1], &[3], &[1], &[0]),
        (&[4, 0], &[1, 0], &[1, 0], &[1, 1], &[0]),
        (&[4], &[0], &[0], &[1], &[]),
        (&[4, 3, 5], &[4, 2, 5], &[0, 1, 0], &[1, 1, 1], &[]),
        (&[4, 3, 5], &[4, 1, 5], &[0, 1, 0], &[1, 1, 1], &[1]),
        (&[], &[], &[], &[], &[]),
    ]
}
