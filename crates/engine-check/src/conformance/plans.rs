//! Plans built by hand, so that the suite depends on no planner, and what is needed to run them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gt_ir::ops::Upload;
use gt_ir::{
    Bytes, Failure, HostTensor, Instr, Op, Scalar, ScopeId, Shape, SiteId, StreamHasher, TensorId, TensorType,
};
use gt_plan::tile::TileProgram;
use gt_plan::{EngineLimits, Immediates, Plan, Role, Slot, Step, StepKind, role};

use gt_engine::Cancel;
use gt_engine::{Buffer, Engine, Run, Sink, Ticket, Value, ValueState};

/// How instructions become steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// As the builder was told: what stands between `begin_fused` and `end_fused` is one step.
    Fused,
    /// Every instruction a step of its own.
    OneByOne,
}

/// Puts a plan together, instruction by instruction.
#[derive(Clone, Default)]
pub struct PlanBuilder {
    types: Vec<TensorType>,
    inputs: usize,
    instrs: Vec<Instr>,
    groups: Vec<Group>,
    open: bool,
    scalars: Vec<Scalar>,
    uploads: Vec<Bytes>,
}

#[derive(Clone)]
struct Group {
    instrs: Vec<u32>,
    fused: Option<Shape>,
}

/// A plan and what its runs need.
#[derive(Clone)]
pub struct Built {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Scalars, sites (instruction `i` has site `100 + i`) and payloads.
    pub immediates: Immediates,
}

impl PlanBuilder {
    /// A plan whose first slots are inputs of these types.
    pub fn new(inputs: &[TensorType]) -> Self {
        PlanBuilder { types: inputs.to_vec(), inputs: inputs.len(), ..Default::default() }
    }

    /// Starts a fused step over `space`; the instructions until `end_fused` belong to it.
    pub fn begin_fused(&mut self, space: Shape) {
        assert!(!self.open, "fused steps do not nest");
        self.open = true;
        self.groups.push(Group { instrs: Vec::new(), fused: Some(space) });
    }

    /// Ends the fused step.
    pub fn end_fused(&mut self) {
        self.open = false;
    }

    /// Adds an instruction and gives back the slots of its outputs.
    ///
    /// # Panics
    /// If the op does not take these inputs: the suite's own mistake.
    pub fn op(&mut self, op: impl Into<Op>, ins: &[Slot], scalars: &[Scalar]) -> Vec<Slot> {
        let op = op.into();
        let types: Vec<TensorType> = ins.iter().map(|&s| self.types[s as usize]).collect();
        let outs = op.primitive().infer(&types).unwrap_or_else(|e| panic!("{} on {types:?}: {e}", op.display_name()));
        assert_eq!(op.primitive().scalars(&types), scalars.len(), "scalars of {}", op.display_name());
        let slots: Vec<Slot> = (0..outs.len()).map(|i| (self.types.len() + i) as Slot).collect();
        self.types.extend(outs);
        let index = self.instrs.len() as u32;
        self.instrs.push(Instr {
            op,
            outs: slots.iter().map(|&s| TensorId(s as u64)).collect(),
            ins: ins.iter().map(|&s| TensorId(s as u64)).collect(),
            // An engine that reads the plan's own scalars instead of the run's gets these.
            scalars: scalars.iter().map(|_| Scalar::I64(-77)).collect(),
            scope: ScopeId(0),
            site: SiteId(9_999),
        });
        self.scalars.extend_from_slice(scalars);
        if self.open {
            self.groups.last_mut().expect("a group is open").instrs.push(index);
        } else {
            let fused = self.lone_space(index);
            self.groups.push(Group { instrs: vec![index], fused });
        }
        slots
    }

    /// Adds an instruction with one output.
    pub fn one(&mut self, op: impl Into<Op>, ins: &[Slot], scalars: &[Scalar]) -> Slot {
        self.op(op, ins, scalars)[0]
    }

    /// Adds an upload.
    pub fn upload(&mut self, tensor: &HostTensor) -> Slot {
        self.uploads.push(Bytes::from(&tensor.bytes[..]));
        self.one(Upload { dtype: tensor.ty.dtype, shape: tensor.ty.shape }, &[], &[])
    }

    /// The type of a slot.
    pub fn ty(&self, slot: Slot) -> TensorType {
        self.types[slot as usize]
    }

    /// The space of the fused step that an instruction is by itself.
    fn lone_space(&self, index: u32) -> Option<Shape> {
        let instr = &self.instrs[index as usize];
        match role(&instr.op) {
            Role::Elementwise => Some(self.types[instr.outs[0].0 as usize].shape),
            Role::Reduction => Some(self.types[instr.ins[0].0 as usize].shape),
            Role::Single => None,
        }
    }

    /// The plan that publishes `live_outs`.
    pub fn finish(&self, live_outs: &[Slot], grouping: Grouping) -> Built {
        let groups: Vec<Group> = match grouping {
            Grouping::Fused => self.groups.clone(),
            Grouping::OneByOne => {
                (0..self.instrs.len() as u32).map(|i| Group { instrs: vec![i], fused: self.lone_space(i) }).collect()
            }
        };
        let groups: Vec<Group> = groups.into_iter().filter(|g| !g.instrs.is_empty()).collect();
        let mut live: Vec<Slot> = live_outs.to_vec();
        live.sort_unstable();
        live.dedup();
        let steps = self.steps(&groups, &live);
        let mut starts = Vec::new();
        let mut start = 0;
        for instr in &self.instrs {
            starts.push(start);
            start += instr.scalars.len() as u32;
        }
        let plan = Plan {
            hash: self.hash(&groups, &live),
            instrs: self.instrs.clone(),
            types: self.types.clone(),
            inputs: self.inputs,
            live_outs: live,
            scalar_starts: starts,
            steps,
            limits: EngineLimits::default(),
        };
        let sites = (0..self.instrs.len() as u32).map(|i| SiteId(100 + i)).collect();
        let immediates = Immediates { scalars: self.scalars.clone(), sites, uploads: self.uploads.clone() };
        Built { plan: Arc::new(plan), immediates }
    }

    fn steps(&self, groups: &[Group], live: &[Slot]) -> Vec<Step> {
        let reads = |group: &Group| -> Vec<Slot> {
            group.instrs.iter().flat_map(|&i| self.instrs[i as usize].ins.iter().map(|id| id.0 as Slot)).collect()
        };
        let defines = |group: &Group| -> Vec<Slot> {
            group.instrs.iter().flat_map(|&i| self.instrs[i as usize].outs.iter().map(|id| id.0 as Slot)).collect()
        };
        // The last step that touches each slot; an input nobody reads is dropped by the first.
        let mut last = vec![0; self.types.len()];
        for (at, group) in groups.iter().enumerate() {
            reads(group).into_iter().chain(defines(group)).for_each(|s| last[s as usize] = at);
        }
        let read_after = |slot: Slot, at: usize| groups[at + 1..].iter().any(|g| reads(g).contains(&slot));
        // PLAN-3's exception: the old value of a single-pair write whose new value is defined here.
        let only_for_write = |slot: Slot, at: usize, made: &[Slot]| {
            let later: Vec<&Instr> = groups[at + 1..]
                .iter()
                .flat_map(|g| g.instrs.iter().map(|&i| &self.instrs[i as usize]))
                .filter(|instr| instr.ins.iter().any(|id| id.0 as Slot == slot))
                .collect();
            later.len() == 1
                && matches!(later[0].op, Op::Write(_))
                && later[0].ins.len() == 2
                && later[0].ins[0].0 as Slot == slot
                && made.contains(&(later[0].ins[1].0 as Slot))
        };
        let mut steps = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let made = defines(group);
            let mut ins = Vec::new();
            for slot in reads(group) {
                if !made.contains(&slot) && !ins.contains(&slot) {
                    ins.push(slot);
                }
            }
            let outs: Vec<Slot> = made.iter().copied().filter(|s| live.contains(s) || read_after(*s, at)).collect();
            let takes = ins
                .iter()
                .copied()
                .filter(|&s| !live.contains(&s) && (last[s as usize] == at || only_for_write(s, at, &made)))
                .collect();
            let drops = (0..self.types.len() as Slot)
                .filter(|&s| last[s as usize] == at && (!live.contains(&s) || (s as usize) < self.inputs))
                .collect();
            let publish = outs.iter().copied().filter(|s| live.contains(s)).collect();
            let program = |space| TileProgram::of(&self.instrs, &self.types, &group.instrs, &outs, space);
            let kind =
                group.fused.map_or(StepKind::Single, |space| StepKind::Fused { program: Box::new(program(space)) });
            steps.push(Step { kind, instrs: group.instrs.clone(), ins, outs, takes, drops, publish });
        }
        steps
    }

    /// Engines may cache by it, so different plans must differ in it.
    fn hash(&self, groups: &[Group], live: &[Slot]) -> gt_ir::Digest {
        let mut h = StreamHasher::default();
        for instr in &self.instrs {
            instr.op.feed(&mut h);
            instr.ins.iter().chain(&instr.outs).for_each(|id| h.word(id.0));
        }
        h.word(self.inputs as u64);
        self.types.iter().for_each(|t| h.tensor(t));
        for group in groups {
            h.word(group.instrs.len() as u64 | (group.fused.is_some() as u64) << 32);
        }
        live.iter().for_each(|&s| h.word(s as u64));
        h.finish()
    }
}

/// The plan of one instruction whose inputs are the first slots.
pub fn single_plan(op: &Op, ins: &[TensorType], scalars: &[Scalar]) -> Built {
    let mut builder = PlanBuilder::new(ins);
    let slots: Vec<Slot> = (0..ins.len() as Slot).collect();
    let outs = builder.op(op.clone(), &slots, scalars);
    builder.finish(&outs, Grouping::Fused)
}

/// What a run published.
pub struct Outcome<B> {
    /// The live-out slots.
    pub values: BTreeMap<Slot, Value<B>>,
    /// The failures of skipped writes, in order.
    pub skipped: Vec<Arc<Failure>>,
}

impl<B: Buffer> Outcome<B> {
    /// The value of a slot in ordinary memory.
    ///
    /// # Panics
    /// If it was not published or is poisoned.
    pub fn read(&self, slot: Slot) -> HostTensor {
        let buffer = self.buffer(slot);
        let tensor = buffer.read().unwrap_or_else(|e| panic!("slot {slot} cannot be read: {e}"));
        assert_eq!(tensor.ty, buffer.ty(), "a read gives what the buffer says");
        assert_eq!(tensor.bytes.len(), tensor.ty.bytes(), "a read gives packed bytes");
        tensor
    }

    /// The buffer of a slot that is not poisoned.
    pub fn buffer(&self, slot: Slot) -> B {
        match &self.values[&slot] {
            Ok(buffer) => buffer.clone(),
            Err(failure) => panic!("slot {slot} is poisoned: {failure}"),
        }
    }

    /// The failure of a slot that must be poisoned.
    pub fn failure(&self, slot: Slot) -> Arc<Failure> {
        match &self.values[&slot] {
            Ok(_) => panic!("slot {slot} should be poisoned"),
            Err(failure) => failure.clone(),
        }
    }
}

/// Collects what a run publishes, and checks the promises of a sink (PUBLISH-1, PUBLISH-2, PUBLISH-4).
pub struct Collector<B> {
    collected: Mutex<Collected<B>>,
}

struct Collected<B> {
    published: Vec<(Slot, Value<B>)>,
    /// Slots that were published as pending and not settled since.
    pending: Vec<Slot>,
    skipped: Vec<Arc<Failure>>,
    has_settled: bool,
}

impl<B> Default for Collector<B> {
    fn default() -> Self {
        let collected =
            Collected { published: Vec::new(), pending: Vec::new(), skipped: Vec::new(), has_settled: false };
        Collector { collected: Mutex::new(collected) }
    }
}

impl<B: Buffer> Sink<B> for Collector<B> {
    fn publish(&self, slot: Slot, value: Value<B>) {
        let collected = &mut *self.lock();
        if value.as_ref().is_ok_and(|buffer| matches!(buffer.state(), ValueState::Pending)) {
            collected.pending.push(slot);
        }
        collected.published.push((slot, value));
    }
    fn settled(&self, slot: Slot) {
        let collected = &mut *self.lock();
        let at = collected.pending.iter().position(|&pending| pending == slot);
        collected.pending.swap_remove(at.expect("only a pending value is settled, and once"));
        collected.has_settled = true;
    }
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        failure
    }
    fn write_skipped(&self, _: u32, failure: Arc<Failure>) {
        let collected = &mut *self.lock();
        assert!(!collected.has_settled, "skipped writes are reported before a value is settled");
        collected.skipped.push(failure);
    }
}

impl<B: Buffer> Collector<B> {
    fn lock(&self) -> MutexGuard<'_, Collected<B>> {
        self.collected.lock().expect("no publisher panics")
    }

    /// The value of a slot as it is now, perhaps pending: the input of a dependent run.
    ///
    /// # Panics
    /// If it was not published.
    pub fn published(&self, slot: Slot) -> Value<B> {
        let collected = self.lock();
        let found = collected.published.iter().find(|(published, _)| *published == slot);
        found.expect("a live-out is published before `submit` returns").1.clone()
    }

    /// What was published, which must be the plan's live-outs, once each, of their types and no longer pending.
    pub fn finish(&self, plan: &Plan) -> Outcome<B> {
        let collected = &mut *self.lock();
        let (published, skipped) = (std::mem::take(&mut collected.published), std::mem::take(&mut collected.skipped));
        let mut slots: Vec<Slot> = published.iter().map(|(slot, _)| *slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, plan.live_outs, "every live-out slot is published exactly once");
        assert!(collected.pending.is_empty(), "slots {:?} are still pending", collected.pending);
        let value = |(slot, value): (Slot, Value<B>)| {
            let value = value.and_then(|buffer| match buffer.state() {
                ValueState::Failed(failure) => Err(failure),
                ValueState::Pending => panic!("slot {slot} is pending after it was settled"),
                ValueState::Ready => Ok(buffer),
            });
            if let Ok(buffer) = &value {
                assert_eq!(buffer.ty(), plan.types[slot as usize], "infer gives the type of slot {slot}");
            }
            (slot, value)
        };
        Outcome { values: published.into_iter().map(value).collect(), skipped }
    }
}

/// What the engine makes of a plan.
///
/// # Panics
/// If it cannot prepare the plan.
pub fn prepared<E: Engine>(engine: &mut E, plan: &Arc<Plan>) -> Arc<E::Program> {
    Arc::new(engine.prepare(plan).unwrap_or_else(|failure| panic!("the plan cannot be prepared: {failure}")))
}

/// Starts a run of `built` and gives back where its results will be.
pub fn start<E: Engine>(
    engine: &mut E,
    program: &Arc<E::Program>,
    immediates: &Immediates,
    inputs: Vec<Value<E::Buffer>>,
) -> (Box<dyn Ticket>, Arc<Collector<E::Buffer>>) {
    let collector = Arc::new(Collector::default());
    let run = Run {
        inputs,
        immediates: immediates.clone(),
        sink: collector.clone(),
        quota: None,
        cancel: Cancel::default(),
        flush_denormal: false,
    };
    (engine.submit(program, run), collector)
}

/// Prepares and runs a plan and waits for it.
pub fn run_plan<E: Engine>(engine: &mut E, built: &Built, inputs: Vec<Value<E::Buffer>>) -> Outcome<E::Buffer> {
    let program = prepared(engine, &built.plan);
    let (ticket, collector) = start(engine, &program, &built.immediates, inputs);
    ticket.wait();
    collector.finish(&built.plan)
}

/// Values of the engine with these contents, by a plan of uploads.
pub fn upload<E: Engine>(engine: &mut E, tensors: &[HostTensor]) -> Vec<E::Buffer> {
    let mut builder = PlanBuilder::new(&[]);
    let slots: Vec<Slot> = tensors.iter().map(|t| builder.upload(t)).collect();
    let outcome = run_plan(engine, &builder.finish(&slots, Grouping::Fused), Vec::new());
    slots.iter().map(|&s| outcome.buffer(s)).collect()
}

/// Runs `test` on a thread of its own and fails when it takes longer than `limit`.
///
/// # Panics
/// With the test's own panic, or when the time is over.
pub fn within(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (done, finished) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match finished.recv_timeout(limit) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("not done after {limit:?}"),
        Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
