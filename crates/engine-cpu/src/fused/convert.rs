//! Casts, and the halves' way into tiles and out again.

use gt_ir::DType;

use super::kernel::{Kernel, TileType, map1};

/// The kernel of a cast between tile types; `None` where the elements stay as they are.
///
/// Floats become integers towards zero by way of 64 bits, then wrap; bool is "not zero".
pub fn cast(from: TileType, to: TileType) -> Option<Kernel> {
    use TileType::*;
    macro_rules! ints_from {
        ($t:ty) => {
            match to {
                Bool => map1!($t => u8, |x| (x != 0) as u8),
                U8 => map1!($t => u8, |x| x as u8),
                I8 => map1!($t => i8, |x| x as i8),
                I32 => map1!($t => i32, |x| x as i32),
                I64 => map1!($t => i64, |x| x as i64),
                F32 => map1!($t => f32, |x| x as f32),
                F64 => map1!($t => f64, |x| x as f64),
            }
        };
    }
    macro_rules! floats_from {
        ($t:ty) => {
            match to {
                Bool => map1!($t => u8, |x| (x != 0.0) as u8),
                U8 => map1!($t => u8, |x| x as i64 as u8),
                I8 => map1!($t => i8, |x| x as i64 as i8),
                I32 => map1!($t => i32, |x| x as i64 as i32),
                I64 => map1!($t => i64, |x| x as i64),
                F32 => map1!($t => f32, |x| x as f32),
                F64 => map1!($t => f64, |x| x as f64),
            }
        };
    }
    if from == to {
        return None;
    }
    Some(match from {
        Bool | U8 => ints_from!(u8),
        I8 => ints_from!(i8),
        I32 => ints_from!(i32),
        I64 => ints_from!(i64),
        F32 => floats_from!(f32),
        F64 => floats_from!(f64),
    })
}

/// The kernel that copies a tile.
pub fn identity(ty: TileType) -> Kernel {
    match ty.size() {
        1 => map1!(u8 => u8, |x| x),
        4 => map1!(u32 => u32, |x| x),
        _ => map1!(u64 => u64, |x| x),
    }
}

/// How a half dtype is held in f32 tiles.
#[derive(Clone, Copy)]
pub struct Half {
    /// From the dtype's bits to f32.
    pub widen: Kernel,
    /// From f32 to the dtype's bits, rounding to nearest even.
    pub narrow: Kernel,
    /// From f32 to the nearest f32 that the dtype has.
    pub round: Kernel,
}

/// The kernels of a half dtype; `None` for every other.
pub fn half(dtype: DType) -> Option<Half> {
    match dtype {
        DType::F16 => Some(Half {
            widen: map1!(u16 => f32, |x| f16_to_f32(x)),
            narrow: map1!(f32 => u16, |x| f32_to_f16(x)),
            round: map1!(f32 => f32, |x| f16_to_f32(f32_to_f16(x))),
        }),
        DType::BF16 => Some(Half {
            widen: map1!(u16 => f32, |x| bf16_to_f32(x)),
            narrow: map1!(f32 => u16, |x| f32_to_bf16(x)),
            round: map1!(f32 => f32, |x| bf16_to_f32(f32_to_bf16(x))),
        }),
        DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 | DType::F32 | DType::F64 => None,
    }
}

/// Exact. Without branches, so that it vectorises: exponent and fraction move into place as a number that is 2^112
/// too small, and a multiplication puts that right for normal and subnormal halves alike.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let magnitude = (h as u32 & 0x7fff) << 13;
    let finite = (f32::from_bits(magnitude) * f32::from_bits(239 << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let bits = if h & 0x7c00 == 0x7c00 { special } else { finite };
    f32::from_bits(bits | (h as u32 & 0x8000) << 16)
}

/// To nearest, ties to even; too large is infinite; a NaN stays one.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let sign = (x.to_bits() >> 16) & 0x8000;
    // Adding just under half a unit, or half where the last bit is odd, carries exactly when it must.
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13).min(0x7c00);
    // A subnormal half is a count of 2^-24; adding 0.5 makes the adder round to that unit.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let large = if magnitude >= 143 << 23 { 0x7c00 } else { finite };
    let out = if magnitude > 0x7f80_0000 { 0x7e00 } else { large };
    (out | sign) as u16
}

/// Exact.
#[inline(always)]
pub fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// To nearest, ties to even; a NaN stays one.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (a, b) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{bits:#x}");
            let (a, b) = (bf16_to_f32(bits), half::bf16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{bits:#x}");
        }
        // Every exponent and sign, with fractions around the rounding borders.
        for high in 0..=u16::MAX {
            for low in [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff] {
                let x = f32::from_bits((high as u32) << 16 | low);
                let (a, b) = (f32_to_f16(x), half::f16::from_f32(x).to_bits());
                assert!(a == b || (x.is_nan() && half::f16::from_bits(a).is_nan()), "{x:e}: {a:#x} {b:#x}");
                let (a, b) = (f32_to_bf16(x), half::bf16::from_f32(x).to_bits());
                assert!(a == b || (x.is_nan() && half::bf16::from_bits(a).is_nan()), "{x:e}: {a:#x} {b:#x}");
            }
        }
    }
}
