//! Every op × sample × strategy: what several workers make of their parts, put together, is what one makes of the whole.
//!
//! Workers are tried one after the other. Inputs that a strategy wants as parts of a reduction are taken apart at random.

use gt_ir::ops::{Binary, Concat, ReduceKind, Side, Slice};
use gt_ir::rows::BinaryKind;
use gt_ir::shard::{LocalCx, Part, Region, Split, Strategy, bounds};
use gt_ir::{AxisSet, DType, Emit, HostTensor, Op, OpError, OpKind, Sample, Scalar, Steps, TensorType, Val};
use gt_plan::Slot;
use smallvec::SmallVec;

use super::compare::{Allowance, difference, epsilon};
use super::plans::{Grouping, Outcome, PlanBuilder, run_plan, single_plan, upload};
use super::values::{SplitMix, make_input};
use crate::engine::Engine;
use crate::numbers::{self, Numbers};
use crate::reference::evaluate;

/// Records what a worker does of an instruction.
struct Recorder(PlanBuilder);

impl Emit for Recorder {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: Vec<TensorType> = ins.iter().map(|&v| self.ty(v)).collect();
        op.primitive().infer(&types)?;
        let slots: Vec<Slot> = ins.iter().map(|v| v.0 as Slot).collect();
        Ok(self.0.op(op, &slots, scalars).into_iter().map(|slot| Val(slot as u32)).collect())
    }
    fn ty(&self, v: Val) -> TensorType {
        self.0.ty(v.0 as Slot)
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
        let ins: Vec<HostTensor> = self.ins.clone();
        let parts: Vec<Vec<HostTensor>> =
            ins.iter().zip(&in_splits).map(|(x, splits)| self.taken_apart(x, extents, splits)).collect();
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

    /// What each worker has of `x`, last axis of the mesh fastest.
    fn taken_apart(&mut self, x: &HostTensor, extents: &[usize], splits: &[Split]) -> Vec<HostTensor> {
        let (Some((&count, inner)), Some((&split, rest))) = (extents.split_first(), splits.split_first()) else {
            return vec![x.clone()];
        };
        let parts: Vec<HostTensor> = match split {
            Split::Replicate => vec![x.clone(); count],
            Split::Shard { axis, unit } => (0..count)
                .map(|i| {
                    let axis = axis as usize;
                    let (start, size) = bounds(x.ty.shape[axis], unit as usize, count, i);
                    cut(x, axis, start, size)
                })
                .collect(),
            Split::Partial(kind) => addends(x, kind, count, &mut self.random),
        };
        parts.iter().flat_map(|part| self.taken_apart(part, inner, rest)).collect()
    }
}

/// The strategies of an instruction; tensors that it handles side by side are each asked and combined in turn.
fn strategies(op: &Op, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
    let n = op.primitive().beside(ins.len());
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
    let slots: Vec<Slot> = outs.iter().map(|v| v.0 as Slot).collect();
    assert!(slots.iter().all(|&s| s as usize >= types.len()), "{title}: an output is an input");
    let built = recorder.0.finish(&slots, Grouping::Fused);
    let inputs = upload(engine, own).into_iter().map(Ok).collect();
    (run_plan(engine, &built, inputs), slots)
}

fn cut(x: &HostTensor, axis: usize, start: usize, size: usize) -> HostTensor {
    let rank = x.ty.shape.rank();
    let mut sizes = x.ty.shape;
    sizes[axis] = size;
    let starts: Vec<Scalar> = (0..rank).map(|a| Scalar::I64(if a == axis { start as i64 } else { 0 })).collect();
    let op = Slice { sizes, steps: Steps::splat(rank, 1), drop: AxisSet::default() };
    evaluate(&op.into(), &[x], &starts, None).expect("bounds are inside").remove(0)
}

/// Tensors whose reduction is `x`.
fn addends(x: &HostTensor, kind: ReduceKind, count: usize, random: &mut SplitMix) -> Vec<HostTensor> {
    let identity = kind.identity(x.ty.dtype);
    match Numbers::of(x) {
        Numbers::Floats(values) => {
            let mut parts = vec![Vec::new(); count];
            for &value in &values {
                // Quarters, so that little is rounded.
                let shares: Vec<f64> = (0..count).map(|_| random.below(9) as f64 / 4.0 - 1.0).collect();
                let holder = random.below(count as u64) as usize;
                let others: f64 = shares.iter().enumerate().filter(|(i, _)| *i != holder).map(|(_, s)| s).sum();
                for (i, part) in parts.iter_mut().enumerate() {
                    part.push(match kind {
                        _ if i == holder && kind != ReduceKind::Sum => value,
                        ReduceKind::Sum => {
                            if i == holder {
                                value - others
                            } else {
                                shares[i]
                            }
                        }
                        ReduceKind::Prod => identity.as_f64(),
                        ReduceKind::Max => value - shares[i].abs(),
                        ReduceKind::Min => value + shares[i].abs(),
                    });
                }
            }
            parts.iter().map(|part| numbers::from_floats(x.ty, part)).collect()
        }
        Numbers::Ints(values) => {
            let mut parts = vec![Vec::new(); count];
            for &value in &values {
                let shares: Vec<i64> = (0..count).map(|_| random.below(5) as i64 - 2).collect();
                let holder = random.below(count as u64) as usize;
                let others: i64 = shares.iter().enumerate().filter(|(i, _)| *i != holder).map(|(_, s)| s).sum();
                for (i, part) in parts.iter_mut().enumerate() {
                    part.push(match kind {
                        ReduceKind::Sum => {
                            if i == holder {
                                value.wrapping_sub(others)
                            } else {
                                shares[i]
                            }
                        }
                        _ if i == holder || shares[i] == 0 && kind != ReduceKind::Prod => value,
                        _ => numbers::scalar_operand_int(identity, x.ty.dtype),
                    });
                }
            }
            parts.iter().map(|part| numbers::from_ints(x.ty, part)).collect()
        }
    }
}

/// Undoes [`Trial::taken_apart`].
fn put_together(parts: &[HostTensor], extents: &[usize], splits: &[Split]) -> HostTensor {
    let (Some((&count, inner)), Some((&split, rest))) = (extents.split_first(), splits.split_first()) else {
        return parts[0].clone();
    };
    let own: Vec<HostTensor> =
        parts.chunks(parts.len() / count).map(|parts| put_together(parts, inner, rest)).collect();
    let both = |kind: BinaryKind| {
        let op: Op = Binary { kind, scalar: Side::None }.into();
        let join = |a: HostTensor, b: &HostTensor| evaluate(&op, &[&a, b], &[], None).expect("same types").remove(0);
        own[1..].iter().fold(own[0].clone(), join)
    };
    match split {
        Split::Replicate => {
            own[1..].iter().for_each(|other| assert!(*other == own[0], "what is replicated differs"));
            own[0].clone()
        }
        Split::Shard { axis, .. } => {
            let refs: Vec<&HostTensor> = own.iter().collect();
            evaluate(&Concat { axis }.into(), &refs, &[], None).expect("the parts fit").remove(0)
        }
        Split::Partial(ReduceKind::Sum) => both(BinaryKind::Add),
        Split::Partial(ReduceKind::Prod) => both(BinaryKind::Mul),
        Split::Partial(ReduceKind::Max) => both(BinaryKind::Max),
        Split::Partial(ReduceKind::Min) => both(BinaryKind::Min),
    }
}
