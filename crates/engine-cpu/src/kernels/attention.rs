//! Attention: `softmax(scale · q kᵀ + mask) v`, block by block, so that the scores are never held as a whole.
//!
//! A block of queries meets the keys a block at a time; its sums so far are scaled down when a larger score comes up.
//! Everything is `f32`; whoever has halves converts them before and after.
//!
//! ATTENTION-2: a query that sees no key (all scores -∞, or no keys at all) gives zeros, a log-sum-exp of -∞, and zero
//! gradients. A NaN among the scores a query sees makes its whole row NaN, and so does +∞.
//! ATTENTION-3: keys behind the causal edge are left out a group at a time; inside a group they count with weight zero, as
//! keys masked by -∞ do. So a value that is not finite may reach a query that does not see it, as 0 · ∞.

use gt_ir::{DType, Failure};

use super::attention_tiles::*;
use super::gemm::{Gemm, Matrix};
use super::microkernel::Kernels;
use super::{Dst, Src, try_split};
use crate::math::{exp_f32, log_f32};
use crate::pool::Pool;

/// What attention reads, all `f32` with any strides.
#[derive(Clone, Copy)]
pub struct Attention {
    /// `[batch, heads, queries, d]`
    pub q: Src,
    /// `[batch, key heads, keys, d]`; the heads are a multiple of the key heads, neighbours share one.
    pub k: Src,
    /// `[batch, key heads, keys, e]`
    pub v: Src,
    /// Added to the scores; broadcast to `[batch, heads, queries, keys]`.
    pub mask: Option<Src>,
    /// What products of queries and keys are multiplied by.
    pub scale: f32,
    /// Whether query `i` sees keys `0..=i` only.
    pub causal: bool,
}

/// [`Attention`] as the loops see it.
pub(super) struct Problem {
    pub q: View,
    pub k: View,
    pub v: View,
    pub mask: Option<View>,
    pub scale: f32,
    pub causal: bool,
    pub batch: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub d: usize,
    pub e: usize,
}

impl Problem {
    pub fn new(x: &Attention) -> Problem {
        let (q, k, v) = (&x.q.layout, &x.k.layout, &x.v.layout);
        debug_assert!([q, k, v].iter().all(|l| l.dtype == DType::F32 && l.shape.rank() == 4));
        let scores = q.shape.with_extent(3, k.shape[2]).expect("infer made sure that scores fit");
        let mask = x.mask.map(|m| View::read(&Src { layout: m.layout.broadcast(&scores), ..m }));
        Problem {
            q: View::read(&x.q),
            k: View::read(&x.k),
            v: View::read(&x.v),
            mask,
            scale: x.scale,
            causal: x.causal,
            batch: q.shape[0],
            heads: q.shape[1],
            key_heads: k.shape[1],
            queries: q.shape[2],
            keys: k.shape[2],
            d: q.shape[3],
            e: v.shape[3],
        }
    }

    /// Heads that share a key head.
    pub fn sharing(&self) -> usize {
        self.heads / self.key_heads
    }

    /// The queries of the block that begins at `i`.
    pub fn block(&self, i: usize) -> usize {
        (self.queries - i).min(BLOCK)
    }

    /// The blocks of keys that the block of queries from `i` on sees: where each begins, and what it is.
    pub fn pairs(&self, i: usize) -> impl Iterator<Item = (usize, Pair)> {
        let queries = self.block(i);
        let end = if self.causal { self.keys.min(i + queries) } else { self.keys };
        (0..end).step_by(BLOCK).map(move |j| {
            let keys = (end - j).min(BLOCK);
            (j, Pair { queries, keys, wide: queries.next_multiple_of(LANES), diagonal: self.causal && j == i })
        })
    }

    /// Scores of one head, what is skipped left out.
    pub fn scores(&self) -> usize {
        let seen = if self.causal { self.queries.min(self.keys) } else { 0 };
        self.queries.saturating_mul(self.keys).saturating_sub(seen.saturating_mul(seen) / 2)
    }
}

/// Attention of `x` into `out` `[batch, heads, queries, e]`, and the logarithm of each query's sum of exponentials into
/// `lse` `[batch, heads, queries]`; both with any strides.
pub fn attention(pool: &Pool, x: &Attention, out: Dst, lse: Dst) -> Result<(), Failure> {
    attention_with(pool, x, out, lse, f32::kernels())
}

/// [`attention`] with these tiles.
pub(super) fn attention_with(
    pool: &Pool,
    x: &Attention,
    out: Dst,
    lse: Dst,
    kernels: &Kernels<f32>,
) -> Result<(), Failure> {
    let p = Problem::new(x);
    debug_assert!(out.layout.shape[..] == [p.batch, p.heads, p.queries, p.e]);
    let blocks = p.queries.div_ceil(BLOCK);
    let units = p.batch * p.heads * blocks;
    if units == 0 {
        return Ok(());
    }
    let results = (View::write(&out), View::write(&lse));
    let work = p.scores().saturating_mul(p.d + p.e + EXP_COST) / blocks;
    let is_short = work.saturating_mul(units) < WORTH_SHARING;
    let grain = if is_short { units } else { (WORTH_SHARING / 8).div_ceil(work.max(1)) };
    try_split(pool, units, grain, &|mut range| {
        range.try_for_each(|unit| {
            let (head, block) = (unit / blocks, unit % blocks);
            // SAFETY: KERNEL-3, and each unit has its own rows of the results.
            unsafe { queries(kernels, pool, &p, [head / p.heads, head % p.heads], block * BLOCK, results) }
        })
    })
}

/// One block of queries of one head, from `i` on.
unsafe fn queries(
    kernels: &Kernels<f32>,
    pool: &Pool,
    p: &Problem,
    [batch, head]: [usize; 2],
    i: usize,
    results: (View, View),
) -> Result<(), Failure> {
    let count = p.block(i);
    let wide = count.next_multiple_of(LANES);
    let ld = row_space(p.e);
    let masks = if p.mask.is_some() { BLOCK * wide } else { 0 };
    let sizes = [elements(wide, p.d), BLOCK * wide, masks, elements(BLOCK, ld), elements(BLOCK, ld), 3 * wide];
    with_scratch(pool, sizes, |[q, scores, masks, space_v, sums, columns]| {
        let (max, total, factor) = (columns, columns.wrapping_add(wide), columns.wrapping_add(2 * wide));
        let sums = packed(sums, ld);
        // SAFETY: KERNEL-3 for the operands; the scratch holds what `sizes` says.
        unsafe {
            turn(kernels, p.q.rows(batch, head, i), count, p.d, wide, q);
            run(&Scale { x: q, len: wide * p.d, by: p.scale });
            std::slice::from_raw_parts_mut(max, wide).fill(f32::NEG_INFINITY);
            std::slice::from_raw_parts_mut(total, wide).fill(0.0);
            for (j, pair) in p.pairs(i) {
                if pool.is_cancelled() {
                    return;
                }
                let key_head = head / p.sharing();
                pair.scores(kernels, p.d, p.k.rows(batch, key_head, j), q, scores);
                let mask = p.mask_of(kernels, [batch, head], i, j, &pair, masks);
                run(&Softmax { pair, scores, mask, max, total, factor });
                if j > 0 {
                    run(&Rescale { sums, rows: count, width: p.e, factor });
                }
                let v = gathered(p.v.rows(batch, key_head, j), pair.keys, p.e, space_v);
                pair.over_keys(kernels, p.e, scores, v, sums, j > 0);
            }
            let (out, lse) = (results.0.rows(batch, head, i), results.1.rows(batch, head, i));
            run(&Finish { sums, rows: count, width: p.e, max, total, out, lse });
        }
    })
}

impl Problem {
    /// The mask of a block, turned as the scores are; null without a mask.
    ///
    /// # Safety
    /// `space` has room for `keys * wide` of the pair.
    pub unsafe fn mask_of(
        &self,
        kernels: &Kernels<f32>,
        [batch, head]: [usize; 2],
        i: usize,
        j: usize,
        pair: &Pair,
        space: *mut f32,
    ) -> *const f32 {
        let Some(mask) = self.mask else { return std::ptr::null() };
        let mut from = mask.rows(batch, head, i);
        from.ptr = from.ptr.wrapping_offset(j as isize * from.column);
        // SAFETY: KERNEL-3, and the caller's.
        unsafe { turn(kernels, from, pair.queries, pair.keys, pair.wide, space) };
        space
    }
}

/// Turns the scores of a block into weights relative to the largest so far, and brings `max` and `total` up to date.
/// `factor` is what earlier sums must be multiplied by.
struct Softmax {
    pair: Pair,
    scores: *mut f32,
    /// Null, or added to the scores.
    mask: *const f32,
    max: *mut f32,
    total: *mut f32,
    factor: *mut f32,
}

impl Pass for Softmax {
    #[inline(always)]
    unsafe fn run(&self) {
        let Pair { keys, wide, diagonal, .. } = self.pair;
        for c in (0..wide).step_by(LANES) {
            // What lies below belongs to queries of other lanes.
            let keys = if diagonal { keys.min(c + LANES) } else { keys };
            // SAFETY: lanes of these columns, inside what the caller handed over.
            unsafe {
                let old = load(self.max.add(c));
                let mut top = old;
                for j in 0..keys {
                    let at = j * wide + c;
                    let mut s = load(self.scores.add(at));
                    if !self.mask.is_null() {
                        let mask = load(self.mask.add(at));
                        for l in 0..LANES {
                            s[l] += mask[l];
                        }
                        store(self.scores.add(at), s);
                    }
                    if diagonal && j > c {
                        for l in 0..LANES {
                            s[l] = if l < j - c { f32::NEG_INFINITY } else { s[l] };
                        }
                        store(self.scores.add(at), s);
                    }
                    for l in 0..LANES {
                        // A NaN is left for the exponential to pass on.
                        top[l] = if s[l] > top[l] { s[l] } else { top[l] };
                    }
                }
                store(self.max.add(c), top);
                // Nothing seen yet: any finite number makes every weight zero.
                let base = top.map(|x| if x == f32::NEG_INFINITY { 0.0 } else { x });
                let mut sum = [0.0; LANES];
                for j in 0..keys {
                    let at = self.scores.add(j * wide + c);
                    let mut s = load(at);
                    for l in 0..LANES {
                        s[l] = exp_f32(s[l] - base[l]);
                        sum[l] += s[l];
                    }
                    store(at, s);
                }
                let (mut total, mut factor) = (load(self.total.add(c)), [0.0; LANES]);
                for l in 0..LANES {
                    factor[l] = exp_f32(old[l] - base[l]);
                    total[l] = total[l] * factor[l] + sum[l];
                }
                store(self.total.add(c), total);
                store(self.factor.add(c), factor);
            }
        }
    }
}

/// Multiplies row `i` by `factor[i]`.
struct Rescale {
    sums: Matrix<f32>,
    rows: usize,
    width: usize,
    factor: *const f32,
}

impl Pass for Rescale {
    #[inline(always)]
    unsafe fn run(&self) {
        for i in 0..self.rows {
            // SAFETY: rows of the caller's.
            let (factor, row) =
                unsafe { (*self.factor.add(i), std::slice::from_raw_parts_mut(at(self.sums, i).ptr, self.width)) };
            if factor != 1.0 {
                for x in row {
                    *x *= factor;
                }
            }
        }
    }
}

/// Divides the sums by the totals, into the results.
struct Finish {
    sums: Matrix<f32>,
    rows: usize,
    width: usize,
    max: *const f32,
    total: *const f32,
    out: Matrix<f32>,
    lse: Matrix<f32>,
}

impl Pass for Finish {
    #[inline(always)]
    unsafe fn run(&self) {
        for i in 0..self.rows {
            // SAFETY: rows of the caller's; this block's part of the results.
            unsafe {
                let (sums, out, total) = (at(self.sums, i).ptr, at(self.out, i), *self.total.add(i));
                *at(self.lse, i).ptr = *self.max.add(i) + log_f32(total);
                if total == 0.0 {
                    // The sums may not have been begun, or hold products of zero and infinity.
                    std::slice::from_raw_parts_mut(sums, self.width).fill(0.0);
                }
                let part = 1.0 / if total == 0.0 { 1.0 } else { total };
                if out.column == 1 {
                    for j in 0..self.width {
                        *out.ptr.add(j) = *sums.add(j) * part;
                    }
                } else {
                    for j in 0..self.width {
                        *out.ptr.wrapping_offset(j as isize * out.column) = *sums.add(j) * part;
                    }
                }
            }
        }
    }
}
