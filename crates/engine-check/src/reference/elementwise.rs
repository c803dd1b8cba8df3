//! Elementwise ops: the rows' functions, applied to one element after another.

use gt_ir::ops::{Binary, Compare, Select, Side, Unary};
use gt_ir::{DType, HostTensor, Scalar, TensorType};

use super::movement::{read_at, repeat};
use crate::numbers::{self, Numbers};

pub(super) fn unary(op: &Unary, x: &HostTensor, ty: TensorType) -> HostTensor {
    let row = op.kind.row();
    match Numbers::of(x) {
        Numbers::Floats(v) => {
            let out: Vec<f64> = v.into_iter().map(row.f64).collect();
            numbers::from_numbers(ty, &out)
        }
        Numbers::Ints(v) => {
            let function = row.i64.expect("infer refuses integers where the row has no function of them");
            // The complement of a bool is its lowest bit; the other functions give 0 or 1 there anyway.
            let keep = if ty.dtype == DType::Bool { 1 } else { -1 };
            let out: Vec<i64> = v.into_iter().map(|x| function(x) & keep).collect();
            numbers::from_ints(ty, &out)
        }
    }
}

/// Both operands broadcast to `shape`, the scalar one converted to what the dtype is computed in.
fn operands(side: Side, ins: &[&HostTensor], scalars: &[Scalar], shape: TensorType) -> (Numbers, Numbers) {
    let dtype = ins[0].ty.dtype;
    let count = shape.numel();
    let tensor = |x: &HostTensor| Numbers::of(&repeat(x, shape.with_dtype(dtype)));
    let scalar = |s: Scalar| {
        if dtype.is_float() {
            Numbers::Floats(vec![numbers::scalar_operand_float(s, dtype); count])
        } else {
            Numbers::Ints(vec![numbers::scalar_operand_int(s, dtype); count])
        }
    };
    match side {
        Side::None => (tensor(ins[0]), tensor(ins[1])),
        Side::Left => (scalar(scalars[0]), tensor(ins[0])),
        Side::Right => (tensor(ins[0]), scalar(scalars[0])),
    }
}

pub(super) fn binary(op: &Binary, ins: &[&HostTensor], scalars: &[Scalar], ty: TensorType) -> HostTensor {
    let row = op.kind.row();
    match operands(op.scalar, ins, scalars, ty) {
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let each = |(x, y): (f64, f64)| match row.f32 {
                Some(function) if ty.dtype != DType::F64 => function(x as f32, y as f32) as f64,
                _ => (row.f64)(x, y),
            };
            let out: Vec<f64> = a.into_iter().zip(b).map(each).collect();
            numbers::from_floats(ty, &out)
        }
        // On bool a sum is "or" and a product "and": that is what not being zero makes of them.
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let out: Vec<i64> = a.into_iter().zip(b).map(|(x, y)| (row.i64)(x, y)).collect();
            numbers::from_ints(ty, &out)
        }
        _ => unreachable!("infer demands one dtype"),
    }
}

pub(super) fn compare(op: &Compare, ins: &[&HostTensor], scalars: &[Scalar], ty: TensorType) -> HostTensor {
    let row = op.kind.row();
    let out: Vec<i64> = match operands(op.scalar, ins, scalars, ty) {
        (Numbers::Floats(a), Numbers::Floats(b)) => a.into_iter().zip(b).map(|(x, y)| (row.f64)(x, y) as i64).collect(),
        (Numbers::Ints(a), Numbers::Ints(b)) => a.into_iter().zip(b).map(|(x, y)| (row.i64)(x, y) as i64).collect(),
        _ => unreachable!("infer demands one dtype"),
    };
    numbers::from_ints(ty, &out)
}

pub(super) fn select(op: &Select, ins: &[&HostTensor], scalars: &[Scalar], ty: TensorType) -> HostTensor {
    let (mut tensors, mut numbers) = (ins[1..].iter(), scalars.iter());
    let mut operand = |is_scalar: bool| {
        if is_scalar {
            let scalar = numbers.next().expect("as many scalars as the op says");
            repeat(&numbers::scalar_element(*scalar, ty.dtype), ty)
        } else {
            repeat(tensors.next().expect("infer counts the operands"), ty)
        }
    };
    let (a, b) = (operand(op.a_scalar), operand(op.b_scalar));
    let conditions = numbers::ints(&repeat(ins[0], ty.with_dtype(DType::Bool)));
    let mut bytes = Vec::with_capacity(ty.bytes());
    for (i, condition) in conditions.into_iter().enumerate() {
        let chosen = if condition != 0 { &a } else { &b };
        bytes.extend(read_at(chosen, &[i], TensorType::new(ty.dtype, &[])).bytes);
    }
    HostTensor { ty, bytes }
}

pub(super) fn cast(x: &HostTensor, ty: TensorType) -> HostTensor {
    match Numbers::of(x) {
        _ if x.ty.dtype == ty.dtype => x.clone(),
        Numbers::Floats(v) => numbers::from_numbers(ty, &v),
        Numbers::Ints(v) if ty.dtype.is_float() => {
            let out: Vec<f64> = v.into_iter().map(|i| numbers::int_to_float(i, ty.dtype)).collect();
            numbers::from_floats(ty, &out)
        }
        Numbers::Ints(v) => numbers::from_ints(ty, &v),
    }
}
