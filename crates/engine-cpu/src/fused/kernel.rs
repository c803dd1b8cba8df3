//! Tile loops: one function over a run of elements.
//!
//! TILE-1: `dst` overlaps no operand. The loops below are then free of dependences and vectorise.
//! TILE-2: element `i` of the result depends on element `i` of the operands only, by the same arithmetic whether it falls
//! into the vectorised body or the tail.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use gt_ir::DType;

use crate::simd::instantiate;

/// A tile loop: count, destination, up to three operands. A kernel ignores operands it does not have.
pub type Kernel = unsafe fn(usize, *mut u8, *const u8, *const u8, *const u8);

/// What a tile's elements are. Halves are held as f32; bool is a byte of 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TileType {
    Bool,
    U8,
    I8,
    I32,
    I64,
    F32,
    F64,
}

impl TileType {
    /// What elements of `dtype` are inside a tile.
    pub fn of(dtype: DType) -> TileType {
        match dtype {
            DType::Bool => TileType::Bool,
            DType::U8 => TileType::U8,
            DType::I8 => TileType::I8,
            DType::I32 => TileType::I32,
            DType::I64 => TileType::I64,
            DType::F16 | DType::BF16 | DType::F32 => TileType::F32,
            DType::F64 => TileType::F64,
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            TileType::Bool | TileType::U8 | TileType::I8 => 1,
            TileType::I32 | TileType::F32 => 4,
            TileType::I64 | TileType::F64 => 8,
        }
    }
}

/// A loop over one tile.
pub trait TileLoop {
    /// # Safety
    /// Every operand the loop has holds `n` elements (or one, where it takes a constant), `dst` has room for `n`; TILE-1.
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8);
}

instantiate!(
    /// The loop compiled for this machine.
    pub kernel, TileLoop, (n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8)
);

/// A function of one element.
pub trait Map1 {
    /// The operand.
    type A: Copy;
    /// The result.
    type R: Copy;
    /// The function.
    fn f(x: Self::A) -> Self::R;
}

/// A function of two elements.
pub trait Map2 {
    /// The left operand.
    type A: Copy;
    /// The right operand.
    type B: Copy;
    /// The result.
    type R: Copy;
    /// The function.
    fn f(x: Self::A, y: Self::B) -> Self::R;
}

/// What to do with the operands for which a function is not made: rare, so an element at a time.
pub trait Wide1: Map1 {
    /// Whether the operand is one of them.
    fn is_wide(x: Self::A) -> bool;
    /// The function on such an operand.
    fn wide(x: Self::A) -> Self::R;
}

/// The same for two operands.
pub trait Wide2: Map2 {
    /// Whether the operands are such.
    fn is_wide(x: Self::A, y: Self::B) -> bool;
    /// The function on such operands.
    fn wide(x: Self::A, y: Self::B) -> Self::R;
}

/// Applies a [`Wide1`].
pub struct EachOrWide<F>(PhantomData<F>);
/// Applies a [`Wide2`] to two tiles.
pub struct PairsOrWide<F>(PhantomData<F>);
/// Applies a [`Map1`].
pub struct Each<F>(PhantomData<F>);
/// Applies a [`Map2`] to two tiles.
pub struct Pairs<F>(PhantomData<F>);
/// Applies a [`Map2`] to a constant and a tile.
pub struct ConstLeft<F>(PhantomData<F>);
/// Applies a [`Map2`] to a tile and a constant.
pub struct ConstRight<F>(PhantomData<F>);
/// Chooses bit patterns by a condition.
pub struct Choose<T>(PhantomData<T>);
/// Repeats a constant.
pub struct Splat<T>(PhantomData<T>);

impl<F: Map1> TileLoop for Each<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8) {
        // SAFETY: as promised by the caller.
        let (dst, a) = unsafe { (from_raw_parts_mut(dst.cast::<F::R>(), n), from_raw_parts(a.cast::<F::A>(), n)) };
        for (d, &x) in dst.iter_mut().zip(a) {
            *d = F::f(x);
        }
    }
}

impl<F: Wide1> TileLoop for EachOrWide<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        // SAFETY: as promised by the caller.
        unsafe { Each::<F>::run(n, dst, a, b, c) };
        // SAFETY: as above.
        let (dst, a) = unsafe { (from_raw_parts_mut(dst.cast::<F::R>(), n), from_raw_parts(a.cast::<F::A>(), n)) };
        if a.iter().fold(false, |any, &x| any | F::is_wide(x)) {
            for (d, &x) in dst.iter_mut().zip(a).filter(|(_, x)| F::is_wide(**x)) {
                *d = F::wide(x);
            }
        }
    }
}

impl<F: Wide2> TileLoop for PairsOrWide<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        // SAFETY: as promised by the caller.
        unsafe { Pairs::<F>::run(n, dst, a, b, c) };
        // SAFETY: as above.
        let dst = unsafe { from_raw_parts_mut(dst.cast::<F::R>(), n) };
        // SAFETY: as above.
        let (a, b) = unsafe { (from_raw_parts(a.cast::<F::A>(), n), from_raw_parts(b.cast::<F::B>(), n)) };
        if a.iter().zip(b).fold(false, |any, (&x, &y)| any | F::is_wide(x, y)) {
            for ((d, &x), &y) in dst.iter_mut().zip(a).zip(b).filter(|((_, x), y)| F::is_wide(**x, **y)) {
                *d = F::wide(x, y);
            }
        }
    }
}

impl<F: Map2> TileLoop for Pairs<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8) {
        // SAFETY: as promised by the caller.
        let dst = unsafe { from_raw_parts_mut(dst.cast::<F::R>(), n) };
        // SAFETY: as above.
        let (a, b) = unsafe { (from_raw_parts(a.cast::<F::A>(), n), from_raw_parts(b.cast::<F::B>(), n)) };
        for ((d, &x), &y) in dst.iter_mut().zip(a).zip(b) {
            *d = F::f(x, y);
        }
    }
}

impl<F: Map2> TileLoop for ConstLeft<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8) {
        // SAFETY: as promised by the caller.
        let (dst, b) = unsafe { (from_raw_parts_mut(dst.cast::<F::R>(), n), from_raw_parts(b.cast::<F::B>(), n)) };
        // SAFETY: a constant is one element.
        let x = unsafe { *a.cast::<F::A>() };
        for (d, &y) in dst.iter_mut().zip(b) {
            *d = F::f(x, y);
        }
    }
}

impl<F: Map2> TileLoop for ConstRight<F> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8) {
        // SAFETY: as promised by the caller.
        let (dst, a) = unsafe { (from_raw_parts_mut(dst.cast::<F::R>(), n), from_raw_parts(a.cast::<F::A>(), n)) };
        // SAFETY: a constant is one element.
        let y = unsafe { *b.cast::<F::B>() };
        for (d, &x) in dst.iter_mut().zip(a) {
            *d = F::f(x, y);
        }
    }
}

impl<T: Copy> TileLoop for Choose<T> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        // SAFETY: as promised by the caller; the condition is a tile of bytes.
        let (dst, cond) = unsafe { (from_raw_parts_mut(dst.cast::<T>(), n), from_raw_parts(a, n)) };
        // SAFETY: as above.
        let (b, c) = unsafe { (from_raw_parts(b.cast::<T>(), n), from_raw_parts(c.cast::<T>(), n)) };
        for (((d, &q), &x), &y) in dst.iter_mut().zip(cond).zip(b).zip(c) {
            *d = if q != 0 { x } else { y };
        }
    }
}

impl<T: Copy> TileLoop for Splat<T> {
    #[inline(always)]
    unsafe fn run(n: usize, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8) {
        // SAFETY: as promised by the caller; a constant is one element.
        let (dst, x) = unsafe { (from_raw_parts_mut(dst.cast::<T>(), n), *a.cast::<T>()) };
        dst.fill(x);
    }
}

/// The kernel of a function of one element.
macro_rules! map1 {
    ($a:ty => $r:ty, |$x:ident| $body:expr) => {{
        struct F;
        impl $crate::fused::kernel::Map1 for F {
            type A = $a;
            type R = $r;
            #[inline(always)]
            fn f($x: $a) -> $r {
                $body
            }
        }
        $crate::fused::kernel::kernel::<$crate::fused::kernel::Each<F>>()
    }};
}

/// The kernel of a function of one element that leaves some operands to another function.
macro_rules! map1_or_wide {
    ($a:ty, $function:path, $is_wide:path, $wide:path) => {{
        struct F;
        impl $crate::fused::kernel::Map1 for F {
            type A = $a;
            type R = $a;
            #[inline(always)]
            fn f(x: $a) -> $a {
                $function(x)
            }
        }
        impl $crate::fused::kernel::Wide1 for F {
            #[inline(always)]
            fn is_wide(x: $a) -> bool {
                $is_wide(x)
            }
            fn wide(x: $a) -> $a {
                $wide(x)
            }
        }
        $crate::fused::kernel::kernel::<$crate::fused::kernel::EachOrWide<F>>()
    }};
}

/// The kernel of a function of two elements that leaves some operands to another function.
macro_rules! map2_or_wide {
    ($a:ty, $function:path, $is_wide:path, $wide:path) => {{
        struct F;
        impl $crate::fused::kernel::Map2 for F {
            type A = $a;
            type B = $a;
            type R = $a;
            #[inline(always)]
            fn f(x: $a, y: $a) -> $a {
                $function(x, y)
            }
        }
        impl $crate::fused::kernel::Wide2 for F {
            #[inline(always)]
            fn is_wide(x: $a, y: $a) -> bool {
                $is_wide(x, y)
            }
            fn wide(x: $a, y: $a) -> $a {
                $wide(x, y)
            }
        }
        $crate::fused::kernel::kernel::<$crate::fused::kernel::PairsOrWide<F>>()
    }};
}

/// The kernel of a function of two elements, in the given form (`Pairs`, `ConstLeft`, `ConstRight`).
macro_rules! map2 {
    ($form:ident, $a:ty => $r:ty, |$x:ident, $y:ident| $body:expr) => {{
        struct F;
        impl $crate::fused::kernel::Map2 for F {
            type A = $a;
            type B = $a;
            type R = $r;
            #[inline(always)]
            fn f($x: $a, $y: $a) -> $r {
                $body
            }
        }
        $crate::fused::kernel::kernel::<$crate::fused::kernel::$form<F>>()
    }};
}
pub(crate) use {map1, map1_or_wide, map2, map2_or_wide};

/// The kernel that repeats a constant of this size.
pub fn splat(size: usize) -> Kernel {
    match size {
        1 => kernel::<Splat<u8>>(),
        2 => kernel::<Splat<u16>>(),
        4 => kernel::<Splat<u32>>(),
        _ => kernel::<Splat<u64>>(),
    }
}

/// The kernel that chooses between elements of this size.
pub fn choose(size: usize) -> Kernel {
    match size {
        1 => kernel::<Choose<u8>>(),
        4 => kernel::<Choose<u32>>(),
        _ => kernel::<Choose<u64>>(),
    }
}
