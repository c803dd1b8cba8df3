//! Gradients of attention, from the log-sum-exps that the forward pass saved: weights are made again block by block.
//!
//! With weights `p = exp(s - lse)` and `dp = grad vᵀ`: `ds = p · (dp - Σ grad · out) · scale`; then `dq = ds k`,
//! `dk = dsᵀ q`, `dv = pᵀ grad`.
//!
//! ATTENTION-4: one thread does all that shares a key head, its heads and their blocks in order, so each gradient has one
//! writer and one order of sums.

use gt_ir::Failure;

use super::attention::{Attention, Problem};
use super::attention_tiles::*;
use super::gemm::{Gemm, Matrix};
use super::microkernel::Kernels;
use super::{Dst, Src, try_split};
use crate::math::exp_f32;
use crate::pool::Pool;

/// Where the gradients of an [`Attention`] go: shaped as what they are the gradients of, with any strides.
#[derive(Clone, Copy)]
pub struct AttentionGrads {
    /// Of `q`.
    pub q: Dst,
    /// Of `k`.
    pub k: Dst,
    /// Of `v`.
    pub v: Dst,
}

/// The gradients of `x` from the gradient of its result; `out` and `lse` are what [`attention`](super::attention) gave.
pub fn attention_grad(
    pool: &Pool,
    x: &Attention,
    out: Src,
    lse: Src,
    grad: Src,
    to: AttentionGrads,
) -> Result<(), Failure> {
    attention_grad_with(pool, x, [out, lse, grad], to, f32::kernels())
}

/// [`attention_grad`] with these tiles.
pub(super) fn attention_grad_with(
    pool: &Pool,
    x: &Attention,
    given: [Src; 3],
    to: AttentionGrads,
    kernels: &Kernels<f32>,
) -> Result<(), Failure> {
    let p = Problem::new(x);
    let units = p.batch * p.key_heads;
    if units == 0 {
        return Ok(());
    }
    let given = given.map(|x| View::read(&x));
    let to = [to.q, to.k, to.v].map(|x| View::write(&x));
    let work = p.scores().saturating_mul(3 * p.d + 2 * p.e + EXP_COST).saturating_mul(p.sharing());
    let is_short = work.saturating_mul(units) < WORTH_SHARING;
    let grain = if is_short { units } else { (WORTH_SHARING / 8).div_ceil(work.max(1)) };
    try_split(pool, units, grain, &|mut range| {
        range.try_for_each(|unit| {
            // SAFETY: KERNEL-3, and each unit has its own heads of the results.
            unsafe { key_head(kernels, pool, &p, [unit / p.key_heads, unit % p.key_heads], given, to) }
        })
    })
}

/// All that shares one key head.
unsafe fn key_head(
    kernels: &Kernels<f32>,
    pool: &Pool,
    p: &Problem,
    [batch, key_head]: [usize; 2],
    [out, lse, grad]: [View; 3],
    [to_q, to_k, to_v]: [View; 3],
) -> Result<(), Failure> {
    let (to_k, to_v) = (to_k.rows(batch, key_head, 0), to_v.rows(batch, key_head, 0));
    let wide = p.queries.min(BLOCK).next_multiple_of(LANES);
    let (ld_d, ld_e) = (row_space(p.d), row_space(p.e));
    // Sums are kept in the results themselves where their columns are neighbours.
    let apart = |x: &Matrix<f32>, ld: usize| if x.column == 1 { 0 } else { elements(p.keys, ld) };
    let sizes = [
        elements(wide, p.d),
        elements(wide, p.e),
        BLOCK * wide,
        elements(wide, BLOCK.max(p.e)),
        if p.mask.is_some() { BLOCK * wide } else { 0 },
        2 * wide,
        elements(BLOCK, ld_d),
        elements(BLOCK, ld_e),
        elements(BLOCK, ld_d),
        elements(BLOCK, ld_d),
        apart(&to_k, ld_d),
        apart(&to_v, ld_e),
    ];
    with_scratch(pool, sizes, |scratch| {
        let [turned_q, turned_grad, weights, slopes, masks, columns, space_q, space_grad, space_k, dq, dk, dv] =
            scratch;
        let dk = if to_k.column == 1 { to_k } else { packed(dk, ld_d) };
        let dv = if to_v.column == 1 { to_v } else { packed(dv, ld_e) };
        let dq = packed(dq, ld_d);
        // SAFETY: KERNEL-3 for the operands; the scratch holds what `sizes` says.
        unsafe {
            clear(dk, p.keys, p.d);
            clear(dv, p.keys, p.e);
            for head in key_head * p.sharing()..(key_head + 1) * p.sharing() {
                for i in (0..p.queries).step_by(BLOCK) {
                    let count = p.block(i);
                    let wide = count.next_multiple_of(LANES);
                    let (shift, delta) = (columns, columns.add(wide));
                    let (q, grad) = (p.q.rows(batch, head, i), grad.rows(batch, head, i));
                    turn(kernels, q, count, p.d, wide, turned_q);
                    run(&Scale { x: turned_q, len: wide * p.d, by: p.scale });
                    turn(kernels, grad, count, p.e, wide, turned_grad);
                    turn(kernels, out.rows(batch, head, i), count, p.e, wide, slopes);
                    run(&Columns { a: turned_grad, b: slopes, depth: p.e, wide, sums: delta });
                    for l in 0..wide {
                        let lse = if l < count { *at(lse.rows(batch, head, i), l).ptr } else { 0.0 };
                        // A query that sees nothing: every weight becomes zero.
                        *shift.add(l) = if lse == f32::NEG_INFINITY { f32::INFINITY } else { lse };
                    }
                    let q = gathered(q, count, p.d, space_q);
                    let grad = gathered(grad, count, p.e, space_grad);
                    clear(dq, count, p.d);
                    for (j, pair) in p.pairs(i) {
                        if pool.is_cancelled() {
                            return;
                        }
                        let k = gathered(p.k.rows(batch, key_head, j), pair.keys, p.d, space_k);
                        let v = p.v.rows(batch, key_head, j);
                        pair.scores(kernels, p.d, k, turned_q, weights);
                        pair.scores(kernels, p.e, v, turned_grad, slopes);
                        let mask = p.mask_of(kernels, [batch, head], i, j, &pair, masks);
                        run(&Slopes { pair, weights, slopes, mask, shift, delta, scale: p.scale });
                        pair.over_queries(kernels, p.e, weights, grad, at(dv, j));
                        pair.over_queries(kernels, p.d, slopes, q, at(dk, j));
                        pair.over_keys(kernels, p.d, slopes, k, dq, true);
                    }
                    copy_rows(dq, to_q.rows(batch, head, i), count, p.d);
                }
            }
            if to_k.column != 1 {
                copy_rows(dk, to_k, p.keys, p.d);
            }
            if to_v.column != 1 {
                copy_rows(dv, to_v, p.keys, p.e);
            }
        }
    })
}

/// Fills rows with zeros.
unsafe fn clear(x: Matrix<f32>, rows: usize, width: usize) {
    for i in 0..rows {
        // SAFETY: the caller's rows, whose columns are neighbours.
        unsafe { std::slice::from_raw_parts_mut(at(x, i).ptr, width).fill(0.0) };
    }
}

/// The sums of `a · b` down each column.
struct Columns {
    a: *const f32,
    b: *const f32,
    depth: usize,
    wide: usize,
    sums: *mut f32,
}

impl Pass for Columns {
    #[inline(always)]
    unsafe fn run(&self) {
        for c in (0..self.wide).step_by(LANES) {
            // SAFETY: lanes of these columns, inside what the caller handed over.
            unsafe {
                let mut sum = [0.0; LANES];
                for p in 0..self.depth {
                    let (a, b) = (load(self.a.add(p * self.wide + c)), load(self.b.add(p * self.wide + c)));
                    for l in 0..LANES {
                        sum[l] += a[l] * b[l];
                    }
                }
                store(self.sums.add(c), sum);
            }
        }
    }
}

/// Turns scores into weights, and the gradients of weights into those of products of queries and keys.
struct Slopes {
    pair: Pair,
    weights: *mut f32,
    slopes: *mut f32,
    /// Null, or added to the scores.
    mask: *const f32,
    shift: *const f32,
    delta: *const f32,
    scale: f32,
}

impl Pass for Slopes {
    #[inline(always)]
    unsafe fn run(&self) {
        let wide = self.pair.wide;
        for j in 0..self.pair.keys {
            for c in (self.pair.first_column(j)..wide).step_by(LANES) {
                let at = j * wide + c;
                // SAFETY: lanes of a row, inside what the caller handed over.
                unsafe {
                    let (mut w, mut s) = (load(self.weights.add(at)), load(self.slopes.add(at)));
                    let (shift, delta) = (load(self.shift.add(c)), load(self.delta.add(c)));
                    if !self.mask.is_null() {
                        let mask = load(self.mask.add(at));
                        for l in 0..LANES {
                            w[l] += mask[l];
                        }
                    }
                    for l in 0..LANES {
                        w[l] = exp_f32(w[l] - shift[l]);
                        s[l] = w[l] * (s[l] - delta[l]) * self.scale;
                    }
                    if self.pair.diagonal && j > c {
                        for l in 0..LANES {
                            let hidden = l < j - c;
                            w[l] = if hidden { 0.0 } else { w[l] };
                            s[l] = if hidden { 0.0 } else { s[l] };
                        }
                    }
                    store(self.weights.add(at), w);
                    store(self.slopes.add(at), s);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::super::attention::attention_with;
    use super::super::microkernel::tables_f32;
    use super::super::testing::{Tensor, values};
    use super::*;
    use crate::simd::testing::at_every_level;

    /// Out, log-sum-exp and the three gradients with these tiles.
    fn both(kernels: &Kernels<f32>, [queries, keys, d, e]: [usize; 4], causal: bool, masked: bool) -> Vec<Vec<f64>> {
        let draw = |shape: &[usize], seed| {
            let values: Vec<f64> = values(shape.iter().product(), seed).iter().map(|&x| x as f64).collect();
            Tensor::new(DType::F32, shape, &values)
        };
        let (q, k, v) = (draw(&[1, 4, queries, d], 1), draw(&[1, 2, keys, d], 2), draw(&[1, 2, keys, e], 3));
        let (grad, mask) = (draw(&[1, 4, queries, e], 4), draw(&[queries, keys], 5));
        let (mut out, mut lse) = (grad.clone(), draw(&[1, 4, queries], 6));
        let (mut dq, mut dk, mut dv) = (q.clone(), k.clone(), v.clone());
        let mask = masked.then(|| mask.src());
        let x = Attention { q: q.src(), k: k.src(), v: v.src(), mask, scale: 0.4, causal };
        let pool = Pool::new(1);
        attention_with(&pool, &x, out.dst(), lse.dst(), kernels).unwrap();
        let to = AttentionGrads { q: dq.dst(), k: dk.dst(), v: dv.dst() };
        attention_grad_with(&pool, &x, [out.src(), lse.src(), grad.src()], to, kernels).unwrap();
        [out, lse, dq, dk, dv].iter().map(|x| x.values()).collect()
    }

    #[test]
    fn instruction_sets_give_the_same_bits() {
        for shape in [[1, 1, 1, 1], [9, 70, 7, 20], [64, 64, 16, 16], [130, 130, 33, 40], [70, 20, 64, 3]] {
            for (causal, masked) in [(false, false), (true, false), (true, true)] {
                let wanted = both(tables_f32()[0], shape, causal, masked);
                for kernels in tables_f32() {
                    // Products without a fused instruction round more often.
                    let fused = kernels.width > 4 || cfg!(target_arch = "aarch64");
                    for (level, got) in at_every_level(|| both(kernels, shape, causal, masked)) {
                        let pairs = || got.iter().flatten().zip(wanted.iter().flatten());
                        let same = if fused || tables_f32().len() == 1 {
                            got == wanted
                        } else {
                            pairs().all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()))
                        };
                        assert!(same, "{shape:?} {causal} {masked} width {} {level:?}", kernels.width);
                    }
                }
            }
        }
    }
}
