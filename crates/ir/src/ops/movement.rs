//! New values put together from old ones: update-slice, pad, concat.

use super::one;
use super::view::slice_cases;
use crate::attr::op_struct;
use crate::*;

op_struct! {
    /// The first input with the second written into it, from the scalars (the starts) on, `steps` apart.
    pub struct UpdateSlice {
        /// The distance between written elements, not zero.
        steps: Steps,
        /// Axes that the second input does not have: one element is written along them.
        drop: AxisSet,
    }
}

op_struct! {
    /// The input with the scalar around it.
    pub struct Pad {
        /// Elements added before, per axis.
        low: Counts,
        /// Elements added after, per axis.
        high: Counts,
    }
}

op_struct! {
    /// The inputs behind one another along an axis.
    pub struct Concat {
        /// Along which axis.
        axis: u8,
    }
}

impl UpdateSlice {
    /// The slice that reads what was written; `part` is the shape of the second input.
    fn slice(&self, part: &Shape) -> ops::Slice {
        ops::Slice { sizes: self.drop.insert_into(part), steps: self.steps, drop: self.drop }
    }
}

impl Primitive for UpdateSlice {
    fn name(&self) -> &'static str {
        "update_slice"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("update_slice", ins, 2)?;
        if ins[0].dtype != ins[1].dtype {
            return Err(OpError::dtype(format!(
                "update_slice: cannot write {} into {}",
                ins[1].dtype.long_name(),
                ins[0].dtype.long_name()
            )));
        }
        if ins[1].shape.rank() + self.drop.len() != ins[0].shape.rank() {
            return Err(OpError::shape(format!(
                "update_slice: a slice of shape {} does not fit shape {}",
                ins[1].shape, ins[0].shape
            )));
        }
        // The written part must be a slice of the first input.
        self.slice(&ins[1].shape).infer(&ins[..1])?;
        one(ins[0])
    }
    fn scalars(&self, ins: &[TensorType]) -> usize {
        ins[0].shape.rank()
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None];
        let Some(g) = cx.grads[0] else { return Ok(grads) };
        if cx.needs(0) {
            let zeros = e.fill(cx.ins[1], 0.0)?;
            grads[0] = Some(e.one(self.clone().into(), &[g, zeros], cx.scalars)?);
        }
        if cx.needs(1) {
            grads[1] = Some(e.one(self.slice(&cx.ins[1].shape).into(), &[g], cx.scalars)?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], _: &[TensorType]) -> Cost {
        Cost { flops: 0, bytes: moved_bytes([ins[1], ins[1]].iter()) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        slice_cases()
            .into_iter()
            .map(|(shape, sizes, starts, steps, drop)| {
                let starts: Vec<Scalar> = starts.iter().map(|&s| Scalar::I64(s)).collect();
                let drop = AxisSet::of(drop);
                let part = drop.remove_from(&Shape::new(sizes));
                let ins = [input(dtype, shape, Domain::Any), input(dtype, &part, Domain::Any)];
                Sample::new(UpdateSlice { steps: Steps::new(steps), drop }, &ins).with(&starts)
            })
            .collect()
    }
}

impl Primitive for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("pad", ins, 1)?;
        let shape = ins[0].shape;
        if self.low.rank() != shape.rank() || self.high.rank() != shape.rank() {
            return Err(OpError::shape(format!("pad: {} and {} do not fit shape {shape}", self.low, self.high)));
        }
        // What saturates is too large for a shape.
        let grown = |axis: usize| shape[axis].saturating_add(self.low[axis]).saturating_add(self.high[axis]);
        one(ins[0].with_shape(Shape::try_collect((0..shape.rank()).map(grown))?))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        1
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(smallvec::smallvec![None]) };
        let starts: Vec<i64> = self.low.iter().map(|&l| l as i64).collect();
        let shape = cx.ins[0].shape;
        Ok(smallvec::smallvec![Some(e.slice(g, shape, &starts, Steps::splat(shape.rank(), 1))?)])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 0)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize], &[usize])] = &[
            (&[3], &[1], &[2]),
            (&[2, 3], &[0, 2], &[1, 0]),
            (&[0, 2], &[1, 0], &[1, 0]),
            (&[], &[], &[]),
            (&[5, 3], &[0, 1], &[0, 1]),
        ];
        cases
            .iter()
            .map(|(s, l, h)| {
                let op = Pad { low: Counts::new(l), high: Counts::new(h) };
                Sample::new(op, &[input(dtype, s, Domain::Any)]).with(&[Scalar::I64(1)])
            })
            .collect()
    }
}

impl Primitive for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let Some(first) = ins.first() else {
            return Err(OpError::argument("cat: expected a non-empty list of tensors"));
        };
        let axis = check_axis("cat", self.axis, first.shape.rank())?;
        let mut extent = first.shape[axis];
        for ty in &ins[1..] {
            let fits = ty.shape.rank() == first.shape.rank()
                && (0..first.shape.rank()).all(|a| a == axis || ty.shape[a] == first.shape[a]);
            if !fits {
                return Err(OpError::shape(format!(
                    "Sizes of tensors must match except in dimension {axis}: {} does not fit {}",
                    ty.shape, first.shape
                )));
            }
            if ty.dtype != first.dtype {
                return Err(OpError::dtype(format!(
                    "cat: cannot concatenate {} with {}",
                    ty.dtype.long_name(),
                    first.dtype.long_name()
                )));
            }
            extent = extent.saturating_add(ty.shape[axis]);
        }
        one(first.with_shape(first.shape.with_extent(axis, extent)?))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(cx.ins.iter().map(|_| None).collect()) };
        let axis = self.axis as usize;
        let mut starts = vec![0i64; cx.outs[0].shape.rank()];
        let mut grads = Grads::new();
        for (i, ty) in cx.ins.iter().enumerate() {
            grads.push(if cx.needs(i) {
                Some(e.slice(g, ty.shape, &starts, Steps::splat(ty.shape.rank(), 1))?)
            } else {
                None
            });
            starts[axis] += ty.shape[axis] as i64;
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 0)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let x = |s: &[usize]| input(dtype, s, Domain::Any);
        vec![
            Sample::new(Concat { axis: 0 }, &[x(&[2, 3]), x(&[1, 3]), x(&[0, 3])]),
            Sample::new(Concat { axis: 1 }, &[x(&[2, 3]), x(&[2, 1])]),
            Sample::new(Concat { axis: 1 }, &[x(&[2, 1, 3]), x(&[2, 2, 3]), x(&[2, 4, 3]), x(&[2, 1, 3])]),
            Sample::new(Concat { axis: 0 }, &[x(&[4])]),
            Sample::new(Concat { axis: 1 }, &[x(&[5, 2]), x(&[5, 3])]),
        ]
    }
}
