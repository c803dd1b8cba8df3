//! Draws from Philox, many blocks at a time.
//!
//! RANDOM-1: element `e` of a draw is what `gt_ir::philox` says it is: bit for bit for uniforms and integers, to rounding
//! for `f32` normals, whose Box–Muller is done in `f32`. Groups and chunks do not change it.

use gt_ir::ops::RandomKind;
use gt_ir::philox::{self, ranged, unit_f32, unit_f64};
use gt_ir::{DType, Failure, FailureKind, Scalar};
use half::{bf16, f16};

use super::{Dst, Shared, split};
use crate::math::log_f32;
use crate::pool::Pool;
use crate::simd::instantiate;

/// Blocks computed side by side, one per vector lane.
const LANES: usize = 16;

/// Words of a group: `words[j][lane]` is word `j` of a block.
pub type Words = [[u32; LANES]; 4];

/// The half of a 64-bit lane that holds a word.
const LOW: u64 = u32::MAX as u64;

/// Elements a thread makes at least.
const GRAIN: usize = 16 << 10;

/// What a draw depends on.
#[derive(Clone, Copy)]
pub struct Draw {
    seed: u64,
    ordinal: u64,
    low: i64,
    high: i64,
}

/// Fills the packed `out`. Scalars: seed, ordinal, and for integers low and high.
pub fn random(pool: &Pool, out: Dst, kind: RandomKind, scalars: &[Scalar]) -> Result<(), Failure> {
    let bound = |i: usize| scalars.get(i).map_or(0, |s| s.as_i64());
    let draw = Draw { seed: bound(0) as u64, ordinal: bound(1) as u64, low: bound(2), high: bound(3) };
    match kind {
        RandomKind::Uniform => match out.layout.dtype {
            DType::F16 => groups::<Uniform<f16>>(pool, out, draw),
            DType::BF16 => groups::<Uniform<bf16>>(pool, out, draw),
            DType::F64 => groups::<Uniform<f64>>(pool, out, draw),
            _ => groups::<Uniform<f32>>(pool, out, draw),
        },
        RandomKind::Normal => match out.layout.dtype {
            DType::F16 => groups::<Normal<f16>>(pool, out, draw),
            DType::BF16 => groups::<Normal<bf16>>(pool, out, draw),
            DType::F64 => groups::<Normal<f64>>(pool, out, draw),
            _ => groups::<Normal<f32>>(pool, out, draw),
        },
        RandomKind::Int => {
            let Draw { low, high, .. } = draw;
            if low >= high {
                let message = format!("no integers lie between {low} and {high}");
                return Err(Failure::new(FailureKind::Value, message));
            }
            match out.layout.dtype {
                DType::U8 | DType::Bool => groups::<Int<u8>>(pool, out, draw),
                DType::I8 => groups::<Int<i8>>(pool, out, draw),
                DType::I32 => groups::<Int<i32>>(pool, out, draw),
                _ => groups::<Int<i64>>(pool, out, draw),
            }
        }
    }
    Ok(())
}

/// How the words of a group become elements.
pub trait Convert {
    /// The element type.
    type Out: Copy + Default;
    /// Elements of a group: one for each word, or one for two words.
    const COUNT: usize;
    /// Writes the group's elements in order.
    fn convert(words: &Words, draw: &Draw, out: &mut [Self::Out]);
}

instantiate!(
    /// The loop over groups for this machine.
    group_loop, Convert, (to: *mut u8, first: usize, count: usize, draw: &Draw)
);

/// Ties a conversion to the loop over groups.
trait Loop: Convert {
    /// Elements `first..first + count`, where `first` is a multiple of the group.
    #[inline(always)]
    unsafe fn run(to: *mut u8, first: usize, count: usize, draw: &Draw) {
        let to = to.cast::<Self::Out>();
        let mut group = [Self::Out::default(); 4 * LANES];
        let mut done = 0;
        while done < count {
            let words = blocks(draw, ((first + done) / Self::COUNT * LANES) as u64);
            Self::convert(&words, draw, &mut group[..Self::COUNT]);
            let take = (count - done).min(Self::COUNT);
            // SAFETY: the caller has room for `count` elements.
            unsafe { std::ptr::copy_nonoverlapping(group.as_ptr(), to.add(done), take) };
            done += take;
        }
    }
}

impl<C: Convert> Loop for C {}

fn groups<C: Convert>(pool: &Pool, out: Dst, draw: Draw) {
    let (to, count) = (Shared(out.start::<C::Out>()), out.layout.shape.numel());
    let run = group_loop::<C>();
    split(pool, count.div_ceil(C::COUNT), GRAIN / C::COUNT, &|part| {
        let first = part.start * C::COUNT;
        let end = (part.end * C::COUNT).min(count);
        // SAFETY: KERNEL-3, and each chunk has a part of its own.
        unsafe { run(to.get().add(first).cast(), first, end - first, &draw) };
    });
}

/// The words of `LANES` blocks from `first` on: `philox::block` for each lane.
#[inline(always)]
fn blocks(draw: &Draw, first: u64) -> Words {
    // In 64-bit lanes of which the low half counts: there a product of 32-bit numbers is one instruction.
    let mut words = [[0u64; LANES]; 4];
    for lane in 0..LANES {
        let index = first.wrapping_add(lane as u64);
        words[0][lane] = index;
        words[1][lane] = index >> 32;
    }
    words[2] = [draw.ordinal; LANES];
    words[3] = [draw.ordinal >> 32; LANES];
    let mut key = [draw.seed as u32, (draw.seed >> 32) as u32];
    for _ in 0..10 {
        let w = words;
        for i in 0..LANES {
            let p0 = 0xD251_1F53 * (w[0][i] & LOW);
            let p1 = 0xCD9E_8D57 * (w[2][i] & LOW);
            words[0][i] = (p1 >> 32) ^ w[1][i] ^ key[0] as u64;
            words[1][i] = p1;
            words[2][i] = (p0 >> 32) ^ w[3][i] ^ key[1] as u64;
            words[3][i] = p0;
        }
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    let mut out = [[0; LANES]; 4];
    for j in 0..4 {
        for i in 0..LANES {
            out[j][i] = words[j][i] as u32;
        }
    }
    out
}

/// Puts the four numbers of each lane behind one another.
#[inline(always)]
fn interleave<T: Copy, U>(lanes: &[[T; LANES]; 4], out: &mut [U], f: impl Fn(T) -> U) {
    for i in 0..LANES {
        for j in 0..4 {
            out[4 * i + j] = f(lanes[j][i]);
        }
    }
}

/// The two 64-bit words of each block.
#[inline(always)]
fn word64(words: &Words, lane: usize, half: usize) -> u64 {
    words[2 * half][lane] as u64 | (words[2 * half + 1][lane] as u64) << 32
}

struct Uniform<T>(std::marker::PhantomData<T>);
struct Normal<T>(std::marker::PhantomData<T>);
struct Int<T>(std::marker::PhantomData<T>);

macro_rules! from_f32 {
    ($($t:ty, $narrow:expr);*) => {$(
        impl Convert for Uniform<$t> {
            type Out = $t;
            const COUNT: usize = 4 * LANES;
            #[inline(always)]
            fn convert(words: &Words, _: &Draw, out: &mut [$t]) {
                interleave(words, out, |w| $narrow(unit_f32(w)));
            }
        }
        impl Convert for Normal<$t> {
            type Out = $t;
            const COUNT: usize = 4 * LANES;
            #[inline(always)]
            fn convert(words: &Words, _: &Draw, out: &mut [$t]) {
                let mut normals = [[0f32; LANES]; 4];
                for j in [0, 2] {
                    for i in 0..LANES {
                        let (x, y) = normal_pair(unit_f32(words[j][i]), unit_f32(words[j + 1][i]));
                        normals[j][i] = x;
                        normals[j + 1][i] = y;
                    }
                }
                interleave(&normals, out, $narrow);
            }
        }
    )*};
}
from_f32!(f32, |x: f32| x; f16, f16::from_f32; bf16, bf16::from_f32);

impl Convert for Uniform<f64> {
    type Out = f64;
    const COUNT: usize = 2 * LANES;
    #[inline(always)]
    fn convert(words: &Words, _: &Draw, out: &mut [f64]) {
        for i in 0..LANES {
            out[2 * i] = unit_f64(word64(words, i, 0));
            out[2 * i + 1] = unit_f64(word64(words, i, 1));
        }
    }
}

impl Convert for Normal<f64> {
    type Out = f64;
    const COUNT: usize = 2 * LANES;
    #[inline(always)]
    fn convert(words: &Words, _: &Draw, out: &mut [f64]) {
        for i in 0..LANES {
            (out[2 * i], out[2 * i + 1]) =
                philox::normal_pair(unit_f64(word64(words, i, 0)), unit_f64(word64(words, i, 1)));
        }
    }
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl Convert for Int<$t> {
            type Out = $t;
            const COUNT: usize = 2 * LANES;
            #[inline(always)]
            fn convert(words: &Words, draw: &Draw, out: &mut [$t]) {
                for i in 0..LANES {
                    out[2 * i] = ranged(word64(words, i, 0), draw.low, draw.high) as $t;
                    out[2 * i + 1] = ranged(word64(words, i, 1), draw.low, draw.high) as $t;
                }
            }
        }
    )*};
}
int!(u8, i8, i32, i64);

/// `philox::normal_pair` in `f32`. `u` and `v` are multiples of 2^-24, so `1 - u` and the part of a turn are exact.
#[inline(always)]
fn normal_pair(u: f32, v: f32) -> (f32, f32) {
    /// 1.5·2^23: adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let radius = (-2.0 * log_f32(1.0 - u)).sqrt();
    let rounded = v.mul_add(4.0, ROUND);
    let quadrant = rounded.to_bits();
    let a = (v - (rounded - ROUND) * 0.25) * std::f32::consts::TAU;
    let z = a * a;
    // Within a unit in the last place for |a| ≤ π/4.
    let s = (-1.951_529_6e-4_f32).mul_add(z, 8.332_161e-3).mul_add(z, -1.666_665_5e-1);
    let sin = (s * z).mul_add(a, a);
    let c = 2.443_315_7e-5_f32.mul_add(z, -1.388_731_6e-3).mul_add(z, 4.166_664_6e-2);
    let cos = (c * z).mul_add(z, (-0.5f32).mul_add(z, 1.0));
    let odd = quadrant & 1 != 0;
    let (x, y) = (if odd { sin } else { cos }, if odd { cos } else { sin });
    // The cosine is negative in quadrants 1 and 2, the sine in 2 and 3.
    let x = f32::from_bits(x.to_bits() ^ (quadrant.wrapping_add(1) & 2) << 30);
    let y = f32::from_bits(y.to_bits() ^ (quadrant & 2) << 30);
    (radius * x, radius * y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::Tensor;

    fn drawn(threads: usize, dtype: DType, kind: RandomKind, count: usize) -> Vec<f64> {
        let mut out = Tensor::new(dtype, &[count], &vec![0.0; count]);
        let scalars = [Scalar::I64(-42), Scalar::I64(1 << 40), Scalar::I64(-3), Scalar::I64(100)];
        random(&Pool::new(threads), out.dst(), kind, &scalars).unwrap();
        out.values()
    }

    #[test]
    fn draws_are_those_of_the_definition() {
        let (seed, ordinal) = (-42i64 as u64, 1 << 40);
        for count in [1, 63, 64, 1000, 70_001] {
            for threads in [1, 3] {
                let all = || 0..count as u64;
                let f32s: Vec<f64> = all().map(|e| unit_f32(philox::word32(seed, ordinal, e)) as f64).collect();
                assert_eq!(drawn(threads, DType::F32, RandomKind::Uniform, count), f32s);
                let bf16s: Vec<f64> = f32s.iter().map(|&x| bf16::from_f32(x as f32).to_f64()).collect();
                assert_eq!(drawn(threads, DType::BF16, RandomKind::Uniform, count), bf16s);
                let f64s: Vec<f64> = all().map(|e| unit_f64(philox::word64(seed, ordinal, e))).collect();
                assert_eq!(drawn(threads, DType::F64, RandomKind::Uniform, count), f64s);
                let ints: Vec<f64> = all().map(|e| ranged(philox::word64(seed, ordinal, e), -3, 100) as f64).collect();
                assert_eq!(drawn(threads, DType::I8, RandomKind::Int, count), ints);
                assert_eq!(drawn(threads, DType::I64, RandomKind::Int, count), ints);
                let normals: Vec<f64> = all().map(|e| philox::normal_f64(seed, ordinal, e)).collect();
                assert_eq!(drawn(threads, DType::F64, RandomKind::Normal, count), normals);
                for (e, x) in drawn(threads, DType::F32, RandomKind::Normal, count).into_iter().enumerate() {
                    let wanted = philox::normal_f32(seed, ordinal, e as u64);
                    assert!((x - wanted).abs() < 6e-7 * wanted.abs().max(0.2), "{e}: {x} {wanted}");
                }
            }
        }
    }

    #[test]
    fn no_integers_between_equal_bounds() {
        let mut out = Tensor::counting(DType::I64, &[2]);
        let scalars = [0, 0, 5, 5].map(Scalar::I64);
        let failure = random(&Pool::new(1), out.dst(), RandomKind::Int, &scalars).unwrap_err();
        assert_eq!(failure.message, "no integers lie between 5 and 5");
    }
}
