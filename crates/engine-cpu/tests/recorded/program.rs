//! Windows with inputs that lie anyhow, held to the bits of one instruction at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_engine::{Buffer, Engine, Value};
use gt_engine_check::{Reference, evaluate};
use gt_engine_cpu::{CpuBuffer, CpuEngine};
use gt_ir::{Failure, FailureKind, HostTensor, Op, TensorId};
use gt_plan::text;

use super::{COMPILED, FUSED, Placed, Recorded, SEPARATE, difference, place};

/// A window with the values and places of its inputs.
pub struct Program {
    pub recorded: Recorded,
    pub inputs: Vec<(HostTensor, Placed)>,
    /// Old values, new values and results of its writes.
    pub writes: Vec<(Vec<TensorId>, Vec<TensorId>, Vec<TensorId>)>,
}

pub type Values = BTreeMap<TensorId, HostTensor>;

/// What the instructions of a program mean, one by one.
pub fn evaluated(program: &Program) -> Values {
    let recorded = &program.recorded;
    let mut values: Values =
        recorded.inputs.iter().copied().zip(program.inputs.iter().map(|(tensor, _)| tensor.clone())).collect();
    for instr in &recorded.window.instrs {
        let ins: Vec<&HostTensor> = instr.ins.iter().map(|id| &values[id]).collect();
        let outs = evaluate(&instr.op, &ins, &instr.scalars, None).expect("nothing here fails");
        values.extend(instr.outs.iter().copied().zip(outs));
    }
    values
}

/// Holds the reference engine, which interprets tile programs, to what the instructions mean one by one.
pub fn check_interpreted(program: &Program, seed: u64) {
    let want = evaluated(program);
    let inputs: Vec<HostTensor> = program.inputs.iter().map(|(tensor, _)| tensor.clone()).collect();
    for options in [FUSED, COMPILED, SEPARATE] {
        let planned = program.recorded.plan(options);
        for (id, have) in planned.values_on(&mut Reference::new(), &inputs) {
            let plan = || text::print(planned.plan());
            assert_eq!(difference(&have, &want[&id]), None, "{id} of program {seed}\n{}", plan());
        }
    }
}

/// Runs a program, with one input poisoned if told so.
fn run(
    engine: &mut CpuEngine,
    program: &Program,
    options: gt_plan::PlanOptions,
    poisoned: Option<usize>,
) -> BTreeMap<TensorId, Option<HostTensor>> {
    let failure = Arc::new(Failure::new(FailureKind::Value, "poison"));
    let recorded = &program.recorded;
    let planned = recorded.plan(options);
    let dies = |k: usize| recorded.window.frees.contains(&recorded.inputs[k]);
    let mut held = Vec::new();
    let mut buffers: Vec<Value<CpuBuffer>> = Vec::new();
    for (k, (tensor, placed)) in program.inputs.iter().enumerate() {
        let buffer = place(engine, tensor, *placed);
        if !dies(k) {
            held.push((k, buffer.clone()));
        }
        buffers.push(if poisoned == Some(k) { Err(failure.clone()) } else { Ok(buffer) });
    }
    let ran = planned.run(engine, buffers);
    for (k, buffer) in held {
        assert_eq!(buffer.read().unwrap().bytes, program.inputs[k].0.bytes, "input {k} lives on, and changed");
    }
    let read = |value: &Value<CpuBuffer>| match value {
        Ok(buffer) => Some(buffer.read().unwrap()),
        Err(have) => {
            assert!(poisoned.is_some() && Arc::ptr_eq(have, &failure), "{have}");
            None
        }
    };
    let values = ran.values.iter().map(|(id, value)| (*id, read(value))).collect();
    let skips = program.writes.iter().filter(|w| w.1.iter().any(|id| depends(recorded, poisoned).contains(id))).count();
    assert_eq!(ran.skipped.len(), skips);
    drop(ran);
    assert_eq!(engine.memory().live_bytes, 0, "everything is given back");
    values
}

/// What depends on a poisoned input, writes aside.
fn depends(recorded: &Recorded, poisoned: Option<usize>) -> BTreeSet<TensorId> {
    let mut ill: BTreeSet<TensorId> = poisoned.iter().map(|&k| recorded.inputs[k]).collect();
    for instr in recorded.window.instrs.iter().filter(|i| !matches!(i.op, Op::Write(_))) {
        if instr.ins.iter().any(|id| ill.contains(id)) {
            ill.extend(instr.outs.iter().copied());
        }
    }
    ill
}

fn expect_same(have: &BTreeMap<TensorId, Option<HostTensor>>, want: &Values, title: &dyn Fn() -> String) {
    for (id, want) in want {
        match have.get(id) {
            Some(Some(have)) => {
                if let Some(what) = difference(have, want) {
                    panic!("{id} ({}): {what}\n{}", want.ty, title());
                }
            }
            Some(None) => panic!("{id} is poisoned\n{}", title()),
            None => panic!("{id} is missing\n{}", title()),
        }
    }
}

/// Runs a program fused, on one thread and on two, and with one of its inputs poisoned; gives the values it has.
pub fn check(one: &mut CpuEngine, two: &mut CpuEngine, program: &Program, seed: u64) -> Values {
    let recorded = &program.recorded;
    let title = |what: &str| {
        let plan = recorded.plan(FUSED);
        let places: Vec<Placed> = program.inputs.iter().map(|i| i.1).collect();
        format!("program {seed}, {what}; inputs {places:?}\n{}", text::print(plan.plan()))
    };
    let want: Values = run(one, program, SEPARATE, None).into_iter().map(|(id, v)| (id, v.expect("a value"))).collect();
    expect_same(&run(two, program, SEPARATE, None), &want, &|| title("separate, two threads"));
    expect_same(&run(one, program, FUSED, None), &want, &|| title("one thread"));
    expect_same(&run(two, program, FUSED, None), &want, &|| title("two threads"));
    expect_same(&run(two, program, COMPILED, None), &want, &|| title("compiled"));

    let k = seed as usize % program.inputs.len();
    let ill = depends(recorded, Some(k));
    let mut healthy: Values = want.iter().filter(|(id, _)| !ill.contains(id)).map(|(id, v)| (*id, v.clone())).collect();
    let mut poisoned: BTreeSet<TensorId> = want.keys().copied().filter(|id| ill.contains(id)).collect();
    for (olds, news, outs) in &program.writes {
        if news.iter().any(|id| ill.contains(id)) {
            for (old, out) in olds.iter().zip(outs) {
                let at = recorded.inputs.iter().position(|i| i == old).expect("an input");
                if at == k {
                    healthy.remove(out);
                    poisoned.insert(*out);
                } else {
                    healthy.insert(*out, program.inputs[at].0.clone());
                }
            }
        }
    }
    for (options, engine) in [(FUSED, two), (COMPILED, one)] {
        let have = run(engine, program, options, Some(k));
        expect_same(&have, &healthy, &|| title(&format!("input {k} poisoned")));
        let ill: BTreeSet<TensorId> = have.iter().filter(|(_, v)| v.is_none()).map(|(id, _)| *id).collect();
        assert_eq!(ill, poisoned, "{}", title(&format!("input {k} poisoned")));
    }
    want
}
