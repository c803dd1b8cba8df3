//! Kernels that work on whole tensors: everything that is not a fused elementwise loop.
//!
//! KERNEL-1: a kernel checks everything that can fail before it writes anything.
//! KERNEL-2: what a kernel writes depends on the values and shapes of its operands only: not on their strides, the
//! number of threads, or how the work was cut.
//! KERNEL-3: a [`Src`] and a [`Dst`] handed to a kernel describe memory that is valid for the call and, where written,
//! not touched by anyone else.

// Loops over lanes of several arrays read best with an index, and vectorise the same.
#![allow(clippy::needless_range_loop)]

mod arg_reduce;
mod attention;
mod attention_grad;
mod attention_tiles;
pub mod bench;
mod copy;
mod create;
mod cross_entropy;
mod gemm;
mod index;
mod matmul;
mod microkernel;
mod movement;
mod pack;
mod random;
mod scan;
mod sort;
mod update;

pub use arg_reduce::arg_reduce;
pub use attention::{Attention, attention};
pub use attention_grad::{AttentionGrads, attention_grad};
pub use copy::copy;
pub use create::{fill, iota};
pub use cross_entropy::{cross_entropy, cross_entropy_grad};
pub use index::{gather, put, scatter, take};
pub use matmul::{LONGEST_PAIRED_PRODUCT, Operands, matmul, two_matmuls};
pub use movement::{concat, pad, update_slice};
pub use random::random;
pub use scan::scan;
pub use sort::sort;
pub use update::update;

use gt_ir::{DType, Failure, MAX_RANK, Scalar};
use parking_lot::Mutex;

use crate::alloc::Plain;
use crate::layout::Layout;

/// An operand: the base address of its buffer and where its elements lie in it.
#[derive(Clone, Copy)]
pub struct Src {
    /// The address of the buffer's first element.
    pub ptr: *const u8,
    /// Where the elements lie.
    pub layout: Layout,
}

/// A result: the base address of its buffer and where its elements go.
#[derive(Clone, Copy)]
pub struct Dst {
    /// The address of the buffer's first element.
    pub ptr: *mut u8,
    /// Where the elements go; packed unless a kernel says otherwise.
    pub layout: Layout,
}

// SAFETY: KERNEL-3: the memory is valid for the call and nobody writes it; kernels share it among threads to read.
unsafe impl Send for Src {}
// SAFETY: as above.
unsafe impl Sync for Src {}
// SAFETY: KERNEL-3: the memory is the call's own; kernels give each thread a part of its own.
unsafe impl Send for Dst {}
// SAFETY: as above.
unsafe impl Sync for Dst {}

impl Src {
    /// The address of the first element.
    fn start<T>(&self) -> *const T {
        debug_assert_eq!(size_of::<T>(), self.layout.dtype.size());
        (self.ptr as *const T).wrapping_add(self.layout.offset)
    }
}

impl Dst {
    /// The address of the first element.
    fn start<T>(&self) -> *mut T {
        debug_assert_eq!(size_of::<T>(), self.layout.dtype.size());
        (self.ptr as *mut T).wrapping_add(self.layout.offset)
    }

    /// The same memory, to read.
    fn as_src(&self) -> Src {
        Src { ptr: self.ptr, layout: self.layout }
    }
}

/// A pointer that may cross threads; what it is used for is argued where it is used.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: only an address; each use says why its accesses do not meet.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn read(ptr: *const T) -> Self {
        Shared(ptr.cast_mut())
    }

    fn get(self) -> *mut T {
        self.0
    }
}

/// What a grain takes, about: kernels choose theirs so that it is worth handing over.
const GRAIN_NANOS: usize = 10_000;

/// Runs `f` over `0..count` cut into runs of at least `grain`, in parallel when there is more than one.
fn split(pool: &crate::pool::Pool, count: usize, grain: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
    let grain = grain.max(1);
    // More chunks than threads, so that a thread that was delayed does not hold up the rest.
    let chunks = count.div_ceil(grain).min(pool.threads() * 4).max(1);
    if chunks == 1 || pool.threads() == 1 {
        f(0..count);
        return;
    }
    let size = count.div_ceil(chunks);
    pool.run(count.div_ceil(size), count / grain * GRAIN_NANOS, &|i| f(i * size..((i + 1) * size).min(count)));
}

/// [`split`] for work that may find no memory: the first failure, if there was one.
fn try_split(
    pool: &crate::pool::Pool,
    count: usize,
    grain: usize,
    f: &(dyn Fn(std::ops::Range<usize>) -> Result<(), Failure> + Sync),
) -> Result<(), Failure> {
    let failed = Mutex::new(None);
    split(pool, count, grain, &|range| {
        if let Err(failure) = f(range) {
            failed.lock().get_or_insert(failure);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// An axis as kernels walk it: its extent and the strides of up to `N` operands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis<const N: usize> {
    extent: usize,
    strides: [i64; N],
}

/// The axes of operands of one shape, outermost first, without those of extent 1, neighbours joined where every
/// operand allows it.
struct Axes<const N: usize> {
    len: usize,
    axes: [Axis<N>; MAX_RANK],
}

impl<const N: usize> Axes<N> {
    fn new(shape: &[usize], strides: [&[i64]; N]) -> Self {
        let mut out = Axes { len: 0, axes: [Axis { extent: 1, strides: [0; N] }; MAX_RANK] };
        for axis in 0..shape.len() {
            let (extent, steps) = (shape[axis], std::array::from_fn(|i| strides[i][axis]));
            if extent == 1 {
                continue;
            }
            if out.len > 0 {
                let last = &mut out.axes[out.len - 1];
                if (0..N).all(|i| last.strides[i] == steps[i] * extent as i64) {
                    *last = Axis { extent: last.extent * extent, strides: steps };
                    continue;
                }
            }
            out.axes[out.len] = Axis { extent, strides: steps };
            out.len += 1;
        }
        out
    }

    fn list(&self) -> &[Axis<N>] {
        &self.axes[..self.len]
    }
}

/// The element offsets of each operand at position `at` (row-major) of these axes.
fn offsets<const N: usize>(axes: &[Axis<N>], mut at: usize) -> [i64; N] {
    let mut out = [0; N];
    for axis in axes.iter().rev() {
        let i = (at % axis.extent) as i64;
        at /= axis.extent;
        for (sum, stride) in out.iter_mut().zip(axis.strides) {
            *sum += i * stride;
        }
    }
    out
}

/// Steps through positions `from..to` (row-major) of the axes and hands the element offsets of each to `f`.
fn walk<const N: usize>(axes: &[Axis<N>], range: std::ops::Range<usize>, mut f: impl FnMut(usize, [i64; N])) {
    if range.is_empty() {
        return;
    }
    let mut index = [0usize; MAX_RANK];
    let mut rest = range.start;
    for (i, axis) in axes.iter().enumerate().rev() {
        index[i] = rest % axis.extent;
        rest /= axis.extent;
    }
    let mut at = offsets(axes, range.start);
    for position in range {
        f(position, at);
        for (i, axis) in axes.iter().enumerate().rev() {
            index[i] += 1;
            for (sum, stride) in at.iter_mut().zip(axis.strides) {
                *sum += stride;
            }
            if index[i] < axis.extent {
                break;
            }
            index[i] = 0;
            for (sum, stride) in at.iter_mut().zip(axis.strides) {
                *sum -= stride * axis.extent as i64;
            }
        }
    }
}

/// Runs the body with `$t` as an unsigned type of the element's size: for kernels that only move elements.
macro_rules! by_size {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
use by_size;

/// Runs the body with `$t` as the element type; `bool` elements are bytes of 0 or 1.
macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            gt_ir::DType::Bool | gt_ir::DType::U8 => {
                type $t = u8;
                $body
            }
            gt_ir::DType::I8 => {
                type $t = i8;
                $body
            }
            gt_ir::DType::I32 => {
                type $t = i32;
                $body
            }
            gt_ir::DType::I64 => {
                type $t = i64;
                $body
            }
            gt_ir::DType::F16 => {
                type $t = half::f16;
                $body
            }
            gt_ir::DType::BF16 => {
                type $t = half::bf16;
                $body
            }
            gt_ir::DType::F32 => {
                type $t = f32;
                $body
            }
            gt_ir::DType::F64 => {
                type $t = f64;
                $body
            }
        }
    };
}
use by_dtype;

/// An element type as arithmetic kernels see it: halves are widened to `f32` and rounded on the way back.
trait Element: Plain + PartialOrd {
    /// What arithmetic is done in.
    type Wide: Plain;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// Wraps on integers.
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Wraps on integers.
    fn mul(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Whether this is not a number.
    fn is_nan(self) -> bool;
}

macro_rules! int_element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(wide: $t) -> $t {
                wide
            }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn mul(a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
int_element!(u8, i8, i32, i64);

macro_rules! float_element {
    ($($t:ty, $wide:ty, $widen:expr, $narrow:expr);*) => {$(
        impl Element for $t {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                let widen: fn($t) -> $wide = $widen;
                widen(self)
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> $t {
                let narrow: fn($wide) -> $t = $narrow;
                narrow(wide)
            }
            #[inline(always)]
            fn add(a: $wide, b: $wide) -> $wide {
                a + b
            }
            #[inline(always)]
            fn mul(a: $wide, b: $wide) -> $wide {
                a * b
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
        }
    )*};
}
float_element!(
    f32, f32, |x| x, |x| x;
    f64, f64, |x| x, |x| x;
    half::f16, f32, |x| x.to_f32(), half::f16::from_f32;
    half::bf16, f32, |x| x.to_f32(), half::bf16::from_f32
);

/// The bytes of one element of `dtype` that has the scalar's value; halves are rounded by way of `f32`.
fn element_bytes(dtype: DType, scalar: Scalar) -> [u8; 8] {
    let mut out = [0; 8];
    let mut put = |bytes: &[u8]| out[..bytes.len()].copy_from_slice(bytes);
    let float = match scalar {
        Scalar::I64(i) => i as f32,
        Scalar::F64(_) | Scalar::Bool(_) => scalar.as_f64() as f32,
    };
    match dtype {
        DType::Bool => put(&[scalar.as_bool() as u8]),
        DType::U8 | DType::I8 => put(&[scalar.as_i64() as u8]),
        DType::I32 => put(&(scalar.as_i64() as i32).to_ne_bytes()),
        DType::I64 => put(&scalar.as_i64().to_ne_bytes()),
        DType::F16 => put(&half::f16::from_f32(float).to_ne_bytes()),
        DType::BF16 => put(&half::bf16::from_f32(float).to_ne_bytes()),
        DType::F32 => put(&float.to_ne_bytes()),
        DType::F64 => put(&scalar.as_f64().to_ne_bytes()),
    }
    out
}

#[cfg(test)]
mod testing;
