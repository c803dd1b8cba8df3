//! When two results are the same.
//!
//! COMPARE-1: integers, bool, data movement and the functions IEEE rounds correctly are equal bit for bit.
//! COMPARE-2: other functions differ by a few units in the last place of the result's dtype.
//! COMPARE-3: sums also by a few units of the sum of magnitudes, which the reference computes from absolute inputs.
//! COMPARE-4: any NaN equals any NaN in arithmetic; the sign of zero counts only where elements are moved.

use gt_ir::ops::{PutMode, RandomKind, ReduceKind, ScanKind};
use gt_ir::rows::Surface;
use gt_ir::{DType, HostTensor, Op, Scalar};

use crate::numbers::{self, Numbers};
use crate::reference::evaluate;

/// How far a result may be from the reference's.
#[derive(Clone, Debug)]
pub enum Allowance {
    /// The same bytes.
    Bits,
    /// The same bytes, but any NaN for any other: what one engine owes itself.
    Exact,
    /// The same numbers: zeros and NaNs count as equal whatever their bits.
    Numbers,
    /// Nearly the same numbers.
    Near {
        /// Relative to the reference, in units of the dtype's epsilon.
        ulps: f64,
        /// In units of the epsilon the dtype is computed with.
        absolute: f64,
        /// Per element, on top.
        slack: Vec<f64>,
    },
}

/// The distance between 1 and the next number of the dtype.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => f32::EPSILON as f64,
        DType::F64 => f64::EPSILON,
        DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 => 0.0,
    }
}

/// The epsilon of what a dtype is computed in.
fn compute_epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}

/// Below this, results may be flushed or lose bits.
fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-24),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f32::MIN_POSITIVE as f64,
    }
}

/// What is allowed of an op on these inputs.
pub fn allowance(op: &Op, ins: &[&HostTensor], scalars: &[Scalar]) -> Allowance {
    let dtype = ins.first().map(|t| t.ty.dtype);
    let near = |ulps: f64, absolute: f64| Allowance::Near { ulps, absolute, slack: Vec::new() };
    match op {
        Op::Iota(_) | Op::Upload(_) | Op::Fill(_) | Op::Select(_) | Op::Cast(_) | Op::Compare(_) => Allowance::Numbers,
        Op::Sort(_) | Op::ArgReduce(_) => Allowance::Numbers,
        Op::Reshape(_) | Op::Permute(_) | Op::Broadcast(_) | Op::Slice(_) | Op::UpdateSlice(_) | Op::Pad(_) => {
            Allowance::Bits
        }
        Op::Concat(_) | Op::Take(_) | Op::Gather(_) | Op::Write(_) | Op::Check(_) => Allowance::Bits,
        Op::Put(op) if op.mode == PutMode::Set => Allowance::Bits,
        Op::Scatter(op) if op.mode == PutMode::Set => Allowance::Bits,
        Op::Random(op) => {
            if op.kind == RandomKind::Normal {
                near(4.0, 4.0)
            } else {
                Allowance::Numbers
            }
        }
        _ if !dtype.is_some_and(DType::is_float) => Allowance::Numbers,
        Op::Unary(op) => of_row(&op.kind.row().surface),
        Op::Binary(op) => of_row(&op.kind.row().surface),
        Op::Reduce(r) => match r.kind {
            ReduceKind::Max | ReduceKind::Min => Allowance::Numbers,
            ReduceKind::Sum => summed(op, ins, scalars, 2.0, compute_epsilon),
            ReduceKind::Prod => near(32.0, 0.0),
        },
        Op::Scan(s) => match s.kind {
            ScanKind::Sum => summed(op, ins, scalars, 2.0, epsilon),
            ScanKind::Prod => near(32.0, 0.0),
        },
        Op::Matmul(_) => summed(op, ins, scalars, 2.0, compute_epsilon),
        // Several sums in a row, each with the error of the one before it.
        Op::Attention(_) | Op::AttentionGrad(_) | Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) | Op::Update(_) => {
            near(64.0, 64.0)
        }
        Op::Put(_) | Op::Scatter(_) => summed(op, ins, scalars, 2.0, epsilon),
    }
}

/// What a row allows.
fn of_row(surface: &Surface) -> Allowance {
    match (surface.ulps, surface.absolute) {
        (0.0, 0.0) => Allowance::Numbers,
        (ulps, absolute) => Allowance::Near { ulps, absolute, slack: Vec::new() },
    }
}

/// COMPARE-3.
fn summed(op: &Op, ins: &[&HostTensor], scalars: &[Scalar], ulps: f64, unit: fn(DType) -> f64) -> Allowance {
    let sizes: Vec<HostTensor> = ins
        .iter()
        .map(|t| match Numbers::of(t) {
            Numbers::Floats(v) => numbers::from_floats(
                t.ty.with_dtype(DType::F64),
                &v.iter().map(|x| if x.is_finite() { x.abs() } else { 0.0 }).collect::<Vec<_>>(),
            ),
            Numbers::Ints(_) => (*t).clone(),
        })
        .collect();
    let sizes: Vec<&HostTensor> = sizes.iter().collect();
    let magnitude = evaluate(op, &sizes, scalars, None).expect("the op ran on the values themselves");
    let per_unit = 4.0 * unit(ins[0].ty.dtype);
    Allowance::Near {
        ulps,
        absolute: 0.0,
        slack: numbers::floats(&magnitude[0]).iter().map(|m| m * per_unit).collect(),
    }
}

/// Says where two tensors differ by more than is allowed.
pub fn difference(have: &HostTensor, want: &HostTensor, allowance: &Allowance) -> Option<String> {
    if have.ty != want.ty {
        return Some(format!("it is {}, expected {}", have.ty, want.ty));
    }
    if have.bytes == want.bytes {
        return None;
    }
    let dtype = want.ty.dtype;
    if let Allowance::Bits = allowance {
        let at = have.bytes.iter().zip(&want.bytes).position(|(a, b)| a != b).map(|b| b / dtype.size());
        return Some(match at {
            Some(at) => format!("the bits of element {at} differ: {} instead of {}", shown(have, at), shown(want, at)),
            None => format!("{} bytes instead of {}", have.bytes.len(), want.bytes.len()),
        });
    }
    let (Numbers::Floats(a), Numbers::Floats(b)) = (Numbers::of(have), Numbers::of(want)) else {
        let at = numbers::ints(have).iter().zip(numbers::ints(want)).position(|(a, b)| *a != b)?;
        return Some(format!("element {at} is {} instead of {}", shown(have, at), shown(want, at)));
    };
    for (at, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let equal = match allowance {
            Allowance::Bits | Allowance::Exact => x.to_bits() == y.to_bits(),
            Allowance::Numbers | Allowance::Near { .. } => x == y,
        };
        let same = equal || (x.is_nan() && y.is_nan());
        let close = match allowance {
            Allowance::Near { ulps, absolute, slack } if x.is_finite() && y.is_finite() => {
                let relative = ulps * epsilon(dtype) * y.abs();
                let more = absolute * compute_epsilon(dtype) + slack.get(at).copied().unwrap_or(0.0) + tiny(dtype);
                (x - y).abs() <= relative + more
            }
            _ => false,
        };
        if !same && !close {
            return Some(format!("element {at} is {x:e} instead of {y:e}"));
        }
    }
    None
}

fn shown(tensor: &HostTensor, at: usize) -> String {
    match Numbers::of(tensor) {
        Numbers::Floats(v) => format!("{:e}", v[at]),
        Numbers::Ints(v) => v[at].to_string(),
    }
}
