//! Elementwise ops: what they do is in the rows, what they share is here.

use std::borrow::Cow;

use super::one;
use crate::attr::{choice, op_struct};
use crate::rows::{BinaryKind, CompareKind, UnaryKind};
use crate::shape::{broadcast_extents, expands_to};
use crate::*;

op_struct! {
    /// A function of one number.
    pub struct Unary {
        /// Which.
        kind: UnaryKind,
    }
}

choice! {
    /// Which operand of a binary op is the instruction's scalar.
    pub enum Side {
        /// Neither.
        None = "none",
        /// The left one.
        Left = "left",
        /// The right one.
        Right = "right",
    }
}

op_struct! {
    /// A function of two numbers of one dtype, with broadcasting.
    pub struct Binary {
        /// Which.
        kind: BinaryKind,
        /// The operand that is a scalar.
        scalar: Side,
    }
}

op_struct! {
    /// A comparison of two numbers of one dtype, with broadcasting.
    pub struct Compare {
        /// Which.
        kind: CompareKind,
        /// The operand that is a scalar.
        scalar: Side,
    }
}

op_struct! {
    /// `a` where the condition holds, else `b`, with broadcasting. Ins: condition, then those of `a`
    /// and `b` that are tensors; scalars: the others.
    pub struct Select {
        /// Whether `a` is a scalar.
        a_scalar: bool,
        /// Whether `b` is a scalar.
        b_scalar: bool,
        /// The dtype of the result.
        dtype: DType,
    }
}

op_struct! {
    /// The same numbers in another dtype.
    pub struct Cast {
        /// The new dtype.
        dtype: DType,
    }
}

impl Primitive for Unary {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity(self.name(), ins, 1)?;
        let (row, ty) = (self.kind.row(), ins[0]);
        if !row.accepts.takes(ty.dtype) {
            return Err(OpError::dtype(format!("{} is not defined on {}", self.name(), ty.dtype.long_name())));
        }
        one(if row.to_bool { ty.with_dtype(DType::Bool) } else { ty })
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        match self.kind.row().keeps {
            rows::Keeps::Nothing => Saves::NONE,
            rows::Keeps::Input => Saves::ins(1),
            rows::Keeps::Output => Saves::outs(1),
        }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let row = self.kind.row();
        let (Some(g), Some(rule)) = (cx.grads[0], row.grad) else { return Ok(smallvec::smallvec![None]) };
        let kept = match row.keeps {
            rows::Keeps::Nothing => g,
            rows::Keeps::Input => cx.input(0)?,
            rows::Keeps::Output => cx.output(0)?,
        };
        Ok(smallvec::smallvec![Some(rule(e, g, kept)?)])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, self.kind.row().flops)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for &kind in UnaryKind::ALL {
            if !kind.row().accepts.takes(dtype) {
                continue;
            }
            for shape in [&[][..], &[3, 5], &[0, 4], &[1037]] {
                out.push(Sample::new(Unary { kind }, &[input(dtype, shape, kind.row().domain)]));
            }
        }
        out
    }
}

/// The shape both operands broadcast to, once their dtypes are the same: nearly always that of one of them.
fn operands<'a>(name: &str, scalar: Side, ins: &'a [TensorType]) -> Result<Cow<'a, Shape>, OpError> {
    if scalar != Side::None {
        arity(name, ins, 1)?;
        return Ok(Cow::Borrowed(&ins[0].shape));
    }
    arity(name, ins, 2)?;
    let (a, b) = (&ins[0], &ins[1]);
    if a.dtype != b.dtype {
        return Err(OpError::dtype(format!(
            "{name} needs operands of the same dtype, got {} and {}",
            a.dtype.long_name(),
            b.dtype.long_name()
        )));
    }
    broadcast_or(name, &a.shape, &b.shape)
}

fn broadcast_or<'a>(name: &str, a: &'a Shape, b: &'a Shape) -> Result<Cow<'a, Shape>, OpError> {
    if expands_to(b, a) {
        return Ok(Cow::Borrowed(a));
    }
    if expands_to(a, b) {
        return Ok(Cow::Borrowed(b));
    }
    if let Some(extents) = broadcast_extents(a, b) {
        return Shape::try_from(extents).map(Cow::Owned);
    }
    // PyTorch names the first axis from the right that does not fit.
    let rank = a.rank().max(b.rank());
    let at = |s: &Shape, i: usize| if i + s.rank() >= rank { s[i + s.rank() - rank] } else { 1 };
    let axis = (0..rank).rev().find(|&i| at(a, i) != at(b, i) && at(a, i) != 1 && at(b, i) != 1).unwrap_or(0);
    Err(OpError::shape(format!(
        "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {axis} \
         ({name} on shapes {a} and {b})",
        at(a, axis),
        at(b, axis)
    )))
}

impl Primitive for Binary {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let shape = operands(self.name(), self.scalar, ins)?;
        let dtype = ins[0].dtype;
        if !self.kind.row().accepts.takes(dtype) {
            return Err(OpError::dtype(format!("{} is not defined on {}", self.name(), dtype.long_name())));
        }
        one(TensorType { dtype, shape: shape.into_owned() })
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        (self.scalar != Side::None) as usize
    }
    fn saves(&self, needs: u64) -> Saves {
        let row = self.kind.row();
        // Positions in `ins`: with a scalar operand the one tensor is input 0 and stands on the other side.
        let (left, right) = match self.scalar {
            Side::None => (needs & 1 != 0, needs & 2 != 0),
            Side::Right => (needs & 1 != 0, false),
            Side::Left => (false, needs & 1 != 0),
        };
        let mut saves = Saves::NONE;
        for (on, s) in [(left, row.saves_left), (right, row.saves_right)] {
            if on {
                saves = Saves { ins: saves.ins | s.ins, outs: saves.outs | s.outs };
            }
        }
        saves.ins = match self.scalar {
            Side::None => saves.ins,
            Side::Right => saves.ins & 1,
            Side::Left => saves.ins >> 1 & 1,
        };
        saves
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let row = self.kind.row();
        let Some(g) = cx.grads[0] else { return Ok(cx.ins.iter().map(|_| None).collect()) };
        let saved = |i: usize| cx.saved_ins.get(i).copied().flatten().map(Operand::Val);
        let num = || cx.scalars.first().copied().map(Operand::Num);
        let (a, b) = match self.scalar {
            Side::None => (saved(0), saved(1)),
            Side::Right => (saved(0), num()),
            Side::Left => (num(), saved(0)),
        };
        let bcx = rows::BinaryCx { g, a, b, y: cx.saved_outs.first().copied().flatten() };
        let mut grads = Grads::new();
        let rules = match self.scalar {
            Side::None => vec![row.left, row.right],
            Side::Right => vec![row.left],
            Side::Left => vec![row.right],
        };
        for (i, rule) in rules.into_iter().enumerate() {
            grads.push(match rule {
                Some(rule) if cx.needs(i) => {
                    let full = rule(e, &bcx)?;
                    Some(e.sum_to(full, &cx.ins[i].shape)?)
                }
                _ => None,
            });
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, self.kind.row().flops)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for &kind in BinaryKind::ALL {
            if !kind.row().accepts.takes(dtype) {
                continue;
            }
            let row = kind.row();
            let (a, b) = if dtype.is_float() { row.domains } else { row.int_domains };
            let scalar = match row.scalar {
                Some(number) => Scalar::I64(number),
                None if dtype == DType::Bool => Scalar::Bool(true),
                None if dtype.is_float() => Scalar::F64(1.5),
                None => Scalar::I64(3),
            };
            let pairs: &[(&[usize], &[usize])] = &[
                (&[], &[]),
                (&[3, 5], &[3, 5]),
                (&[4, 1], &[3]),
                (&[2, 1, 3], &[4, 1]),
                (&[0, 3], &[3]),
                (&[1037], &[1]),
            ];
            for (sa, sb) in pairs {
                let ins = [input(dtype, sa, a), input(dtype, sb, b)];
                out.push(Sample::new(Binary { kind, scalar: Side::None }, &ins));
            }
            let right = [input(dtype, &[3, 5], a)];
            out.push(Sample::new(Binary { kind, scalar: Side::Right }, &right).with(&[scalar]));
            let left = [input(dtype, &[3, 5], b)];
            out.push(Sample::new(Binary { kind, scalar: Side::Left }, &left).with(&[scalar]));
        }
        out
    }
}

impl Primitive for Compare {
    fn name(&self) -> &'static str {
        self.kind.name()
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let shape = operands(self.name(), self.scalar, ins)?;
        one(TensorType { dtype: DType::Bool, shape: shape.into_owned() })
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        (self.scalar != Side::None) as usize
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        Ok(cx.ins.iter().map(|_| None).collect())
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 1)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let mut out = Vec::new();
        for &kind in CompareKind::ALL {
            for (a, b) in [(&[3, 5][..], &[3, 5][..]), (&[4, 1], &[3]), (&[], &[2])] {
                let ins = [input(dtype, a, Domain::Any), input(dtype, b, Domain::Any)];
                out.push(Sample::new(Compare { kind, scalar: Side::None }, &ins));
            }
            for scalar in [Side::Left, Side::Right] {
                let ins = [input(dtype, &[70], Domain::Any)];
                out.push(Sample::new(Compare { kind, scalar }, &ins).with(&[Scalar::I64(1)]));
            }
        }
        out
    }
}

impl Primitive for Select {
    fn name(&self) -> &'static str {
        "select"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("select", ins, 3 - self.a_scalar as usize - self.b_scalar as usize)?;
        if ins[0].dtype != DType::Bool {
            return Err(OpError::dtype(format!(
                "where expected condition to be a boolean tensor, but got {}",
                ins[0].dtype.long_name()
            )));
        }
        let mut shape = ins[0].shape;
        for ty in &ins[1..] {
            if ty.dtype != self.dtype {
                return Err(OpError::dtype(format!(
                    "select returns {}, but an operand is {}",
                    self.dtype.long_name(),
                    ty.dtype.long_name()
                )));
            }
            shape = broadcast_or("select", &shape, &ty.shape)?.into_owned();
        }
        one(TensorType { dtype: self.dtype, shape })
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        self.a_scalar as usize + self.b_scalar as usize
    }
    fn saves(&self, needs: u64) -> Saves {
        if needs == 0 { Saves::NONE } else { Saves::ins(1) }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = cx.ins.iter().map(|_| None).collect();
        let Some(g) = cx.grads[0] else { return Ok(grads) };
        for (i, ty) in cx.ins.iter().enumerate().skip(1) {
            if !cx.needs(i) {
                continue;
            }
            let is_a = i == 1 && !self.a_scalar;
            let cond = cx.input(0)?;
            let full = if is_a { e.select(cond, g, 0.0, self.dtype)? } else { e.select(cond, 0.0, g, self.dtype)? };
            grads[i] = Some(e.sum_to(full, &ty.shape)?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 1)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        let cond = |s: &[usize]| input(DType::Bool, s, Domain::Any);
        let x = |s: &[usize]| input(dtype, s, Domain::Any);
        let op = |a_scalar, b_scalar| Select { a_scalar, b_scalar, dtype };
        vec![
            Sample::new(op(false, false), &[cond(&[3, 5]), x(&[3, 5]), x(&[3, 5])]),
            Sample::new(op(false, false), &[cond(&[3, 1]), x(&[4]), x(&[])]),
            Sample::new(op(true, false), &[cond(&[70]), x(&[70])]).with(&[1.into()]),
            Sample::new(op(false, true), &[cond(&[2, 1]), x(&[3])]).with(&[0.into()]),
            Sample::new(op(true, true), &[cond(&[9])]).with(&[1.into(), 0.into()]),
        ]
    }
}

impl Primitive for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("cast", ins, 1)?;
        one(ins[0].with_dtype(self.dtype))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        Ok(smallvec::smallvec![match cx.grads[0] {
            Some(g) if cx.ins[0].dtype.is_float() && self.dtype.is_float() => Some(e.cast(g, cx.ins[0].dtype)?),
            _ => None,
        }])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        elementwise_cost(ins, outs, 1)
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        DType::ALL
            .into_iter()
            .map(|to| Sample::new(Cast { dtype: to }, &[input(dtype, &[3, 37], Domain::Any)]))
            .collect()
    }
}
