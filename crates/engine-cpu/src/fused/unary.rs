//! Tile loops of the unary rows.

use gt_ir::rows::UnaryKind;

use super::kernel::{Kernel, TileType, map1, map1_or_wide};
use super::own;
use crate::math;

/// The kernel of a row on tiles of this type; `None` where the row does not take it.
///
/// A row without a loop here is computed by its own function, an element at a time.
pub fn unary(kind: UnaryKind, ty: TileType) -> Option<Kernel> {
    let fast = match ty {
        TileType::Bool => on_bool(kind),
        TileType::U8 => on_u8(kind),
        TileType::I8 => on_i8(kind),
        TileType::I32 => on_i32(kind),
        TileType::I64 => on_i64(kind),
        TileType::F32 => on_f32(kind),
        TileType::F64 => on_f64(kind),
    };
    fast.or_else(|| own::unary(kind, ty))
}

macro_rules! on_floats {
    ($name:ident, $t:ty, [$($wide_kind:ident $wide_kernel:expr),*], $($kind:ident $function:ident),*) => {
        fn $name(kind: UnaryKind) -> Option<Kernel> {
            use UnaryKind::*;
            Some(match kind {
                Neg => map1!($t => $t, |x| -x),
                Abs => map1!($t => $t, |x| x.abs()),
                Sign => map1!($t => $t, |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 }),
                Square => map1!($t => $t, |x| x * x),
                Reciprocal => map1!($t => $t, |x| 1.0 / x),
                Sqrt => map1!($t => $t, |x| x.sqrt()),
                Relu => map1!($t => $t, |x| if x > 0.0 || x.is_nan() { x } else { 0.0 }),
                Floor => map1!($t => $t, |x| x.floor()),
                Ceil => map1!($t => $t, |x| x.ceil()),
                Round => map1!($t => $t, |x| x.round_ties_even()),
                Trunc => map1!($t => $t, |x| x.trunc()),
                LogicalNot => map1!($t => u8, |x| (x == 0.0) as u8),
                IsNan => map1!($t => u8, |x| x.is_nan() as u8),
                IsInf => map1!($t => u8, |x| x.is_infinite() as u8),
                IsFinite => map1!($t => u8, |x| x.is_finite() as u8),
                $($wide_kind => $wide_kernel,)*
                $($kind => map1!($t => $t, |x| math::$function(x)),)*
                _ => return None,
            })
        }
    };
}

on_floats!(
    on_f32, f32,
    [
        Sin map1_or_wide!(f32, math::sin_f32, math::is_wide_angle_f32, math::sin_wide_f32),
        Cos map1_or_wide!(f32, math::cos_f32, math::is_wide_angle_f32, math::cos_wide_f32),
        Tan map1_or_wide!(f32, math::tan_f32, math::is_wide_angle_f32, math::tan_wide_f32)
    ],
    Rsqrt rsqrt_f32, Exp exp_f32, Exp2 exp2_f32, Expm1 expm1_f32, Log log_f32, Log2 log2_f32, Log10 log10_f32, Log1p log1p_f32,
    Asin asin_f32, Acos acos_f32, Atan atan_f32, Sinh sinh_f32, Cosh cosh_f32,
    Asinh asinh_f32, Acosh acosh_f32, Atanh atanh_f32, Tanh tanh_f32, Sigmoid sigmoid_f32, Erf erf_f32, Erfc erfc_f32,
    Silu silu_f32, Gelu gelu_f32
);
on_floats!(
    on_f64, f64,
    [
        Sin map1_or_wide!(f64, math::sin_f64, math::is_wide_angle_f64, math::sin_wide_f64),
        Cos map1_or_wide!(f64, math::cos_f64, math::is_wide_angle_f64, math::cos_wide_f64)
    ],
    Rsqrt rsqrt_f64, Exp exp_f64, Log log_f64, Tanh tanh_f64, Sigmoid sigmoid_f64, Erf erf_f64, Erfc erfc_f64,
    Silu silu_f64, Gelu gelu_f64
);

macro_rules! on_ints {
    ($name:ident, $t:ty, |$x:ident| abs $abs:expr, sign $sign:expr) => {
        fn $name(kind: UnaryKind) -> Option<Kernel> {
            use UnaryKind::*;
            Some(match kind {
                Neg => map1!($t => $t, |x| x.wrapping_neg()),
                Abs => map1!($t => $t, |$x| $abs),
                Sign => map1!($t => $t, |$x| $sign),
                Square => map1!($t => $t, |x| x.wrapping_mul(x)),
                Relu => map1!($t => $t, |x| x.max(0)),
                Floor | Ceil | Round | Trunc => map1!($t => $t, |x| x),
                LogicalNot => map1!($t => u8, |x| (x == 0) as u8),
                BitwiseNot => map1!($t => $t, |x| !x),
                IsNan | IsInf => map1!($t => u8, |_x| 0),
                IsFinite => map1!($t => u8, |_x| 1),
                _ => return None,
            })
        }
    };
}

on_ints!(on_u8, u8, |x| abs x, sign (x != 0) as u8);
on_ints!(on_i8, i8, |x| abs x.wrapping_abs(), sign x.signum());
on_ints!(on_i32, i32, |x| abs x.wrapping_abs(), sign x.signum());
on_ints!(on_i64, i64, |x| abs x.wrapping_abs(), sign x.signum());

fn on_bool(kind: UnaryKind) -> Option<Kernel> {
    use UnaryKind::*;
    Some(match kind {
        LogicalNot | BitwiseNot => map1!(u8 => u8, |x| x ^ 1),
        IsNan | IsInf => map1!(u8 => u8, |_x| 0),
        IsFinite => map1!(u8 => u8, |_x| 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::*;
    use crate::simd::testing::at_every_level;

    /// SIMD-1, and TILE-2: every level and every length give the same bits.
    #[test]
    fn levels_and_tails_do_not_matter() {
        let x: Vec<f32> = (0..1037).map(|i| (i as f32 - 500.0) * 0.037).collect();
        for &kind in UnaryKind::ALL.iter().filter(|kind| kind.row().accepts.takes(DType::F32)) {
            let run = |n: usize, at: usize| {
                let kernel = unary(kind, TileType::F32).expect("the row takes it");
                let mut out = vec![0u32; n];
                let from = x[at..at + n].as_ptr().cast::<u8>();
                // SAFETY: `n` floats each way, or `n` bytes for results that are bool.
                unsafe { kernel(n, out.as_mut_ptr().cast(), from, from, from) };
                out
            };
            let levels = at_every_level(|| run(1037, 0));
            for (level, bits) in &levels {
                assert!(*bits == levels[0].1, "{} on {level:?}", kind.name());
            }
            if !kind.row().to_bool {
                for at in [0, 1, 13, 500, 1030] {
                    assert_eq!(run(7, at), levels[0].1[at..at + 7], "{} at {at}", kind.name());
                }
            }
        }
    }
}
