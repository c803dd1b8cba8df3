//! Running sums and products along an axis.
//!
//! SCAN-1: along a line element by element in order; halves are summed in `f32` and each output rounded.

use gt_ir::ops::ScanKind;

use super::{Axes, Dst, Element, Shared, Src, by_dtype, split, walk};
use crate::pool::Pool;

/// Elements a thread works on at least.
const GRAIN: usize = 32 << 10;

/// Lines worked on side by side: their sums do not wait for each other.
const ABREAST: usize = 64;

/// Element `i` of the packed `out` combines elements `0..=i` of `x` along `axis`, or `i..` when reversed.
pub fn scan(pool: &Pool, x: Src, out: Dst, axis: usize, kind: ScanKind, reverse: bool) {
    if out.layout.shape.numel() == 0 {
        return;
    }
    let lines = Lines::new(&x, &out, axis, reverse);
    by_dtype!(x.layout.dtype, T => match kind {
        ScanKind::Sum => lines.run(pool, x.start::<T>(), out.start::<T>(), &|a, b| T::add(a, b)),
        ScanKind::Prod => lines.run(pool, x.start::<T>(), out.start::<T>(), &|a, b| T::mul(a, b)),
    });
}

/// The lines along an axis, with the strides of x and out; reversed lines begin at their end.
struct Lines {
    others: Axes<2>,
    count: usize,
    extent: usize,
    starts: [isize; 2],
    steps: [isize; 2],
}

impl Lines {
    fn new(x: &Src, out: &Dst, axis: usize, reverse: bool) -> Lines {
        let (shape, extent) = (out.layout.shape.without(axis), out.layout.shape[axis]);
        let (mut sx, mut so) = (x.layout.strides, out.layout.strides);
        let mut steps = [sx.remove(axis) as isize, so.remove(axis) as isize];
        let mut starts = [0; 2];
        if reverse {
            starts = steps.map(|s| s * (extent as isize - 1));
            steps = steps.map(|s| -s);
        }
        Lines { others: Axes::new(&shape, [&sx, &so]), count: shape.numel(), extent, starts, steps }
    }

    fn run<T: Element>(
        &self,
        pool: &Pool,
        x: *const T,
        out: *mut T,
        combine: &(impl Fn(T::Wide, T::Wide) -> T::Wide + Sync),
    ) {
        let x = Shared::read(x.wrapping_offset(self.starts[0]));
        let out = Shared(out.wrapping_offset(self.starts[1]));
        split(pool, self.count, GRAIN.div_ceil(self.extent), &|part| {
            let mut places = [[0isize; 2]; ABREAST];
            for from in part.clone().step_by(ABREAST) {
                let abreast = from..part.end.min(from + ABREAST);
                let count = abreast.len();
                walk(self.others.list(), abreast, |line, at| places[line - from] = at.map(|a| a as isize));
                let places = &places[..count];
                let neighbours =
                    places.iter().enumerate().all(|(i, p)| [0, 1].map(|k| p[k] - places[0][k]) == [i as isize; 2]);
                // SAFETY: KERNEL-3; the lines are inside both tensors and this chunk's.
                unsafe {
                    if neighbours {
                        self.side_by_side(x.get().offset(places[0][0]), out.get().offset(places[0][1]), count, combine);
                    } else {
                        self.apart(x.get(), out.get(), places, combine);
                    }
                }
            }
        });
    }

    /// Lines that are neighbours in memory: each step is a run of elements.
    #[inline(always)]
    unsafe fn side_by_side<T: Element>(
        &self,
        x: *const T,
        out: *mut T,
        count: usize,
        combine: &impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) {
        // SAFETY: the caller's lines.
        unsafe {
            let mut sums = [(*x).widen(); ABREAST];
            for i in 0..self.extent as isize {
                let from = std::slice::from_raw_parts(x.offset(i * self.steps[0]), count);
                let to = std::slice::from_raw_parts_mut(out.offset(i * self.steps[1]), count);
                if i == 0 {
                    for j in 0..count {
                        sums[j] = from[j].widen();
                        to[j] = from[j];
                    }
                } else {
                    for ((sum, from), to) in sums.iter_mut().zip(from).zip(to) {
                        *sum = combine(*sum, from.widen());
                        *to = T::narrow(*sum);
                    }
                }
            }
        }
    }

    /// Lines anywhere, four at a time: more would evict each other where lines are a power of two apart.
    unsafe fn apart<T: Element>(
        &self,
        x: *const T,
        out: *mut T,
        places: &[[isize; 2]],
        combine: &impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) {
        for places in places.chunks(4) {
            // Lines that are missing repeat the first one.
            let places: [[isize; 2]; 4] = std::array::from_fn(|j| *places.get(j).unwrap_or(&places[0]));
            // SAFETY: the caller's lines.
            unsafe {
                let mut sums = places.map(|p| {
                    let first = *x.offset(p[0]);
                    *out.offset(p[1]) = first;
                    first.widen()
                });
                for i in 1..self.extent as isize {
                    // All reads before all writes, which may look alike to the processor in their low address bits.
                    let steps = places.map(|p| (*x.offset(p[0] + i * self.steps[0])).widen());
                    for (sum, step) in sums.iter_mut().zip(steps) {
                        *sum = combine(*sum, step);
                    }
                    for (sum, p) in sums.iter().zip(places) {
                        *out.offset(p[1] + i * self.steps[1]) = T::narrow(*sum);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::*;
    use crate::kernels::testing::Tensor;

    #[test]
    fn scans_along_each_axis() {
        let pool = Pool::new(2);
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
            for kind in [ScanKind::Sum, ScanKind::Prod] {
                for axis in 0..3 {
                    for reverse in [false, true] {
                        let (shape, count) = ([3, 70, 2], 420);
                        let values: Vec<f64> =
                            (0..count)
                                .map(|i| {
                                    if kind == ScanKind::Sum {
                                        (i % 2) as f64
                                    } else {
                                        1.0 + (i % 31 == 0) as u8 as f64
                                    }
                                })
                                .collect();
                        let small: Vec<f64> =
                            values.iter().map(|&v| if kind == ScanKind::Prod { 1.0 } else { v }).collect();
                        let x = Tensor::new(dtype, &shape, if axis == 1 { &small } else { &values });
                        let mut out = Tensor::counting(dtype, &shape);
                        scan(&pool, x.src(), out.dst(), axis, kind, reverse);
                        let mut wanted = x.values();
                        let step = [140, 2, 1][axis];
                        let combine = |a: f64, b: f64| if kind == ScanKind::Sum { a + b } else { a * b };
                        let order: Vec<usize> = if reverse { (0..count).rev().collect() } else { (0..count).collect() };
                        for i in order {
                            let along = i / step % shape[axis];
                            if reverse && along + 1 < shape[axis] {
                                wanted[i] = combine(wanted[i + step], wanted[i]);
                            } else if !reverse && along > 0 {
                                wanted[i] = combine(wanted[i - step], wanted[i]);
                            }
                        }
                        assert_eq!(out.values(), wanted, "{dtype} {kind:?} {axis} {reverse}");
                    }
                }
            }
        }
    }
}
