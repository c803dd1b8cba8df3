//! Windows recorded op by op, planned by the planner and run on the engine.

// Each test file uses its part of it.
#![allow(dead_code)]

pub mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_engine::{Buffer, Engine, Value};
use gt_engine_check::conformance::{Built, Outcome, run_plan, upload};
use gt_engine_check::evaluate;
use gt_engine_cpu::{Config, CpuBuffer, CpuEngine};
use gt_ir::ops::{Permute, Reshape, Slice, Update, UpdateSlice, Write};
use gt_ir::{
    AxisSet, Failure, HostTensor, Instr, Op, Scalar, Scalars, ScopeId, Shape, SiteId, Steps, TensorId, TensorType,
    Window,
};
use gt_plan::{Immediates, Plan, PlanOptions, build, text, verify};
use gt_stream::Occurrence;

pub const FUSED: PlanOptions = PlanOptions::DEFAULT;
pub const COMPILED: PlanOptions = PlanOptions { compiled: true, ..PlanOptions::DEFAULT };
pub const SEPARATE: PlanOptions = PlanOptions { fusion: false, ..PlanOptions::DEFAULT };

pub fn engine(threads: usize) -> CpuEngine {
    CpuEngine::new(Config { threads, memory_limit_bytes: 1 << 30 })
}

/// A window in the making.
#[derive(Clone, Default)]
pub struct Recorded {
    pub window: Window,
    pub types: BTreeMap<TensorId, TensorType>,
    pub inputs: Vec<TensorId>,
}

/// Inputs are of another lane than what the window defines (WINDOW-1).
const LANE: u16 = 3;

impl Recorded {
    pub fn input(&mut self, ty: TensorType) -> TensorId {
        let id = TensorId::new(LANE, self.inputs.len() as u64);
        self.inputs.push(id);
        self.types.insert(id, ty);
        id
    }

    pub fn ty(&self, id: TensorId) -> TensorType {
        self.types[&id]
    }

    /// Adds an instruction, and gives back the ids of its results.
    pub fn op(&mut self, op: impl Into<Op>, ins: &[TensorId], scalars: &[Scalar]) -> Vec<TensorId> {
        let op = op.into();
        let types: Vec<TensorType> = ins.iter().map(|id| self.types[id]).collect();
        let outs = op.primitive().infer(&types).unwrap_or_else(|e| panic!("{} on {types:?}: {e}", op.display_name()));
        let next = (self.types.len() - self.inputs.len()) as u64;
        let ids: Vec<TensorId> = (0..outs.len() as u64).map(|k| TensorId::new(0, next + k)).collect();
        self.types.extend(ids.iter().copied().zip(outs));
        self.window.instrs.push(Instr {
            op,
            outs: ids.iter().copied().collect(),
            ins: ins.iter().copied().collect(),
            scalars: Scalars::from_slice(scalars),
            scope: ScopeId(0),
            site: SiteId(0),
        });
        ids
    }

    pub fn one(&mut self, op: impl Into<Op>, ins: &[TensorId], scalars: &[Scalar]) -> TensorId {
        self.op(op, ins, scalars)[0]
    }

    /// Lets everything die but these.
    pub fn keep(&mut self, kept: &[TensorId]) {
        self.window.frees = self.types.keys().copied().filter(|id| !kept.contains(id)).collect();
    }

    /// Its plan, the numbers its runs need, and which input each slot is.
    pub fn plan(&self, options: PlanOptions) -> Planned {
        let occurrence = Occurrence::of(self.window.clone()).expect("an occurrence");
        let types: Vec<TensorType> = occurrence.bindings().inputs.iter().map(|id| self.types[id]).collect();
        let plan = build(occurrence.recipe(), &types, options).expect("a plan");
        assert_eq!(verify(&plan), Ok(()), "{}", text::print(&plan));
        let ids = (0..plan.types.len() as u32).map(|slot| occurrence.id_of_slot(slot)).collect();
        let built = Built { plan: Arc::new(plan), immediates: Immediates::of(&occurrence) };
        Planned { built, ids, inputs: self.inputs.clone() }
    }
}

pub struct Planned {
    built: Built,
    /// What each slot is in the window.
    ids: Vec<TensorId>,
    inputs: Vec<TensorId>,
}

/// What a run left, by the window's ids.
pub struct Ran {
    pub values: BTreeMap<TensorId, Value<CpuBuffer>>,
    pub skipped: Vec<Arc<Failure>>,
}

impl Ran {
    pub fn read(&self, id: TensorId) -> HostTensor {
        match &self.values[&id] {
            Ok(buffer) => buffer.read().expect("a value"),
            Err(failure) => panic!("{id} is poisoned: {failure}"),
        }
    }
}

impl Planned {
    pub fn plan(&self) -> &Plan {
        &self.built.plan
    }

    /// Runs on the values of the recorded inputs.
    pub fn run(&self, engine: &mut CpuEngine, inputs: Vec<Value<CpuBuffer>>) -> Ran {
        // Moved, not cloned: what dies must have one holder.
        let mut inputs: Vec<Option<Value<CpuBuffer>>> = inputs.into_iter().map(Some).collect();
        let position = |id: &TensorId| self.inputs.iter().position(|i| i == id).expect("an input");
        let bound = self.ids[..self.plan().inputs].iter().map(|id| inputs[position(id)].take().expect("bound once"));
        let outcome: Outcome<CpuBuffer> = run_plan(engine, &self.built, bound.collect());
        let values = outcome.values.into_iter().map(|(slot, value)| (self.ids[slot as usize], value)).collect();
        Ran { values, skipped: outcome.skipped }
    }

    /// The values that any engine makes of packed inputs.
    pub fn values_on<E: Engine>(&self, engine: &mut E, inputs: &[HostTensor]) -> BTreeMap<TensorId, HostTensor> {
        let position = |id: &TensorId| self.inputs.iter().position(|i| i == id).expect("an input");
        let buffers = upload(engine, inputs);
        let bound = self.ids[..self.plan().inputs].iter().map(|id| Ok(buffers[position(id)].clone()));
        let outcome: Outcome<E::Buffer> = run_plan(engine, &self.built, bound.collect());
        let read = |slot: &gt_plan::Slot| (self.ids[*slot as usize], outcome.read(*slot));
        self.plan().live_outs.iter().map(read).collect()
    }

    /// Runs on packed values that nobody else holds.
    pub fn run_on(&self, engine: &mut CpuEngine, inputs: &[HostTensor]) -> Ran {
        let buffers = upload(engine, inputs).into_iter().map(Ok).collect();
        self.run(engine, buffers)
    }
}

/// The first difference between two values of the same bits, any NaN for any other.
pub fn difference(have: &HostTensor, want: &HostTensor) -> Option<String> {
    gt_engine_check::conformance::compare::difference(
        have,
        want,
        &gt_engine_check::conformance::compare::Allowance::Exact,
    )
}

/// How a value comes to lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placed {
    Packed,
    /// Stored with its axes reversed.
    Reversed,
    /// Every second element of a larger value, the first left out.
    Spaced,
    /// The end of a longer value.
    Cut,
    /// The last element first.
    Flipped,
}

impl Placed {
    pub const ALL: [Placed; 5] = [Placed::Packed, Placed::Reversed, Placed::Spaced, Placed::Cut, Placed::Flipped];
}

/// A value as an op of one input sees it.
fn seen(op: impl Into<Op>, tensor: &HostTensor, scalars: &[Scalar]) -> HostTensor {
    evaluate(&op.into(), &[tensor], scalars, None).expect("elements are moved within bounds").remove(0)
}

/// A buffer with these contents, lying as told, whose storage nobody else holds.
pub fn place(engine: &mut CpuEngine, tensor: &HostTensor, placed: Placed) -> CpuBuffer {
    let (ty, shape, rank) = (tensor.ty, tensor.ty.shape, tensor.ty.shape.rank());
    let ints = |numbers: Vec<i64>| numbers.into_iter().map(Scalar::I64).collect::<Vec<_>>();
    let slice = |steps: Steps| Slice { sizes: shape, steps, drop: AxisSet::default() };
    let (stored, view, starts): (HostTensor, Op, Vec<Scalar>) = match placed {
        Placed::Packed => (tensor.clone(), Reshape { shape }.into(), vec![]),
        Placed::Reversed => {
            let reversed = Permute { perm: (0..rank as i64).rev().collect() };
            (seen(reversed.clone(), tensor, &[]), reversed.into(), vec![])
        }
        Placed::Flipped if ty.numel() > 0 => {
            let ends = ints(shape.iter().map(|&d| d as i64 - 1).collect());
            let flip = slice(Steps::splat(rank, -1));
            (seen(flip.clone(), tensor, &ends), flip.into(), ends)
        }
        Placed::Spaced | Placed::Cut | Placed::Flipped => {
            let steps = Steps::splat(rank, if placed == Placed::Spaced { 2 } else { 1 });
            let apart = if placed == Placed::Spaced { 2 } else { 1 };
            let large = Shape::try_collect(shape.iter().map(|d| d * apart + 1)).expect("a small shape");
            let large = ty.with_shape(large);
            // Foreign elements everywhere else.
            let foreign = HostTensor { ty: large, bytes: vec![1; large.bytes()] };
            let starts = ints(vec![1; rank]);
            let update: Op = UpdateSlice { steps, drop: AxisSet::default() }.into();
            let filled = evaluate(&update, &[&foreign, tensor], &starts, None).expect("it fits").remove(0);
            (filled, slice(steps).into(), starts)
        }
    };
    let mut recorded = Recorded::default();
    let x = recorded.input(stored.ty);
    let out = recorded.one(view, &[x], &starts);
    recorded.keep(&[out]);
    let ran = recorded.plan(FUSED).run_on(engine, &[stored]);
    let Some(Ok(buffer)) = ran.values.into_values().next() else { panic!("a view") };
    assert_eq!(buffer.read().unwrap().bytes, tensor.bytes);
    buffer
}

/// An update and the write of its results, as an optimizer records them: gives the written values.
pub fn optimizer_step(
    r: &mut Recorded,
    op: &Update,
    scalars: &[Scalar],
    params: &[TensorId],
    grads: &[TensorId],
    states: &[TensorId],
) -> Vec<TensorId> {
    let news = r.op(op.clone(), &[params, grads, states].concat(), scalars);
    r.op(Write {}, &[params, states, &news].concat(), &[])
}
