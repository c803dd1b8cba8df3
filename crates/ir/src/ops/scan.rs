//! Running sums and products along an axis.

use super::one;
use crate::attr::{choice, op_struct};
use crate::*;

choice! {
    /// How numbers are combined.
    #[allow(missing_docs)]
    pub enum ScanKind { Sum = "cumsum", Prod = "cumprod" }
}

op_struct! {
    /// Element `i` combines elements `0..=i` along the axis, or `i..` when reversed. In order, element by element.
    pub struct Scan {
        /// How.
        kind: ScanKind,
        /// Along which axis.
        axis: u8,
        /// From the end.
        reverse: bool,
    }
}

impl Primitive for Scan {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity(self.name(), ins, 1)?;
        check_axis(self.name(), self.axis, ins[0].shape.rank())?;
        if ins[0].dtype == DType::Bool {
            return Err(OpError::dtype(format!("{} is not defined on bool", self.name())));
        }
        one(ins[0])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        match self.kind {
            ScanKind::Sum => Saves::NONE,
            ScanKind::Prod => Saves::ins(1),
        }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let Some(g) = cx.grads[0] else { return Ok(smallvec::smallvec![None]) };
        let back = match self.kind {
            ScanKind::Sum => {
                e.one(Scan { kind: ScanKind::Sum, axis: self.axis, reverse: !self.reverse }.into(), &[g], &[])?
            }
            ScanKind::Prod => self.prod_grad(cx.input(0)?, g, e)?,
        };
        Ok(smallvec::smallvec![Some(back)])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 1)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if dtype == DType::Bool {
            return Vec::new();
        }
        let mut out = Vec::new();
        for &kind in ScanKind::ALL {
            for (shape, axis) in [(&[7][..], 0), (&[3, 5], 1), (&[3, 5], 0), (&[2, 3, 4], 1), (&[2, 0], 1)] {
                for reverse in [false, true] {
                    out.push(Sample::new(Scan { kind, axis, reverse }, &[input(dtype, shape, Domain::Any)]));
                }
            }
        }
        out
    }
}

impl Scan {
    /// The gradient of a running product, exact where factors are zero.
    ///
    /// With T[i, j] = Σ_{k ≥ j} g[k] · Π_{l ≤ k, l ≠ i} x[l], the gradient of x[i] is T[i, i]. Element `i`
    /// is replaced by 1 in copy `i` of `x`, so the sum costs n² for n elements along the axis: zeros are
    /// handled without division, and axes that are multiplied along are short.
    fn prod_grad(&self, x: Val, g: Val, e: &mut dyn Emit) -> Result<Val, OpError> {
        use crate::ops::Iota;
        use crate::rows::CompareKind;
        let ty = e.ty(x);
        let (axis, rank) = (self.axis as usize, ty.shape.rank());
        let n = ty.shape[axis];
        // Move the axis last and add one for the copies: [rest…, i, l].
        let perm: Steps = (0..rank).filter(|&a| a != axis).chain([axis]).map(|a| a as i64).collect();
        let (xm, gm) = (e.permute(x, perm)?, e.permute(g, perm)?);
        let moved = e.ty(xm).shape;
        if rank == crate::MAX_RANK {
            return Err(OpError::shape(
                "cumprod: the gradient is not supported for a tensor with the maximum number of dimensions",
            ));
        }
        let with_copy = moved.with_unit_axis(rank - 1);
        let iota =
            e.one(Iota { dtype: DType::I64, shape: Shape::try_new(&[n])? }.into(), &[], &[0.into(), 1.into()])?;
        let rows = e.reshape(iota, Shape::try_new(&[n, 1])?)?;
        let own = e.compare(CompareKind::Eq, rows, iota)?;
        let reached = e.compare(if self.reverse { CompareKind::Ge } else { CompareKind::Le }, rows, iota)?;
        let xc = e.reshape(xm, with_copy)?;
        let others = e.select(own, 1.0, xc, ty.dtype)?;
        let scan = Scan { kind: ScanKind::Prod, axis: rank as u8, reverse: self.reverse };
        let products = e.one(scan.into(), &[others], &[])?;
        let gc = e.reshape(gm, with_copy)?;
        let terms = e.mul(products, gc)?;
        let terms = e.select(reached, terms, 0.0, ty.dtype)?;
        let summed = e.sum(terms, AxisSet::of(&[rank]), false)?;
        e.permute(summed, crate::ops::inverse_permutation(&perm))
    }
}
