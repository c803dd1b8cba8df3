//! Runs a plan step by step: what the reference and the null engine share.
//!
//! STEPWISE-1: an instruction with a poisoned input is not run; its outputs carry the same failure.
//! STEPWISE-2: a `write` is all or nothing; a skipped one is reported once, before anything after it is published.
//! STEPWISE-3: a slot is published after its step, a value is let go with its step's `drops`.
//! STEPWISE-4: what is left of a run when it is cancelled is not run.
//! STEPWISE-5: a fused step is computed as a whole if the engine can do so and none of its inputs is poisoned. If not, its
//! instructions run one by one: each has its own failure then, and what does not depend on one is there.

use std::sync::Arc;

use gt_ir::{Bytes, Failure, FailureKind, Op, Scalar, TensorType};
use gt_plan::tile::TileProgram;
use gt_plan::{Immediates, Plan, Slot};

use gt_engine::{Buffer, Run, Sink, Value};

/// A plan for an engine that runs it step by step.
pub struct StepwiseProgram {
    plan: Arc<Plan>,
    /// For each instruction that is an upload, which payload of the run is its own.
    payloads: Vec<Option<usize>>,
}

impl StepwiseProgram {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let mut uploads = 0;
        let payloads = plan
            .instrs
            .iter()
            .map(|instr| {
                matches!(instr.op, Op::Upload(_)).then(|| {
                    uploads += 1;
                    uploads - 1
                })
            })
            .collect();
        StepwiseProgram { plan, payloads }
    }
}

/// What an engine is asked to compute.
pub(crate) struct Task<'a, B> {
    pub op: &'a Op,
    pub ins: &'a [&'a B],
    pub scalars: &'a [Scalar],
    pub payload: Option<&'a Bytes>,
    pub outs: &'a [TensorType],
}

/// A fused step, all of whose inputs are good.
pub(crate) struct FusedTask<'a, B> {
    pub program: &'a TileProgram,
    /// The values of the program's inputs.
    pub ins: Vec<&'a B>,
    /// The numbers of the program's constants.
    pub consts: Vec<Scalar>,
}

/// What an engine does.
pub(crate) trait Compute<B> {
    /// Computes one instruction.
    fn instr(&mut self, task: Task<'_, B>) -> Result<Vec<B>, Failure>;
    /// Computes the results of a fused step; `None` if its instructions are to be computed one by one.
    fn program(&mut self, _: FusedTask<'_, B>) -> Option<Vec<(Slot, B)>> {
        None
    }
}

/// Runs every step of a plan in order.
pub(crate) fn run<B: Buffer>(program: &StepwiseProgram, run: Run<B>, compute: &mut dyn Compute<B>) {
    let plan = &program.plan;
    let mut values: Vec<Option<Value<B>>> = bind(plan, run.inputs);
    values.resize_with(plan.types.len(), || None);
    for step in &plan.steps {
        if run.cancel.is_cancelled() {
            return;
        }
        let whole = step.program().and_then(|program| fused_task(plan, program, &values, &run.immediates));
        let whole = whole.and_then(|task| compute.program(task));
        let alone: &[u32] = if whole.is_some() { &[] } else { &step.instrs };
        for (slot, value) in whole.into_iter().flatten() {
            values[slot as usize] = Some(Ok(value));
        }
        for &index in alone {
            if run.cancel.is_cancelled() {
                return;
            }
            let instr = &plan.instrs[index as usize];
            let ins: Vec<Value<B>> = instr
                .ins
                .iter()
                .map(|id| values[id.0 as usize].clone().expect("PLAN-1: a slot is defined before it is used"))
                .collect();
            let outs = match &instr.op {
                Op::Write(_) => write(index, &ins, &*run.sink),
                op => match ins.iter().find_map(|v| v.as_ref().err()) {
                    Some(failure) => vec![Err(failure.clone()); instr.outs.len()],
                    None => {
                        let ready: Vec<&B> = ins.iter().filter_map(|v| v.as_ref().ok()).collect();
                        let types: Vec<TensorType> = instr.outs.iter().map(|id| plan.types[id.0 as usize]).collect();
                        let task = Task {
                            op,
                            ins: &ready,
                            scalars: plan.scalars(index, &run.immediates),
                            payload: program.payloads[index as usize].and_then(|n| run.immediates.uploads.get(n)),
                            outs: &types,
                        };
                        match compute.instr(task) {
                            Ok(outs) => outs.into_iter().map(Ok).collect(),
                            Err(failure) => {
                                let placed = Arc::new(Failure {
                                    op: op.display_name().to_string(),
                                    ins: ready.iter().map(|b| b.ty()).collect(),
                                    site: run.immediates.sites.get(index as usize).copied().unwrap_or_default(),
                                    cause: failure.cause.and_then(|cause| cause.in_plan(instr)),
                                    ..failure
                                });
                                vec![Err(placed); instr.outs.len()]
                            }
                        }
                    }
                },
            };
            for (id, value) in instr.outs.iter().zip(outs) {
                values[id.0 as usize] = Some(value);
            }
        }
        for &slot in &step.publish {
            let value = values[slot as usize].clone().expect("a published slot is defined by its step");
            run.sink.publish(slot, value);
        }
        for &slot in &step.drops {
            values[slot as usize] = None;
        }
    }
}

/// What a fused step is computed from, if all of it is good.
fn fused_task<'a, B: Buffer>(
    plan: &Plan,
    program: &'a TileProgram,
    values: &'a [Option<Value<B>>],
    immediates: &Immediates,
) -> Option<FusedTask<'a, B>> {
    let value = |slot: Slot| values[slot as usize].as_ref().and_then(|value| value.as_ref().ok());
    let ins: Option<Vec<&B>> = program.ins.iter().map(|input| value(input.slot)).collect();
    let consts = program.consts.iter().map(|c| plan.scalars(c.instr, immediates)[usize::from(c.nth)]).collect();
    ins.map(|ins| FusedTask { program, ins, consts })
}

/// The inputs as the plan's first slots; one of another type than the plan was made for is our mistake and
/// poisons what reads it.
fn bind<B: Buffer>(plan: &Plan, inputs: Vec<Value<B>>) -> Vec<Option<Value<B>>> {
    assert_eq!(inputs.len(), plan.inputs, "a run binds every input of its plan");
    let check = |(value, ty): (Value<B>, &TensorType)| match value {
        Ok(buffer) if buffer.ty() != *ty => Some(Err(Arc::new(Failure::new(
            FailureKind::Internal,
            format!("an input of the plan is {}, expected {ty}", buffer.ty()),
        )))),
        value => Some(value),
    };
    inputs.into_iter().zip(&plan.types).map(check).collect()
}

fn write<B: Buffer>(instr: u32, ins: &[Value<B>], sink: &dyn Sink<B>) -> Vec<Value<B>> {
    let (old, new) = ins.split_at(ins.len() / 2);
    match new.iter().find_map(|v| v.as_ref().err()) {
        None => new.to_vec(),
        Some(failure) => {
            sink.write_skipped(instr, failure.clone());
            old.to_vec()
        }
    }
}
