//! A step of training as one window: a failure anywhere leaves the parameters, and memory settles.

mod recorded;

use std::sync::Arc;

use gt_engine::{Buffer, Engine};
use gt_engine_check::conformance::{SplitMix, make_values, upload};
use gt_ir::ops::*;
use gt_ir::rows::BinaryKind;
use gt_ir::{AxisSet, DType, Domain, FailureKind, HostTensor, Scalar, Shape, Steps, TensorId, TensorType};
use recorded::{FUSED, Recorded, SEPARATE, difference, engine, optimizer_step};

fn floats(shape: &[usize], random: &mut SplitMix) -> HostTensor {
    make_values(TensorType::new(DType::F32, shape), Domain::Any, random)
}

/// A model of one layer, its loss, its gradient and an optimizer's step, in one window.
struct Training {
    r: Recorded,
    inputs: Vec<HostTensor>,
    written: Vec<TensorId>,
    loss: TensorId,
    other: TensorId,
}

fn training(bad_class: bool) -> Training {
    let mut random = SplitMix::new(18);
    let (rows, width, n) = (64, 48, 30);
    let x = floats(&[rows, width], &mut random);
    let mut wanted = make_values(TensorType::new(DType::I64, &[rows]), Domain::Index(n), &mut random);
    if bad_class {
        wanted.bytes[8 * 7..8 * 8].copy_from_slice(&(n as i64).to_le_bytes());
    }
    let [weight, state] = [0, 1].map(|_| floats(&[n, width], &mut random));
    let [bias, bias_state] = [0, 1].map(|_| floats(&[n], &mut random));
    let inputs = vec![x, wanted, weight, bias, state, bias_state];
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = inputs.iter().map(|t| r.input(t.ty)).collect();
    let [x, wanted, weight, bias, state, bias_state] = ids[..] else { panic!("six inputs") };
    let add = Binary { kind: BinaryKind::Add, scalar: Side::None };
    let product = r.one(Matmul { turn_a: false, turn_b: true }, &[x, weight], &[]);
    let logits = r.one(add, &[product, bias], &[]);
    let ignore = [Scalar::I64(-100)];
    let entropy = r.op(CrossEntropy {}, &[logits, wanted], &ignore);
    let rows_of = |kind| Reduce { kind, axes: AxisSet::of(&[0]), keepdim: false };
    let loss = r.one(rows_of(ReduceKind::Sum), &[entropy[0]], &[]);
    let seed = r.one(Fill { dtype: DType::F32, shape: Shape::new(&[rows]) }, &[], &[1.0.into()]);
    let g = r.one(CrossEntropyGrad {}, &[logits, wanted, entropy[1], seed], &ignore);
    let bias_grad = r.one(rows_of(ReduceKind::Sum), &[g], &[]);
    // The product is only read with its axes swapped, so it is stored that way round.
    let turned = r.one(Matmul { turn_a: true, turn_b: false }, &[x, g], &[]);
    let weight_grad = r.one(Permute { perm: Steps::new(&[1, 0]) }, &[turned], &[]);
    let op = Update { kind: UpdateKind::Nesterov, states: 1, centered: false, maximize: false };
    let scalars = [0.1, 0.01, 0.9, 1.0].map(Scalar::F64);
    let written =
        optimizer_step(&mut r, &op, &scalars, &[weight, bias], &[weight_grad, bias_grad], &[state, bias_state]);
    // Something that the failure is no part of.
    let other = r.one(rows_of(ReduceKind::Max), &[x], &[]);
    r.keep(&[&written[..], &[loss, other]].concat());
    Training { r, inputs, written, loss, other }
}

#[test]
fn a_failed_gradient_leaves_parameters_as_they_were() {
    let good = training(false);
    let want = good.r.plan(SEPARATE).run_on(&mut engine(1), &good.inputs);
    for threads in [1, 2] {
        let ran = good.r.plan(FUSED).run_on(&mut engine(threads), &good.inputs);
        assert!(ran.skipped.is_empty());
        for id in good.written.iter().chain([&good.loss, &good.other]) {
            assert_eq!(difference(&ran.read(*id), &want.read(*id)), None);
        }
        let bad = training(true);
        let ran = bad.r.plan(FUSED).run_on(&mut engine(threads), &bad.inputs);
        let failure = ran.values[&bad.loss].as_ref().err().expect("a class that does not exist");
        assert_eq!((failure.kind, failure.op.as_str()), (FailureKind::Index, "cross_entropy"));
        assert_eq!(ran.skipped.len(), 1);
        assert!(Arc::ptr_eq(&ran.skipped[0], failure));
        for (id, old) in bad.written.iter().zip(&bad.inputs[2..]) {
            assert_eq!(ran.read(*id), *old, "it keeps its value");
        }
        assert_eq!(difference(&ran.read(bad.other), &want.read(good.other)), None);
    }
}

/// The memory of a step does not grow from one to the next, whether or not somebody holds the last values meanwhile.
#[test]
fn training_settles_in_memory() {
    let t = training(false);
    let planned = t.r.plan(FUSED);
    let mut left: Vec<Vec<HostTensor>> = Vec::new();
    for held in [false, true] {
        let mut engine = engine(2);
        let mut buffers = upload(&mut engine, &t.inputs);
        let live = engine.memory().live_bytes;
        let mut totals = Vec::new();
        for _ in 0..5 {
            let kept = if held { buffers.clone() } else { buffers[..2].to_vec() };
            let ran = planned.run(&mut engine, buffers.into_iter().map(Ok).collect());
            let written = t.written.iter().map(|id| ran.values[id].clone().expect("a value"));
            buffers = kept[..2].iter().cloned().chain(written).collect();
            drop((ran, kept));
            let memory = engine.memory();
            assert_eq!(memory.live_bytes, live);
            totals.push(memory.live_bytes + memory.cached_bytes);
        }
        assert!(totals[1..].iter().all(|t| *t == totals[1]), "{totals:?}");
        left.push(buffers.iter().map(|b| b.read().unwrap()).collect());
    }
    assert!(left[0] == left[1], "what is held does not change what is computed");
}
