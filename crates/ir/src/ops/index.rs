//! Reading and writing at positions given by int64 tensors. Every index is checked by the engine:
//! one out of range fails the instruction before anything is written. Where slices are named (`x[i]`, a row of an
//! embedding) that is a failure of the index; where single elements are, or slices are added, it is one of the domain, as
//! PyTorch's exceptions have it.

use super::one;
use crate::attr::{choice, op_struct};
use crate::*;

choice! {
    /// What a written element becomes.
    pub enum PutMode {
        /// The new one; the last one written where several meet.
        Set = "set",
        /// The sum, in the order of the index.
        Add = "add",
    }
}

impl PutMode {
    /// Refuses sums of bools, which are not bools.
    fn check(self, name: &str, written: &TensorType) -> Result<(), OpError> {
        if self == PutMode::Add && written.dtype == DType::Bool {
            return Err(OpError::dtype(format!("{name}: adding bools is not supported")));
        }
        Ok(())
    }

    /// What the gradients of a write need: where it wrote, for that of the value and, where elements were replaced, for
    /// that of what was written to.
    fn saves(self, needs: u64) -> Saves {
        let keep = needs & 4 != 0 || (needs & 1 != 0 && self == PutMode::Set);
        Saves::ins((keep as u64) << 1)
    }

    /// The gradient of what `write` wrote to, from that of its result: none arrives where elements were replaced.
    fn grad_of_written(self, write: Op, grad: Val, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Val, OpError> {
        match self {
            PutMode::Add => Ok(grad),
            PutMode::Set => {
                let index = cx.input(1)?;
                let zeros = e.fill(cx.ins[2], 0.0)?;
                e.one(write, &[grad, index, zeros], &[])
            }
        }
    }
}

op_struct! {
    /// Whole slices of the first input along an axis; the axis becomes the axes of the index.
    pub struct Take {
        /// Along which axis.
        axis: u8,
        /// Whether negative positions count from the end.
        wrap: bool,
    }
}

op_struct! {
    /// The first input with slices of the third written at the positions of the second: undoes `take`.
    pub struct Put {
        /// Along which axis.
        axis: u8,
        /// Set or add.
        mode: PutMode,
        /// Whether negative positions count from the end.
        wrap: bool,
    }
}

op_struct! {
    /// Single elements: `out[i][j] = x[index[i][j]][j]` for axis 0.
    pub struct Gather {
        /// Along which axis.
        axis: u8,
    }
}

op_struct! {
    /// The first input with single elements of the third written at the positions of the second.
    pub struct Scatter {
        /// Along which axis.
        axis: u8,
        /// Set or add.
        mode: PutMode,
    }
}

fn check_index(name: &str, ty: &TensorType) -> Result<(), OpError> {
    if ty.dtype == DType::I64 {
        return Ok(());
    }
    Err(OpError::dtype(format!("{name}(): Expected dtype int64 for index, got {}", ty.dtype.long_name())))
}

/// The extents of `take`.
fn taken(name: &str, x: &Shape, index: &Shape, axis: u8) -> Result<Shape, OpError> {
    let axis = check_axis(name, axis, x.rank())?;
    Shape::try_collect(x[..axis].iter().chain(index.iter()).chain(&x[axis + 1..]).copied())
}

impl Primitive for Take {
    fn name(&self) -> &'static str {
        "take"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("take", ins, 2)?;
        check_index("take", &ins[1])?;
        one(ins[0].with_shape(taken("take", &ins[0].shape, &ins[1].shape, self.axis)?))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::ins((needs & 1) << 1)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None];
        if let (Some(g), true) = (cx.grads[0], cx.needs(0)) {
            let zeros = e.fill(cx.ins[0], 0.0)?;
            let index = cx.input(1)?;
            grads[0] = Some(e.one(
                Put { axis: self.axis, mode: PutMode::Add, wrap: self.wrap }.into(),
                &[zeros, index, g],
                &[],
            )?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: 0, bytes: moved_bytes([ins[1], outs[0], outs[0]].iter()) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize], u8)] = &[
            (&[5, 3], &[4], 0),
            (&[5, 3], &[2, 3], 0),
            (&[3, 5], &[2], 1),
            (&[2, 5, 3], &[], 1),
            (&[5], &[0], 0),
            (&[4, 7, 3], &[5, 2], 1),
        ];
        cases
            .iter()
            .map(|(x, i, axis)| {
                let n = x[*axis as usize];
                let (wrap, domain) = if i.len() == 1 { (true, Domain::Wrapped(n)) } else { (false, Domain::Index(n)) };
                Sample::new(Take { axis: *axis, wrap }, &[input(dtype, x, Domain::Any), input(DType::I64, i, domain)])
            })
            .collect()
    }
}

impl Put {
    /// What a position out of range is a failure of.
    pub fn out_of_range(mode: PutMode, wrap: bool, rank: usize) -> FailureKind {
        match mode {
            // `index_add` of slices; of single numbers, PyTorch has another exception.
            PutMode::Add if !wrap && rank > 1 => FailureKind::Domain,
            PutMode::Add | PutMode::Set => FailureKind::Index,
        }
    }
}

impl Primitive for Put {
    fn name(&self) -> &'static str {
        "put"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("put", ins, 3)?;
        check_index("put", &ins[1])?;
        self.mode.check("put", &ins[0])?;
        let wanted = taken("put", &ins[0].shape, &ins[1].shape, self.axis)?;
        if ins[2].shape != wanted || ins[2].dtype != ins[0].dtype {
            return Err(OpError::shape(format!(
                "put: the written value has type {}, expected {}",
                ins[2],
                ins[0].with_shape(wanted)
            )));
        }
        one(ins[0])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        self.mode.saves(needs)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None, None];
        let Some(g) = cx.grads[0] else { return Ok(grads) };
        if cx.needs(0) {
            grads[0] = Some(self.mode.grad_of_written(self.clone().into(), g, cx, e)?);
        }
        if cx.needs(2) {
            let index = cx.input(1)?;
            grads[2] = Some(e.one(Take { axis: self.axis, wrap: self.wrap }.into(), &[g, index], &[])?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], _: &[TensorType]) -> Cost {
        Cost { flops: ins[2].numel() as u64, bytes: moved_bytes([ins[1], ins[2], ins[2], ins[2]].iter()) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        // With `set` the indices must differ for the gradient to be defined: one index, or none.
        let set: &[(&[usize], &[usize], &[usize], u8)] = &[
            (&[5, 3], &[1], &[1, 3], 0),
            (&[2, 5, 3], &[], &[2, 3], 1),
            (&[5], &[0], &[0], 0),
            (&[4, 7, 3], &[1], &[4, 1, 3], 1),
        ];
        let add: &[(&[usize], &[usize], &[usize], u8)] =
            &[(&[5, 3], &[4], &[4, 3], 0), (&[3, 5], &[2, 2], &[3, 2, 2], 1), (&[4, 7, 3], &[5], &[4, 5, 3], 1)];
        for (mode, cases) in [(PutMode::Set, set), (PutMode::Add, add)] {
            if mode == PutMode::Add && dtype == DType::Bool {
                continue;
            }
            for (x, i, v, axis) in cases {
                let n = x[*axis as usize];
                let (wrap, domain) = if *axis == 0 { (true, Domain::Wrapped(n)) } else { (false, Domain::Index(n)) };
                let ins = [input(dtype, x, Domain::Any), input(DType::I64, i, domain), input(dtype, v, Domain::Any)];
                out.push(Sample::new(Put { axis: *axis, mode, wrap }, &ins));
            }
        }
        out
    }
}

/// Gather and scatter: the index fits inside the data on every axis but one.
fn check_fits(name: &str, x: &Shape, index: &Shape, axis: usize) -> Result<(), OpError> {
    let fits = index.rank() == x.rank() && (0..x.rank()).all(|a| a == axis || index[a] <= x[a]);
    if fits || index.numel() == 0 {
        return Ok(());
    }
    Err(OpError::shape(format!(
        "Size does not match at some dimension: {name} on shape {x} with index of shape {index} apart from dimension {axis}"
    )))
}

impl Primitive for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("gather", ins, 2)?;
        check_index("gather", &ins[1])?;
        let axis = check_axis("gather", self.axis, ins[0].shape.rank())?;
        check_fits("gather", &ins[0].shape, &ins[1].shape, axis)?;
        one(ins[0].with_shape(ins[1].shape))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::ins((needs & 1) << 1)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None];
        if let (Some(g), true) = (cx.grads[0], cx.needs(0)) {
            let zeros = e.fill(cx.ins[0], 0.0)?;
            let index = cx.input(1)?;
            grads[0] = Some(e.one(Scatter { axis: self.axis, mode: PutMode::Add }.into(), &[zeros, index, g], &[])?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: 0, bytes: moved_bytes([ins[1], outs[0], outs[0]].iter()) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let cases: &[(&[usize], &[usize], u8)] = &[
            (&[5, 3], &[4, 3], 0),
            (&[5, 3], &[2, 2], 1),
            (&[2, 3, 4], &[2, 6, 4], 1),
            (&[5], &[0], 0),
            (&[5, 7], &[5, 1], 1),
        ];
        cases
            .iter()
            .map(|(x, i, axis)| {
                let n = x[*axis as usize];
                Sample::new(
                    Gather { axis: *axis },
                    &[input(dtype, x, Domain::Any), input(DType::I64, i, Domain::Index(n))],
                )
            })
            .collect()
    }
}

impl Primitive for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("scatter", ins, 3)?;
        check_index("scatter", &ins[1])?;
        self.mode.check("scatter", &ins[0])?;
        let (x, index, src) = (&ins[0].shape, &ins[1].shape, &ins[2].shape);
        let axis = check_axis("scatter", self.axis, x.rank())?;
        check_fits("scatter", x, index, axis)?;
        let covered = src.rank() == index.rank() && index.iter().zip(src.iter()).all(|(i, s)| i <= s);
        if !covered && index.numel() > 0 {
            return Err(OpError::shape(format!("scatter: index of shape {index} exceeds the source of shape {src}")));
        }
        if ins[2].dtype != ins[0].dtype {
            return Err(OpError::dtype(format!(
                "scatter(): Expected self.dtype to be equal to src.dtype, got {} and {}",
                ins[0].dtype.long_name(),
                ins[2].dtype.long_name()
            )));
        }
        one(ins[0])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        self.mode.saves(needs)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None, None];
        let Some(g) = cx.grads[0] else { return Ok(grads) };
        if cx.needs(0) {
            grads[0] = Some(self.mode.grad_of_written(self.clone().into(), g, cx, e)?);
        }
        if cx.needs(2) {
            let index = cx.input(1)?;
            let (have, want) = (cx.ins[1].shape, cx.ins[2].shape);
            grads[2] = Some(if have.numel() == 0 {
                // Nothing was written, and the index need not even have the source's rank.
                e.fill(cx.ins[2], 0.0)?
            } else if have == want {
                e.one(Gather { axis: self.axis }.into(), &[g, index], &[])?
            } else {
                let read = e.one(Gather { axis: self.axis }.into(), &[g, index], &[])?;
                let high: Counts = want.iter().zip(have.iter()).map(|(w, h)| w - h).collect();
                e.one(ops::Pad { low: Counts::splat(have.rank(), 0), high }.into(), &[read], &[Scalar::F64(0.0)])?
            });
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], _: &[TensorType]) -> Cost {
        Cost { flops: ins[1].numel() as u64, bytes: moved_bytes([ins[1], ins[2], ins[2], ins[2]].iter()) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        let set: &[(&[usize], &[usize], &[usize], u8)] = &[
            (&[5, 3], &[1, 3], &[1, 3], 0),
            (&[2, 5], &[2, 1], &[2, 4], 1),
            (&[5], &[0], &[0], 0),
            (&[5, 7], &[5, 1], &[5, 1], 1),
        ];
        let add: &[(&[usize], &[usize], &[usize], u8)] = &[
            (&[5, 3], &[4, 3], &[4, 3], 0),
            (&[3, 5], &[2, 7], &[3, 7], 1),
            (&[5, 7], &[5, 3], &[5, 3], 1),
            (&[5, 4], &[3, 2], &[3, 2], 1),
        ];
        for (mode, cases) in [(PutMode::Set, set), (PutMode::Add, add)] {
            if mode == PutMode::Add && dtype == DType::Bool {
                continue;
            }
            for (x, i, v, axis) in cases {
                let n = x[*axis as usize];
                let ins = [
                    input(dtype, x, Domain::Any),
                    input(DType::I64, i, Domain::Index(n)),
                    input(dtype, v, Domain::Any),
                ];
                out.push(Sample::new(Scatter { axis: *axis, mode }, &ins));
            }
        }
        out
    }
}
