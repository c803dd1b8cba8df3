//! Reductions over axes.
//!
//! REDUCE-1: the order of a sum is a function of the shape alone. Elements of one output, in row-major
//! order over the reduced axes, are cut into blocks of [`Reduce::BLOCK`]; inside a block element `k` goes to
//! accumulator `k % LANES`; accumulators are folded by halves; blocks are added in order.

use super::one;
use crate::attr::{choice, op_struct};
use crate::rows::{BinaryKind, CompareKind, UnaryKind};
use crate::*;

choice! {
    /// How numbers are combined.
    #[allow(missing_docs)]
    pub enum ReduceKind { Sum = "sum", Prod = "prod", Max = "amax", Min = "amin" }
}

op_struct! {
    /// Combines all elements along the axes. Bool takes `amax` (any) and `amin` (all).
    pub struct Reduce {
        /// How.
        kind: ReduceKind,
        /// The axes that go.
        axes: AxisSet,
        /// Whether they stay with extent 1.
        keepdim: bool,
    }
}

choice! {
    /// Which element's position is wanted.
    #[allow(missing_docs)]
    pub enum ArgKind { Max = "argmax", Min = "argmin" }
}

op_struct! {
    /// The position (int64) of the first largest or smallest element along an axis; a NaN wins.
    pub struct ArgReduce {
        /// Largest or smallest.
        kind: ArgKind,
        /// The axis that goes.
        axis: u8,
        /// Whether it stays with extent 1.
        keepdim: bool,
    }
}

impl Reduce {
    /// Elements summed before their partial sum is added to the total.
    pub const BLOCK: usize = 1024;
    /// Accumulators inside a block.
    pub const LANES: usize = 16;
}

impl ReduceKind {
    /// What changes nothing: the reduction of no elements.
    pub fn identity(self, dtype: DType) -> Scalar {
        let (low, high) = match dtype {
            DType::Bool => (Scalar::Bool(false), Scalar::Bool(true)),
            DType::U8 => (Scalar::I64(0), Scalar::I64(u8::MAX as i64)),
            DType::I8 => (Scalar::I64(i8::MIN as i64), Scalar::I64(i8::MAX as i64)),
            DType::I32 => (Scalar::I64(i32::MIN as i64), Scalar::I64(i32::MAX as i64)),
            DType::I64 => (Scalar::I64(i64::MIN), Scalar::I64(i64::MAX)),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                (Scalar::F64(f64::NEG_INFINITY), Scalar::F64(f64::INFINITY))
            }
        };
        match self {
            ReduceKind::Sum => Scalar::I64(0),
            ReduceKind::Prod => Scalar::I64(1),
            ReduceKind::Max => low,
            ReduceKind::Min => high,
        }
    }
}

/// The extents after `axes` are reduced.
fn reduced(shape: &Shape, axes: AxisSet, keepdim: bool) -> Shape {
    if keepdim { axes.flatten_in(shape) } else { axes.remove_from(shape) }
}

impl Primitive for Reduce {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity(self.name(), ins, 1)?;
        let ty = &ins[0];
        if self.axes.0 & !AxisSet::all(ty.shape.rank()).0 != 0 {
            return Err(OpError::index(format!(
                "{}: an axis of {:?} is out of range for shape {}",
                self.name(),
                self.axes.iter().collect::<Vec<_>>(),
                ty.shape
            )));
        }
        let extreme = matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        if ty.dtype == DType::Bool && !extreme {
            return Err(OpError::dtype(format!("{} is not defined on bool", self.name())));
        }
        if extreme && ty.dtype != DType::Bool && self.axes.iter().any(|a| ty.shape[a] == 0) {
            return Err(OpError::index(format!(
                "{}(): Expected reduction dim to have non-zero size, but the shape is {}",
                self.name(),
                ty.shape
            )));
        }
        one(ty.with_shape(reduced(&ty.shape, self.axes, self.keepdim)))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        match self.kind {
            ReduceKind::Sum => Saves::NONE,
            ReduceKind::Prod => Saves::ins(1),
            ReduceKind::Max | ReduceKind::Min => Saves { ins: 1, outs: 1 },
        }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(smallvec::smallvec![None]) };
        let shape = cx.ins[0].shape;
        if shape.numel() == 0 {
            // Of no elements.
            return Ok(smallvec::smallvec![Some(e.fill(cx.ins[0], 0.0)?)]);
        }
        let kept = reduced(&shape, self.axes, true);
        let g = e.reshape(g, kept)?;
        let dtype = cx.ins[0].dtype;
        let grad = match self.kind {
            ReduceKind::Sum => e.broadcast(g, shape)?,
            ReduceKind::Prod => {
                let x = cx.input(0)?;
                let others = product_of_others(e, x, self.axes)?;
                // The slope of a NaN is one, too, as in PyTorch, which divides the product by it.
                let nan = e.unary(UnaryKind::IsNan, x)?;
                let others = e.select(nan, x, others, dtype)?;
                e.mul(g, others)?
            }
            ReduceKind::Max | ReduceKind::Min => {
                // Shared evenly among equal elements. Where there is a NaN it is the extreme, and equals nothing.
                let y = cx.output(0)?;
                let y = e.reshape(y, kept)?;
                let x = cx.input(0)?;
                let equal = e.compare(CompareKind::Eq, x, y)?;
                let nan = e.unary(UnaryKind::IsNan, x)?;
                let hit = e.binary(BinaryKind::Or, equal, nan)?;
                let ones = e.cast(hit, dtype)?;
                let count = e.sum(ones, self.axes, true)?;
                let part = e.div(g, count)?;
                e.mul(ones, part)?
            }
        };
        Ok(smallvec::smallvec![Some(grad)])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: ins[0].numel() as u64, bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for &kind in ReduceKind::ALL {
            if dtype == DType::Bool && matches!(kind, ReduceKind::Sum | ReduceKind::Prod) {
                continue;
            }
            let mut shapes: Vec<(&[usize], &[usize], Domain)> = vec![
                (&[], &[], Domain::Distinct),
                (&[5], &[0], Domain::Distinct),
                (&[3, 5], &[1], Domain::Distinct),
                (&[3, 5], &[0], Domain::Distinct),
                (&[2, 3, 4], &[0, 2], Domain::Distinct),
                (&[2, 3, 4], &[1], Domain::Distinct),
                (&[2, 3, 4], &[0, 1, 2], Domain::Distinct),
                (&[0, 3], &[1], Domain::Distinct),
            ];
            if kind != ReduceKind::Prod {
                shapes.push((&[2, 2100], &[1], Domain::Any));
                shapes.push((&[2100, 3], &[0], Domain::Any));
                shapes.push((&[40, 70], &[0, 1], Domain::Any));
            }
            if matches!(kind, ReduceKind::Sum | ReduceKind::Prod) {
                shapes.push((&[3, 0], &[1], Domain::Any));
            }
            for (shape, axes, domain) in shapes {
                for keepdim in [false, true] {
                    let domain = if kind == ReduceKind::Prod { Domain::NonZero } else { domain };
                    let op = Reduce { kind, axes: AxisSet::of(axes), keepdim };
                    out.push(Sample::new(op, &[input(dtype, shape, domain)]));
                }
            }
        }
        out
    }
}

/// For each element the product of all others along `axes`: exact also where some are zero.
fn product_of_others(e: &mut dyn Emit, x: Val, axes: AxisSet) -> Result<Val, OpError> {
    use crate::ops::{Pad, Scan, ScanKind};
    let shape = e.ty(x).shape;
    let rank = shape.rank();
    if axes.is_empty() {
        let ty = e.ty(x);
        return e.fill(ty, 1.0);
    }
    // Bring the reduced axes to the end and join them: [kept…, n].
    let kept: Vec<i64> = (0..rank).filter(|&a| !axes.contains(a)).map(|a| a as i64).collect();
    let perm: Steps = kept.iter().copied().chain(axes.iter().map(|a| a as i64)).collect();
    let moved = e.permute(x, perm)?;
    let moved_shape = e.ty(moved).shape;
    let n: usize = axes.iter().map(|a| shape[a]).product();
    let flat = Shape::try_collect(kept.iter().map(|&a| shape[a as usize]).chain([n]))?;
    let flat_x = e.reshape(moved, flat)?;
    // Exclusive products from both ends: shift by one with ones, then multiply along.
    let last = flat.rank() - 1;
    let mut shifted = |reverse: bool| -> Result<Val, OpError> {
        let scan = Scan { kind: ScanKind::Prod, axis: last as u8, reverse };
        let inclusive = e.one(scan.into(), &[flat_x], &[])?;
        let (mut low, mut high) = (Counts::splat(flat.rank(), 0), Counts::splat(flat.rank(), 0));
        if reverse {
            high[last] = 1
        } else {
            low[last] = 1
        }
        let padded = e.one(Pad { low, high }.into(), &[inclusive], &[Scalar::F64(1.0)])?;
        let mut starts = vec![0i64; flat.rank()];
        starts[last] = reverse as i64;
        e.slice(padded, flat, &starts, Steps::splat(flat.rank(), 1))
    };
    let before = shifted(false)?;
    let after = shifted(true)?;
    let others = e.mul(before, after)?;
    let back = e.reshape(others, moved_shape)?;
    e.permute(back, crate::ops::inverse_permutation(&perm))
}

impl Primitive for ArgReduce {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity(self.name(), ins, 1)?;
        let shape = ins[0].shape;
        let axis = check_axis(self.name(), self.axis, shape.rank())?;
        if shape[axis] == 0 {
            return Err(OpError::index(format!(
                "Expected reduction dim {axis} to have non-zero size, but the shape is {shape}"
            )));
        }
        one(TensorType { dtype: DType::I64, shape: reduced(&shape, AxisSet::of(&[axis]), self.keepdim) })
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, _: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        Ok(smallvec::smallvec![None])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: ins[0].numel() as u64, bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for &kind in ArgKind::ALL {
            for (shape, axis, keepdim) in [
                (&[5][..], 0, false),
                (&[3, 5], 1, true),
                (&[3, 5], 0, false),
                (&[2, 3, 4], 1, false),
                (&[2, 2100], 1, false),
            ] {
                out.push(Sample::new(ArgReduce { kind, axis, keepdim }, &[input(dtype, shape, Domain::Any)]));
            }
        }
        out
    }
}
