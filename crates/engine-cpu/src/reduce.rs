//! Loops of reductions, in the one order that REDUCE-1 of the op table allows.
//!
//! A *block* is up to 1024 consecutive elements of one output; element `k` of it goes to lane `k % 16`; lanes are folded by
//! halves to the block's *partial*; partials are combined in order, those of floats in double precision.
//!
//! REDUCE-2: rows and columns, one output or many at a time, whole or in parts: the operations on the elements of one output
//! are the same and in the same order. Lanes that got no element are left out of the folding: they hold the neutral
//! element, and the total of a sum starts at +0, which hides the sign of a zero that was not added.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use gt_ir::DType;
use gt_ir::ops::{Reduce, ReduceKind};

use crate::fused::binary::{larger, smaller};
use crate::fused::convert::{f32_to_bf16, f32_to_f16};
use crate::simd::instantiate;

const LANES: usize = Reduce::LANES;

/// Reduces rows of at most a block: source, rows, elements of a row, one partial per row.
pub type RowsKernel = unsafe fn(*const u8, usize, usize, *mut u8);
/// Adds rows of columns to the lanes: source, rows, columns, how many rows of the block came before, lanes.
pub type ColumnsKernel = unsafe fn(*const u8, usize, usize, usize, *mut u8);
/// Folds the lanes into the first: lanes, columns, rows in the block.
pub type FoldKernel = unsafe fn(*mut u8, usize, usize);
/// Combines partials to results: partials, blocks, elements between blocks, outputs, results.
pub type FinishKernel = unsafe fn(*const u8, usize, usize, usize, *mut u8);

/// The loops of one reduction.
#[derive(Clone, Copy)]
pub struct ReduceKernels {
    /// Bytes of a lane and of a partial.
    pub lane_bytes: usize,
    /// See [`RowsKernel`].
    pub rows: RowsKernel,
    /// See [`ColumnsKernel`].
    pub columns: ColumnsKernel,
    /// See [`FoldKernel`].
    pub fold: FoldKernel,
    /// See [`FinishKernel`].
    pub finish: FinishKernel,
}

/// How elements are combined.
trait Combine {
    /// An element of a tile, and a lane.
    type Lane: Copy;
    /// What partials are combined in.
    type Total: Copy;
    const LANE: Self::Lane;
    const TOTAL: Self::Total;
    fn combine(a: Self::Lane, b: Self::Lane) -> Self::Lane;
    fn total(a: Self::Total, b: Self::Lane) -> Self::Total;
}

/// An element of the result.
trait Lower<T>: Copy {
    fn lower(total: T) -> Self;
}

macro_rules! lower {
    ($($from:ty => $to:ty: |$x:ident| $body:expr),*) => {$(
        impl Lower<$from> for $to {
            #[inline(always)]
            fn lower($x: $from) -> $to {
                $body
            }
        }
    )*};
}
/// The bits of an f16.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct F16Bits(#[allow(dead_code)] u16);
/// The bits of a bf16.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bf16Bits(#[allow(dead_code)] u16);
lower!(
    f64 => f64: |x| x, f64 => f32: |x| x as f32, f64 => F16Bits: |x| F16Bits(f32_to_f16(x as f32)),
    f64 => Bf16Bits: |x| Bf16Bits(f32_to_bf16(x as f32)), f32 => f32: |x| x, f32 => F16Bits: |x| F16Bits(f32_to_f16(x)),
    f32 => Bf16Bits: |x| Bf16Bits(f32_to_bf16(x)), u8 => u8: |x| x, i8 => i8: |x| x, i32 => i32: |x| x, i64 => i64: |x| x
);

trait RowsLoop {
    unsafe fn run(src: *const u8, rows: usize, len: usize, partials: *mut u8);
}
trait ColumnsLoop {
    unsafe fn run(src: *const u8, rows: usize, width: usize, before: usize, lanes: *mut u8);
}
trait FoldLoop {
    unsafe fn run(lanes: *mut u8, width: usize, rows: usize);
}
trait FinishLoop {
    unsafe fn run(partials: *const u8, blocks: usize, apart: usize, width: usize, out: *mut u8);
}
mod instances {
    use super::{ColumnsLoop, FinishLoop, FoldLoop, RowsLoop, instantiate};
    instantiate!(pub(super) rows, RowsLoop, (src: *const u8, rows: usize, len: usize, partials: *mut u8));
    instantiate!(pub(super) columns, ColumnsLoop, (src: *const u8, rows: usize, width: usize, before: usize, lanes: *mut u8));
    instantiate!(pub(super) fold, FoldLoop, (lanes: *mut u8, width: usize, rows: usize));
    instantiate!(pub(super) finish, FinishLoop, (partials: *const u8, blocks: usize, apart: usize, width: usize, out: *mut u8));
}

struct Rows<C>(PhantomData<C>);
struct Columns<C>(PhantomData<C>);
struct Fold<C>(PhantomData<C>);
struct Finish<C, O>(PhantomData<(C, O)>);

#[inline(always)]
fn fold_lanes<C: Combine>(mut lanes: [C::Lane; LANES]) -> C::Lane {
    let mut half = LANES / 2;
    while half > 0 {
        for k in 0..half {
            lanes[k] = C::combine(lanes[k], lanes[k + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn reduce_row<C: Combine>(row: &[C::Lane]) -> C::Lane {
    let mut lanes = [C::LANE; LANES];
    let (whole, tail) = row.as_chunks::<LANES>();
    for chunk in whole {
        for k in 0..LANES {
            lanes[k] = C::combine(lanes[k], chunk[k]);
        }
    }
    add_tail::<C>(&mut lanes, tail);
    fold_lanes::<C>(lanes)
}

/// Fewer than a lane's worth of elements. Filled up with neutral elements rather than counted: it is the same (REDUCE-2)
/// and stays a vector operation.
#[inline(always)]
fn add_tail<C: Combine>(lanes: &mut [C::Lane; LANES], tail: &[C::Lane]) {
    if tail.is_empty() {
        return;
    }
    let mut full = [C::LANE; LANES];
    for (f, &x) in full.iter_mut().zip(tail) {
        *f = x;
    }
    for k in 0..LANES {
        lanes[k] = C::combine(lanes[k], full[k]);
    }
}

/// Four rows at once: their chains of dependent additions overlap.
#[inline(always)]
fn reduce_four<C: Combine>(rows: &[C::Lane], len: usize) -> [C::Lane; 4] {
    let mut lanes = [[C::LANE; LANES]; 4];
    let row = |g: usize| rows[g * len..(g + 1) * len].as_chunks::<LANES>();
    let ((a, ta), (b, tb), (c, tc), (d, td)) = (row(0), row(1), row(2), row(3));
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        for k in 0..LANES {
            lanes[0][k] = C::combine(lanes[0][k], a[k]);
        }
        for k in 0..LANES {
            lanes[1][k] = C::combine(lanes[1][k], b[k]);
        }
        for k in 0..LANES {
            lanes[2][k] = C::combine(lanes[2][k], c[k]);
        }
        for k in 0..LANES {
            lanes[3][k] = C::combine(lanes[3][k], d[k]);
        }
    }
    if !len.is_multiple_of(LANES) {
        for (lanes, tail) in lanes.iter_mut().zip([ta, tb, tc, td]) {
            add_tail::<C>(lanes, tail);
        }
    }
    lanes.map(|l| fold_lanes::<C>(l))
}

impl<C: Combine> RowsLoop for Rows<C> {
    #[inline(always)]
    unsafe fn run(src: *const u8, rows: usize, len: usize, partials: *mut u8) {
        // SAFETY: the caller gives `rows * len` elements and room for `rows` partials.
        let (src, out) = unsafe {
            (from_raw_parts(src.cast::<C::Lane>(), rows * len), from_raw_parts_mut(partials.cast::<C::Lane>(), rows))
        };
        let (fours, rest) = out.as_chunks_mut::<4>();
        let four_rows = 4 * len;
        let done = fours.len() * four_rows;
        for (i, four) in fours.iter_mut().enumerate() {
            *four = reduce_four::<C>(&src[i * four_rows..(i + 1) * four_rows], len);
        }
        for (i, out) in rest.iter_mut().enumerate() {
            *out = reduce_row::<C>(&src[done + i * len..done + (i + 1) * len]);
        }
    }
}

impl<C: Combine> ColumnsLoop for Columns<C> {
    #[inline(always)]
    unsafe fn run(src: *const u8, rows: usize, width: usize, before: usize, lanes: *mut u8) {
        for r in 0..rows {
            let row = src.cast::<C::Lane>().wrapping_add(r * width);
            let lane = lanes.cast::<C::Lane>().wrapping_add((before + r) % LANES * width);
            // SAFETY: the caller gives `rows * width` elements and `LANES * width` lanes, different memory.
            let (x, lane) = unsafe { (from_raw_parts(row, width), from_raw_parts_mut(lane, width)) };
            if before + r < LANES {
                lane.copy_from_slice(x);
            } else {
                for (l, &x) in lane.iter_mut().zip(x) {
                    *l = C::combine(*l, x);
                }
            }
        }
    }
}

impl<C: Combine> FoldLoop for Fold<C> {
    #[inline(always)]
    unsafe fn run(lanes: *mut u8, width: usize, rows: usize) {
        let used = rows.min(LANES);
        // SAFETY: the caller gives the lanes of `used` rows, all written.
        let lanes = unsafe { from_raw_parts_mut(lanes.cast::<C::Lane>(), used * width) };
        let mut half = LANES / 2;
        while half > 0 {
            if half < used {
                let (low, high) = lanes.split_at_mut(half * width);
                let count = (used - half).min(half) * width;
                for (l, &h) in low[..count].iter_mut().zip(&high[..count]) {
                    *l = C::combine(*l, h);
                }
            }
            half /= 2;
        }
    }
}

impl<C: Combine, O: Lower<C::Total>> FinishLoop for Finish<C, O> {
    #[inline(always)]
    unsafe fn run(partials: *const u8, blocks: usize, apart: usize, width: usize, out: *mut u8) {
        // SAFETY: the caller gives room for `width` results.
        let out = unsafe { from_raw_parts_mut(out.cast::<O>(), width) };
        if blocks == 0 {
            out.fill(O::lower(C::TOTAL));
            return;
        }
        // SAFETY: the caller gives `blocks` rows of `width` partials, `apart` apart.
        let partials = unsafe { from_raw_parts(partials.cast::<C::Lane>(), (blocks - 1) * apart + width) };
        if blocks == 1 {
            for (o, &p) in out.iter_mut().zip(partials) {
                *o = O::lower(C::total(C::TOTAL, p));
            }
            return;
        }
        for (j, o) in out.iter_mut().enumerate() {
            let total = (0..blocks).fold(C::TOTAL, |t, b| C::total(t, partials[b * apart + j]));
            *o = O::lower(total);
        }
    }
}

fn kernels<C: Combine, O: Lower<C::Total>>() -> ReduceKernels {
    ReduceKernels {
        lane_bytes: size_of::<C::Lane>(),
        rows: instances::rows::<Rows<C>>(),
        columns: instances::columns::<Columns<C>>(),
        fold: instances::fold::<Fold<C>>(),
        finish: instances::finish::<Finish<C, O>>(),
    }
}

struct Sum<T>(PhantomData<T>);
struct Prod<T>(PhantomData<T>);
struct Max<T>(PhantomData<T>);
struct Min<T>(PhantomData<T>);
struct Any;
struct All;

/// A way to combine lanes of one type: the neutral elements of lanes and totals, the function, and how a partial enters the
/// total.
macro_rules! combine {
    ($name:ty, $t:ty, $total:ty, $neutral:expr, $total_neutral:expr, |$a:ident, $b:ident| $f:expr, |$x:ident, $y:ident| $g:expr) => {
        impl Combine for $name {
            type Lane = $t;
            type Total = $total;
            const LANE: $t = $neutral;
            const TOTAL: $total = $total_neutral;
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $f
            }
            #[inline(always)]
            fn total($x: $total, $y: $t) -> $total {
                $g
            }
        }
    };
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        combine!(Sum<$t>, $t, f64, 0.0, 0.0, |a, b| a + b, |a, b| a + b as f64);
        combine!(Prod<$t>, $t, f64, 1.0, 1.0, |a, b| a * b, |a, b| a * b as f64);
        combine!(Max<$t>, $t, $t, <$t>::NEG_INFINITY, <$t>::NEG_INFINITY, |a, b| larger!(a, b), |a, b| larger!(a, b));
        combine!(Min<$t>, $t, $t, <$t>::INFINITY, <$t>::INFINITY, |a, b| smaller!(a, b), |a, b| smaller!(a, b));
    )*};
}
floats!(f32, f64);

macro_rules! ints {
    ($($t:ty),*) => {$(
        combine!(Sum<$t>, $t, $t, 0, 0, |a, b| a.wrapping_add(b), |a, b| a.wrapping_add(b));
        combine!(Prod<$t>, $t, $t, 1, 1, |a, b| a.wrapping_mul(b), |a, b| a.wrapping_mul(b));
        combine!(Max<$t>, $t, $t, <$t>::MIN, <$t>::MIN, |a, b| a.max(b), |a, b| a.max(b));
        combine!(Min<$t>, $t, $t, <$t>::MAX, <$t>::MAX, |a, b| a.min(b), |a, b| a.min(b));
    )*};
}
ints!(u8, i8, i32, i64);
combine!(Any, u8, u8, 0, 0, |a, b| a | b, |a, b| a | b);
combine!(All, u8, u8, 1, 1, |a, b| a & b, |a, b| a & b);

/// The loops of a reduction of elements of `dtype`. Halves are f32 in tiles and lanes.
pub fn reduce_kernels(kind: ReduceKind, dtype: DType) -> ReduceKernels {
    macro_rules! of {
        ($t:ty, $out:ty) => {
            match kind {
                ReduceKind::Sum => kernels::<Sum<$t>, $out>(),
                ReduceKind::Prod => kernels::<Prod<$t>, $out>(),
                ReduceKind::Max => kernels::<Max<$t>, $out>(),
                ReduceKind::Min => kernels::<Min<$t>, $out>(),
            }
        };
    }
    match dtype {
        DType::Bool => match kind {
            // Sums and products of bool do not pass `infer`.
            ReduceKind::Sum | ReduceKind::Max => kernels::<Any, u8>(),
            ReduceKind::Prod | ReduceKind::Min => kernels::<All, u8>(),
        },
        DType::U8 => of!(u8, u8),
        DType::I8 => of!(i8, i8),
        DType::I32 => of!(i32, i32),
        DType::I64 => of!(i64, i64),
        DType::F16 => of!(f32, F16Bits),
        DType::BF16 => of!(f32, Bf16Bits),
        DType::F32 => of!(f32, f32),
        DType::F64 => of!(f64, f64),
    }
}
