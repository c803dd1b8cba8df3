//! Tile loops of the binary rows and the comparisons.

use gt_ir::rows::{BinaryKind, CompareKind};

use super::kernel::{Kernel, TileType, map2, map2_or_wide};
use super::own;
use crate::math;

/// Which operand is a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Const {
    /// Neither.
    None,
    /// The left one.
    Left,
    /// The right one.
    Right,
}

/// The kernel of a row on two tiles of this type; `None` where the row does not take it.
///
/// A row without a loop here is computed by its own function, an element at a time.
pub fn binary(kind: BinaryKind, ty: TileType) -> Option<Kernel> {
    let fast = match ty {
        TileType::Bool => on_bool(kind),
        TileType::U8 => on_u8(kind),
        TileType::I8 => on_i8(kind),
        TileType::I32 => on_i32(kind),
        TileType::I64 => on_i64(kind),
        TileType::F32 => on_f32(kind),
        TileType::F64 => on_f64(kind),
    };
    fast.or_else(|| own::binary(kind, ty))
}

/// The kernel of a row on a constant and a tile; `None` where there is none and the constant becomes a tile.
pub fn binary_const(kind: BinaryKind, ty: TileType, constant: Const) -> Option<Kernel> {
    match ty {
        TileType::F32 => with_const_f32(kind, constant),
        TileType::F64 => with_const_f64(kind, constant),
        TileType::I64 => with_const_i64(kind, constant),
        TileType::Bool | TileType::U8 | TileType::I8 | TileType::I32 => None,
    }
}

/// The kernel of a comparison of two tiles, or of a tile with a constant on the right.
pub fn compare(kind: CompareKind, ty: TileType, constant: bool) -> Kernel {
    use CompareKind::*;
    macro_rules! of {
        ($form:ident, $t:ty) => {
            match kind {
                Eq => map2!($form, $t => u8, |x, y| (x == y) as u8),
                Ne => map2!($form, $t => u8, |x, y| (x != y) as u8),
                Lt => map2!($form, $t => u8, |x, y| (x < y) as u8),
                Le => map2!($form, $t => u8, |x, y| (x <= y) as u8),
                Gt => map2!($form, $t => u8, |x, y| (x > y) as u8),
                Ge => map2!($form, $t => u8, |x, y| (x >= y) as u8),
            }
        };
    }
    macro_rules! either {
        ($t:ty) => {
            if constant { of!(ConstRight, $t) } else { of!(Pairs, $t) }
        };
    }
    match ty {
        TileType::Bool | TileType::U8 => either!(u8),
        TileType::I8 => either!(i8),
        TileType::I32 => either!(i32),
        TileType::I64 => either!(i64),
        TileType::F32 => either!(f32),
        TileType::F64 => either!(f64),
    }
}

/// The comparison that holds for `(y, x)` exactly when this one holds for `(x, y)`.
pub fn flipped(kind: CompareKind) -> CompareKind {
    use CompareKind::*;
    match kind {
        Eq => Eq,
        Ne => Ne,
        Lt => Gt,
        Le => Ge,
        Gt => Lt,
        Ge => Le,
    }
}

/// The larger; the left one where it is not a number.
macro_rules! larger {
    ($x:ident, $y:ident) => {
        if $x.is_nan() || $x > $y { $x } else { $y }
    };
}
macro_rules! smaller {
    ($x:ident, $y:ident) => {
        if $x.is_nan() || $x < $y { $x } else { $y }
    };
}
pub(crate) use {larger, smaller};

macro_rules! on_floats {
    ($name:ident, $with_const:ident, $t:ty, [$($kind:ident $function:ident),*], $rem:expr, $fmod:expr) => {
        fn $name(kind: BinaryKind) -> Option<Kernel> {
            use BinaryKind::*;
            Some(match kind {
                Add => map2!(Pairs, $t => $t, |x, y| x + y),
                Sub => map2!(Pairs, $t => $t, |x, y| x - y),
                Mul => map2!(Pairs, $t => $t, |x, y| x * y),
                Div => map2!(Pairs, $t => $t, |x, y| x / y),
                Rem => $rem,
                Fmod => $fmod,
                Max => map2!(Pairs, $t => $t, |x, y| larger!(x, y)),
                Min => map2!(Pairs, $t => $t, |x, y| smaller!(x, y)),
                $($kind => map2!(Pairs, $t => $t, |x, y| math::$function(x, y)),)*
                _ => return None,
            })
        }
        fn $with_const(kind: BinaryKind, constant: Const) -> Option<Kernel> {
            use BinaryKind::*;
            use Const::{Left, Right};
            Some(match (kind, constant) {
                (Add, Left) => map2!(ConstLeft, $t => $t, |x, y| x + y),
                (Add, Right) => map2!(ConstRight, $t => $t, |x, y| x + y),
                (Sub, Left) => map2!(ConstLeft, $t => $t, |x, y| x - y),
                (Sub, Right) => map2!(ConstRight, $t => $t, |x, y| x - y),
                (Mul, Left) => map2!(ConstLeft, $t => $t, |x, y| x * y),
                (Mul, Right) => map2!(ConstRight, $t => $t, |x, y| x * y),
                (Div, Left) => map2!(ConstLeft, $t => $t, |x, y| x / y),
                (Div, Right) => map2!(ConstRight, $t => $t, |x, y| x / y),
                (Max, Right) => map2!(ConstRight, $t => $t, |x, y| larger!(x, y)),
                (Min, Right) => map2!(ConstRight, $t => $t, |x, y| smaller!(x, y)),
                _ => return None,
            })
        }
    };
}

on_floats!(
    on_f32,
    with_const_f32,
    f32,
    [FloorDiv floor_divide_f32, Pow pow_f32, Atan2 atan2_f32],
    map2_or_wide!(f32, math::remainder_f32, math::is_wide_quotient_f32, math::remainder_wide_f32),
    map2_or_wide!(f32, math::fmod_f32, math::is_wide_quotient_f32, math::fmod_wide_f32)
);
on_floats!(
    on_f64,
    with_const_f64,
    f64,
    [FloorDiv floor_divide_f64],
    map2!(Pairs, f64 => f64, |x, y| math::remainder_f64(x, y)),
    map2!(Pairs, f64 => f64, |x, y| math::fmod_f64(x, y))
);

macro_rules! on_ints {
    ($name:ident, $t:ty) => {
        fn $name(kind: BinaryKind) -> Option<Kernel> {
            use BinaryKind::*;
            Some(match kind {
                Add => map2!(Pairs, $t => $t, |x, y| x.wrapping_add(y)),
                Sub => map2!(Pairs, $t => $t, |x, y| x.wrapping_sub(y)),
                Mul => map2!(Pairs, $t => $t, |x, y| x.wrapping_mul(y)),
                FloorDiv => map2!(Pairs, $t => $t, |x, y| int_floor_div(x as i64, y as i64) as $t),
                Rem => map2!(Pairs, $t => $t, |x, y| int_rem(x as i64, y as i64) as $t),
                Fmod => map2!(Pairs, $t => $t, |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
                Max => map2!(Pairs, $t => $t, |x, y| x.max(y)),
                Min => map2!(Pairs, $t => $t, |x, y| x.min(y)),
                And => map2!(Pairs, $t => $t, |x, y| x & y),
                Or => map2!(Pairs, $t => $t, |x, y| x | y),
                Xor => map2!(Pairs, $t => $t, |x, y| x ^ y),
                Shl => map2!(Pairs, $t => $t, |x, y| shl(x as i64, y as i64) as $t),
                Shr => map2!(Pairs, $t => $t, |x, y| ((x as i64) >> (y as u64).min(63)) as $t),
                _ => return None,
            })
        }
    };
}

on_ints!(on_u8, u8);
on_ints!(on_i8, i8);
on_ints!(on_i32, i32);
on_ints!(on_i64, i64);

fn with_const_i64(kind: BinaryKind, constant: Const) -> Option<Kernel> {
    use BinaryKind::*;
    Some(match (kind, constant) {
        (Add, Const::Right) => map2!(ConstRight, i64 => i64, |x, y| x.wrapping_add(y)),
        (Sub, Const::Right) => map2!(ConstRight, i64 => i64, |x, y| x.wrapping_sub(y)),
        (Mul, Const::Right) => map2!(ConstRight, i64 => i64, |x, y| x.wrapping_mul(y)),
        _ => return None,
    })
}

/// On bool a sum is "or" and a product "and".
fn on_bool(kind: BinaryKind) -> Option<Kernel> {
    use BinaryKind::*;
    Some(match kind {
        Add | Max | Or => map2!(Pairs, u8 => u8, |x, y| x | y),
        Mul | Min | And => map2!(Pairs, u8 => u8, |x, y| x & y),
        Xor => map2!(Pairs, u8 => u8, |x, y| x ^ y),
        _ => return None,
    })
}

fn int_floor_div(x: i64, y: i64) -> i64 {
    if y == 0 {
        return 0;
    }
    let down = (x.wrapping_rem(y) != 0) & ((x < 0) != (y < 0));
    x.wrapping_div(y).wrapping_sub(down as i64)
}

fn int_rem(x: i64, y: i64) -> i64 {
    if y == 0 {
        return 0;
    }
    let r = x.wrapping_rem(y);
    if r != 0 && (r < 0) != (y < 0) { r.wrapping_add(y) } else { r }
}

fn shl(x: i64, y: i64) -> i64 {
    if (0..64).contains(&y) { x << y } else { 0 }
}
