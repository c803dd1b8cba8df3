//! Composites through the engine: kernels against expansions in odd layouts, what they overwrite and what they must not, and
//! what is left when they fail.

mod recorded;

use std::sync::Arc;

use gt_engine::{Buffer, Engine, Value};
use gt_engine_check::conformance::compare::{Allowance, difference as differs};
use gt_engine_check::conformance::{SplitMix, make_values, upload};
use gt_engine_check::numbers;
use gt_engine_cpu::{Config, CpuBuffer, CpuEngine};
use gt_ir::ops::*;
use gt_ir::{DType, Domain, Failure, FailureKind, HostTensor, Op, Scalar, Steps, TensorId, TensorType};
use recorded::{FUSED, Placed, Recorded, SEPARATE, difference, engine, optimizer_step, place};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// A composite as one instruction, all of whose inputs die.
fn whole(op: &Op, ins: &[TensorType], scalars: &[Scalar]) -> (Recorded, Vec<TensorId>) {
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = ins.iter().map(|&ty| r.input(ty)).collect();
    let outs = r.op(op.clone(), &ids, scalars);
    r.keep(&outs);
    (r, outs)
}

/// What its expansion gives, one primitive at a time.
fn expanded(op: &Op, ins: &[HostTensor], scalars: &[Scalar]) -> Vec<HostTensor> {
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let expansion = gt_plan::expand(op, &types, scalars).expect("a composite").expect("an expansion");
    assert!(expansion.window.instrs.iter().all(|i| i.op.composite().is_none()));
    let mut r = Recorded::default();
    let mut ids: Vec<(TensorId, TensorId)> =
        expansion.inputs.iter().zip(&types).map(|(&id, &ty)| (id, r.input(ty))).collect();
    let find = |ids: &[(TensorId, TensorId)], id: TensorId| ids.iter().find(|i| i.0 == id).expect("defined before").1;
    for instr in &expansion.window.instrs {
        let ins: Vec<TensorId> = instr.ins.iter().map(|&id| find(&ids, id)).collect();
        let outs = r.op(instr.op.clone(), &ins, &instr.scalars);
        ids.extend(instr.outs.iter().copied().zip(outs));
    }
    let outs: Vec<TensorId> = expansion.outs.iter().map(|&id| find(&ids, id)).collect();
    r.keep(&outs);
    let ran = r.plan(SEPARATE).run_on(&mut engine(1), ins);
    outs.iter().map(|&id| ran.read(id)).collect()
}

/// Runs a composite with its inputs lying anyhow, on one thread and on two, and expects what its expansion gives.
fn agrees(op: &Op, ins: &[HostTensor], scalars: &[Scalar], places: &[Placed], allowed: &Allowance) {
    let want = expanded(op, ins, scalars);
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let (r, outs) = whole(op, &types, scalars);
    let planned = r.plan(FUSED);
    let mut first: Option<Vec<HostTensor>> = None;
    for shift in 0..places.len() {
        for threads in [1, 2] {
            let mut engine = engine(threads);
            let place_of = |i: usize| places[(i * 2 + shift) % places.len()];
            let buffers: Vec<CpuBuffer> =
                ins.iter().enumerate().map(|(i, t)| place(&mut engine, t, place_of(i))).collect();
            // Somebody looks, or nobody does and they may be written over.
            let held = if threads == 1 { buffers.clone() } else { Vec::new() };
            let ran = planned.run(&mut engine, buffers.into_iter().map(Ok).collect());
            let have: Vec<HostTensor> = outs.iter().map(|&id| ran.read(id)).collect();
            let title = || format!("{op:?} on {types:?}, {:?}, {threads} threads", place_of(0));
            for (i, (have, want)) in have.iter().zip(&want).enumerate() {
                assert_eq!(differs(have, want, allowed), None, "result {i} of {}", title());
            }
            // Whatever lies where, the bits are the same; and held inputs are as they were.
            let first = first.get_or_insert_with(|| have.clone());
            assert!(have.iter().zip(&*first).all(|(a, b)| difference(a, b).is_none()), "{}", title());
            assert!(held.iter().zip(ins).all(|(b, t)| b.read().unwrap() == *t), "{}", title());
        }
    }
}

fn near() -> Allowance {
    Allowance::Near { ulps: 64.0, absolute: 64.0, slack: Vec::new() }
}

fn floats(dtype: DType, shape: &[usize], random: &mut SplitMix) -> HostTensor {
    make_values(TensorType::new(dtype, shape), Domain::Any, random)
}

fn classes(rows: usize, n: usize, random: &mut SplitMix) -> HostTensor {
    make_values(TensorType::new(DType::I64, &[rows]), Domain::Index(n), random)
}

#[test]
fn cross_entropy_is_its_expansion() {
    let mut random = SplitMix::new(11);
    for dtype in FLOATS {
        for (rows, n) in [(1, 1), (3, 2), (17, 1000), (5, 15), (40, 3001), (300, 129), (0, 4)] {
            let logits = floats(dtype, &[rows, n], &mut random);
            let classes = classes(rows, n, &mut random);
            // A class of the row's own, one that no row has, and one beyond the last.
            for ignore in [0, -100, n as i64 + 3] {
                let ignore = [Scalar::I64(ignore)];
                let op: Op = CrossEntropy {}.into();
                agrees(&op, &[logits.clone(), classes.clone()], &ignore, &Placed::ALL, &near());
                let log = expanded(&op, &[logits.clone(), classes.clone()], &ignore)[1].clone();
                let g = floats(dtype, &[rows], &mut random);
                let op: Op = CrossEntropyGrad {}.into();
                agrees(&op, &[logits.clone(), classes.clone(), log, g], &ignore, &Placed::ALL, &near());
            }
        }
    }
}

/// Rows with infinities and NaN: the same rows have no finite loss.
#[test]
fn cross_entropy_of_special_logits() {
    let n = 35;
    let rows: Vec<Vec<f64>> = vec![
        vec![f64::NEG_INFINITY; n],
        (0..n).map(|i| if i == 3 { f64::INFINITY } else { 0.0 }).collect(),
        (0..n).map(|i| if i == 33 { f64::NAN } else { 1.0 }).collect(),
        (0..n).map(|i| if i == 2 { f64::NAN } else { -1.0 }).collect(),
        (0..n).map(|i| if i % 2 == 0 { f64::NEG_INFINITY } else { i as f64 }).collect(),
        vec![3e38; n],
        vec![-3e38; n],
        (0..n).map(|i| i as f64 * 1e30).collect(),
    ];
    let ty = TensorType::new(DType::F32, &[rows.len(), n]);
    let logits = numbers::from_floats(ty, &rows.concat());
    let own = numbers::from_ints(TensorType::new(DType::I64, &[rows.len()]), &[0, 3, 33, 1, 1, 5, 6, 34]);
    let ignore = [Scalar::I64(-100)];
    agrees(&CrossEntropy {}.into(), &[logits, own], &ignore, &Placed::ALL, &near());
}

#[test]
fn attention_is_its_expansion() {
    let mut random = SplitMix::new(12);
    let places = [Placed::Packed, Placed::Reversed, Placed::Spaced];
    for dtype in FLOATS {
        for (heads, key_heads, queries, keys, causal) in
            [(2, 2, 5, 5, false), (4, 2, 33, 33, true), (3, 1, 7, 40, false), (2, 1, 1, 70, false)]
        {
            let (batch, d, e) = (2, 20, 12);
            let [q, k, v] = [[heads, queries, d], [key_heads, keys, d], [key_heads, keys, e]]
                .map(|[h, t, d]| floats(dtype, &[batch, h, t, d], &mut random));
            let mask = floats(dtype, &[batch, 1, queries, keys], &mut random);
            let scale = [Scalar::F64(0.25)];
            for masked in [false, true] {
                let mut ins = vec![q.clone(), k.clone(), v.clone()];
                if masked {
                    ins.push(mask.clone());
                }
                let op: Op = Attention { causal, masked }.into();
                let allowed = if dtype == DType::F64 { Allowance::Exact } else { near() };
                agrees(&op, &ins, &scale, &places, &allowed);
                let outs = expanded(&op, &ins, &scale);
                let grad = floats(dtype, &outs[0].ty.shape, &mut random);
                ins.extend(outs.into_iter().chain([grad]));
                agrees(&AttentionGrad { causal, masked }.into(), &ins, &scale, &places, &allowed);
            }
        }
    }
}

/// Every kind with the numbers of a step, and how many states it may have.
fn updates() -> Vec<(Update, Vec<Scalar>)> {
    let plain = |kind, states| Update { kind, states, centered: false, maximize: false };
    let adam = [0.01, 0.1, 0.9, 0.99, 1e-3, 3.0];
    let cases: Vec<(Update, Vec<f64>)> = vec![
        (plain(UpdateKind::Sgd, 0), vec![0.1, 0.0, 0.0, 1.0]),
        (plain(UpdateKind::Sgd, 0), vec![0.1, 0.01, 0.0, 1.0]),
        (Update { maximize: true, ..plain(UpdateKind::Sgd, 1) }, vec![0.1, 0.01, 0.9, 0.5]),
        (plain(UpdateKind::Nesterov, 1), vec![0.1, 0.0, 0.9, 1.0]),
        (plain(UpdateKind::Adam, 2), adam.to_vec()),
        (plain(UpdateKind::AdamW, 2), adam.to_vec()),
        (Update { maximize: true, ..plain(UpdateKind::Adam, 3) }, adam.to_vec()),
        (plain(UpdateKind::AdamW, 3), vec![0.01, 0.0, 0.9, 0.99, 1e-8, 1.0]),
        (plain(UpdateKind::Adagrad, 1), vec![0.1, 0.2, 0.01, 1e-3, 2.0]),
        (plain(UpdateKind::RmsProp, 1), vec![0.1, 0.1, 0.9, 0.0, 1e-3]),
        (plain(UpdateKind::RmsProp, 2), vec![0.1, 0.0, 0.9, 0.5, 1e-3]),
        (Update { centered: true, ..plain(UpdateKind::RmsProp, 2) }, vec![0.1, 0.0, 0.9, 0.5, 1.0]),
        (Update { centered: true, ..plain(UpdateKind::RmsProp, 3) }, vec![0.1, 0.0, 0.125, 0.5, 2.0]),
    ];
    cases.into_iter().map(|(op, numbers)| (op, numbers.into_iter().map(Scalar::F64).collect())).collect()
}

/// Parameters, gradients and states of these shapes.
fn operands(op: &Update, dtype: DType, shapes: &[&[usize]], random: &mut SplitMix) -> Vec<HostTensor> {
    let domain = |part: usize| if part < 2 { Domain::Any } else { Domain::Positive };
    let part = |part: usize| shapes.iter().map(move |s| (TensorType::new(dtype, s), domain(part)));
    (0..2 + op.states as usize).flat_map(part).map(|(ty, domain)| make_values(ty, domain, random)).collect()
}

/// Many tensors at once, also empty ones and numbers; more elements than one unit of work, and a rest.
#[test]
fn updates_are_their_expansion_bit_for_bit() {
    let mut random = SplitMix::new(13);
    let shapes: [&[usize]; 6] = [&[130, 131], &[], &[0, 3], &[17], &[5, 3, 7], &[33_001]];
    for dtype in FLOATS {
        for (op, scalars) in updates() {
            let mut ins = operands(&op, dtype, &shapes, &mut random);
            if dtype == DType::F32 {
                // What training gone wrong has: infinities and NaN in gradients and states.
                for tensor in ins.iter_mut().filter(|t| t.ty.numel() == 17) {
                    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e38, 1e-40];
                    for _ in 0..3 {
                        let value = random.pick(&special).to_le_bytes();
                        let at = random.below(17) as usize * 4;
                        tensor.bytes[at..at + 4].copy_from_slice(&value);
                    }
                }
            }
            let places = [Placed::Packed, Placed::Reversed, Placed::Cut, Placed::Spaced];
            agrees(&op.into(), &ins, &scalars, &places, &Allowance::Exact);
        }
    }
}

/// How many bytes a run held at most beyond its inputs, and what it left.
fn run_counting(engine: &mut CpuEngine, r: &Recorded, inputs: Vec<Value<CpuBuffer>>) -> (u64, recorded::Ran) {
    let before = engine.memory();
    assert_eq!(before.live_bytes, before.peak_bytes, "the inputs are all there ever was");
    let ran = r.plan(FUSED).run(engine, inputs);
    (engine.memory().peak_bytes - before.peak_bytes, ran)
}

#[test]
fn an_update_of_what_dies_allocates_nothing() {
    let mut random = SplitMix::new(14);
    let shapes: [&[usize]; 3] = [&[256, 300], &[300], &[100, 1000]];
    for dtype in [DType::F32, DType::F64] {
        for (op, scalars) in updates() {
            let ins = operands(&op, dtype, &shapes, &mut random);
            let mut r = Recorded::default();
            let ids: Vec<TensorId> = ins.iter().map(|t| r.input(t.ty)).collect();
            let (params, rest) = ids.split_at(3);
            let (grads, states) = rest.split_at(3);
            let written = optimizer_step(&mut r, &op, &scalars, params, grads, states);
            r.keep(&written);
            let want = expanded(&op.clone().into(), &ins, &scalars);
            let mut engine = engine(2);
            let buffers: Vec<CpuBuffer> = upload(&mut engine, &ins);
            let (extra, ran) = run_counting(&mut engine, &r, buffers.into_iter().map(Ok).collect());
            assert_eq!(extra, 0, "{op:?} in {dtype}");
            for (id, want) in written.iter().zip(&want) {
                assert_eq!(difference(&ran.read(*id), want), None, "{op:?} in {dtype}");
            }
        }
    }
}

/// Nothing that somebody else holds, that comes twice, or that others look at by a view is written.
#[test]
fn an_update_leaves_alone_what_others_hold() {
    let (op, scalars) = updates().swap_remove(5);
    let mut random = SplitMix::new(15);
    // Whole blocks of the allocator.
    let shapes: [&[usize]; 2] = [&[64, 32], &[2048]];
    let ins = operands(&op, DType::F32, &shapes, &mut random);
    let want = expanded(&op.clone().into(), &ins, &scalars);
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = ins.iter().map(|t| r.input(t.ty)).collect();
    let written = optimizer_step(&mut r, &op, &scalars, &ids[..2], &ids[2..4], &ids[4..]);
    r.keep(&written);
    for held in 0..ins.len() {
        let mut engine = engine(2);
        let buffers = upload(&mut engine, &ins);
        let outside = buffers[held].clone();
        let (extra, ran) = run_counting(&mut engine, &r, buffers.into_iter().map(Ok).collect());
        assert_eq!(outside.read().unwrap(), ins[held], "input {held} is someone's");
        // Room for the one that could not be written in place; gradients never are.
        assert_eq!(extra, if (2..4).contains(&held) { 0 } else { ins[held].ty.bytes() as u64 }, "input {held}");
        for (id, want) in written.iter().zip(&want) {
            assert_eq!(difference(&ran.read(*id), want), None, "with input {held} held");
        }
    }
    // Kept by name instead: the same, and they live on.
    r.keep(&[&written[..], &ids[..2]].concat());
    let mut engine = engine(1);
    let buffers = upload(&mut engine, &ins);
    let outside: Vec<CpuBuffer> = buffers[..2].to_vec();
    let ran = r.plan(FUSED).run(&mut engine, buffers.into_iter().map(Ok).collect());
    assert!(outside.iter().zip(&ins).all(|(b, t)| b.read().unwrap() == *t));
    assert_eq!(difference(&ran.read(written[0]), &want[0]), None);
}

#[test]
fn one_tensor_in_several_parts_of_an_update() {
    let mut random = SplitMix::new(16);
    let x = make_values(TensorType::new(DType::F32, &[64, 64]), Domain::Positive, &mut random);
    let y = make_values(x.ty, Domain::Positive, &mut random);
    let (op, scalars) = updates().swap_remove(2);
    let turned = |r: &mut Recorded, id| r.one(Permute { perm: Steps::new(&[1, 0]) }, &[id], &[]);
    // Which values are parameters (two), gradients and states; 2 and 3 are x and y with their axes swapped.
    for parts in [
        [0, 1, 0, 1, 0, 1],
        [0, 0, 1, 1, 0, 1],
        [0, 1, 1, 0, 1, 0],
        [0, 1, 2, 3, 0, 1],
        [2, 0, 0, 2, 1, 1],
        [2, 3, 2, 3, 2, 3],
    ] {
        let mut r = Recorded::default();
        let (a, b) = (r.input(x.ty), r.input(y.ty));
        let (at, bt) = (turned(&mut r, a), turned(&mut r, b));
        let ids = parts.map(|part| [a, b, at, bt][part]);
        let news = r.op(op.clone(), &ids, &scalars);
        r.keep(&news);
        let values = {
            let mut all = r.clone();
            all.keep(&[a, b, at, bt]);
            let ran = all.plan(SEPARATE).run_on(&mut engine(1), &[x.clone(), y.clone()]);
            [x.clone(), y.clone(), ran.read(at), ran.read(bt)]
        };
        let want = expanded(&op.clone().into(), &parts.map(|part| values[part].clone()), &scalars);
        for threads in [1, 2] {
            let ran = r.plan(FUSED).run_on(&mut engine(threads), &[x.clone(), y.clone()]);
            for (id, want) in news.iter().zip(&want) {
                assert_eq!(difference(&ran.read(*id), want), None, "{parts:?}");
            }
        }
    }
}

#[test]
fn the_gradient_of_logits_is_written_over_them() {
    let mut random = SplitMix::new(17);
    let (rows, n) = (256, 1024);
    let logits = floats(DType::F32, &[rows, n], &mut random);
    let classes = classes(rows, n, &mut random);
    let g = floats(DType::F32, &[rows], &mut random);
    let ignore = [Scalar::I64(5)];
    let log = expanded(&CrossEntropy {}.into(), &[logits.clone(), classes.clone()], &ignore)[1].clone();
    let ins = [logits, classes, log, g];
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let (r, outs) = whole(&CrossEntropyGrad {}.into(), &types, &ignore);
    let want = expanded(&CrossEntropyGrad {}.into(), &ins, &ignore);
    for held in [false, true] {
        let mut engine = engine(2);
        let buffers = upload(&mut engine, &ins);
        let outside = held.then(|| buffers[0].clone());
        let (extra, ran) = run_counting(&mut engine, &r, buffers.into_iter().map(Ok).collect());
        assert_eq!(extra, if held { ins[0].ty.bytes() as u64 } else { 0 });
        assert_eq!(differs(&ran.read(outs[0]), &want[0], &near()), None);
        assert!(outside.is_none_or(|b| b.read().unwrap() == ins[0]));
    }
}

/// The old value of a write is there when the step that was to write over it fails: in its kernel, or for want of memory.
#[test]
fn what_could_be_overwritten_survives_a_failure() {
    let mut random = SplitMix::new(19);
    let (rows, n) = (50, 40);
    let logits = floats(DType::F32, &[rows, n], &mut random);
    let log = floats(DType::F32, &[rows], &mut random);
    let g = floats(DType::F32, &[rows], &mut random);
    let mut wanted = classes(rows, n, &mut random);
    wanted.bytes[8 * 49..8 * 50].copy_from_slice(&(-7i64).to_le_bytes());
    let ins = [logits, wanted, log, g];
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = ins.iter().map(|t| r.input(t.ty)).collect();
    let grad = r.one(CrossEntropyGrad {}, &ids, &[Scalar::I64(-100)]);
    let written = r.one(Write {}, &[ids[0], grad], &[]);
    r.keep(&[written]);
    let planned = r.plan(FUSED);
    assert!(planned.plan().steps[0].takes.contains(&0), "the write needs the logits only if this fails");
    let ran = planned.run_on(&mut engine(2), &ins);
    assert_eq!((ran.read(written), ran.skipped.len()), (ins[0].clone(), 1));
    assert_eq!(ran.skipped[0].kind, FailureKind::Index);

    // The second parameter lies anyhow and there is no room for a packed copy of it.
    let (op, scalars) = updates().swap_remove(2);
    let shapes: [&[usize]; 2] = [&[256, 256], &[512, 512]];
    let ins = operands(&op, DType::F32, &shapes, &mut random);
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = ins.iter().map(|t| r.input(t.ty)).collect();
    let written = optimizer_step(&mut r, &op, &scalars, &ids[..2], &ids[2..4], &ids[4..]);
    r.keep(&written);
    let bytes: u64 = ins.iter().map(|t| t.ty.bytes() as u64).sum();
    let mut tight = CpuEngine::new(Config { threads: 2, memory_limit_bytes: bytes + (1 << 20) - 1 });
    // Placed first, while there is room for what placing takes.
    let turned = place(&mut tight, &ins[1], Placed::Reversed);
    tight.trim();
    let mut buffers = Vec::new();
    for (i, tensor) in ins.iter().enumerate() {
        buffers.push(Ok(if i == 1 {
            turned.clone()
        } else {
            upload(&mut tight, std::slice::from_ref(tensor)).remove(0)
        }));
    }
    tight.trim();
    let ran = r.plan(FUSED).run(&mut tight, buffers);
    assert_eq!(ran.skipped.iter().map(|f| f.kind).collect::<Vec<_>>(), [FailureKind::Memory]);
    for (id, old) in written.iter().zip([0, 1, 4, 5]) {
        assert_eq!(ran.read(*id), ins[old], "value {old}");
    }
}

/// All or nothing: one poisoned gradient among many, or one poisoned state, and every value stays.
#[test]
fn one_poisoned_operand_keeps_every_value() {
    let (op, scalars) = updates().swap_remove(4);
    let mut random = SplitMix::new(20);
    let shapes: [&[usize]; 3] = [&[30, 40], &[7], &[]];
    let ins = operands(&op, DType::F32, &shapes, &mut random);
    let mut r = Recorded::default();
    let ids: Vec<TensorId> = ins.iter().map(|t| r.input(t.ty)).collect();
    let written = optimizer_step(&mut r, &op, &scalars, &ids[..3], &ids[3..6], &ids[6..]);
    r.keep(&written);
    let olds: Vec<usize> = (0..ins.len()).filter(|i| !(3..6).contains(i)).collect();
    for ill in 0..ins.len() {
        let failure = Arc::new(Failure::new(FailureKind::Value, "poison"));
        let mut engine = engine(2);
        let mut buffers: Vec<Value<CpuBuffer>> = upload(&mut engine, &ins).into_iter().map(Ok).collect();
        buffers[ill] = Err(failure.clone());
        let ran = r.plan(FUSED).run(&mut engine, buffers);
        assert!(ran.skipped.len() == 1 && Arc::ptr_eq(&ran.skipped[0], &failure));
        for (id, &old) in written.iter().zip(&olds) {
            match &ran.values[id] {
                Ok(buffer) => assert_eq!(buffer.read().unwrap(), ins[old]),
                Err(have) => assert!(old == ill && Arc::ptr_eq(have, &failure)),
            }
        }
    }
}
