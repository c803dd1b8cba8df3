//! Runs a plan one instruction at a time: what the reference and the null engine share.
//!
//! STEPWISE-1: an instruction with a poisoned input is not run; its outputs carry the same failure.
//! STEPWISE-2: a `write` is all or nothing; a skipped one is reported once, before anything after it is published.
//! STEPWISE-3: a slot is published after its step, a value is let go with its step's `drops`.

use std::sync::Arc;

use gt_ir::{Bytes, Failure, FailureKind, Op, Scalar, TensorType};
use gt_plan::Plan;

use crate::engine::{Buffer, Run, Sink, Value};

/// A plan for an engine that runs one instruction at a time.
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

/// Computes one instruction.
pub(crate) type Compute<'a, B> = &'a mut dyn FnMut(Task<'_, B>) -> Result<Vec<B>, Failure>;

/// Runs every step of a plan in order.
pub(crate) fn run<B: Buffer>(program: &StepwiseProgram, run: Run<B>, compute: Compute<'_, B>) {
    let plan = &program.plan;
    let mut values: Vec<Option<Value<B>>> = bind(plan, run.inputs);
    values.resize_with(plan.types.len(), || None);
    for step in &plan.steps {
        for &index in &step.instrs {
            let instr = &plan.instrs[index as usize];
            let ins: Vec<Value<B>> = instr
                .ins
                .iter()
                .map(|id| values[id.0 as usize].clone().expect("PLAN-1: a slot is defined before it is used"))
                .collect();
            let outs = match &instr.op {
                Op::Write(_) => write(&ins, &*run.sink),
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
                        match compute(task) {
                            Ok(outs) => outs.into_iter().map(Ok).collect(),
                            Err(failure) => {
                                let placed = Arc::new(Failure {
                                    op: op.display_name().to_string(),
                                    ins: ready.iter().map(|b| b.ty()).collect(),
                                    site: run.immediates.sites.get(index as usize).copied().unwrap_or_default(),
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

fn write<B: Buffer>(ins: &[Value<B>], sink: &dyn Sink<B>) -> Vec<Value<B>> {
    let (old, new) = ins.split_at(ins.len() / 2);
    match new.iter().find_map(|v| v.as_ref().err()) {
        None => new.to_vec(),
        Some(failure) => {
            sink.write_skipped(failure.clone());
            old.to_vec()
        }
    }
}
