//! Tensors for the kernels' tests.

use gt_ir::{DType, Shape, TensorType};

use super::{Axes, Dst, Src, element_bytes, walk};
use crate::layout::Layout;

/// Floats around zero that look random but are the same each time.
pub(super) fn values(count: usize, seed: u64) -> Vec<f32> {
    (0..count).map(|i| gt_ir::philox::unit_f32(gt_ir::philox::word32(seed, 0, i as u64)) * 4.0 - 2.0).collect()
}

/// A buffer with a layout.
#[derive(Clone)]
pub(super) struct Tensor {
    pub bytes: Vec<u64>,
    pub layout: Layout,
}

impl Tensor {
    /// A packed tensor of these values.
    pub fn new(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
        let layout = Layout::packed(TensorType::new(dtype, shape));
        assert_eq!(layout.shape.numel(), values.len());
        let mut bytes = Vec::new();
        for &value in values {
            let scalar = if dtype.is_float() { gt_ir::Scalar::F64(value) } else { gt_ir::Scalar::I64(value as i64) };
            bytes.extend_from_slice(&element_bytes(dtype, scalar)[..dtype.size()]);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let bytes = bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap())).collect();
        Tensor { bytes, layout }
    }

    /// A tensor of `0, 1, 2, …`, small enough for every dtype.
    pub fn counting(dtype: DType, shape: &[usize]) -> Tensor {
        let limit = if dtype == DType::Bool { 2 } else { 100 };
        let values: Vec<f64> = (0..shape.iter().product::<usize>()).map(|i| (i % limit) as f64).collect();
        Tensor::new(dtype, shape, &values)
    }

    pub fn src(&self) -> Src {
        Src { ptr: self.bytes.as_ptr().cast(), layout: self.layout }
    }

    pub fn dst(&mut self) -> Dst {
        Dst { ptr: self.bytes.as_mut_ptr().cast(), layout: self.layout }
    }

    /// The elements in row-major order.
    pub fn values(&self) -> Vec<f64> {
        self.spread(&self.layout.shape)
    }

    /// The elements in row-major order after broadcasting.
    pub fn spread(&self, shape: &[usize]) -> Vec<f64> {
        let layout = self.layout.broadcast(&Shape::new(shape));
        let axes = Axes::new(shape, [&layout.strides]);
        let mut out = Vec::new();
        walk(axes.list(), 0..layout.shape.numel(), |_, [at]| {
            out.push(self.element((layout.offset as i64 + at) as usize))
        });
        out
    }

    fn element(&self, at: usize) -> f64 {
        let size = self.layout.dtype.size();
        let words = self.bytes[at * size / 8].to_ne_bytes();
        let b = &words[at * size % 8..][..size];
        match self.layout.dtype {
            DType::Bool | DType::U8 => b[0] as f64,
            DType::I8 => b[0] as i8 as f64,
            DType::I32 => i32::from_ne_bytes(b.try_into().unwrap()) as f64,
            DType::I64 => i64::from_ne_bytes(b.try_into().unwrap()) as f64,
            DType::F16 => half::f16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
            DType::BF16 => half::bf16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
            DType::F32 => f32::from_ne_bytes(b.try_into().unwrap()) as f64,
            DType::F64 => f64::from_ne_bytes(b.try_into().unwrap()),
        }
    }
}
