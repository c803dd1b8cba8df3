//! Packed elements as plain numbers: doubles for the float dtypes, 64-bit integers for the others.
//!
//! NUMBERS-1: a double becomes f16 or bf16 by way of f32, as those dtypes are computed in f32 and then rounded.
//! NUMBERS-2: an integer wraps to its dtype's width; bool is whether it is not zero.

use gt_ir::{DType, HostTensor, Scalar, TensorType};
use gt_plan::tile::{TileConst, register_type};
use half::{bf16, f16};

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of a float dtype.
    Floats(Vec<f64>),
    /// Of an integer dtype or bool.
    Ints(Vec<i64>),
}

impl Numbers {
    /// The elements of `tensor`, in whichever form its dtype has.
    pub fn of(tensor: &HostTensor) -> Numbers {
        if tensor.ty.dtype.is_float() { Numbers::Floats(floats(tensor)) } else { Numbers::Ints(ints(tensor)) }
    }
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).map(|c| c.try_into().expect("chunks_exact gives N bytes"))
}

/// The elements of a float tensor.
///
/// # Panics
/// If it is not one.
pub fn floats(tensor: &HostTensor) -> Vec<f64> {
    let bytes = &tensor.bytes;
    match tensor.ty.dtype {
        DType::F16 => chunks(bytes).map(|c| f16::from_le_bytes(c).to_f64()).collect(),
        DType::BF16 => chunks(bytes).map(|c| bf16::from_le_bytes(c).to_f64()).collect(),
        DType::F32 => chunks(bytes).map(|c| f32::from_le_bytes(c) as f64).collect(),
        DType::F64 => chunks(bytes).map(f64::from_le_bytes).collect(),
        dtype @ (DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64) => {
            panic!("{dtype} is not a float dtype")
        }
    }
}

/// The elements of an integer or bool tensor.
///
/// # Panics
/// If it is a float one.
pub fn ints(tensor: &HostTensor) -> Vec<i64> {
    let bytes = &tensor.bytes;
    match tensor.ty.dtype {
        DType::Bool => bytes.iter().map(|&b| (b != 0) as i64).collect(),
        DType::U8 => bytes.iter().map(|&b| b as i64).collect(),
        DType::I8 => bytes.iter().map(|&b| b as i8 as i64).collect(),
        DType::I32 => chunks(bytes).map(|c| i32::from_le_bytes(c) as i64).collect(),
        DType::I64 => chunks(bytes).map(i64::from_le_bytes).collect(),
        dtype @ (DType::F16 | DType::BF16 | DType::F32 | DType::F64) => panic!("{dtype} is a float dtype"),
    }
}

/// Any tensor's elements as doubles; int64 beyond 2⁵³ is rounded.
pub fn as_floats(tensor: &HostTensor) -> Vec<f64> {
    match Numbers::of(tensor) {
        Numbers::Floats(v) => v,
        Numbers::Ints(v) => v.into_iter().map(|i| i as f64).collect(),
    }
}

/// A float tensor of these numbers, each rounded to the dtype (NUMBERS-1).
///
/// # Panics
/// If the dtype is not a float one or the count is not that of `ty`.
pub fn from_floats(ty: TensorType, values: &[f64]) -> HostTensor {
    assert_eq!(values.len(), ty.numel(), "the count of elements of {ty}");
    let mut bytes = Vec::with_capacity(ty.bytes());
    for &v in values {
        match ty.dtype {
            DType::F16 => bytes.extend(f16::from_f32(v as f32).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f32(v as f32).to_le_bytes()),
            DType::F32 => bytes.extend((v as f32).to_le_bytes()),
            DType::F64 => bytes.extend(v.to_le_bytes()),
            dtype @ (DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64) => {
                panic!("{dtype} is not a float dtype")
            }
        }
    }
    HostTensor { ty, bytes }
}

/// An integer or bool tensor of these numbers (NUMBERS-2).
///
/// # Panics
/// If the dtype is a float one or the count is not that of `ty`.
pub fn from_ints(ty: TensorType, values: &[i64]) -> HostTensor {
    assert_eq!(values.len(), ty.numel(), "the count of elements of {ty}");
    let mut bytes = Vec::with_capacity(ty.bytes());
    for &v in values {
        match ty.dtype {
            DType::Bool => bytes.push((v != 0) as u8),
            DType::U8 | DType::I8 => bytes.push(v as u8),
            DType::I32 => bytes.extend((v as i32).to_le_bytes()),
            DType::I64 => bytes.extend(v.to_le_bytes()),
            dtype @ (DType::F16 | DType::BF16 | DType::F32 | DType::F64) => panic!("{dtype} is a float dtype"),
        }
    }
    HostTensor { ty, bytes }
}

/// A tensor of these numbers in any dtype: floats rounded, integers truncated and wrapped as a cast does.
pub fn from_numbers(ty: TensorType, values: &[f64]) -> HostTensor {
    if ty.dtype.is_float() {
        from_floats(ty, values)
    } else {
        from_ints(ty, &values.iter().map(|&v| float_to_int(v, ty.dtype)).collect::<Vec<_>>())
    }
}

/// A float cast to an integer dtype: towards zero, saturating at 64 bits, NaN to 0, then wrapped; bool is `!= 0`.
pub fn float_to_int(value: f64, dtype: DType) -> i64 {
    if dtype == DType::Bool { (value != 0.0) as i64 } else { value as i64 }
}

/// An integer cast to a float dtype with one rounding to f32 on the way to the narrow ones.
pub fn int_to_float(value: i64, dtype: DType) -> f64 {
    if dtype == DType::F64 { value as f64 } else { value as f32 as f64 }
}

/// A scalar as one element of `dtype`: what `fill`, `pad` and `select` write.
pub fn scalar_element(scalar: Scalar, dtype: DType) -> HostTensor {
    let ty = TensorType::new(dtype, &[]);
    match dtype {
        DType::Bool => from_ints(ty, &[scalar.as_bool() as i64]),
        d if d.is_int() => from_ints(ty, &[scalar.as_i64()]),
        d => from_floats(ty, &[scalar_operand_float(scalar, d)]),
    }
}

/// A scalar as an operand of arithmetic on a float dtype: in the precision the dtype is *computed* in, so f32 for
/// f16 and bf16.
pub fn scalar_operand_float(scalar: Scalar, dtype: DType) -> f64 {
    match scalar {
        Scalar::I64(i) => int_to_float(i, dtype),
        Scalar::F64(_) | Scalar::Bool(_) if dtype == DType::F64 => scalar.as_f64(),
        Scalar::F64(_) | Scalar::Bool(_) => scalar.as_f64() as f32 as f64,
    }
}

/// A scalar as an operand of arithmetic on an integer dtype or bool: wrapped to it.
pub fn scalar_operand_int(scalar: Scalar, dtype: DType) -> i64 {
    ints(&scalar_element(scalar, dtype))[0]
}

/// A scalar as the element that a tile program's register holds of it.
pub fn register_element(scalar: Scalar, constant: &TileConst) -> HostTensor {
    let ty = TensorType::new(register_type(constant.dtype), &[]);
    let element = scalar_element(scalar, constant.dtype);
    match constant.dtype.is_float() {
        false => element,
        true if constant.rounded => from_floats(ty, &floats(&element)),
        true => from_floats(ty, &[scalar_operand_float(scalar, constant.dtype)]),
    }
}
