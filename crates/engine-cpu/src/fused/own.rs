//! Rows computed by their own functions, an element at a time: what runs of a row that has no tile loop.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use gt_ir::DType;
use gt_ir::rows::{Accepts, BinaryKind, BinaryRow, UnaryKind, UnaryRow};

use super::kernel::{Kernel, TileType};

/// Whether a row that accepts these dtypes takes tiles of this type.
fn takes(accepts: Accepts, ty: TileType) -> bool {
    accepts.takes(match ty {
        TileType::Bool => DType::Bool,
        TileType::U8 | TileType::I8 | TileType::I32 | TileType::I64 => DType::I64,
        TileType::F32 | TileType::F64 => DType::F32,
    })
}

macro_rules! of_type {
    ($ty:expr, $table:ident, $kind:expr) => {
        match $ty {
            TileType::Bool => Loops::<Bool>::$table[$kind as usize],
            TileType::U8 => Loops::<u8>::$table[$kind as usize],
            TileType::I8 => Loops::<i8>::$table[$kind as usize],
            TileType::I32 => Loops::<i32>::$table[$kind as usize],
            TileType::I64 => Loops::<i64>::$table[$kind as usize],
            TileType::F32 => Loops::<f32>::$table[$kind as usize],
            TileType::F64 => Loops::<f64>::$table[$kind as usize],
        }
    };
}

/// The loop of a row on tiles of this type; `None` where the row does not take it.
pub fn unary(kind: UnaryKind, ty: TileType) -> Option<Kernel> {
    takes(kind.row().accepts, ty).then(|| of_type!(ty, UNARY, kind))
}

/// The loop of a row on two tiles of this type; `None` where the row does not take it.
pub fn binary(kind: BinaryKind, ty: TileType) -> Option<Kernel> {
    takes(kind.row().accepts, ty).then(|| of_type!(ty, BINARY, kind))
}

/// An element of a tile, and the functions of rows on it. A test gives zero or one.
trait Element: Copy {
    fn unary(row: &UnaryRow, x: Self) -> Self;
    fn is(row: &UnaryRow, x: Self) -> bool;
    fn binary(row: &BinaryRow, x: Self, y: Self) -> Self;
}

/// An element of a tile of bools: 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bool(u8);

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn unary(row: &UnaryRow, x: $t) -> $t {
                row.i64.map_or(0, |function| function(x as i64) as $t)
            }
            fn is(row: &UnaryRow, x: $t) -> bool {
                row.i64.is_some_and(|function| function(x as i64) != 0)
            }
            fn binary(row: &BinaryRow, x: $t, y: $t) -> $t {
                (row.i64)(x as i64, y as i64) as $t
            }
        }
    )*};
}

ints!(u8, i8, i32, i64);

impl Element for Bool {
    fn unary(row: &UnaryRow, x: Bool) -> Bool {
        // The complement of a bool is its lowest bit.
        Bool(u8::unary(row, x.0) & 1)
    }
    fn is(row: &UnaryRow, x: Bool) -> bool {
        u8::is(row, x.0)
    }
    fn binary(row: &BinaryRow, x: Bool, y: Bool) -> Bool {
        Bool((u8::binary(row, x.0, y.0) != 0) as u8)
    }
}

impl Element for f64 {
    fn unary(row: &UnaryRow, x: f64) -> f64 {
        (row.f64)(x)
    }
    fn is(row: &UnaryRow, x: f64) -> bool {
        (row.f64)(x) != 0.0
    }
    fn binary(row: &BinaryRow, x: f64, y: f64) -> f64 {
        (row.f64)(x, y)
    }
}

impl Element for f32 {
    fn unary(row: &UnaryRow, x: f32) -> f32 {
        (row.f64)(x as f64) as f32
    }
    fn is(row: &UnaryRow, x: f32) -> bool {
        (row.f64)(x as f64) != 0.0
    }
    fn binary(row: &BinaryRow, x: f32, y: f32) -> f32 {
        row.f32.map_or_else(|| (row.f64)(x as f64, y as f64) as f32, |function| function(x, y))
    }
}

/// # Safety
/// As [`TileLoop::run`](super::kernel::TileLoop::run).
unsafe fn each<const KIND: usize, T: Element>(n: usize, dst: *mut u8, a: *const u8, _: *const u8, _: *const u8) {
    let row = UnaryKind::ALL[KIND].row();
    // SAFETY: as promised by the caller.
    let a = unsafe { from_raw_parts(a.cast::<T>(), n) };
    if row.to_bool {
        // SAFETY: as promised by the caller; the result is a tile of bytes.
        let dst = unsafe { from_raw_parts_mut(dst, n) };
        dst.iter_mut().zip(a).for_each(|(d, &x)| *d = T::is(row, x) as u8);
    } else {
        // SAFETY: as promised by the caller.
        let dst = unsafe { from_raw_parts_mut(dst.cast::<T>(), n) };
        dst.iter_mut().zip(a).for_each(|(d, &x)| *d = T::unary(row, x));
    }
}

/// # Safety
/// As [`TileLoop::run`](super::kernel::TileLoop::run).
unsafe fn pairs<const KIND: usize, T: Element>(n: usize, dst: *mut u8, a: *const u8, b: *const u8, _: *const u8) {
    let row = BinaryKind::ALL[KIND].row();
    // SAFETY: as promised by the caller.
    let (a, b) = unsafe { (from_raw_parts(a.cast::<T>(), n), from_raw_parts(b.cast::<T>(), n)) };
    // SAFETY: as promised by the caller.
    let dst = unsafe { from_raw_parts_mut(dst.cast::<T>(), n) };
    dst.iter_mut().zip(a).zip(b).for_each(|((d, &x), &y)| *d = T::binary(row, x, y));
}

/// A loop for every row. A kernel is a bare function, so which row it computes must be part of it.
struct Loops<T>(PhantomData<T>);

macro_rules! unary_loops {
    ($($kind:ident $text:literal $names:tt $($says:literal $(, $example:literal => $result:literal)?)?;)*) => {
        impl<T: Element> Loops<T> {
            const UNARY: [Kernel; UnaryKind::ALL.len()] = [$(each::<{ UnaryKind::$kind as usize }, T>),*];
        }
    };
}

macro_rules! binary_loops {
    ($($kind:ident $text:literal $names:tt $(
        ($takes:ident $operand:ident) $says:literal, $example:literal => $result:literal
    )?;)*) => {
        impl<T: Element> Loops<T> {
            const BINARY: [Kernel; BinaryKind::ALL.len()] = [$(pairs::<{ BinaryKind::$kind as usize }, T>),*];
        }
    };
}

gt_ir::unary_rows!(unary_loops);
gt_ir::binary_rows!(binary_loops);
