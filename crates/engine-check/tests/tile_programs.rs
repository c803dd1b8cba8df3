//! The reference engine interprets tile programs: the bits are those of the instructions, evaluated one by one. Whole rows and
//! concatenations are compared in the CPU engine's tests, which have random programs of them.

use std::sync::Arc;
use std::time::Duration;

use gt_engine_check::conformance::compare::{Allowance, difference};
use gt_engine_check::conformance::{self, Built, Grouping, PlanBuilder, random_program, run_plan, upload, within};
use gt_engine_check::{Reference, evaluate, numbers};
use gt_ir::ops::{Binary, Cast, Compare, Fill, Reduce, ReduceKind, Select, Side, Unary};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Failure, FailureKind, HostTensor, Op, Scalar, Shape, TensorType};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a plan and reads its live-outs, ascending.
fn results(engine: &mut Reference, built: &Built, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let buffers = upload(engine, inputs).into_iter().map(Ok).collect();
    let outcome = run_plan(engine, built, buffers);
    built.plan.live_outs.iter().map(|&slot| outcome.read(slot)).collect()
}

/// One instruction as a step, on an engine that interprets it.
fn check(op: impl Into<Op>, ins: &[&HostTensor], scalars: &[Scalar]) {
    let op = op.into();
    let want = evaluate(&op, ins, scalars, None).expect("nothing here fails");
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let built = conformance::single_plan(&op, &types, scalars);
    assert!(built.plan.steps[0].program().is_some(), "{} has no program", op.display_name());
    let owned: Vec<HostTensor> = ins.iter().map(|&t| t.clone()).collect();
    let have = results(&mut Reference::new(), &built, &owned);
    let what = difference(&have[0], &want[0], &Allowance::Exact);
    assert_eq!(what, None, "{} of {types:?} and {scalars:?}", op.display_name());
}

/// Every special value of a dtype against every other one.
fn pairs(dtype: DType) -> (HostTensor, HostTensor) {
    let x = conformance::special_values(dtype);
    let n = x.ty.numel();
    let column = HostTensor { ty: TensorType::new(dtype, &[n, 1]), bytes: x.bytes.clone() };
    (column, x)
}

const SCALARS: [Scalar; 5] =
    [Scalar::I64(3), Scalar::I64(-1), Scalar::F64(0.1), Scalar::F64(-2.5), Scalar::F64(f64::INFINITY)];

#[test]
fn every_row_on_special_values() {
    within(LIMIT, || {
        for dtype in DType::ALL {
            let (column, x) = pairs(dtype);
            let scalars = || SCALARS.iter().filter(|s| dtype.is_float() || matches!(s, Scalar::I64(_)));
            for &kind in UnaryKind::ALL.iter().filter(|kind| kind.row().accepts.takes(dtype)) {
                check(Unary { kind }, &[&x], &[]);
            }
            for &kind in BinaryKind::ALL.iter().filter(|kind| kind.row().accepts.takes(dtype)) {
                check(Binary { kind, scalar: Side::None }, &[&column, &x], &[]);
                for scalar in [Side::Left, Side::Right] {
                    scalars().for_each(|&number| check(Binary { kind, scalar }, &[&x], &[number]));
                }
            }
            for &kind in CompareKind::ALL {
                check(Compare { kind, scalar: Side::None }, &[&column, &x], &[]);
                for scalar in [Side::Left, Side::Right] {
                    scalars().for_each(|&number| check(Compare { kind, scalar }, &[&x], &[number]));
                }
            }
            for to in DType::ALL {
                check(Cast { dtype: to }, &[&x], &[]);
            }
            let positive = numbers::from_ints(TensorType::new(DType::Bool, &[x.ty.numel(), 1]), &alternating(&x));
            for (a_scalar, b_scalar) in [(false, false), (true, false), (false, true), (true, true)] {
                let ins: Vec<&HostTensor> = match (a_scalar, b_scalar) {
                    (false, false) => vec![&positive, &column, &x],
                    (true, true) => vec![&positive],
                    _ => vec![&positive, &x],
                };
                let scalars = [Scalar::I64(1), Scalar::I64(0)];
                check(
                    Select { a_scalar, b_scalar, dtype },
                    &ins,
                    &scalars[..usize::from(a_scalar) + usize::from(b_scalar)],
                );
            }
            check(Fill { dtype, shape: Shape::new(&[3]) }, &[], &[Scalar::F64(0.1)]);
            for &kind in ReduceKind::ALL {
                if dtype != DType::Bool || matches!(kind, ReduceKind::Max | ReduceKind::Min) {
                    check(Reduce { kind, axes: AxisSet::of(&[0]), keepdim: false }, &[&x], &[]);
                }
            }
        }
    });
}

fn alternating(x: &HostTensor) -> Vec<i64> {
    (0..x.ty.numel() as i64).map(|i| i % 2).collect()
}

#[test]
fn random_fused_programs() {
    within(LIMIT, || {
        for seed in 0..400 {
            let (builder, live, inputs) = random_program(seed);
            let built = builder.finish(&live, Grouping::Fused);
            let have = results(&mut Reference::new(), &built, &inputs);
            let want = results(&mut Reference::new().one_by_one(), &built, &inputs);
            for (have, want) in have.iter().zip(&want) {
                let program = || built.plan.steps.iter().filter_map(|s| s.program()).map(|p| p.to_string());
                let what = difference(have, want, &Allowance::Exact);
                assert_eq!(what, None, "program {seed}:\n{}", program().collect::<String>());
            }
        }
    });
}

/// STEPWISE-5: a step with a poisoned input, or too large for the memory there is, still gives what does not depend on that.
#[test]
fn what_cannot_run_as_a_program_runs_one_by_one() {
    within(LIMIT, || {
        let ty = TensorType::new(DType::F32, &[1000]);
        let mut builder = PlanBuilder::new(&[ty, ty]);
        builder.begin_fused(ty.shape);
        let first = builder.one(Unary { kind: UnaryKind::Neg }, &[0], &[]);
        let second = builder.one(Unary { kind: UnaryKind::Neg }, &[1], &[]);
        let sum = builder.one(Binary { kind: BinaryKind::Add, scalar: Side::None }, &[first, second], &[]);
        builder.end_fused();
        let built = builder.finish(&[first, second, sum], Grouping::Fused);
        let ones = numbers::from_floats(ty, &[1.0; 1000]);

        let mut engine = Reference::new();
        let failure = Arc::new(Failure::new(FailureKind::Value, "poison"));
        let inputs = vec![Ok(engine.buffer(ones.clone())), Err(failure.clone())];
        let outcome = run_plan(&mut engine, &built, inputs);
        assert_eq!(numbers::floats(&outcome.read(first)), [-1.0; 1000]);
        assert!(Arc::ptr_eq(&outcome.failure(second), &failure) && Arc::ptr_eq(&outcome.failure(sum), &failure));

        // Room for both inputs and for one result.
        let mut engine = Reference::with_limit(3 * 4000);
        let inputs = vec![Ok(engine.buffer(ones.clone())), Ok(engine.buffer(ones))];
        let outcome = run_plan(&mut engine, &built, inputs);
        assert_eq!(numbers::floats(&outcome.read(first)), [-1.0; 1000]);
        assert_eq!(outcome.failure(second).kind, FailureKind::Memory);
        assert_eq!(outcome.failure(sum).kind, FailureKind::Memory);
    });
}
