//! Where the largest or smallest element along an axis is: the first of equals, and the first NaN before all.

use std::marker::PhantomData;
use std::ops::Range;

use gt_ir::ops::ArgKind;

use super::{Axes, Dst, Element, Shared, Src, by_dtype, split, walk};
use crate::pool::Pool;
use crate::simd::instantiate;

/// Elements a thread looks at at least.
const GRAIN: usize = 32 << 10;

/// Lines looked at side by side.
const ABREAST: usize = 64;

/// Positions (int64) in the packed `out`, which has the shape of `x` without `axis` or with extent 1 there.
pub fn arg_reduce(pool: &Pool, x: Src, out: Dst, axis: usize, kind: ArgKind) {
    if out.layout.shape.numel() == 0 {
        return;
    }
    let (shape, extent) = (x.layout.shape.without(axis), x.layout.shape[axis]);
    let mut strides = x.layout.strides;
    let step = strides.remove(axis) as isize;
    let others = Axes::new(&shape, [&strides]);
    let to = Shared(out.start::<i64>());
    by_dtype!(x.layout.dtype, T => {
        let x = Shared::read(x.start::<T>());
        let run = match kind {
            ArgKind::Max => line_loop::<Largest<T>>(),
            ArgKind::Min => line_loop::<Smallest<T>>(),
        };
        split(pool, shape.numel(), GRAIN.div_ceil(extent), &|part| {
            // Of equal elements the first is wanted, so an expanded line needs no look at its other elements.
            let extent = if step == 0 { 1 } else { extent as isize };
            for from in part.clone().step_by(ABREAST) {
                if pool.is_cancelled() {
                    return;
                }
                let lines = from..part.end.min(from + ABREAST);
                // SAFETY: KERNEL-3; the lines are inside x, and each has its own place in out.
                unsafe { run(x.get().cast_const().cast(), &others, lines, [extent, step], to.get()) };
            }
        });
    });
}

/// An element type and which of two elements is wanted.
pub trait Wanted {
    /// The element type.
    type Of: Element;
    /// Whether `v` comes before `best`.
    fn wins(v: Self::Of, best: Self::Of) -> bool;
}

struct Largest<T>(PhantomData<T>);
struct Smallest<T>(PhantomData<T>);

impl<T: Element> Wanted for Largest<T> {
    type Of = T;
    #[inline(always)]
    fn wins(v: T, best: T) -> bool {
        v > best
    }
}

impl<T: Element> Wanted for Smallest<T> {
    type Of = T;
    #[inline(always)]
    fn wins(v: T, best: T) -> bool {
        v < best
    }
}

instantiate!(
    /// The loop over lines for this machine; `along` is their extent and step.
    line_loop, Wanted, (x: *const u8, others: &Axes<1>, part: Range<usize>, along: [isize; 2], out: *mut i64)
);

/// Ties a choice of elements to the loop over lines.
trait Loop: Wanted {
    #[inline(always)]
    unsafe fn run(x: *const u8, others: &Axes<1>, part: Range<usize>, [extent, step]: [isize; 2], out: *mut i64) {
        let x = x.cast::<Self::Of>();
        let mut places = [0isize; ABREAST];
        for from in part.clone().step_by(ABREAST) {
            let abreast = from..part.end.min(from + ABREAST);
            let count = abreast.len();
            walk(others.list(), abreast, |line, [at]| places[line - from] = at as isize);
            let places = &places[..count];
            let neighbours = places.iter().enumerate().all(|(i, p)| p - places[0] == i as isize);
            // SAFETY: the caller's lines, and its places in out.
            unsafe {
                let out = std::slice::from_raw_parts_mut(out.add(from), count);
                if step == 1 {
                    for (out, &at) in out.iter_mut().zip(places) {
                        *out = along::<Self>(std::slice::from_raw_parts(x.offset(at), extent as usize)) as i64;
                    }
                } else if neighbours && count == ABREAST && extent <= u32::MAX as isize {
                    side_by_side::<Self>(x.offset(places[0]), extent, step, out);
                } else {
                    for (out, &at) in out.iter_mut().zip(places) {
                        let line = (1..extent).map(|k| (k, *x.offset(at + k * step)));
                        let first = (0, *x.offset(at));
                        *out = line.fold(first, |best, v| if better::<Self>(v.1, best.1) { v } else { best }).0 as i64;
                    }
                }
            }
        }
    }
}

impl<W: Wanted> Loop for W {}

/// Whether `v` comes before an earlier `best`.
#[inline(always)]
fn better<W: Wanted + ?Sized>(v: W::Of, best: W::Of) -> bool {
    !best.is_nan() & (v.is_nan() | W::wins(v, best))
}

/// Lines that are neighbours in memory: each step compares a run of elements.
#[inline(always)]
unsafe fn side_by_side<W: Wanted + ?Sized>(x: *const W::Of, extent: isize, step: isize, out: &mut [i64]) {
    // SAFETY: the caller's lines: `ABREAST` neighbours at each of `extent` steps.
    unsafe {
        let mut best = x.cast::<[W::Of; ABREAST]>().read_unaligned();
        // 32-bit positions fill vectors as floats do.
        let mut position = [0u32; ABREAST];
        for k in 1..extent {
            let row = x.offset(k * step).cast::<[W::Of; ABREAST]>().read_unaligned();
            for i in 0..ABREAST {
                let better = better::<W>(row[i], best[i]);
                best[i] = if better { row[i] } else { best[i] };
                position[i] = if better { k as u32 } else { position[i] };
            }
        }
        for (out, position) in out.iter_mut().zip(position) {
            *out = position as i64;
        }
    }
}

/// A line of neighbours: first what the best is, which vectorises, then where it first stands.
#[inline(always)]
fn along<W: Wanted + ?Sized>(line: &[W::Of]) -> usize {
    const LANES: usize = 32;
    let mut best = [line[0]; LANES];
    let mut nans = [false; LANES];
    let mut chunks = line.chunks_exact(LANES);
    for chunk in &mut chunks {
        for i in 0..LANES {
            nans[i] |= chunk[i].is_nan();
            best[i] = if W::wins(chunk[i], best[i]) { chunk[i] } else { best[i] };
        }
    }
    let rest = chunks.remainder();
    if nans.contains(&true) || rest.iter().any(|v| v.is_nan()) || line[0].is_nan() {
        return line.iter().position(|v| v.is_nan()).unwrap_or(0);
    }
    let all = best.iter().chain(rest).fold(line[0], |a, &b| if W::wins(b, a) { b } else { a });
    // Whole chunks first: the one that holds it is found without a branch for each element.
    let whole = line.chunks_exact(LANES).position(|chunk| chunk.iter().fold(false, |found, &v| found | (v == all)));
    let from = whole.map_or(line.len() / LANES * LANES, |chunk| chunk * LANES);
    from + line[from..].iter().position(|&v| v == all).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use gt_ir::{DType, Steps};

    use super::*;
    use crate::kernels::testing::Tensor;

    #[test]
    fn first_of_equals_and_nan_before_all() {
        let pool = Pool::new(2);
        let mut values: Vec<f64> = (0..3 * 100).map(|i| (i * 37 % 50) as f64).collect();
        for (dtype, with_nan) in DType::ALL.into_iter().flat_map(|d| [(d, false), (d, d.is_float())]) {
            if with_nan {
                values[140] = f64::NAN;
                values[160] = f64::NAN;
            }
            let x = Tensor::new(dtype, &[3, 100], &values);
            let v = x.values();
            let turned = Tensor { layout: x.layout.permute(&Steps::new(&[1, 0])), ..x.clone() };
            for kind in [ArgKind::Max, ArgKind::Min] {
                let better =
                    |a: f64, b: f64| !b.is_nan() && (a.is_nan() || if kind == ArgKind::Max { a > b } else { a < b });
                let wanted: Vec<f64> = (0..3)
                    .map(|r| (1..100).fold(0, |b, k| if better(v[r * 100 + k], v[r * 100 + b]) { k } else { b }) as f64)
                    .collect();
                let mut out = Tensor::counting(DType::I64, &[3]);
                arg_reduce(&pool, x.src(), out.dst(), 1, kind);
                assert_eq!(out.values(), wanted, "{dtype}");
                arg_reduce(&pool, turned.src(), out.dst(), 0, kind);
                assert_eq!(out.values(), wanted, "{dtype}");
                let wanted: Vec<f64> = (0..100)
                    .map(|c| (1..3).fold(0, |b, k| if better(v[k * 100 + c], v[b * 100 + c]) { k } else { b }) as f64)
                    .collect();
                let mut out = Tensor::counting(DType::I64, &[100]);
                arg_reduce(&pool, x.src(), out.dst(), 0, kind);
                assert_eq!(out.values(), wanted, "{dtype}");
            }
        }
    }
}
