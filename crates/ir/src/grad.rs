//! How gradient rules are written: against an emitter that may record plainly or record what can
//! itself be differentiated (`create_graph`). A rule cannot tell which.

use smallvec::SmallVec;

use crate::ops::*;
use crate::rows::{BinaryKind, CompareKind, UnaryKind};
use crate::{AxisSet, DType, Op, OpError, Scalar, Shape, Steps, TensorType};

/// A value inside a gradient rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Val(pub u32);

/// An operand of an elementwise op: a value or an immediate.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Operand {
    Val(Val),
    Num(Scalar),
}

impl From<Val> for Operand {
    fn from(v: Val) -> Self {
        Operand::Val(v)
    }
}

impl From<f64> for Operand {
    fn from(v: f64) -> Self {
        Operand::Num(Scalar::F64(v))
    }
}

/// One gradient per input; `None` where the op is not differentiable in it or nobody asked.
pub type Grads = SmallVec<[Option<Val>; 3]>;

/// Which values a backward pass needs: bit `i` stands for input or output `i` (the last bit for all beyond).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saves {
    /// Inputs to keep.
    pub ins: u64,
    /// Outputs to keep.
    pub outs: u64,
}

impl Saves {
    /// Keep nothing.
    pub const NONE: Saves = Saves { ins: 0, outs: 0 };

    /// Keep these inputs.
    pub const fn ins(mask: u64) -> Self {
        Saves { ins: mask, outs: 0 }
    }

    /// Keep these outputs.
    pub const fn outs(mask: u64) -> Self {
        Saves { ins: 0, outs: mask }
    }
}

/// What a gradient rule sees of the instruction it differentiates.
pub struct GradCx<'a> {
    /// The types of the inputs.
    pub ins: &'a [TensorType],
    /// The types of the outputs.
    pub outs: &'a [TensorType],
    /// The immediates.
    pub scalars: &'a [Scalar],
    /// The gradients of the outputs; `None` is zero.
    pub grads: &'a [Option<Val>],
    /// The saved inputs, by position.
    pub saved_ins: &'a [Option<Val>],
    /// The saved outputs, by position.
    pub saved_outs: &'a [Option<Val>],
    /// Bit `i`: input `i` wants a gradient.
    pub needs: u64,
}

impl GradCx<'_> {
    /// Whether input `i` wants a gradient.
    pub fn needs(&self, i: usize) -> bool {
        self.needs >> i.min(63) & 1 != 0
    }

    /// Input `i`, which [`crate::Primitive::saves`] asked for.
    pub fn input(&self, i: usize) -> Result<Val, OpError> {
        self.saved_ins
            .get(i)
            .copied()
            .flatten()
            .ok_or_else(|| OpError::argument("a gradient rule reads an input it did not save"))
    }

    /// Output `i`, which [`crate::Primitive::saves`] asked for.
    pub fn output(&self, i: usize) -> Result<Val, OpError> {
        self.saved_outs
            .get(i)
            .copied()
            .flatten()
            .ok_or_else(|| OpError::argument("a gradient rule reads an output it did not save"))
    }
}

/// Where gradient rules (and expansions of composites) put their instructions.
pub trait Emit {
    /// Records one instruction and returns its outputs.
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError>;
    /// The type of a value.
    fn ty(&self, v: Val) -> TensorType;
}

type R = Result<Val, OpError>;

impl dyn Emit + '_ {
    /// Records an instruction with one output.
    pub fn one(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> R {
        self.emit(op, ins, scalars).map(|outs| outs[0])
    }

    /// `kind(x)`.
    pub fn unary(&mut self, kind: UnaryKind, x: Val) -> R {
        self.one(Unary { kind }.into(), &[x], &[])
    }

    /// `kind(a, b)` with broadcasting; at most one side is a number.
    pub fn binary(&mut self, kind: BinaryKind, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        match (a.into(), b.into()) {
            (Operand::Val(a), Operand::Val(b)) => self.one(Binary { kind, scalar: Side::None }.into(), &[a, b], &[]),
            (Operand::Val(a), Operand::Num(b)) => self.one(Binary { kind, scalar: Side::Right }.into(), &[a], &[b]),
            (Operand::Num(a), Operand::Val(b)) => self.one(Binary { kind, scalar: Side::Left }.into(), &[b], &[a]),
            (Operand::Num(_), Operand::Num(_)) => Err(OpError::argument("a binary op needs one tensor")),
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        self.binary(BinaryKind::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        self.binary(BinaryKind::Sub, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        self.binary(BinaryKind::Mul, a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        self.binary(BinaryKind::Div, a, b)
    }

    /// `-x`.
    pub fn neg(&mut self, x: Val) -> R {
        self.unary(UnaryKind::Neg, x)
    }

    /// `kind(a, b)` as bool.
    pub fn compare(&mut self, kind: CompareKind, a: impl Into<Operand>, b: impl Into<Operand>) -> R {
        match (a.into(), b.into()) {
            (Operand::Val(a), Operand::Val(b)) => self.one(Compare { kind, scalar: Side::None }.into(), &[a, b], &[]),
            (Operand::Val(a), Operand::Num(b)) => self.one(Compare { kind, scalar: Side::Right }.into(), &[a], &[b]),
            (Operand::Num(a), Operand::Val(b)) => self.one(Compare { kind, scalar: Side::Left }.into(), &[b], &[a]),
            (Operand::Num(_), Operand::Num(_)) => Err(OpError::argument("a comparison needs one tensor")),
        }
    }

    /// `a` where `cond`, else `b`; the result has `dtype`.
    pub fn select(&mut self, cond: Val, a: impl Into<Operand>, b: impl Into<Operand>, dtype: DType) -> R {
        let (mut ins, mut scalars) = (vec![cond], vec![]);
        let mut put = |o: Operand| match o {
            Operand::Val(v) => {
                ins.push(v);
                false
            }
            Operand::Num(s) => {
                scalars.push(s);
                true
            }
        };
        let (a_scalar, b_scalar) = (put(a.into()), put(b.into()));
        self.one(Select { a_scalar, b_scalar, dtype }.into(), &ins, &scalars)
    }

    /// `x` in another dtype.
    pub fn cast(&mut self, x: Val, dtype: DType) -> R {
        if self.ty(x).dtype == dtype { Ok(x) } else { self.one(Cast { dtype }.into(), &[x], &[]) }
    }

    /// A tensor of one number.
    pub fn fill(&mut self, ty: TensorType, value: impl Into<Scalar>) -> R {
        self.one(Fill { dtype: ty.dtype, shape: ty.shape }.into(), &[], &[value.into()])
    }

    /// Reduces over `axes`.
    pub fn reduce(&mut self, kind: ReduceKind, x: Val, axes: AxisSet, keepdim: bool) -> R {
        if axes.is_empty() {
            return Ok(x);
        }
        self.one(Reduce { kind, axes, keepdim }.into(), &[x], &[])
    }

    /// Sums over `axes`.
    pub fn sum(&mut self, x: Val, axes: AxisSet, keepdim: bool) -> R {
        self.reduce(ReduceKind::Sum, x, axes, keepdim)
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: Val, shape: Shape) -> R {
        if self.ty(x).shape == shape { Ok(x) } else { self.one(Reshape { shape }.into(), &[x], &[]) }
    }

    /// Axis `i` of the result is axis `perm[i]` of `x`.
    pub fn permute(&mut self, x: Val, perm: Steps) -> R {
        self.one(Permute { perm }.into(), &[x], &[])
    }

    /// Swaps the last two axes.
    pub fn transpose(&mut self, x: Val) -> R {
        let rank = self.ty(x).shape.rank();
        let mut perm: Steps = (0..rank as i64).collect();
        perm.swap(rank - 1, rank - 2);
        self.permute(x, perm)
    }

    /// `x` repeated to a larger shape.
    pub fn broadcast(&mut self, x: Val, shape: Shape) -> R {
        if self.ty(x).shape == shape { Ok(x) } else { self.one(Broadcast { shape }.into(), &[x], &[]) }
    }

    /// Undoes broadcasting: sums `x` over the axes along which `shape` was repeated.
    pub fn sum_to(&mut self, x: Val, shape: &Shape) -> R {
        let from = self.ty(x).shape;
        if from == *shape {
            return Ok(x);
        }
        let lead = from.rank() - shape.rank();
        let mut axes = AxisSet::default();
        for axis in 0..from.rank() {
            if axis < lead || (shape[axis - lead] == 1 && from[axis] != 1) {
                axes.0 |= 1 << axis;
            }
        }
        let summed = self.sum(x, axes, true)?;
        self.reshape(summed, *shape)
    }

    /// Elements from `starts` on, `steps` apart.
    pub fn slice(&mut self, x: Val, sizes: Shape, starts: &[i64], steps: Steps) -> R {
        let scalars: Vec<Scalar> = starts.iter().map(|&s| Scalar::I64(s)).collect();
        self.one(Slice { sizes, steps, drop: AxisSet::default() }.into(), &[x], &scalars)
    }

    /// `a @ b`.
    pub fn matmul(&mut self, a: Val, b: Val) -> R {
        self.one(Matmul::PLAIN.into(), &[a, b], &[])
    }
}
