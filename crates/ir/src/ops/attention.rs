//! Scaled dot-product attention with grouped heads, and its gradient.

use smallvec::{SmallVec, smallvec};

use super::cross_entropy::wide;
use crate::attr::op_struct;
use crate::ops::{Binary, Iota, ReduceKind, Side};
use crate::rows::{BinaryKind, CompareKind, UnaryKind};
use crate::*;

op_struct! {
    /// Ins: queries `[b, h, t, d]`, keys `[b, g, s, d]`, values `[b, g, s, e]`, and where `masked` what is added to the
    /// scores, broadcastable to `[b, h, t, s]`. The scalar multiplies the products. `h` is a multiple of `g`: query head `i`
    /// reads key head `i / (h / g)`. Outs: `[b, h, t, e]`, and the logarithm of each row's sum of exponentials
    /// `[b, h, t]`, which the gradient needs. A row that sees nothing is zero.
    pub struct Attention {
        /// Query `i` sees keys up to `i` only.
        causal: bool,
        /// Whether there is a fourth input.
        masked: bool,
    }
}

op_struct! {
    /// The gradients of queries, keys and values. Ins: those of the attention, its two outputs, the gradient of the first.
    pub struct AttentionGrad {
        /// As in the attention.
        causal: bool,
        /// As in the attention.
        masked: bool,
    }
}

/// The types of an attention's outputs.
fn infer(name: &str, ins: &[TensorType], masked: bool) -> Result<Types, OpError> {
    let (q, k, v) = (ins[0], ins[1], ins[2]);
    let agree = q.shape.rank() == 4
        && k.shape.rank() == 4
        && v.shape.rank() == 4
        && q.shape[0] == k.shape[0]
        && q.shape[3] == k.shape[3]
        && k.shape[..3] == v.shape[..3]
        && (if k.shape[1] == 0 { q.shape[1] == 0 } else { q.shape[1].is_multiple_of(k.shape[1]) });
    if !agree {
        return Err(OpError::shape(format!(
            "{name}: query, key and value have incompatible shapes {}, {} and {}",
            q.shape, k.shape, v.shape
        )));
    }
    if !q.dtype.is_float() || k.dtype != q.dtype || v.dtype != q.dtype {
        return Err(OpError::dtype(format!(
            "{name}: expected query, key, and value of one floating point dtype, got {}, {} and {}",
            q.dtype.long_name(),
            k.dtype.long_name(),
            v.dtype.long_name()
        )));
    }
    let (rows, scores) = (q.shape.leading(3), q.shape.with_extent(3, k.shape[2])?);
    if masked && (ins[3].dtype != q.dtype || broadcast(&ins[3].shape, &scores) != Some(scores)) {
        return Err(OpError::shape(format!(
            "{name}: a mask of type {} does not fit attention scores of shape {scores}",
            ins[3]
        )));
    }
    let out = q.shape.with_extent(3, v.shape[3])?;
    Ok(smallvec![q.with_shape(out), TensorType { dtype: wide(q.dtype), shape: rows }])
}

/// Multiply-adds of the two products.
fn products(ins: &[TensorType], causal: bool) -> u64 {
    let q = ins[0].shape;
    let widths = q[3].saturating_add(ins[2].shape[3]);
    let work = [q[0], q[1], q[2], ins[1].shape[2], widths].iter().fold(2u64, |n, &d| n.saturating_mul(d as u64));
    work / if causal { 2 } else { 1 }
}

/// Keys or values with every head as often as queries read it: `[b, g, s, d]` to `[b, h, s, d]`.
fn per_query_head(e: &mut dyn Emit, x: Val, heads: usize) -> Result<Val, OpError> {
    let [b, g, s, d] = e.ty(x).shape[..] else { unreachable!("checked by infer") };
    if g == heads {
        return Ok(x);
    }
    let apart = e.reshape(x, Shape::try_new(&[b, g, 1, s, d])?)?;
    let spread = e.broadcast(apart, Shape::try_new(&[b, g, heads / g, s, d])?)?;
    e.reshape(spread, Shape::try_new(&[b, heads, s, d])?)
}

/// Undoes [`per_query_head`] for gradients.
fn per_key_head(e: &mut dyn Emit, x: Val, groups: usize) -> Result<Val, OpError> {
    let [b, h, s, d] = e.ty(x).shape[..] else { unreachable!("checked by infer") };
    if h == groups {
        return Ok(x);
    }
    let apart = e.reshape(x, Shape::try_new(&[b, groups, h / groups, s, d])?)?;
    e.sum(apart, AxisSet::of(&[2]), false)
}

/// Scores `[b, h, t, s]`: scaled, masked, minus infinity where a query must not look.
fn scores(e: &mut dyn Emit, q: Val, k: Val, mask: Option<Val>, scale: Scalar, causal: bool) -> Result<Val, OpError> {
    let heads = e.ty(q).shape[1];
    let k = per_query_head(e, k, heads)?;
    let turned = e.transpose(k)?;
    let products = e.matmul(q, turned)?;
    let op = Binary { kind: BinaryKind::Mul, scalar: Side::Right };
    let mut scores = e.one(op.into(), &[products], &[scale])?;
    if let Some(mask) = mask {
        scores = e.add(scores, mask)?;
    }
    if causal {
        let [.., t, s] = e.ty(scores).shape[..] else { unreachable!("scores have four axes") };
        let count = |n: usize| Shape::try_new(&[n]).map(|shape| Iota { dtype: DType::I64, shape });
        let rows = e.one(count(t)?.into(), &[], &[0.into(), 1.into()])?;
        let rows = e.reshape(rows, Shape::try_new(&[t, 1])?)?;
        let columns = e.one(count(s)?.into(), &[], &[0.into(), 1.into()])?;
        let hidden = e.compare(CompareKind::Gt, columns, rows)?;
        let dtype = e.ty(scores).dtype;
        scores = e.select(hidden, f64::NEG_INFINITY, scores, dtype)?;
    }
    Ok(scores)
}

/// `exp(scores - log)` with zeros in rows that see nothing.
fn weights(e: &mut dyn Emit, scores: Val, log: Val) -> Result<Val, OpError> {
    let shape = e.ty(scores).shape;
    let column = e.reshape(log, Shape::try_new(&[shape[0], shape[1], shape[2], 1])?)?;
    let blind = e.compare(CompareKind::Eq, column, f64::NEG_INFINITY)?;
    let dtype = e.ty(column).dtype;
    let column = e.select(blind, 0.0, column, dtype)?;
    let shifted = e.sub(scores, column)?;
    e.unary(UnaryKind::Exp, shifted)
}

/// The inputs of an expansion, in the precision it is computed in.
struct Parts {
    q: Val,
    k: Val,
    v: Val,
    mask: Option<Val>,
}

impl Parts {
    fn new(e: &mut dyn Emit, ins: &[Val], masked: bool) -> Result<Parts, OpError> {
        let dtype = wide(e.ty(ins[0]).dtype);
        let mask = if masked { Some(e.cast(ins[3], dtype)?) } else { None };
        Ok(Parts { q: e.cast(ins[0], dtype)?, k: e.cast(ins[1], dtype)?, v: e.cast(ins[2], dtype)?, mask })
    }

    /// The gradients of queries, keys, values and the mask; `g_log` is the gradient of the logarithms.
    #[allow(clippy::too_many_arguments)]
    fn grads(
        &self,
        e: &mut dyn Emit,
        out: Val,
        log: Val,
        g: Option<Val>,
        g_log: Option<Val>,
        scale: Scalar,
        causal: bool,
    ) -> Result<[Option<Val>; 4], OpError> {
        let dtype = e.ty(self.q).dtype;
        let (heads, groups) = (e.ty(self.q).shape[1], e.ty(self.k).shape[1]);
        let rows = |e: &mut dyn Emit, x: Val| {
            let s = e.ty(x).shape;
            e.reshape(x, Shape::try_new(&[s[0], s[1], s[2], 1])?)
        };
        let scores = scores(e, self.q, self.k, self.mask, scale, causal)?;
        let weights = weights(e, scores, log)?;
        let last = AxisSet::of(&[3]);
        let (mut away, mut dv) = (None, None);
        if let Some(g) = g {
            let (g, out) = (e.cast(g, dtype)?, e.cast(out, dtype)?);
            let turned = e.transpose(weights)?;
            let spread = e.matmul(turned, g)?;
            dv = Some(per_key_head(e, spread, groups)?);
            let v = per_query_head(e, self.v, heads)?;
            let v = e.transpose(v)?;
            let inner = e.matmul(g, v)?;
            let both = e.mul(g, out)?;
            let own = e.sum(both, last, true)?;
            away = Some(e.sub(inner, own)?);
        }
        if let Some(g_log) = g_log {
            let g_log = rows(e, g_log)?;
            away = Some(match away {
                Some(away) => e.add(away, g_log)?,
                None => g_log,
            });
        }
        let zeros = |e: &mut dyn Emit, x: Val| {
            let ty = e.ty(x);
            e.fill(ty, 0.0)
        };
        let Some(away) = away else { return Ok([None; 4]) };
        let d_scores = e.mul(weights, away)?;
        let d_mask = match self.mask {
            Some(mask) => {
                let shape = e.ty(mask).shape;
                Some(e.sum_to(d_scores, &shape)?)
            }
            None => None,
        };
        let op = Binary { kind: BinaryKind::Mul, scalar: Side::Right };
        let d_scores = e.one(op.into(), &[d_scores], &[scale])?;
        let k = per_query_head(e, self.k, heads)?;
        let dq = e.matmul(d_scores, k)?;
        let turned = e.transpose(d_scores)?;
        let dk = e.matmul(turned, self.q)?;
        let dk = per_key_head(e, dk, groups)?;
        let dv = match dv {
            Some(dv) => dv,
            None => zeros(e, self.v)?,
        };
        Ok([Some(dq), Some(dk), Some(dv), d_mask])
    }
}

/// (batch, query heads, key heads, queries, keys, width, width of values, causal, masked)
const CASES: [(usize, usize, usize, usize, usize, usize, usize, bool, bool); 7] = [
    (2, 4, 2, 5, 5, 3, 3, true, false),
    (1, 2, 2, 3, 7, 4, 2, false, false),
    (2, 3, 1, 4, 6, 5, 5, false, true),
    (1, 2, 1, 70, 70, 4, 4, true, false),
    (1, 1, 1, 3, 2, 2, 2, true, true),
    (0, 2, 1, 3, 3, 2, 2, false, false),
    (3, 6, 3, 2, 3, 2, 2, false, true),
];

/// The inputs of a sample; masks are the same for all batches, or each batch of three has its own.
fn sample_ins(dtype: DType, case: usize) -> Vec<SampleIn> {
    let (b, h, g, t, s, d, e, _, masked) = CASES[case];
    let mut ins = vec![
        input(dtype, &[b, h, t, d], Domain::Any),
        input(dtype, &[b, g, s, d], Domain::Any),
        input(dtype, &[b, g, s, e], Domain::Any),
    ];
    if masked {
        let shape: &[usize] = if b == 3 { &[b, h, t, s] } else { &[h, t, s] };
        ins.push(input(dtype, shape, Domain::Any));
    }
    ins
}

impl Primitive for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("attention", ins, 3 + self.masked as usize)?;
        infer("attention", ins, self.masked)
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        1
    }
    fn saves(&self, _: u64) -> Saves {
        Saves { ins: 0b1111, outs: 0b11 }
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut ins: SmallVec<[Val; 8]> = smallvec![cx.input(0)?, cx.input(1)?, cx.input(2)?];
        if self.masked {
            ins.push(cx.input(3)?);
        }
        let (out, log) = (cx.output(0)?, cx.output(1)?);
        let mut grads: Grads = match (cx.grads[0], cx.grads[1]) {
            (Some(g), None) if !(self.masked && cx.needs(3)) => {
                ins.extend([out, log, g]);
                let op = AttentionGrad { causal: self.causal, masked: self.masked };
                e.emit(op.into(), &ins, cx.scalars)?.into_iter().map(Some).collect()
            }
            // Only gradients of gradients reach the logarithms; a mask that is learned is rare.
            (g, g_log) => {
                let parts = Parts::new(e, &ins, self.masked)?;
                let found = parts.grads(e, out, log, g, g_log, cx.scalars[0], self.causal)?;
                let cast = |v: Option<Val>| v.map(|v| e.cast(v, cx.ins[0].dtype)).transpose();
                found.into_iter().map(cast).collect::<Result<_, _>>()?
            }
        };
        grads.resize(cx.ins.len(), None);
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: products(ins, self.causal), bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if !dtype.is_float() {
            return Vec::new();
        }
        (0..CASES.len())
            .map(|case| {
                let (.., causal, masked) = CASES[case];
                Sample::new(Attention { causal, masked }, &sample_ins(dtype, case)).with(&[Scalar::F64(0.5)])
            })
            .collect()
    }
}

impl Composite for Attention {
    fn expand(&self, ins: &[Val], scalars: &[Scalar], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError> {
        let dtype = e.ty(ins[0]).dtype;
        let parts = Parts::new(e, ins, self.masked)?;
        let scores = scores(e, parts.q, parts.k, parts.mask, scalars[0], self.causal)?;
        let shape = e.ty(scores).shape;
        let (rows, last) = (shape.leading(3), AxisSet::of(&[3]));
        let (heads, computed) = (shape[1], e.ty(scores).dtype);
        let log = if shape.numel() == 0 {
            e.fill(TensorType { dtype: computed, shape: rows }, f64::NEG_INFINITY)?
        } else {
            let top = e.reduce(ReduceKind::Max, scores, last, true)?;
            let blind = e.compare(CompareKind::Eq, top, f64::NEG_INFINITY)?;
            let level = e.select(blind, 0.0, top, computed)?;
            let shifted = e.sub(scores, level)?;
            let powers = e.unary(UnaryKind::Exp, shifted)?;
            let total = e.sum(powers, last, true)?;
            let log = e.unary(UnaryKind::Log, total)?;
            let log = e.add(log, level)?;
            e.reshape(log, rows)?
        };
        let weights = weights(e, scores, log)?;
        let v = per_query_head(e, parts.v, heads)?;
        let out = e.matmul(weights, v)?;
        Ok(smallvec![e.cast(out, dtype)?, log])
    }
    fn has_grad(&self) -> bool {
        true
    }
}

impl Primitive for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        let n = 3 + self.masked as usize;
        arity("attention_grad", ins, n + 3)?;
        let outs = infer("attention_grad", ins, self.masked)?;
        if ins[n..] != [outs[0], outs[1], outs[0]] {
            return Err(OpError::shape(format!(
                "attention_grad: expected {}, {} and {}, got {}, {} and {}",
                outs[0],
                outs[1],
                outs[0],
                ins[n],
                ins[n + 1],
                ins[n + 2]
            )));
        }
        Ok(ins[..3].iter().copied().collect())
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        1
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
    fn grad(&self, _: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
        Err(OpError::argument("attention_grad is differentiated through its expansion"))
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        Cost { flops: (products(ins, self.causal) / 2).saturating_mul(5), bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if !dtype.is_float() {
            return Vec::new();
        }
        (0..CASES.len())
            .map(|case| {
                let (b, h, _, t, _, _, e, causal, masked) = CASES[case];
                let mut ins = sample_ins(dtype, case);
                ins.push(input(dtype, &[b, h, t, e], Domain::Any));
                // High logarithms: weights stay moderate whatever the scores are.
                ins.push(input(wide(dtype), &[b, h, t], Domain::AboveOne));
                ins.push(input(dtype, &[b, h, t, e], Domain::Any));
                Sample::new(AttentionGrad { causal, masked }, &ins).with(&[Scalar::F64(0.5)])
            })
            .collect()
    }
}

impl Composite for AttentionGrad {
    fn expand(&self, ins: &[Val], scalars: &[Scalar], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError> {
        let dtype = e.ty(ins[0]).dtype;
        let n = 3 + self.masked as usize;
        let parts = Parts::new(e, ins, self.masked)?;
        let found = parts.grads(e, ins[n], ins[n + 1], Some(ins[n + 2]), None, scalars[0], self.causal)?;
        found.into_iter().take(3).flatten().map(|v| e.cast(v, dtype)).collect()
    }
    fn has_grad(&self) -> bool {
        false
    }
}
