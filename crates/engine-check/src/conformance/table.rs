//! Every op × sample × dtype against the reference.

use gt_ir::ops::{
    ArgKind, ArgReduce, Binary, Cast, Compare, Pad, Permute, Reduce, ReduceKind, Select, Side, Slice, Sort, Unary,
};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, Counts, DType, HostTensor, Op, OpKind, Sample, Scalar, Steps, TensorType};
use gt_plan::Slot;

use super::compare::{Allowance, allowance, difference};
use super::plans::{Built, Grouping, PlanBuilder, run_plan, single_plan, upload};
use super::values::{SplitMix, make_input, special_values};
use crate::numbers;
use crate::reference::evaluate;
use gt_engine::{Buffer, Engine, Value};

/// How an operand lies in memory when the op under test reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OperandLayout {
    /// Packed, and held by someone else.
    Held,
    /// Packed, and given away: the op may overwrite it.
    GivenAway,
    /// The result of a permutation of the axes.
    Permuted,
    /// A part of something larger.
    Cut,
    /// Backwards along every axis.
    Flipped,
}

/// Runs every sample of the op table in every dtype, with operands lying in memory in different ways.
///
/// # Panics
/// On the first disagreement, naming op, dtype and sample.
pub fn op_table<E: Engine>(engine: &mut E) {
    for &kind in OpKind::ALL {
        for dtype in DType::ALL {
            for (number, sample) in kind.samples(dtype).iter().enumerate() {
                let title = format!(
                    "{} sample {number} in {dtype} on {}: {:?}",
                    sample.op.display_name(),
                    engine.name(),
                    sample
                );
                check_sample(engine, sample, number as u64, &title);
            }
        }
    }
}

fn check_sample<E: Engine>(engine: &mut E, sample: &Sample, seed: u64, title: &str) {
    let mut random = SplitMix::new(seed * 7919 + 17);
    let ins: Vec<HostTensor> = sample.ins.iter().map(|i| make_input(i, &mut random)).collect();
    let refs: Vec<&HostTensor> = ins.iter().collect();
    let want = evaluate(&sample.op, &refs, &sample.scalars, None)
        .unwrap_or_else(|e| panic!("{title}: the reference fails: {e}"));
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let inferred = sample.op.primitive().infer(&types).unwrap_or_else(|e| panic!("{title}: infer fails: {e}"));
    let result_types: Vec<TensorType> = want.iter().map(|t| t.ty).collect();
    assert_eq!(inferred[..], result_types, "{title}: infer and the reference differ");

    let allowed = allowance(&sample.op, &refs, &sample.scalars);
    let packed = run_lying(engine, sample, &ins, OperandLayout::Held, title);
    for (i, (have, want)) in packed.iter().zip(&want).enumerate() {
        if let Some(what) = difference(have, want, &allowed) {
            panic!("{title}: output {i}: {what}");
        }
    }
    for lie in [OperandLayout::GivenAway, OperandLayout::Permuted, OperandLayout::Cut, OperandLayout::Flipped] {
        if ins.is_empty() {
            continue;
        }
        let other = run_lying(engine, sample, &ins, lie, title);
        for (i, (have, want)) in other.iter().zip(&packed).enumerate() {
            if let Some(what) = difference(have, want, &exactly(&allowed)) {
                panic!("{title}: output {i} depends on how the operands lie ({lie:?}): {what}");
            }
        }
    }
    // A lone reduction may also come as a fused step.
    if let Op::Reduce(_) = &sample.op {
        let mut builder = PlanBuilder::new(&types);
        builder.begin_fused(types[0].shape);
        let out = builder.one(sample.op.clone(), &[0], &sample.scalars);
        builder.end_fused();
        let inputs = upload(engine, &ins).into_iter().map(Ok).collect();
        let have = run_plan(engine, &builder.finish(&[out], Grouping::Fused), inputs).read(out);
        if let Some(what) = difference(&have, &packed[0], &Allowance::Exact) {
            panic!("{title}: as a fused step it differs: {what}");
        }
    }
}

/// Two results of one engine are equal bit for bit, but for the payload of NaNs in arithmetic.
fn exactly(allowed: &Allowance) -> Allowance {
    if let Allowance::Bits = allowed { Allowance::Bits } else { Allowance::Exact }
}

fn run_lying<E: Engine>(
    engine: &mut E,
    sample: &Sample,
    ins: &[HostTensor],
    lie: OperandLayout,
    title: &str,
) -> Vec<HostTensor> {
    let (stored, built, outs) = lying_plan(sample, ins, lie);
    let buffers = upload(engine, &stored);
    let keep = (lie != OperandLayout::GivenAway).then(|| buffers.clone());
    let inputs: Vec<Value<E::Buffer>> = buffers.into_iter().map(Ok).collect();
    let outcome = run_plan(engine, &built, inputs);
    let results = outs.iter().map(|&s| outcome.read(s)).collect();
    for (i, (buffer, stored)) in keep.iter().flatten().zip(&stored).enumerate() {
        let now = buffer.read().unwrap_or_else(|e| panic!("{title}: input {i} cannot be read: {e}"));
        assert!(now == *stored, "{title}: input {i} was overwritten while someone held it ({lie:?})");
    }
    results
}

/// What is uploaded, and the plan that brings it into position and runs the op.
fn lying_plan(sample: &Sample, ins: &[HostTensor], lie: OperandLayout) -> (Vec<HostTensor>, Built, Vec<Slot>) {
    if matches!(lie, OperandLayout::Held | OperandLayout::GivenAway) {
        let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
        let built = single_plan(&sample.op, &types, &sample.scalars);
        let outs = built.plan.live_outs.clone();
        return (ins.to_vec(), built, outs);
    }
    let one = |op: Op, x: &HostTensor, scalars: &[Scalar]| {
        evaluate(&op, &[x], scalars, None).expect("the suite moves elements within bounds").remove(0)
    };
    let mut stored = Vec::new();
    let mut moves: Vec<(Op, Vec<Scalar>)> = Vec::new();
    for x in ins {
        let shape = x.ty.shape;
        let rank = shape.rank();
        let unit = Steps::splat(rank, 1);
        let (from, op, scalars): (HostTensor, Op, Vec<Scalar>) = match lie {
            OperandLayout::Held | OperandLayout::GivenAway => unreachable!("handled above"),
            OperandLayout::Permuted => {
                let reversed = Permute { perm: (0..rank as i64).rev().collect() };
                (one(reversed.clone().into(), x, &[]), reversed.into(), Vec::new())
            }
            OperandLayout::Cut => {
                let around = Pad { low: Counts::splat(rank, 1), high: Counts::splat(rank, 2) };
                // What an engine must not read is a NaN, or an index that is out of range.
                let outside = if x.ty.dtype.is_float() { Scalar::F64(f64::NAN) } else { Scalar::I64(113) };
                let starts = vec![Scalar::I64(1); rank];
                (
                    one(around.into(), x, &[outside]),
                    Slice { sizes: shape, steps: unit, drop: gt_ir::AxisSet::default() }.into(),
                    starts,
                )
            }
            OperandLayout::Flipped => {
                let starts: Vec<Scalar> = shape.iter().map(|&d| Scalar::I64(d as i64 - 1)).collect();
                let back = Slice { sizes: shape, steps: Steps::splat(rank, -1), drop: gt_ir::AxisSet::default() };
                (one(back.clone().into(), x, &starts), back.into(), starts)
            }
        };
        stored.push(from);
        moves.push((op, scalars));
    }
    let types: Vec<TensorType> = stored.iter().map(|t| t.ty).collect();
    let mut builder = PlanBuilder::new(&types);
    let slots: Vec<Slot> =
        moves.iter().enumerate().map(|(i, (op, scalars))| builder.one(op.clone(), &[i as Slot], scalars)).collect();
    let outs = builder.op(sample.op.clone(), &slots, &sample.scalars);
    let built = builder.finish(&outs, Grouping::Fused);
    (stored, built, outs)
}

/// Runs every elementwise row, and what orders elements, on the values at the edges of each dtype.
///
/// # Panics
/// On the first disagreement, naming op and dtype.
pub fn special_values_of_rows<E: Engine>(engine: &mut E) {
    for dtype in DType::ALL {
        let x = special_values(dtype);
        let n = x.ty.numel();
        let column = HostTensor { ty: TensorType::new(dtype, &[n, 1]), ..x.clone() };
        for &kind in UnaryKind::ALL {
            if kind.row().accepts.takes(dtype) {
                let x = if matches!(kind, UnaryKind::Sin | UnaryKind::Cos | UnaryKind::Tan) {
                    moderate(&x)
                } else {
                    x.clone()
                };
                check_special(engine, Unary { kind }.into(), &[&x], &[]);
            }
        }
        for &kind in BinaryKind::ALL {
            if kind.row().accepts.takes(dtype) {
                check_special(engine, Binary { kind, scalar: Side::None }.into(), &[&column, &x], &[]);
            }
        }
        for &kind in CompareKind::ALL {
            check_special(engine, Compare { kind, scalar: Side::None }.into(), &[&column, &x], &[]);
        }
        for to in DType::ALL {
            check_special(engine, Cast { dtype: to }.into(), &[&x], &[]);
        }
        let condition = numbers::from_ints(
            TensorType::new(DType::Bool, &[n]),
            &(0..n as i64).map(|i| i % 3 % 2).collect::<Vec<_>>(),
        );
        check_special(
            engine,
            Select { a_scalar: false, b_scalar: false, dtype }.into(),
            &[&condition, &column, &x],
            &[],
        );
        let both =
            HostTensor { ty: TensorType::new(dtype, &[2, n]), bytes: [x.bytes.clone(), x.bytes.clone()].concat() };
        for descending in [false, true] {
            check_special(engine, Sort { axis: 1, descending }.into(), &[&both], &[]);
        }
        for axis in [0, 1] {
            for &kind in ArgKind::ALL {
                check_special(engine, ArgReduce { kind, axis, keepdim: false }.into(), &[&both], &[]);
            }
            for kind in [ReduceKind::Max, ReduceKind::Min] {
                check_special(
                    engine,
                    Reduce { kind, axes: AxisSet::of(&[axis as usize]), keepdim: false }.into(),
                    &[&both],
                    &[],
                );
            }
        }
    }
}

/// Without what only an exact reduction of the argument modulo π could take.
fn moderate(x: &HostTensor) -> HostTensor {
    let kept: Vec<f64> = numbers::floats(x).into_iter().filter(|v| !v.is_finite() || v.abs() < 5000.0).collect();
    numbers::from_floats(TensorType::new(x.ty.dtype, &[kept.len()]), &kept)
}

fn check_special<E: Engine>(engine: &mut E, op: Op, ins: &[&HostTensor], scalars: &[Scalar]) {
    let title =
        format!("{} on special values of {} on {}", op.display_name(), ins[ins.len() - 1].ty.dtype, engine.name());
    let want = evaluate(&op, ins, scalars, None).unwrap_or_else(|e| panic!("{title}: the reference fails: {e}"));
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let owned: Vec<HostTensor> = ins.iter().map(|&t| t.clone()).collect();
    let inputs = upload(engine, &owned).into_iter().map(Ok).collect();
    let built = single_plan(&op, &types, scalars);
    let outcome = run_plan(engine, &built, inputs);
    let allowed = allowance(&op, ins, scalars);
    for (&slot, want) in built.plan.live_outs.iter().zip(&want) {
        let have = outcome.read(slot);
        if let Some(what) = difference(&have, want, &allowed) {
            let shape = want.ty.shape;
            panic!(
                "{title}: {what} (shape {shape}, inputs {:?})",
                ins.iter().map(|t| numbers::as_floats(t)).collect::<Vec<_>>()
            );
        }
    }
}
