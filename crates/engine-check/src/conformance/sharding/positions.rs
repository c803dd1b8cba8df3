//! A position that the whole axis does not have fails, also where each worker looks into its part of the axis only.

use gt_ir::ops::{Gather, Put, PutMode, Scatter, Take};
use gt_ir::shard::{Part, Region, Split};
use gt_ir::{DType, HostTensor, Op, Sample, TensorType};

use super::run_local;
use crate::conformance::plans::{run_plan, single_plan, upload};
use crate::numbers;
use gt_engine::Engine;

const EXTENT: usize = 5;
const WORKERS: usize = 3;

/// Positions out of range fail with the kind of failure they have on one worker.
///
/// # Panics
/// Where they do not, naming op and position.
pub fn sharded_positions<E: Engine>(engine: &mut E) {
    let number =
        |shape: &[usize]| numbers::from_floats(TensorType::new(DType::F32, shape), &vec![1.5; shape.iter().product()]);
    let positions = |shape: &[usize], values: &[i64]| numbers::from_ints(TensorType::new(DType::I64, shape), values);
    for bad in [EXTENT as i64, -1, -(EXTENT as i64) - 1, i64::MAX, i64::MIN] {
        for wrap in [false, true] {
            if wrap && bad == -1 {
                continue;
            }
            let index = positions(&[2], &[1, bad]);
            let data = number(&[EXTENT, 2]);
            fails(engine, Take { axis: 0, wrap }.into(), &[data.clone(), index.clone()]);
            for mode in [PutMode::Set, PutMode::Add] {
                fails(engine, Put { axis: 0, mode, wrap }.into(), &[data.clone(), index.clone(), number(&[2, 2])]);
            }
        }
        let (data, index) = (number(&[2, EXTENT]), positions(&[2, 1], &[1, bad]));
        fails(engine, Gather { axis: 1 }.into(), &[data.clone(), index.clone()]);
        for mode in [PutMode::Set, PutMode::Add] {
            fails(engine, Scatter { axis: 1, mode }.into(), &[data.clone(), index.clone(), number(&[2, 1])]);
        }
    }
}

/// Runs the strategy in which the data is cut along the axis that the positions speak of and everything else is whole.
fn fails<E: Engine>(engine: &mut E, op: Op, ins: &[HostTensor]) {
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let title = format!("{op:?} at {:?} on {}", numbers::ints(&ins[1]), engine.name());
    let built = single_plan(&op, &types, &[]);
    let inputs = upload(engine, ins).into_iter().map(Ok).collect();
    let alone = run_plan(engine, &built, inputs).failure(built.plan.live_outs[0]);

    let out = built.plan.types[built.plan.live_outs[0] as usize];
    let axis = types[0].shape.iter().position(|&d| d == EXTENT).expect("the data has the axis");
    let strategies = op.primitive().shard(&types, &[out]);
    let strategy = strategies
        .iter()
        .find(|s| s.ins[0] == Split::shard(axis) && s.ins[1..].iter().all(|&s| s == Split::Replicate))
        .unwrap_or_else(|| panic!("{title}: the data cannot be cut along its axis"));
    let sample = Sample::new(op, &[]);
    for rank in 0..WORKERS {
        let part = |ty: &TensorType, split: Split| Part {
            ty: *ty,
            region: Region::whole(&ty.shape).part(split, WORKERS, rank),
        };
        let in_parts: Vec<Part> = types.iter().zip(&strategy.ins).map(|(ty, &s)| part(ty, s)).collect();
        let own: Vec<HostTensor> = in_parts
            .iter()
            .zip(ins)
            .map(|(part, x)| match part.local() == x.ty {
                true => x.clone(),
                false => numbers::from_floats(part.local(), &vec![1.5; part.local().numel()]),
            })
            .collect();
        let (outcome, slots) = run_local(engine, &sample, &in_parts, &[part(&out, strategy.outs[0])], &own, &title);
        let failure = outcome.failure(slots[0]);
        assert_eq!(failure.kind, alone.kind, "{title}: {failure} on worker {rank}, {alone} on one");
    }
}
