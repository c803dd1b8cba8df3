//! The null engine, memory limits, and that the suite notices an engine that is wrong.

use std::sync::Arc;
use std::time::Duration;

use gt_engine::{Buffer, Engine, Memory, Run, Ticket};
use gt_engine_check::conformance::{self, Grouping, PlanBuilder, within};
use gt_engine_check::{Null, NullBuffer, Reference, ReferenceBuffer, StepwiseProgram};
use gt_ir::ops::{Binary, Fill, Side, Sort, Unary, Write};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{DType, Failure, FailureKind, Op, Shape, TensorType};
use gt_plan::{EngineLimits, Plan};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn null_engine_has_types_and_poison_but_no_numbers() {
    within(LIMIT, || {
        let ty = TensorType::new(DType::F32, &[2, 3]);
        let mut builder = PlanBuilder::new(&[ty, ty]);
        let negated = builder.one(Unary { kind: UnaryKind::Neg }, &[0], &[]);
        let sorted = builder.op(Sort { axis: 1, descending: false }, &[negated], &[]);
        let tainted = builder.one(Unary { kind: UnaryKind::Exp }, &[1], &[]);
        let cell = builder.one(Write {}, &[0, tainted], &[]);
        let live = [negated, sorted[0], sorted[1], tainted, cell];
        let poison = Arc::new(Failure::new(FailureKind::Value, "from before"));
        let inputs = vec![Ok(NullBuffer::new(ty)), Err(poison.clone())];
        let outcome = conformance::run_plan(&mut Null, &builder.finish(&live, Grouping::Fused), inputs);
        assert_eq!(outcome.buffer(sorted[1]).ty(), ty.with_dtype(DType::I64));
        assert_eq!(outcome.read(sorted[0]).bytes, [0; 24]);
        assert_eq!(outcome.failure(tainted), poison);
        assert_eq!(outcome.buffer(cell).ty(), ty);
        assert_eq!(outcome.skipped, [poison]);
        assert_eq!(Null.memory(), Memory::default());
    });
}

#[test]
fn reference_engine_fails_what_does_not_fit_its_limit() {
    within(LIMIT, || {
        let mut engine = Reference::with_limit(1000);
        let mut builder = PlanBuilder::new(&[]);
        let fill = |n: usize| Fill { dtype: DType::F32, shape: Shape::new(&[n]) };
        let small = builder.one(fill(100), &[], &[1.into()]);
        let large = builder.one(fill(200), &[], &[1.into()]);
        let fits = builder.one(fill(100), &[], &[1.into()]);
        let outcome =
            conformance::run_plan(&mut engine, &builder.finish(&[small, large, fits], Grouping::Fused), Vec::new());
        assert_eq!(outcome.failure(large).kind, FailureKind::Memory);
        assert_eq!(outcome.failure(large).op, "fill");
        assert_eq!((engine.memory().live_bytes, engine.memory().peak_bytes), (800, 800));
        drop(outcome);
        assert_eq!(engine.memory().live_bytes, 0);
    });
}

#[test]
fn an_input_of_another_type_than_planned_is_a_failure() {
    within(LIMIT, || {
        let mut engine = Reference::new();
        let mut builder = PlanBuilder::new(&[TensorType::new(DType::F32, &[2])]);
        let out = builder.one(Unary { kind: UnaryKind::Neg }, &[0], &[]);
        let built = builder.finish(&[out], Grouping::Fused);
        let wrong = gt_ir::HostTensor { ty: TensorType::new(DType::F32, &[1]), bytes: vec![0; 4] };
        let inputs = vec![Ok(engine.buffer(wrong))];
        assert_eq!(conformance::run_plan(&mut engine, &built, inputs).failure(out).kind, FailureKind::Internal);
    });
}

/// The reference on plans that were changed behind its back.
struct Bent {
    inner: Reference,
    bend: fn(&mut Plan),
}

impl Engine for Bent {
    type Buffer = ReferenceBuffer;
    type Program = StepwiseProgram;
    fn name(&self) -> &'static str {
        "bent"
    }
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<StepwiseProgram, Failure> {
        let mut plan = (**plan).clone();
        (self.bend)(&mut plan);
        self.inner.prepare(&Arc::new(plan))
    }
    fn submit(&mut self, program: &Arc<StepwiseProgram>, run: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        self.inner.submit(program, run)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        self.inner.memory()
    }
    fn trim(&mut self) {}
}

/// Changes every instruction of the plan for which there is a wrong one.
fn replace(plan: &mut Plan, wrong: fn(&Op) -> Option<Op>) {
    for instr in &mut plan.instrs {
        if let Some(op) = wrong(&instr.op) {
            instr.op = op;
        }
    }
}

fn caught(bend: fn(&mut Plan), part: fn(&mut Bent)) {
    let run = move || part(&mut Bent { inner: Reference::new().one_by_one(), bend });
    assert!(std::panic::catch_unwind(run).is_err(), "the suite let a wrong engine pass");
}

#[test]
fn the_suite_catches_wrong_engines() {
    within(LIMIT, || {
        let add_for_sub = |plan: &mut Plan| {
            replace(plan, |op| match op {
                Op::Binary(b) if b.kind == BinaryKind::Sub => {
                    Some(Binary { kind: BinaryKind::Add, ..b.clone() }.into())
                }
                _ => None,
            })
        };
        caught(add_for_sub, conformance::op_table);
        let wrong_only_when_fused = |plan: &mut Plan| {
            if plan.steps.iter().any(|s| s.instrs.len() > 1) {
                replace(plan, |op| match op {
                    Op::Unary(u) if u.kind == UnaryKind::Sqrt => Some(Unary { kind: UnaryKind::Rsqrt }.into()),
                    _ => None,
                })
            }
        };
        caught(wrong_only_when_fused, conformance::fused_chains);
        let other_axes = |plan: &mut Plan| {
            replace(plan, |op| match op {
                Op::Sort(s) => Some(Sort { descending: !s.descending, ..s.clone() }.into()),
                _ => None,
            })
        };
        caught(other_axes, conformance::special_values_of_rows);
        let unpublished = |plan: &mut Plan| plan.steps.iter_mut().for_each(|s| s.publish.truncate(1));
        caught(unpublished, conformance::op_table);
        let exact_ops_by_detour = |plan: &mut Plan| {
            replace(plan, |op| match op {
                Op::Binary(b) if b.kind == BinaryKind::Max => {
                    Some(Binary { kind: BinaryKind::Min, scalar: Side::None }.into())
                }
                _ => None,
            })
        };
        caught(exact_ops_by_detour, conformance::special_values_of_rows);
    });
}
