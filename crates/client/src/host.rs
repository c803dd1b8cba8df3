//! Numbers in ordinary memory: into tensors by one copy, out of them as vectors.

use gt_ir::{Bytes, DType, HostTensor, Scalar, TensorType, ops};
use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::lane::{self, UPLOAD_CUT_BYTES};
use crate::session::{blocking, interrupted, session, wait_error};
use crate::tensor::Tensor;

/// A Rust type that is some dtype's element.
pub trait Element: Copy + 'static {
    /// Its dtype.
    const DTYPE: DType;
    /// Appends its bytes.
    #[track_caller]
    fn put(self, out: &mut Vec<u8>);
    /// Reads it from exactly `DTYPE.size()` bytes.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                <$ty>::from_le_bytes(bytes.try_into().expect("one element"))
            }
        }
    )*};
}

elements!(u8 => U8, i8 => I8, i32 => I32, i64 => I64, f32 => F32, f64 => F64, f16 => F16, bf16 => BF16);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    #[track_caller]
    fn put(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }
    #[track_caller]
    fn get(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

/// One element of a packed tensor.
pub fn scalar_at(host: &HostTensor, index: usize) -> Scalar {
    let size = host.ty.dtype.size();
    let b = &host.bytes[index * size..(index + 1) * size];
    match host.ty.dtype {
        DType::Bool => Scalar::Bool(b[0] != 0),
        DType::U8 => Scalar::I64(b[0] as i64),
        DType::I8 => Scalar::I64(b[0] as i8 as i64),
        DType::I32 => Scalar::I64(i32::get(b) as i64),
        DType::I64 => Scalar::I64(i64::get(b)),
        DType::F16 => Scalar::F64(f16::get(b).to_f64()),
        DType::BF16 => Scalar::F64(bf16::get(b).to_f64()),
        DType::F32 => Scalar::F64(f32::get(b) as f64),
        DType::F64 => Scalar::F64(f64::get(b)),
    }
}

/// Appends a number as an element of `dtype`.
pub fn put_scalar(out: &mut Vec<u8>, dtype: DType, s: Scalar) {
    match dtype {
        DType::Bool => s.as_bool().put(out),
        DType::U8 => (s.as_i64() as u8).put(out),
        DType::I8 => (s.as_i64() as i8).put(out),
        DType::I32 => (s.as_i64() as i32).put(out),
        DType::I64 => s.as_i64().put(out),
        DType::F16 => f16::from_f64(s.as_f64()).put(out),
        DType::BF16 => bf16::from_f64(s.as_f64()).put(out),
        DType::F32 => (s.as_f64() as f32).put(out),
        DType::F64 => s.as_f64().put(out),
    }
}

impl Tensor {
    /// A tensor from packed little-endian bytes.
    #[track_caller]
    pub fn from_bytes(ty: TensorType, bytes: Bytes) -> Result<Tensor> {
        Tensor::uploaded(&ty, bytes)
    }

    #[track_caller]
    fn uploaded(ty: &TensorType, bytes: Bytes) -> Result<Tensor> {
        if bytes.len() != ty.bytes() {
            return Err(Error::Value(format!(
                "a tensor of type {ty} needs {} bytes, but got {}",
                ty.bytes(),
                bytes.len()
            )));
        }
        let op = ops::Upload { dtype: ty.dtype, shape: ty.shape };
        let id = lane::record(op.into(), &[], &[], 1, Some(bytes), 0)?;
        Ok(Tensor::made(id, ty))
    }

    /// A tensor from packed little-endian bytes that are the caller's: they are copied once, at this call.
    #[track_caller]
    pub fn from_lent(ty: TensorType, bytes: &[u8]) -> Result<Tensor> {
        let session = session()?;
        // Smaller ones do not cut the window, so the payload could come long before it. One that is waited for must have it.
        if bytes.len() < UPLOAD_CUT_BYTES || bytes.len() != ty.bytes() || session.waits || !session.link.lends() {
            return Tensor::from_bytes(ty, bytes.into());
        }
        let op = ops::Upload { dtype: ty.dtype, shape: ty.shape };
        let (id, sent) = lane::recorded(op.into(), &[], &[], 1, None, 0)?;
        let tensor = Tensor::made(id, &ty);
        // Also where the wait for credits was interrupted: the window is on its way, and its worker waits for this.
        let lent = blocking(|| session.link.lend(id, bytes, &interrupted)).map_err(wait_error);
        sent.and(lent).map(|()| tensor)
    }

    /// A tensor from a slice in row-major order.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize]) -> Result<Tensor> {
        let ty = TensorType { dtype: T::DTYPE, shape: gt_ir::Shape::try_new(shape)? };
        if ty.numel() != data.len() {
            return Err(Error::Value(format!("shape {1} does not hold {0} elements", data.len(), ty.shape)));
        }
        let mut bytes = Vec::with_capacity(ty.bytes());
        data.iter().for_each(|&x| x.put(&mut bytes));
        Tensor::uploaded(&ty, bytes.into())
    }

    /// The elements in row-major order: one round trip.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::Type(format!(
                "expected a tensor of {1}, but it has dtype {0}",
                self.dtype().long_name(),
                T::DTYPE.long_name()
            )));
        }
        let host = self.read()?;
        Ok(host.bytes.chunks_exact(T::DTYPE.size()).map(T::get).collect())
    }
}
