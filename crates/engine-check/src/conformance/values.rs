//! Inputs made from nothing but a seed, the same on every machine.

use gt_ir::{DType, Domain, HostTensor, SampleIn, TensorType};

use crate::numbers;

/// SplitMix64: a small generator that is the same everywhere.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// A number in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// A tensor of the sample's domain.
pub fn make_input(input: &SampleIn, random: &mut SplitMix) -> HostTensor {
    make_values(input.ty, input.domain, random)
}

/// A tensor of `ty` with elements of `domain`.
pub fn make_values(ty: TensorType, domain: Domain, random: &mut SplitMix) -> HostTensor {
    let count = ty.numel();
    let unsigned = ty.dtype == DType::U8;
    let signed = |random: &mut SplitMix, size: f64| if !unsigned && random.below(2) == 0 { -size } else { size };
    let values: Vec<f64> = match domain {
        Domain::Index(n) => (0..count).map(|_| random.below(n.max(1) as u64) as f64).collect(),
        Domain::Wrapped(n) => (0..count).map(|_| random.below(2 * n.max(1) as u64) as f64 - n.max(1) as f64).collect(),
        _ if ty.dtype == DType::Bool => (0..count).map(|_| random.below(2) as f64).collect(),
        Domain::Distinct => distinct(count, ty.dtype, random),
        Domain::Any if ty.dtype.is_int() => {
            (0..count).map(|_| random.below(11) as f64 - if unsigned { 0.0 } else { 5.0 }).collect()
        }
        Domain::Unit if ty.dtype.is_int() => vec![0.0; count],
        Domain::Positive | Domain::AboveOne if ty.dtype.is_int() => {
            (0..count).map(|_| 1.0 + random.below(4) as f64).collect()
        }
        Domain::NonZero if ty.dtype.is_int() => (0..count)
            .map(|_| {
                let size = 1.0 + random.below(6) as f64;
                signed(random, size)
            })
            .collect(),
        Domain::Any | Domain::Positive | Domain::AboveOne | Domain::Unit | Domain::NonZero => {
            let (low, high) = domain.range();
            let of_either_sign = domain == Domain::NonZero;
            let draw = |random: &mut SplitMix| random.between(low, high);
            let one = |_| match draw(random) {
                size if of_either_sign => signed(random, size),
                value => value,
            };
            (0..count).map(one).collect()
        }
    };
    numbers::from_numbers(ty, &values)
}

/// All different where the dtype has room for that, shuffled; well apart for floats.
fn distinct(count: usize, dtype: DType, random: &mut SplitMix) -> Vec<f64> {
    let step = match dtype {
        d if d.is_float() && count <= 64 => 0.125,
        d if d.is_float() => 0.015_625,
        _ => 1.0,
    };
    let low = if dtype == DType::U8 { 0.0 } else { -(count as f64 / 2.0).floor() };
    let mut values: Vec<f64> = (0..count).map(|i| (low + i as f64) * step).collect();
    for i in (1..values.len()).rev() {
        values.swap(i, random.below(i as u64 + 1) as usize);
    }
    values
}

/// Values at the edges of a dtype: infinities, NaN, signed zeros, ties, extremes.
pub fn special_values(dtype: DType) -> HostTensor {
    let floats = |max: f64, min_positive: f64| {
        let mut out =
            vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, max, -max, min_positive, -min_positive];
        for size in [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 88.0, 100.0, 1024.0] {
            out.extend([size, -size]);
        }
        out
    };
    let ints = |low: i64, high: i64| {
        let mut out = vec![low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8, 31, 63, 64, 100];
        if low < 0 {
            out.extend([-1, -2, -3, -7]);
        }
        out
    };
    let of_floats = |values: Vec<f64>| numbers::from_floats(TensorType::new(dtype, &[values.len()]), &values);
    let of_ints = |values: Vec<i64>| numbers::from_ints(TensorType::new(dtype, &[values.len()]), &values);
    match dtype {
        DType::Bool => of_ints(vec![0, 1]),
        DType::U8 => of_ints(ints(0, u8::MAX as i64)),
        DType::I8 => of_ints(ints(i8::MIN as i64, i8::MAX as i64)),
        DType::I32 => of_ints(ints(i32::MIN as i64, i32::MAX as i64)),
        DType::I64 => of_ints(ints(i64::MIN, i64::MAX)),
        DType::F16 => of_floats(floats(65504.0, 6.103_515_625e-5)),
        DType::BF16 => of_floats(floats(half::bf16::MAX.to_f64(), half::bf16::MIN_POSITIVE.to_f64())),
        DType::F32 => of_floats(floats(f32::MAX as f64, f32::MIN_POSITIVE as f64)),
        DType::F64 => of_floats(floats(f64::MAX, f64::MIN_POSITIVE)),
    }
}
