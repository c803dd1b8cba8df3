//! Reading and writing at positions given by int64 tensors.
//!
//! INDEX-1: every index is checked before anything is written.
//! INDEX-2: elements that meet at one place are written in the order of the index, whatever the number of threads:
//! work is only cut where its parts write to different places.

use gt_ir::ops::{Put, PutMode};
use gt_ir::{Failure, FailureKind};

use super::copy::packed;
use super::{Axes, Axis, Dst, Element, Shared, Src, by_dtype, by_size, offsets, split, walk};
use crate::alloc::Room;
use crate::layout::Layout;
use crate::pool::Pool;

/// Bytes a thread moves at least.
const GRAIN_BYTES: usize = 64 << 10;

/// The index as packed numbers, each checked to lie in `0..size`; with `wrap`, negative ones count from the end.
fn checked(
    pool: &Pool,
    index: &Src,
    axis: usize,
    size: usize,
    wrap: bool,
    kind: FailureKind,
) -> Result<Room<i64>, Failure> {
    let mut list: Room<i64> = packed(pool, index)?;
    let shift = if wrap { size as i64 } else { 0 };
    // One pass without branches finds whether any is out of range.
    let mut bad = false;
    for i in &mut *list {
        *i = i.wrapping_add(if *i < 0 { shift } else { 0 });
        bad |= *i as u64 >= size as u64;
    }
    if !bad {
        return Ok(list);
    }
    let first = list.iter().find(|&&i| i as u64 >= size as u64).copied().unwrap_or_default();
    // Named as it was given.
    let first = first.wrapping_sub(if first < 0 { shift } else { 0 });
    let message = format!("index {first} is out of bounds for dimension {axis} with size {size}");
    // The index is the second input of every op that has one.
    Err(Failure::in_input(kind, 1, message))
}

/// A tensor seen along one axis: what lies before it, its extent and stride, what lies behind.
struct Along {
    outer: Axes<1>,
    outer_count: usize,
    stride: isize,
    inner: Axes<1>,
    inner_count: usize,
}

impl Along {
    fn new(x: &Layout, axis: usize) -> Along {
        let outer = Axes::new(&x.shape[..axis], [&x.strides[..axis]]);
        let inner = Axes::new(&x.shape[axis + 1..], [&x.strides[axis + 1..]]);
        Along {
            outer,
            outer_count: x.shape[..axis].iter().product(),
            stride: x.strides[axis] as isize,
            inner,
            inner_count: x.shape[axis + 1..].iter().product(),
        }
    }

    /// Whether what lies behind the axis is one run of neighbours.
    fn inner_is_run(&self) -> bool {
        matches!(self.inner.list(), [] | [Axis { strides: [1], .. }])
    }
}

/// Whole slices of `x` along `axis`, in place of which the axes of `index` come; `out` is packed.
pub fn take(pool: &Pool, x: Src, index: Src, out: Dst, axis: usize, wrap: bool) -> Result<(), Failure> {
    let list = checked(pool, &index, axis, x.layout.shape[axis], wrap, FailureKind::Index)?;
    if out.layout.shape.numel() == 0 {
        return Ok(());
    }
    by_size!(x.layout.dtype, T => take_sized::<T>(pool, &x, &list, &out, axis));
    Ok(())
}

fn take_sized<T: Copy>(pool: &Pool, x: &Src, list: &[i64], out: &Dst, axis: usize) {
    let along = Along::new(&x.layout, axis);
    let (from, to) = (Shared::read(x.start::<T>()), Shared(out.start::<T>()));
    let (count, width, stride) = (list.len(), along.inner_count, along.stride);
    let run = along.inner_is_run();
    let grain = (GRAIN_BYTES / size_of::<T>()).div_ceil(width);
    split(pool, along.outer_count * count, grain, &|part| {
        let mut at = part.start;
        while at < part.end {
            let outer = at / count;
            let [base] = offsets(along.outer.list(), outer);
            let base = from.get().wrapping_offset(base as isize);
            let end = part.end.min((outer + 1) * count);
            let slice = &list[at - outer * count..end - outer * count];
            let mut to = to.get().wrapping_add(at * width);
            for &i in slice {
                let row = base.wrapping_offset(i as isize * stride);
                // SAFETY: the index is in range, so the row is inside x; rows of out are this chunk's (KERNEL-3).
                unsafe {
                    if width == 1 {
                        *to = *row;
                    } else if run {
                        std::ptr::copy_nonoverlapping(row, to, width);
                    } else {
                        walk(along.inner.list(), 0..width, |j, [d]| *to.add(j) = *row.offset(d as isize));
                    }
                }
                to = to.wrapping_add(width);
            }
            at = end;
        }
    });
}

/// Writes slices of `value` into the packed `out`, which holds the old values, at the positions `index` along `axis`.
pub fn put(
    pool: &Pool,
    index: Src,
    value: Src,
    out: Dst,
    axis: usize,
    mode: PutMode,
    wrap: bool,
) -> Result<(), Failure> {
    let list = checked(
        pool,
        &index,
        axis,
        out.layout.shape[axis],
        wrap,
        Put::out_of_range(mode, wrap, out.layout.shape.rank()),
    )?;
    if value.layout.shape.numel() == 0 {
        return Ok(());
    }
    // Slices of the value next to each other in memory; it seldom is anything else.
    let copied;
    let value = if value.layout.is_packed() {
        value
    } else {
        let layout = Layout::packed(value.layout.ty());
        let mut bytes: Room<u8> = pool.room(layout.ty().bytes())?;
        super::copy(pool, value, Dst { ptr: bytes.as_mut_ptr(), layout });
        copied = bytes;
        Src { ptr: copied.as_ptr(), layout }
    };
    let size = out.layout.shape[axis];
    match mode {
        PutMode::Set => by_size!(out.layout.dtype, T => {
            put_slices::<T, T>(pool, &list, value.start(), out.start(), &Along::new(&out.layout, axis), size, &|to, from| {
                to.copy_from_slice(from);
            });
        }),
        PutMode::Add => by_dtype!(out.layout.dtype, T => {
            with_wide::<T>(pool, &out, &|to| {
                put_slices::<T, _>(pool, &list, value.start(), to, &Along::new(&out.layout, axis), size, &|to, from| {
                    for (to, &from) in to.iter_mut().zip(from) {
                        *to = T::add(*to, from.widen());
                    }
                });
            })?;
        }),
    }
    Ok(())
}

/// Hands `f` the packed `out` in the type its sums are kept in: itself, or for halves an `f32` copy that is rounded
/// back at the end. When there is no room for the copy nothing was written.
fn with_wide<T: Element>(pool: &Pool, out: &Dst, f: &dyn Fn(*mut T::Wide)) -> Result<(), Failure> {
    let elements = out.start::<T>();
    if size_of::<T>() == size_of::<T::Wide>() {
        f(elements.cast());
        return Ok(());
    }
    let count = out.layout.shape.numel();
    let elements = Shared(elements);
    let mut wide: Room<T::Wide> = pool.room(count)?;
    // SAFETY: KERNEL-3: `out` holds the old values.
    let old = unsafe { std::slice::from_raw_parts(elements.get(), count) };
    wide.iter_mut().zip(old).for_each(|(wide, x)| *wide = x.widen());
    f(wide.as_mut_ptr());
    split(pool, count, GRAIN_BYTES, &|part| {
        for i in part {
            // SAFETY: each chunk writes elements of its own.
            unsafe { *elements.get().add(i) = T::narrow(wide[i]) };
        }
    });
    Ok(())
}

/// Combines slice `i` of the packed `value` with slice `list[i]` of the packed `out`, in order.
fn put_slices<T: Copy, W: Copy>(
    pool: &Pool,
    list: &[i64],
    value: *const T,
    out: *mut W,
    along: &Along,
    size: usize,
    combine: &(dyn Fn(&mut [W], &[T]) + Sync),
) {
    let (value, out) = (Shared::read(value), Shared(out));
    let (count, width) = (list.len(), along.inner_count);
    let slice = |outer: usize, i: usize, to: i64| {
        // SAFETY: the index is in range, so both slices are inside; those of out are this chunk's (KERNEL-3).
        unsafe {
            let from = std::slice::from_raw_parts(value.get().add((outer * count + i) * width), width);
            let to = std::slice::from_raw_parts_mut(out.get().add((outer * size + to as usize) * width), width);
            combine(to, from);
        }
    };
    let bytes = count * width * size_of::<T>();
    if along.outer_count > 1 || bytes < 4 * GRAIN_BYTES || width < 8 {
        split(pool, along.outer_count, GRAIN_BYTES.div_ceil(bytes), &|part| {
            for outer in part {
                for (i, &to) in list.iter().enumerate() {
                    slice(outer, i, to);
                }
            }
        });
        return;
    }
    // Each chunk goes through the whole index and writes the slices in its range of out.
    split(pool, size, size.div_ceil(pool.threads() * 2), &|part| {
        for (i, &to) in list.iter().enumerate() {
            if part.contains(&(to as usize)) {
                slice(0, i, to);
            }
        }
    });
}

/// Single elements of `x`: the packed `out` has the shape of `index`, and its element at a position is that of `x` at the
/// same position but for `axis`, where the index says.
pub fn gather(pool: &Pool, x: Src, index: Src, out: Dst, axis: usize) -> Result<(), Failure> {
    if out.layout.shape.numel() == 0 {
        return Ok(());
    }
    let list = checked(pool, &index, axis, x.layout.shape[axis], false, FailureKind::Domain)?;
    let shape = index.layout.shape;
    let mut strides = x.layout.strides;
    strides[axis] = 0;
    let axes = Axes::new(&shape, [&strides]);
    let stride = x.layout.strides[axis] as isize;
    by_size!(x.layout.dtype, T => {
        let (from, to) = (Shared::read(x.start::<T>()), Shared(out.start::<T>()));
        let (&last, outer) = axes.list().split_last().unwrap_or((&Axis { extent: 1, strides: [0] }, &[]));
        let rows: usize = outer.iter().map(|a| a.extent).product();
        let grain = (GRAIN_BYTES / 8).div_ceil(last.extent);
        split(pool, rows, grain, &|part| {
            walk(outer, part, |row, [base]| {
                let base = from.get().wrapping_offset(base as isize);
                let list = &list[row * last.extent..(row + 1) * last.extent];
                for (j, &i) in list.iter().enumerate() {
                    // SAFETY: the index is in range and fits x on the other axes; rows of out are this chunk's.
                    unsafe {
                        let at = base.wrapping_offset(j as isize * last.strides[0] as isize + i as isize * stride);
                        *to.get().add(row * last.extent + j) = *at;
                    }
                }
            });
        });
    });
    Ok(())
}

/// Writes single elements of `value` into the packed `out`, which holds the old values: undoes [`gather`].
pub fn scatter(pool: &Pool, index: Src, value: Src, out: Dst, axis: usize, mode: PutMode) -> Result<(), Failure> {
    if index.layout.shape.numel() == 0 {
        return Ok(());
    }
    let list = checked(pool, &index, axis, out.layout.shape[axis], false, FailureKind::Domain)?;
    let lines = Lines::new(&index.layout, &value.layout, &out.layout, axis);
    match mode {
        PutMode::Set => by_size!(out.layout.dtype, T => {
            scatter_lines::<T, T>(pool, &lines, &list, value.start(), out.start(), &|_, new| new);
        }),
        PutMode::Add => by_dtype!(out.layout.dtype, T => {
            with_wide::<T>(pool, &out, &|to| {
                scatter_lines::<T, _>(pool, &lines, &list, value.start(), to, &|old, new: T| T::add(old, new.widen()));
            })?;
        }),
    }
    Ok(())
}

/// The lines along an axis: elements of one line may meet, those of different lines do not.
struct Lines {
    /// All other axes, with the strides of the packed index, the value and the packed out.
    others: Axes<3>,
    count: usize,
    extent: usize,
    strides: [isize; 3],
}

impl Lines {
    fn new(index: &Layout, value: &Layout, out: &Layout, axis: usize) -> Lines {
        let all = [index.shape.contiguous_strides(), value.strides, out.strides];
        let (shape, extent) = (index.shape.without(axis), index.shape[axis]);
        let strides = all.map(|s| s[axis] as isize);
        let rest = all.map(|mut s| {
            s.remove(axis);
            s
        });
        let others = Axes::new(&shape, [&rest[0], &rest[1], &rest[2]]);
        Lines { others, count: shape.numel(), extent, strides }
    }
}

/// Lines that are worked on side by side, so that neighbours in memory are used together.
const ABREAST: usize = 128;

fn scatter_lines<T: Copy, W: Copy>(
    pool: &Pool,
    lines: &Lines,
    list: &[i64],
    value: *const T,
    out: *mut W,
    combine: &(impl Fn(W, T) -> W + Sync),
) {
    let (value, out) = (Shared::read(value), Shared(out));
    let [index_step, value_step, out_step] = lines.strides;
    split(pool, lines.count, (GRAIN_BYTES / 8).div_ceil(lines.extent), &|part| {
        let mut starts = [[0i64; 3]; ABREAST];
        for from in part.clone().step_by(ABREAST) {
            let abreast = from..part.end.min(from + ABREAST);
            let count = abreast.len();
            walk(lines.others.list(), abreast, |line, at| starts[line - from] = at);
            for i in 0..lines.extent as isize {
                for [index, from, to] in &starts[..count] {
                    let place = list[(*index as isize + i * index_step) as usize];
                    // SAFETY: the index is in range and fits both tensors; lines are this chunk's.
                    unsafe {
                        let new = *value.get().offset(*from as isize + i * value_step);
                        let to = out.get().offset(*to as isize + place as isize * out_step);
                        *to = combine(*to, new);
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use gt_ir::{DType, Steps};

    use super::*;
    use crate::kernels::testing::Tensor;

    fn index(shape: &[usize], values: &[i64]) -> Tensor {
        Tensor::new(DType::I64, shape, &values.iter().map(|&i| i as f64).collect::<Vec<_>>())
    }

    #[test]
    fn take_rows_columns_and_strided() {
        let pool = Pool::new(2);
        for dtype in DType::ALL {
            let x = Tensor::counting(dtype, &[5, 3]);
            let v = x.values();
            let mut out = Tensor::counting(dtype, &[2, 2, 3]);
            take(&pool, x.src(), index(&[2, 2], &[4, 0, 4, 2]).src(), out.dst(), 0, false).unwrap();
            assert_eq!(out.values(), [&v[12..15], &v[0..3], &v[12..15], &v[6..9]].concat());
            let mut out = Tensor::counting(dtype, &[5, 2]);
            take(&pool, x.src(), index(&[2], &[2, 0]).src(), out.dst(), 1, false).unwrap();
            assert_eq!(out.values(), (0..5).flat_map(|r| [v[r * 3 + 2], v[r * 3]]).collect::<Vec<_>>());
            let turned = Tensor { layout: x.layout.permute(&Steps::new(&[1, 0])), ..x.clone() };
            let mut out = Tensor::counting(dtype, &[2, 5]);
            take(&pool, turned.src(), index(&[2], &[2, 0]).src(), out.dst(), 0, false).unwrap();
            assert_eq!(
                out.values(),
                [2, 0].iter().flat_map(|c| (0..5).map(|r| v[r * 3 + c]).collect::<Vec<_>>()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn out_of_range_fails_before_writing() {
        let pool = Pool::new(1);
        let x = Tensor::counting(DType::F32, &[5]);
        let mut out = Tensor::counting(DType::F32, &[2]);
        let message = |r: Result<(), Failure>| r.unwrap_err().message;
        assert_eq!(
            message(take(&pool, x.src(), index(&[2], &[1, 7]).src(), out.dst(), 0, false)),
            "index 7 is out of bounds for dimension 0 with size 5"
        );
        let mut y = x.clone();
        for mode in [PutMode::Set, PutMode::Add] {
            assert!(put(&pool, index(&[2], &[1, -1]).src(), out.src(), y.dst(), 0, mode, false).is_err());
            assert!(scatter(&pool, index(&[2], &[1, 5]).src(), out.src(), y.dst(), 0, mode).is_err());
        }
        assert!(gather(&pool, x.src(), index(&[2], &[1, 5]).src(), out.dst(), 0).is_err());
        assert_eq!(y.values(), x.values());
    }

    #[test]
    fn put_sets_the_last_and_adds_all() {
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
                let mut out = Tensor::new(dtype, &[4, 2], &[1.0; 8]);
                let value = Tensor::counting(dtype, &[3, 2]);
                put(&pool, index(&[3], &[3, 1, 3]).src(), value.src(), out.dst(), 0, PutMode::Add, false).unwrap();
                assert_eq!(out.values(), [1., 1., 3., 4., 1., 1., 5., 7.]);
                put(&pool, index(&[3], &[3, 1, 3]).src(), value.src(), out.dst(), 0, PutMode::Set, false).unwrap();
                assert_eq!(out.values(), [1., 1., 2., 3., 1., 1., 4., 5.]);
                // Along the last axis, with a value that is not packed.
                let mut out = Tensor::new(dtype, &[2, 4], &[0.0; 8]);
                let turned = Tensor { layout: value.layout.permute(&Steps::new(&[1, 0])), ..value };
                put(&pool, index(&[3], &[3, 1, 3]).src(), turned.src(), out.dst(), 1, PutMode::Add, false).unwrap();
                assert_eq!(out.values(), [0., 2., 0., 4., 0., 3., 0., 6.]);
            }
        }
    }

    #[test]
    fn large_put_add_is_the_same_for_any_number_of_threads() {
        let rows = crate::kernels::testing::values(5000 * 32, 3);
        let places: Vec<i64> = (0..5000).map(|i| i * i % 61).collect();
        let mut results = Vec::new();
        for threads in [1, 2, 5] {
            let mut out = Tensor::new(DType::F32, &[61, 32], &[0.0; 61 * 32]);
            let value = Tensor::new(DType::F32, &[5000, 32], &rows.iter().map(|&x| x as f64).collect::<Vec<_>>());
            put(&Pool::new(threads), index(&[5000], &places).src(), value.src(), out.dst(), 0, PutMode::Add, false)
                .unwrap();
            results.push(out.bytes);
        }
        assert!(results.iter().all(|r| *r == results[0]));
        let mut naive = vec![0f32; 61 * 32];
        for (i, &p) in places.iter().enumerate() {
            for j in 0..32 {
                naive[p as usize * 32 + j] += rows[i * 32 + j];
            }
        }
        let bits: Vec<u64> = naive.chunks(2).map(|c| c[0].to_bits() as u64 | (c[1].to_bits() as u64) << 32).collect();
        assert_eq!(results[0], bits);
    }

    #[test]
    fn gather_and_scatter() {
        let pool = Pool::new(2);
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
            let x = Tensor::counting(dtype, &[3, 4]);
            let mut out = Tensor::counting(dtype, &[2, 3]);
            gather(&pool, x.src(), index(&[2, 3], &[2, 0, 1, 1, 1, 2]).src(), out.dst(), 0).unwrap();
            assert_eq!(out.values(), [8., 1., 6., 4., 5., 10.]);
            gather(&pool, x.src(), index(&[2, 3], &[3, 0, 3, 1, 1, 2]).src(), out.dst(), 1).unwrap();
            assert_eq!(out.values(), [3., 0., 3., 5., 5., 6.]);
            let mut y = Tensor::new(dtype, &[3, 3], &[1.0; 9]);
            scatter(&pool, index(&[2, 3], &[2, 0, 1, 2, 1, 2]).src(), x.src(), y.dst(), 0, PutMode::Add).unwrap();
            // Rows of x are 0 1 2 3 and 4 5 6 7.
            assert_eq!(y.values(), [1., 2., 1., 1., 6., 3., 5., 1., 7.]);
            scatter(&pool, index(&[2, 3], &[0, 0, 1, 2, 2, 2]).src(), x.src(), y.dst(), 1, PutMode::Set).unwrap();
            assert_eq!(y.values(), [1., 2., 1., 1., 6., 6., 5., 1., 7.]);
        }
    }
}
