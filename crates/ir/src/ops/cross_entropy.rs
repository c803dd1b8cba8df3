//! Cross-entropy of class indices, row by row, and its gradient.

use smallvec::smallvec;

use super::one;
use crate::attr::op_struct;
use crate::ops::Iota;
use crate::rows::{CompareKind, UnaryKind};
use crate::*;

op_struct! {
    /// Ins: logits `[n, classes]`, class indices `[n]`. Outs: the loss of each row, `log(sum(exp(x))) - x[class]`, and the
    /// logarithm itself, which the gradient needs. The scalar is the class whose rows count nothing.
    pub struct CrossEntropy {}
}

op_struct! {
    /// The gradient of the logits. Ins: logits, class indices, the logarithms, the gradients of the losses.
    pub struct CrossEntropyGrad {}
}

/// What sums over halves are kept in.
pub(super) fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn check(name: &str, ins: &[TensorType]) -> Result<(TensorType, TensorType), OpError> {
    let (logits, classes) = (ins[0], ins[1]);
    if !logits.dtype.is_float() {
        return Err(OpError::dtype(format!(
            "{name}: expected floating point logits, got {}",
            logits.dtype.long_name()
        )));
    }
    if classes.dtype != DType::I64 {
        return Err(OpError::dtype(format!("{name}: expected int64 class indices, got {}", classes.dtype.long_name())));
    }
    if logits.shape.rank() != 2 || classes.shape.rank() != 1 || logits.shape[0] != classes.shape[0] {
        return Err(OpError::shape(format!(
            "{name}: logits of shape {} do not match class indices of shape {}",
            logits.shape, classes.shape
        )));
    }
    if logits.shape[1] == 0 && logits.shape[0] != 0 {
        return Err(OpError::shape(format!("{name}: logits of shape {} have no class dimension", logits.shape)));
    }
    let row = logits.with_shape(classes.shape);
    Ok((row, row.with_dtype(wide(row.dtype))))
}

/// `[n]` as `[n, 1]`.
fn column(e: &mut dyn Emit, x: Val) -> Result<Val, OpError> {
    let n = e.ty(x).shape[0];
    e.reshape(x, Shape::try_new(&[n, 1])?)
}

/// Which rows count nothing, and the class indices with those rows made harmless.
fn classes(e: &mut dyn Emit, classes: Val, ignore: Scalar) -> Result<(Val, Val), OpError> {
    let ignored = e.compare(CompareKind::Eq, classes, Operand::Num(ignore))?;
    let harmless = e.select(ignored, Operand::Num(Scalar::I64(0)), classes, DType::I64)?;
    Ok((ignored, harmless))
}

impl Primitive for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("cross_entropy", ins, 2)?;
        let (loss, log) = check("cross_entropy", ins)?;
        Ok(smallvec![loss, log])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        1
    }
    fn saves(&self, _: u64) -> Saves {
        Saves { ins: 0b11, outs: 0b10 }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut total = None;
        let (logits, log) = (cx.input(0)?, cx.output(1)?);
        if let Some(g) = cx.grads[0] {
            let ins = [logits, cx.input(1)?, log, g];
            total = Some(e.one(CrossEntropyGrad {}.into(), &ins, cx.scalars)?);
        }
        // Nobody sees the logarithm but gradients of gradients.
        if let Some(g) = cx.grads[1] {
            let share = probabilities(e, logits, log)?;
            let g = column(e, g)?;
            let part = e.mul(share, g)?;
            let part = e.cast(part, cx.ins[0].dtype)?;
            total = Some(match total {
                Some(have) => e.add(have, part)?,
                None => part,
            });
        }
        Ok(smallvec![total, None])
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: (ins[0].numel() as u64).saturating_mul(20), bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if !dtype.is_float() {
            return Vec::new();
        }
        let case = |n: usize, classes: usize, ignore: i64| {
            let ins =
                [input(dtype, &[n, classes], Domain::Any), input(DType::I64, &[n], Domain::Index(classes.max(1)))];
            Sample::new(CrossEntropy {}, &ins).with(&[Scalar::I64(ignore)])
        };
        vec![case(5, 7, -100), case(4, 3, 1), case(1, 1, -1), case(0, 3, 0), case(3, 1500, 2), case(17, 40, 39)]
    }
}

/// `exp(logits - log)`, in what sums are kept in.
fn probabilities(e: &mut dyn Emit, logits: Val, log: Val) -> Result<Val, OpError> {
    let dtype = e.ty(log).dtype;
    let (x, log) = (e.cast(logits, dtype)?, column(e, log)?);
    let shifted = e.sub(x, log)?;
    e.unary(UnaryKind::Exp, shifted)
}

impl Composite for CrossEntropy {
    fn expand(
        &self,
        ins: &[Val],
        scalars: &[Scalar],
        e: &mut dyn Emit,
    ) -> Result<smallvec::SmallVec<[Val; 2]>, OpError> {
        let logits = e.ty(ins[0]);
        let x = e.cast(ins[0], wide(logits.dtype))?;
        let axes = AxisSet::of(&[1]);
        let rows = logits.shape.leading(1);
        let (ignored, harmless) = classes(e, ins[1], scalars[0])?;
        if logits.shape[0] == 0 {
            let log = e.sum(x, axes, false)?;
            let loss = e.cast(log, logits.dtype)?;
            return Ok(smallvec![loss, log]);
        }
        let top = e.reduce(crate::ops::ReduceKind::Max, x, axes, true)?;
        let shifted = e.sub(x, top)?;
        let powers = e.unary(UnaryKind::Exp, shifted)?;
        let total = e.sum(powers, axes, true)?;
        let log = e.unary(UnaryKind::Log, total)?;
        let log = e.add(log, top)?;
        let log = e.reshape(log, rows)?;
        let at = column(e, harmless)?;
        let own = e.one(ops::Gather { axis: 1 }.into(), &[x, at], &[])?;
        let own = e.reshape(own, rows)?;
        let loss = e.sub(log, own)?;
        let dtype = e.ty(loss).dtype;
        let loss = e.select(ignored, 0.0, loss, dtype)?;
        Ok(smallvec![e.cast(loss, logits.dtype)?, log])
    }
    fn has_grad(&self) -> bool {
        true
    }
}

impl Primitive for CrossEntropyGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_grad"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("cross_entropy_grad", ins, 4)?;
        let (loss, log) = check("cross_entropy_grad", ins)?;
        if ins[2] != log || ins[3] != loss {
            return Err(OpError::shape(format!(
                "cross_entropy_grad: expected {log} and {loss}, got {} and {}",
                ins[2], ins[3]
            )));
        }
        one(ins[0])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        1
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, _: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        Err(OpError::argument("cross_entropy_grad is differentiated through its expansion"))
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: (ins[0].numel() as u64).saturating_mul(12), bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if !dtype.is_float() {
            return Vec::new();
        }
        let case = |n: usize, classes: usize, ignore: i64| {
            let ins = [
                input(dtype, &[n, classes], Domain::Unit),
                input(DType::I64, &[n], Domain::Index(classes.max(1))),
                input(wide(dtype), &[n], Domain::AboveOne),
                input(dtype, &[n], Domain::Any),
            ];
            Sample::new(CrossEntropyGrad {}, &ins).with(&[Scalar::I64(ignore)])
        };
        vec![case(5, 7, -100), case(4, 3, 1), case(1, 1, -1), case(0, 3, 0), case(3, 1500, 2)]
    }
}

impl Composite for CrossEntropyGrad {
    fn expand(
        &self,
        ins: &[Val],
        scalars: &[Scalar],
        e: &mut dyn Emit,
    ) -> Result<smallvec::SmallVec<[Val; 2]>, OpError> {
        let logits = e.ty(ins[0]);
        let share = probabilities(e, ins[0], ins[2])?;
        let dtype = e.ty(share).dtype;
        let (ignored, harmless) = classes(e, ins[1], scalars[0])?;
        let at = column(e, harmless)?;
        let numbers = Iota { dtype: DType::I64, shape: Shape::try_new(&[logits.shape[1]])? };
        let every = e.one(numbers.into(), &[], &[0.into(), 1.into()])?;
        let own = e.compare(CompareKind::Eq, every, at)?;
        let own = e.cast(own, dtype)?;
        let away = e.sub(share, own)?;
        let g = e.cast(ins[3], dtype)?;
        let g = e.select(ignored, 0.0, g, dtype)?;
        let g = column(e, g)?;
        let grad = e.mul(away, g)?;
        Ok(smallvec![e.cast(grad, logits.dtype)?])
    }
    fn has_grad(&self) -> bool {
        false
    }
}
