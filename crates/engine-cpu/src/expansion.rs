//! Composites for which there is no kernel: their expansion runs as a plan inside the step. Rare, so it is planned on the
//! spot and thrown away.

use std::collections::BTreeSet;
use std::sync::Arc;

use gt_engine::{Cancel, Sink, Value};
use gt_ir::{Cause, Failure, FailureKind, Instr, Scalar};
use gt_plan::{Immediates, Plan, PlanOptions, Slot};
use gt_stream::Occurrence;
use parking_lot::Mutex;

use crate::buffer::CpuBuffer;
use crate::engine::{Context, LIMITS, prepare_steps, run_steps};

/// Keeps what a plan publishes.
#[derive(Default)]
struct Kept(Mutex<Vec<(Slot, Value<CpuBuffer>)>>);

impl Sink<CpuBuffer> for Kept {
    fn publish(&self, slot: Slot, value: Value<CpuBuffer>) {
        self.0.lock().push((slot, value));
    }
    fn settled(&self, _: Slot) {
        unreachable!("this engine has no pending values");
    }
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        failure
    }
    fn write_skipped(&self, _: u32, _: Arc<Failure>) {}
}

fn internal(message: impl ToString) -> Failure {
    Failure::new(FailureKind::Internal, message.to_string())
}

/// The input of the expansion that a failure inside of it blames: the one that the bad value was computed from, if it is one.
fn input_behind(cause: Cause, plan: &Plan) -> Option<Slot> {
    let Cause::Slot(slot) = cause else { return None };
    let (mut behind, mut open) = (BTreeSet::new(), Vec::from([slot]));
    while let Some(slot) = open.pop() {
        if (slot as usize) < plan.inputs {
            behind.insert(slot);
        } else if let Some(instr) = plan.instrs.iter().find(|instr| instr.outs.iter().any(|id| id.0 as Slot == slot)) {
            open.extend(instr.ins.iter().map(|id| id.0 as Slot));
        }
    }
    behind.first().copied().filter(|_| behind.len() == 1)
}

/// The results of a composite on these inputs.
pub(crate) fn run(
    cx: &Context<'_>,
    instr: &Instr,
    scalars: &[Scalar],
    ins: &[CpuBuffer],
) -> Result<Vec<CpuBuffer>, Failure> {
    let types: Vec<_> = ins.iter().map(|b| b.layout.ty()).collect();
    let expansion = gt_plan::expand(&instr.op, &types, scalars)
        .ok_or_else(|| internal(format!("{} has no expansion", instr.op.display_name())))?
        .map_err(internal)?;
    let operand = |id| expansion.inputs.iter().position(|&i| i == id);
    let occurrence = Occurrence::of(expansion.window).map_err(internal)?;
    let used: Vec<usize> = occurrence.bindings().inputs.iter().filter_map(|&id| operand(id)).collect();
    let input_types: Vec<_> = used.iter().map(|&i| types[i]).collect();
    let options = PlanOptions { limits: LIMITS, ..PlanOptions::DEFAULT };
    let plan = gt_plan::build(occurrence.recipe(), &input_types, options).map_err(internal)?;
    let steps = prepare_steps(&plan);
    let immediates = Immediates::of(&occurrence);
    let inputs = used.iter().map(|&i| Ok(ins[i].clone())).collect();
    let (sink, mut slots) = (Kept::default(), Vec::new());
    // It is one instruction, and who asked for it wants a result.
    let cancel = Cancel::default();
    let inner =
        Context { plan: &plan, immediates: &immediates, allocator: cx.allocator, pool: cx.pool, cancel: &cancel };
    // The step that it is a part of is measured.
    run_steps(&inner, &steps, inputs, &mut slots, &sink, None);
    let published = sink.0.into_inner();
    let result = |id| {
        if let Some(i) = operand(id) {
            return Ok(ins[i].clone());
        }
        let found =
            published.iter().find(|(slot, _)| occurrence.id_of_slot(*slot) == id).map(|(_, value)| value.clone());
        match found {
            Some(Ok(buffer)) => Ok(buffer),
            Some(Err(failure)) => {
                let behind = failure.cause.and_then(|cause| input_behind(cause, &plan));
                let number = behind.and_then(|slot| operand(occurrence.id_of_slot(slot)));
                let cause = number.and_then(|number| u8::try_from(number).ok()).map(Cause::Input);
                Err(Failure { cause, ..(*failure).clone() })
            }
            None => Err(internal(format!("the expansion of {} lost a result", instr.op.display_name()))),
        }
    };
    expansion.outs.iter().map(|&id| result(id)).collect()
}
