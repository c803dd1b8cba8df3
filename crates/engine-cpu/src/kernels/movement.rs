//! New values put together from old ones: concat, pad, update-slice.

use gt_ir::{Counts, Failure, FailureKind, Scalar, Steps};

use super::{Dst, Src, copy, fill};
use crate::pool::Pool;

/// The inputs behind one another along `axis` of `out`.
pub fn concat(pool: &Pool, ins: &[Src], out: Dst, axis: usize) {
    let mut start = 0;
    for src in ins {
        let mut part = out;
        part.layout.shape = src.layout.shape;
        part.layout.offset += start * out.layout.strides[axis] as usize;
        start += src.layout.shape[axis];
        copy(pool, *src, part);
    }
}

/// `src` in `out` with `value` around it; `low` says how many elements come before, per axis.
pub fn pad(pool: &Pool, src: Src, out: Dst, low: &Counts, value: Scalar) {
    if src.layout.shape != out.layout.shape {
        fill(pool, out, value);
    }
    let mut part = out;
    part.layout.shape = src.layout.shape;
    for axis in 0..low.rank() {
        part.layout.offset += low[axis] * out.layout.strides[axis] as usize;
    }
    copy(pool, src, part);
}

/// Writes `src` into `out`, which holds the old values, from `starts` on, `steps` apart.
pub fn update_slice(pool: &Pool, src: Src, out: Dst, starts: &[i64], steps: &Steps) -> Result<(), Failure> {
    let shape = src.layout.shape;
    let Some(layout) = out.layout.slice(&shape, starts, steps) else {
        let whole = out.layout.shape;
        let message = format!(
            "update_slice: {shape} elements starting at {starts:?} with steps {steps} do not fit shape {whole}"
        );
        return Err(Failure::new(FailureKind::Value, message));
    };
    copy(pool, src, Dst { layout, ..out });
    Ok(())
}

#[cfg(test)]
mod tests {
    use gt_ir::DType;

    use super::*;
    use crate::kernels::testing::Tensor;

    #[test]
    fn concat_along_each_axis() {
        let pool = Pool::new(1);
        let (a, b) = (Tensor::counting(DType::I32, &[2, 3]), Tensor::counting(DType::I32, &[2, 2]));
        let mut out = Tensor::counting(DType::I32, &[2, 5]);
        concat(&pool, &[a.src(), b.src()], out.dst(), 1);
        assert_eq!(out.values(), [0., 1., 2., 0., 1., 3., 4., 5., 2., 3.]);
        let c = Tensor::counting(DType::I32, &[0, 3]);
        let mut out = Tensor::counting(DType::I32, &[4, 3]);
        concat(&pool, &[a.src(), c.src(), a.src()], out.dst(), 0);
        assert_eq!(out.values(), [a.values(), a.values()].concat());
    }

    #[test]
    fn pad_surrounds() {
        let pool = Pool::new(1);
        let a = Tensor::counting(DType::F16, &[2, 2]);
        let mut out = Tensor::counting(DType::F16, &[3, 4]);
        pad(&pool, a.src(), out.dst(), &Counts::new(&[1, 0]), Scalar::F64(9.0));
        assert_eq!(out.values(), [9., 9., 9., 9., 0., 1., 9., 9., 2., 3., 9., 9.]);
    }

    #[test]
    fn update_slice_writes_or_fails_whole() {
        let pool = Pool::new(1);
        let a = Tensor::new(DType::F32, &[2], &[7.0, 8.0]);
        let mut out = Tensor::counting(DType::F32, &[5]);
        update_slice(&pool, a.src(), out.dst(), &[4], &Steps::new(&[-3])).unwrap();
        assert_eq!(out.values(), [0., 8., 2., 3., 7.]);
        let failure = update_slice(&pool, a.src(), out.dst(), &[4], &Steps::new(&[1])).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Value);
        assert_eq!(out.values(), [0., 8., 2., 3., 7.]);
    }
}
