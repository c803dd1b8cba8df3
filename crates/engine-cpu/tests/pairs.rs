//! Products that run side by side: the bits each has alone, on any number of threads, whatever happens to the other.

mod recorded;

use std::sync::Arc;

use gt_engine::{Buffer, Engine};
use gt_engine_check::conformance::{SplitMix, make_values, upload};
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::ops::{Matmul, Permute, Unary};
use gt_ir::rows::UnaryKind;
use gt_ir::{DType, Domain, Failure, FailureKind, HostTensor, Steps, TensorId, TensorType};
use recorded::{FUSED, Recorded, SEPARATE, difference, engine};

/// The two gradients of a product, with a step between them; and the four inputs' values.
struct Gradients {
    recorded: Recorded,
    results: [TensorId; 2],
    inputs: Vec<HostTensor>,
}

fn gradients(dtype: DType, batch: &[usize]) -> Gradients {
    let mut recorded = Recorded::default();
    let shape = |rows: usize, columns: usize| [batch, &[rows, columns]].concat();
    let types = [shape(128, 64), shape(64, 96), shape(128, 96)].map(|s| TensorType::new(dtype, &s));
    let [x, w, grad] = types.map(|ty| recorded.input(ty));
    let of_x = recorded.one(Matmul { turn_a: false, turn_b: true }, &[grad, w], &[]);
    let between = recorded.one(Unary { kind: UnaryKind::Neg }, &[of_x], &[]);
    let rank = batch.len() as i64;
    let swap: Steps = (0..rank).chain([rank + 1, rank]).collect();
    let turned = recorded.one(Permute { perm: swap }, &[x], &[]);
    let of_w = recorded.one(Matmul { turn_a: false, turn_b: false }, &[turned, grad], &[]);
    recorded.keep(&[between, of_w]);
    let mut random = SplitMix::new(7);
    let inputs = types.iter().map(|ty| make_values(*ty, Domain::Any, &mut random)).collect();
    Gradients { recorded, results: [between, of_w], inputs }
}

#[test]
fn the_bits_are_those_of_each_alone() {
    for (dtype, batch) in [(DType::F32, &[][..]), (DType::F32, &[2]), (DType::F64, &[]), (DType::F16, &[])] {
        let case = gradients(dtype, batch);
        let paired = case.recorded.plan(FUSED);
        let products =
            |step: &gt_plan::Step| paired.plan().instrs[step.instrs[0] as usize].op.display_name() == "matmul";
        assert!(paired.plan().steps.windows(2).any(|two| two.iter().all(products)), "no products are neighbours");
        let alone = case.recorded.plan(SEPARATE).run_on(&mut engine(1), &case.inputs);
        for threads in [1, 2, 3, 4] {
            let ran = paired.run_on(&mut engine(threads), &case.inputs);
            for id in case.results {
                assert_eq!(difference(&ran.read(id), &alone.read(id)), None, "{dtype} {batch:?} {threads} threads");
            }
        }
    }
}

#[test]
fn a_poisoned_operand_harms_its_own_product() {
    let case = gradients(DType::F32, &[]);
    let planned = case.recorded.plan(FUSED);
    let whole = planned.run_on(&mut engine(2), &case.inputs);
    let failure = Arc::new(Failure::new(FailureKind::Value, "poison"));
    // x reaches the second gradient, w the first, grad both.
    for (poisoned, survives) in [(0, [true, false]), (1, [false, true]), (2, [false, false])] {
        let mut engine = engine(2);
        let mut buffers: Vec<_> = upload(&mut engine, &case.inputs).into_iter().map(Ok).collect();
        buffers[poisoned] = Err(failure.clone());
        let ran = planned.run(&mut engine, buffers);
        for (id, survives) in case.results.into_iter().zip(survives) {
            match &ran.values[&id] {
                Ok(buffer) => {
                    assert!(survives, "{id} depends on input {poisoned}");
                    assert_eq!(difference(&buffer.read().unwrap(), &whole.read(id)), None);
                }
                Err(have) => assert!(!survives && Arc::ptr_eq(have, &failure), "{have}"),
            }
        }
    }
}

#[test]
fn without_room_for_both_they_run_one_after_the_other() {
    let case = gradients(DType::F32, &[]);
    let planned = case.recorded.plan(FUSED);
    let whole = planned.run_on(&mut engine(2), &case.inputs);
    let inputs: u64 = case.inputs.iter().map(|t| t.bytes.len() as u64).sum();
    // Room for the first result beside the inputs; then an input dies.
    let mut tight = CpuEngine::new(Config { threads: 2, memory_limit_bytes: inputs + (40 << 10) });
    let ran = planned.run_on(&mut tight, &case.inputs);
    for id in case.results {
        assert_eq!(difference(&ran.read(id), &whole.read(id)), None);
    }
    drop(ran);
    // Room for none.
    let mut full = CpuEngine::new(Config { threads: 2, memory_limit_bytes: inputs + (10 << 10) });
    let ran = planned.run_on(&mut full, &case.inputs);
    let failure = ran.values[&case.results[0]].as_ref().err().expect("no room");
    assert!(failure.kind == FailureKind::Memory && failure.op == "matmul", "{failure}");
    drop(ran);
    assert_eq!(full.memory().live_bytes, 0);
}
