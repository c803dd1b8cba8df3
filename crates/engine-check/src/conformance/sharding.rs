//! Every op × sample × strategy: what several workers make of their parts, put together, is what one makes of the whole.
//!
//! Workers are tried one after the other. Inputs that a strategy wants as parts of a reduction are taken apart at random.

mod apart;
mod positions;

use gt_ir::ops::ReduceKind;
use gt_ir::shard::{LocalCx, Part, Region, Split, Strategy};
use gt_ir::{DType, Emit, HostTensor, Op, OpError, OpKind, Sample, Scalar, TensorType, Val};
use gt_plan::Slot;
use smallvec::SmallVec;

use apart::{put_together, taken_apart};

use super::compare::{Allowance, difference, epsilon};
use super::plans::{Grouping, Outcome, PlanBuilder, run_plan, single_plan, upload};
use super::values::{SplitMix, make_input};
use crate::numbers::Numbers;
use gt_engine::Engine;

pub use positions::sharded_positions;

/// Records what a worker does of an instruction.
struct Recorder(PlanBuilder);

impl Emit for Recorder {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: Vec<TensorType> = ins.iter().map(|&v| self.ty(v)).collect();
        op.primitive().infer(&types)?;
        let slots: Vec<Slot> = ins.iter().map(|v| v.0).collect();
        Ok(self.0.op(op, &slots, scalars).into_iter().map(Val).collect())
    }
    fn ty(&self, v: Val) -> TensorType {
        self.0.ty(v.0)
    }
}

/// Tries every strategy of every op: on 2, 3 and 4 workers, with other units, and every pair of them on 2 × 2 workers.
///
/// # Panics
/// On the first disagreement, naming op, dtype, sample and strategy; and when an op offers nothing.
pub fn sharding<E: Engine>(engine: &mut E) {
    for &kind in OpKind::ALL {
        let mut tried = 0;
        for dtype in DType::ALL {
            for (number, sample) in kind.samples(dtype).iter().enumerate() {
                let title =
                    format!("{} sample {number} in {dtype} on {}: {sample:?}", sample.op.display_name(), engine.name());
                tried += Trial::new(engine, sample, number as u64, title).run(matches!(dtype, DType::F32 | DType::I64));
            }
        }
        assert_eq!(tried == 0, kind == OpKind::Upload, "{} strategies of {} were tried", tried, kind.name());
    }
}

/// An instruction with its inputs and what one worker makes of them.
struct Trial<'a, E: Engine> {
    engine: &'a mut E,
    sample: &'a Sample,
    title: String,
    random: SplitMix,
    ins: Vec<HostTensor>,
    outs: Vec<HostTensor>,
    strategies: Vec<Strategy>,
}

impl<'a, E: Engine> Trial<'a, E> {
    fn new(engine: &'a mut E, sample: &'a Sample, seed: u64, title: String) -> Self {
        let mut random = SplitMix::new(seed * 6151 + 5);
        let ins: Vec<HostTensor> = sample.ins.iter().map(|i| make_input(i, &mut random)).collect();
        let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
        let built = single_plan(&sample.op, &types, &sample.scalars);
        let inputs = upload(engine, &ins).into_iter().map(Ok).collect();
        let outcome = run_plan(engine, &built, inputs);
        let outs: Vec<HostTensor> = built.plan.live_outs.iter().map(|&s| outcome.read(s)).collect();
        let strategies = strategies(&sample.op, &types, &outs.iter().map(|t| t.ty).collect::<Vec<_>>());
        Trial { engine, sample, title, random, ins, outs, strategies }
    }

    /// Tries all strategies and says how many there are.
    fn run(&mut self, thorough: bool) -> usize {
        let strategies = std::mem::take(&mut self.strategies);
        for first in &strategies {
            self.check(&[2], &[(first, 1)]);
            if !thorough {
                continue;
            }
            self.check(&[2], &[(first, 2)]);
            self.check(&[3], &[(first, 1)]);
            self.check(&[4], &[(first, 1)]);
            for second in &strategies {
                self.check(&[2, 2], &[(first, 1), (second, 1)]);
            }
            self.check(&[2, 2], &[(first, 2), (first, 1)]);
        }
        strategies.len()
    }

    /// One strategy for each axis of a mesh, with what its units are multiplied by.
    fn check(&mut self, extents: &[usize], chosen: &[(&Strategy, u32)]) {
        let count: usize = extents.iter().product();
        let splits = |of: &dyn Fn(&Strategy) -> Split| -> Vec<Split> {
            chosen.iter().map(|(strategy, by)| scaled(of(strategy), *by)).collect()
        };
        let in_splits: Vec<Vec<Split>> = (0..self.ins.len()).map(|i| splits(&|s| s.ins[i])).collect();
        let out_splits: Vec<Vec<Split>> = (0..self.outs.len()).map(|i| splits(&|s| s.outs[i])).collect();
        let parts: Vec<Vec<HostTensor>> = self
            .ins
            .iter()
            .zip(&in_splits)
            .map(|(x, splits)| taken_apart(x, extents, splits, &mut self.random))
            .collect();
        let mut made: Vec<Vec<HostTensor>> = vec![Vec::new(); self.outs.len()];
        for rank in 0..count {
            let region = |ty: &TensorType, splits: &[Split]| region(ty, extents, splits, rank);
            let in_parts: Vec<Part> =
                self.ins.iter().zip(&in_splits).map(|(x, s)| Part { ty: x.ty, region: region(&x.ty, s) }).collect();
            let out_parts: Vec<Part> =
                self.outs.iter().zip(&out_splits).map(|(x, s)| Part { ty: x.ty, region: region(&x.ty, s) }).collect();
            let own: Vec<HostTensor> = parts.iter().map(|p| p[rank].clone()).collect();
            let title = || format!("{}\n{chosen:?} on {extents:?} workers, worker {rank}", self.title);
            let (outcome, slots) = run_local(self.engine, self.sample, &in_parts, &out_parts, &own, &title());
            for (i, slot) in slots.into_iter().enumerate() {
                let have = outcome.read(slot);
                assert_eq!(have.ty, out_parts[i].local(), "{}: output {i}", title());
                made[i].push(have);
            }
        }
        for (i, (made, want)) in made.iter().zip(&self.outs).enumerate() {
            let have = put_together(made, extents, &out_splits[i]);
            let allowed = self.allowed(chosen, i);
            if let Some(what) = difference(&have, want, &allowed) {
                panic!("{}\n{chosen:?} on {extents:?} workers: output {i}: {what}", self.title);
            }
        }
    }

    /// Sums that are added up in another order differ by rounding; all else is equal.
    fn allowed(&self, chosen: &[(&Strategy, u32)], out: usize) -> Allowance {
        let want = &self.outs[out];
        if !want.ty.dtype.is_float() {
            return Allowance::Numbers;
        }
        let rounds = |s: &Split| matches!(s, Split::Partial(ReduceKind::Sum | ReduceKind::Prod));
        let rounded_ins = chosen.iter().any(|(s, _)| s.ins.iter().any(rounds));
        let rounded_outs = chosen.iter().any(|(s, _)| s.outs.iter().any(rounds));
        let exact = match &self.sample.op {
            // The kernel may depend on the shape.
            Op::Matmul(_) | Op::Attention(_) | Op::AttentionGrad(_) => self.engine.name() == "reference",
            _ => true,
        };
        // One worker has the element, the others have zero.
        let picked = matches!(&self.sample.op, Op::Take(_) | Op::Gather(_));
        if exact && !rounded_ins && (picked || !rounded_outs) {
            return Allowance::Numbers;
        }
        let largest = |t: &HostTensor| match Numbers::of(t) {
            Numbers::Floats(v) => v.iter().copied().filter(|x| x.is_finite()).fold(0.0, |a: f64, x| a.max(x.abs())),
            Numbers::Ints(_) => 0.0,
        };
        // A value that is taken apart has parts larger than itself, in the dtype of the input.
        let (mut unit, mut size) = (epsilon(want.ty.dtype), 4.0 + largest(want));
        for x in &self.ins {
            unit = unit.max(epsilon(x.ty.dtype));
            size += largest(x);
        }
        let terms = match &self.sample.op {
            Op::Matmul(_) | Op::Scan(_) | Op::Reduce(_) => {
                self.ins[0].ty.numel() as f64 / want.ty.numel().max(1) as f64
            }
            _ => 1.0,
        };
        let slack = 16.0 * unit * size * terms.sqrt().max(1.0);
        Allowance::Near { ulps: 84.0, absolute: 0.0, slack: vec![slack; want.ty.numel()] }
    }
}

/// The strategies of an instruction; tensors that it handles side by side are each asked and combined in turn.
fn strategies(op: &Op, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
    let n = op.primitive().packed_tensors(ins.len());
    if n == 1 {
        return op.primitive().shard(ins, outs);
    }
    let own = |types: &[TensorType], tensor: usize| -> Vec<TensorType> {
        types.iter().skip(tensor).step_by(n).copied().collect()
    };
    let each: Vec<Vec<Strategy>> = (0..n)
        .map(|tensor| {
            let (ins, outs) = (own(ins, tensor), own(outs, tensor));
            let mut found = op.primitive().shard(&ins, &outs);
            if found.is_empty() {
                found.push(Strategy::new(&vec![Split::Replicate; ins.len()], &vec![Split::Replicate; outs.len()]));
            }
            found
        })
        .collect();
    let most = each.iter().map(Vec::len).max().unwrap_or(0);
    (0..most)
        .map(|i| {
            let of = |tensor: usize| &each[tensor][(i + tensor) % each[tensor].len()];
            Strategy {
                ins: (0..ins.len()).map(|at| of(at % n).ins[at / n]).collect(),
                outs: (0..outs.len()).map(|at| of(at % n).outs[at / n]).collect(),
            }
        })
        .collect()
}

fn scaled(split: Split, by: u32) -> Split {
    match split {
        Split::Shard { axis, unit } => Split::Shard { axis, unit: unit * by },
        other => other,
    }
}

fn region(ty: &TensorType, extents: &[usize], splits: &[Split], rank: usize) -> Region {
    let mut region = Region::whole(&ty.shape);
    for (axis, (&count, &split)) in extents.iter().zip(splits).enumerate() {
        let inner: usize = extents[axis + 1..].iter().product();
        region = region.part(split, count, rank / inner % count);
    }
    region
}

/// Runs the part of one worker.
fn run_local<E: Engine>(
    engine: &mut E,
    sample: &Sample,
    in_parts: &[Part],
    out_parts: &[Part],
    own: &[HostTensor],
    title: &str,
) -> (Outcome<E::Buffer>, Vec<Slot>) {
    let types: Vec<TensorType> = in_parts.iter().map(Part::local).collect();
    for (part, have) in types.iter().zip(own) {
        assert_eq!(*part, have.ty, "{title}: the region of an input");
    }
    let mut recorder = Recorder(PlanBuilder::new(&types));
    let vals: Vec<Val> = (0..types.len() as u32).map(Val).collect();
    let cx = LocalCx { ins: in_parts, outs: out_parts, scalars: &sample.scalars };
    let outs = sample.op.primitive().local(&cx, &vals, &mut recorder).unwrap_or_else(|e| panic!("{title}: {e}"));
    let slots: Vec<Slot> = outs.iter().map(|v| v.0).collect();
    assert!(slots.iter().all(|&s| s as usize >= types.len()), "{title}: an output is an input");
    let built = recorder.0.finish(&slots, Grouping::Fused);
    let inputs = upload(engine, own).into_iter().map(Ok).collect();
    (run_plan(engine, &built, inputs), slots)
}
