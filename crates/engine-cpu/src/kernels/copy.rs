//! Elements from one layout to another of the same shape.

use gt_ir::Failure;

use super::gemm::Gemm;
use super::pack::{TransposeFn, transpose_plain};
use super::{Axes, Axis, Dst, Shared, Src, by_size, split, walk};
use crate::alloc::{Plain, Room};
use crate::fused::copy_neighbours;
use crate::pool::Pool;

/// Bytes a thread moves at least.
const GRAIN_BYTES: usize = 128 << 10;

/// Side of the squares in which a transposition goes, in elements: a square of each side stays in the cache.
const SQUARE: usize = 64;

/// Copies `src` to `dst`, which has the same shape and dtype; both may have any strides.
pub fn copy(pool: &Pool, src: Src, dst: Dst) {
    debug_assert_eq!(src.layout.shape, dst.layout.shape);
    let axes = Axes::new(&dst.layout.shape, [&src.layout.strides, &dst.layout.strides]);
    if dst.layout.shape.numel() == 0 {
        return;
    }
    by_size!(dst.layout.dtype, T => {
        // SAFETY: KERNEL-3; the axes reach exactly the elements of both layouts.
        unsafe { copy_axes::<T>(pool, &axes, src.start(), dst.start()) }
    });
}

/// How the last axis goes.
#[derive(Clone, Copy)]
enum Inner {
    /// Neighbours to neighbours.
    Run,
    /// One element to all.
    Repeat,
    /// Any distance.
    Strided,
}

unsafe fn copy_axes<T: Copy + Send + Sync + 'static>(pool: &Pool, axes: &Axes<2>, src: *const T, dst: *mut T) {
    let (src, dst) = (Shared::read(src), Shared(dst));
    let list = axes.list();
    let Some((&last, outer)) = list.split_last() else {
        // SAFETY: one element.
        unsafe { *dst.get() = *src.get() };
        return;
    };
    if let Some(turned) = transposed(list) {
        // SAFETY: the caller's.
        unsafe { transpose(pool, list, turned, src, dst) };
        return;
    }
    let inner = match last.strides {
        [1, 1] => Inner::Run,
        [0, 1] => Inner::Repeat,
        _ => Inner::Strided,
    };
    let rows: usize = outer.iter().map(|a| a.extent).product();
    let grain = GRAIN_BYTES / size_of::<T>();
    let row = |from: *const T, to: *mut T, extent: usize| {
        // SAFETY: a part of one row; rows and parts of them do not meet in dst.
        unsafe {
            match inner {
                Inner::Run => {
                    let from = std::slice::from_raw_parts(from, extent);
                    copy_neighbours(from, std::slice::from_raw_parts_mut(to, extent));
                }
                Inner::Repeat => std::slice::from_raw_parts_mut(to, extent).fill(*from),
                Inner::Strided => {
                    let [s, d] = last.strides.map(|x| x as isize);
                    if d == 1 {
                        for i in 0..extent {
                            *to.add(i) = *from.offset(i as isize * s);
                        }
                    } else {
                        for i in 0..extent {
                            *to.offset(i as isize * d) = *from.offset(i as isize * s);
                        }
                    }
                }
            }
        }
    };
    if rows == 1 {
        split(pool, last.extent, grain, &|part| {
            let at = part.start as i64;
            let [s, d] = last.strides.map(|x| (x * at) as isize);
            row(src.get().wrapping_offset(s), dst.get().wrapping_offset(d), part.len());
        });
    } else {
        split(pool, rows, grain.div_ceil(last.extent), &|part| {
            walk(outer, part, |_, [s, d]| {
                row(src.get().wrapping_offset(s as isize), dst.get().wrapping_offset(d as isize), last.extent);
            });
        });
    }
}

/// The axis along which `src` has neighbours, when `dst` has its along the last axis and both are long enough.
fn transposed(list: &[Axis<2>]) -> Option<usize> {
    let (last, outer) = list.split_last()?;
    if last.strides[1] != 1 || matches!(last.strides[0], 0 | 1) || last.extent < 4 {
        return None;
    }
    outer.iter().position(|a| a.strides[0] == 1 && a.strides[1] > 0 && a.extent >= 4)
}

/// Squares of the last axis and axis `turned`, whose elements are neighbours in `src`.
unsafe fn transpose<T: Copy + Send + Sync + 'static>(
    pool: &Pool,
    list: &[Axis<2>],
    turned: usize,
    src: Shared<T>,
    dst: Shared<T>,
) {
    let (across, along) = (list[list.len() - 1], list[turned]);
    let kernel = transpose_kernel::<T>();
    let mut outer: Vec<Axis<2>> = (0..list.len() - 1).filter(|&i| i != turned).map(|i| list[i]).collect();
    let squares =
        |a: Axis<2>| Axis { extent: a.extent.div_ceil(SQUARE), strides: a.strides.map(|s| s * SQUARE as i64) };
    outer.push(squares(along));
    outer.push(squares(across));
    let count: usize = outer.iter().map(|a| a.extent).product();
    let (high, wide) = (outer[outer.len() - 2].extent, outer[outer.len() - 1].extent);
    let grain = GRAIN_BYTES / size_of::<T>() / (SQUARE * SQUARE);
    split(pool, count, grain, &|part| {
        walk(&outer, part, |at, [s, d]| {
            let rows = (across.extent - at % wide * SQUARE).min(SQUARE);
            let depth = (along.extent - at / wide % high * SQUARE).min(SQUARE);
            let (from, to) = (src.get().wrapping_offset(s as isize), dst.get().wrapping_offset(d as isize));
            // SAFETY: a square inside both layouts; squares do not meet in dst.
            unsafe { kernel(from, across.strides[0] as isize, rows, depth, to, along.strides[1] as usize) };
        });
    });
}

/// The fastest transposition for elements of this size.
fn transpose_kernel<T: Copy + 'static>() -> TransposeFn<T> {
    // SAFETY: function pointers that differ only in the pointers' element type, and those have one size.
    unsafe {
        match size_of::<T>() {
            4 => std::mem::transmute::<TransposeFn<f32>, TransposeFn<T>>(f32::kernels().transpose),
            8 => std::mem::transmute::<TransposeFn<f64>, TransposeFn<T>>(f64::kernels().transpose),
            _ => transpose_plain::<T>,
        }
    }
}

/// A packed copy of a tensor's elements, for kernels that want neighbours.
pub(super) fn packed<T: Plain>(pool: &Pool, src: &Src) -> Result<Room<T>, Failure> {
    let mut out: Room<T> = pool.room(src.layout.shape.numel())?;
    debug_assert_eq!(size_of::<T>(), src.layout.dtype.size());
    let layout = crate::layout::Layout::packed(src.layout.ty());
    copy(pool, *src, Dst { ptr: out.as_mut_ptr().cast(), layout });
    Ok(out)
}

#[cfg(test)]
mod tests {
    use gt_ir::{DType, Shape, Steps};

    use super::*;
    use crate::kernels::testing::Tensor;

    #[test]
    fn any_layout_to_packed_and_back() {
        let pool = Pool::new(2);
        for dtype in DType::ALL {
            for (shape, perm) in [
                (&[][..], &[][..]),
                (&[5], &[0]),
                (&[7, 9], &[1, 0]),
                (&[70, 130], &[1, 0]),
                (&[3, 20, 33], &[0, 2, 1]),
                (&[3, 20, 33], &[2, 1, 0]),
                (&[2, 3, 4, 5], &[0, 2, 1, 3]),
                (&[2, 0, 3], &[2, 1, 0]),
                (&[300, 700], &[1, 0]),
            ] {
                let mut x = Tensor::counting(dtype, shape);
                x.layout = x.layout.permute(&Steps::new(perm));
                let wanted = x.values();
                let mut y = Tensor::counting(dtype, &x.layout.shape);
                copy(&pool, x.src(), y.dst());
                assert_eq!(y.values(), wanted, "{dtype} {shape:?} {perm:?}");
                // Back into a strided destination.
                let mut z = Tensor::counting(dtype, shape);
                z.bytes.fill(0);
                z.layout = x.layout;
                copy(&pool, y.src(), z.dst());
                assert_eq!(z.values(), wanted, "{dtype} {shape:?} {perm:?}");
            }
        }
    }

    #[test]
    fn slices_flips_and_repeats() {
        let pool = Pool::new(2);
        let x = Tensor::counting(DType::F32, &[10, 12]);
        let slice = x.layout.slice(&Shape::new(&[4, 5]), &[9, 1], &Steps::new(&[-2, 2])).unwrap();
        for layout in [slice, Tensor::counting(DType::F32, &[1, 12]).layout.broadcast(&Shape::new(&[6, 12])), {
            Tensor::counting(DType::F32, &[10, 1]).layout.broadcast(&Shape::new(&[10, 7]))
        }] {
            let view = Tensor { layout, ..x.clone() };
            let mut y = Tensor::counting(DType::F32, &layout.shape);
            copy(&pool, view.src(), y.dst());
            assert_eq!(y.values(), view.values());
        }
    }
}
