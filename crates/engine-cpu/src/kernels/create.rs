//! Values from numbers: fill and iota.

use gt_ir::{DType, Scalar};

use super::{Dst, Element, Shared, by_size, element_bytes, split};
use crate::pool::Pool;

/// Elements a thread writes at least.
const GRAIN: usize = 64 << 10;

/// Every element of the packed `out` becomes the scalar, converted to its dtype.
pub fn fill(pool: &Pool, out: Dst, value: Scalar) {
    let bytes = element_bytes(out.layout.dtype, value);
    let count = out.layout.shape.numel();
    by_size!(out.layout.dtype, T => {
        let mut element = [0; size_of::<T>()];
        element.copy_from_slice(&bytes[..size_of::<T>()]);
        let (element, to) = (T::from_ne_bytes(element), Shared(out.start::<T>()));
        split(pool, count, GRAIN, &|part| {
            // SAFETY: KERNEL-3, and each chunk has a part of its own.
            unsafe { std::slice::from_raw_parts_mut(to.get().add(part.start), part.len()) }.fill(element);
        });
    });
}

/// Element `i` of the packed `out` becomes `start + i * step`: in `f64` and rounded for floats (halves by way of `f32`), wrapping for
/// integers.
pub fn iota(pool: &Pool, out: Dst, start: Scalar, step: Scalar) {
    let (f, df) = (start.as_f64(), step.as_f64());
    let (n, dn) = (start.as_i64(), step.as_i64());
    let float = move |i: usize| f + i as f64 * df;
    let int = move |i: usize| n.wrapping_add((i as i64).wrapping_mul(dn));
    match out.layout.dtype {
        DType::Bool => each::<u8>(pool, out, &|i| (int(i) != 0) as u8),
        DType::U8 => each::<u8>(pool, out, &|i| int(i) as u8),
        DType::I8 => each::<i8>(pool, out, &|i| int(i) as i8),
        DType::I32 => each::<i32>(pool, out, &|i| int(i) as i32),
        DType::I64 => each::<i64>(pool, out, &int),
        DType::F16 => each::<half::f16>(pool, out, &|i| half::f16::from_f32(float(i) as f32)),
        DType::BF16 => each::<half::bf16>(pool, out, &|i| half::bf16::from_f32(float(i) as f32)),
        DType::F32 => each::<f32>(pool, out, &|i| float(i) as f32),
        DType::F64 => each::<f64>(pool, out, &float),
    }
}

fn each<T: Element>(pool: &Pool, out: Dst, f: &(impl Fn(usize) -> T + Sync)) {
    let to = Shared(out.start::<T>());
    split(pool, out.layout.shape.numel(), GRAIN, &|part| {
        // SAFETY: KERNEL-3, and each chunk has a part of its own.
        let to = unsafe { std::slice::from_raw_parts_mut(to.get().add(part.start), part.len()) };
        for (i, to) in to.iter_mut().enumerate() {
            *to = f(part.start + i);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::Tensor;

    #[test]
    fn fill_and_iota_in_every_dtype() {
        let pool = Pool::new(2);
        for dtype in DType::ALL {
            let mut out = Tensor::counting(dtype, &[3, 5]);
            fill(&pool, out.dst(), Scalar::F64(1.0));
            assert_eq!(out.values(), [1.0; 15]);
            let mut out = Tensor::counting(dtype, &[5]);
            iota(&pool, out.dst(), Scalar::I64(2), Scalar::F64(3.0));
            let wanted = [2., 5., 8., 11., 14.].map(|x: f64| if dtype == DType::Bool { 1.0 } else { x });
            assert_eq!(out.values(), wanted);
        }
    }
}
