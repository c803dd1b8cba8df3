//! Values from nothing but numbers: progressions and draws.

use gt_ir::ops::{Random, RandomKind};
use gt_ir::{DType, Failure, FailureKind, HostTensor, Scalar, TensorType, philox};

use crate::numbers;

/// `start + i * step`: in doubles for floats, rounded once; wrapping for integers.
pub(super) fn iota(ty: TensorType, scalars: &[Scalar]) -> HostTensor {
    let count = ty.numel();
    if ty.dtype.is_float() {
        let (start, step) = (scalars[0].as_f64(), scalars[1].as_f64());
        let out: Vec<f64> = (0..count).map(|i| start + i as f64 * step).collect();
        return numbers::from_floats(ty, &out);
    }
    let (start, step) = (scalars[0].as_i64(), scalars[1].as_i64());
    let out: Vec<i64> = (0..count).map(|i| start.wrapping_add((i as i64).wrapping_mul(step))).collect();
    numbers::from_ints(ty, &out)
}

/// Element `e` of a draw is element `e` in row-major order.
pub(super) fn draw(op: &Random, ty: TensorType, scalars: &[Scalar]) -> Result<HostTensor, Failure> {
    let (seed, ordinal) = (scalars[0].as_i64() as u64, scalars[1].as_i64() as u64);
    let elements = 0..ty.numel() as u64;
    let wide = ty.dtype == DType::F64;
    let out: Vec<f64> = match op.kind {
        RandomKind::Uniform if wide => elements.map(|e| philox::unit_f64(philox::word64(seed, ordinal, e))).collect(),
        RandomKind::Uniform => elements.map(|e| philox::unit_f32(philox::word32(seed, ordinal, e)) as f64).collect(),
        RandomKind::Normal if wide => elements.map(|e| philox::normal_f64(seed, ordinal, e)).collect(),
        RandomKind::Normal => elements.map(|e| philox::normal_f32(seed, ordinal, e)).collect(),
        RandomKind::Int => {
            let (low, high) = (scalars[2].as_i64(), scalars[3].as_i64());
            if low >= high {
                return Err(Failure::new(FailureKind::Value, format!("no integers lie between {low} and {high}")));
            }
            let out: Vec<i64> = elements.map(|e| philox::ranged(philox::word64(seed, ordinal, e), low, high)).collect();
            return Ok(numbers::from_ints(ty, &out));
        }
    };
    Ok(numbers::from_floats(ty, &out))
}
