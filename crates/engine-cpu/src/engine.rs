//! The engine: plans in, published values out, all on the calling thread and its helpers.
//!
//! ENGINE-1: a run is done when `submit` returns.
//! ENGINE-2: a step allocates and checks before it writes, so a failed step changes nothing (PLAN-3).
//! ENGINE-3: a step with a poisoned input runs for those of its results that do not depend on it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use gt_engine::{Adopt, Done, Engine, HostMemory, Memory, Run, Sink, Ticket, Value};
use gt_ir::{Failure, FailureKind, Op, SiteId, TensorId, TensorType};
use gt_plan::{Immediates, Plan, Role, Slot, Step, StepKind};
use smallvec::SmallVec;

use crate::alloc::Allocator;
use crate::buffer::CpuBuffer;
use crate::fused::{Fused, Slots};
use crate::host_memory::Lending;
use crate::placement::Placement;
use crate::pool::Pool;
use crate::profile::{self, Family};
use crate::single;

/// How an engine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Threads that work on one step, the caller's included; at least 1.
    pub threads: usize,
    /// The most memory buffers may take, cached ones included.
    pub memory_limit_bytes: u64,
}

/// Executes plans on the CPU.
pub struct CpuEngine {
    allocator: Arc<Allocator>,
    pool: Pool,
    /// The values of the running plan; kept for its capacity.
    slots: Vec<Option<Value<CpuBuffer>>>,
    /// The threads that bring plans and take values away, if they are known.
    messengers: Option<Arc<Placement>>,
}

/// A plan made ready: its fused steps as tile programs.
pub struct CpuProgram {
    plan: Arc<Plan>,
    steps: Vec<Prepared>,
}

pub(crate) enum Prepared {
    Fused(Box<Fused>),
    Single(Lone),
}

/// What is known of a step of one instruction before it runs.
#[derive(Clone, Copy)]
pub(crate) struct Lone {
    /// The payload of the run it takes, if it is an upload.
    pub payload: usize,
    /// Whether a product is stored with its last two axes the other way round in memory, because all that read it turn
    /// them: the gradients of weights end up packed.
    pub turned: bool,
    /// Whether it is a product, and the next step another that does not read this one's.
    pub beside_next: bool,
}

/// All that a step may use besides the values.
pub(crate) struct Context<'a> {
    pub plan: &'a Plan,
    pub immediates: &'a Immediates,
    pub allocator: &'a Arc<Allocator>,
    pub pool: &'a Pool,
}

impl CpuEngine {
    /// An engine with its helper threads started.
    pub fn new(config: Config) -> CpuEngine {
        CpuEngine {
            allocator: Allocator::new(config.memory_limit_bytes),
            pool: Pool::new(config.threads.max(1)),
            slots: Vec::new(),
            messengers: None,
        }
    }

    /// With threads that keep off the core of the thread that runs plans. Those that bring it messages are woken in the
    /// middle of its runs, and everybody waits for the runs; on another core they interrupt a helper, or somebody who records.
    #[must_use]
    pub fn with_messengers(mut self, messengers: Arc<Placement>) -> CpuEngine {
        self.messengers = Some(messengers);
        self
    }

    /// How many threads work on a step.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Changes how many threads work on a step; results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) {
        if threads.max(1) != self.pool.threads() {
            self.pool = Pool::new(threads.max(1));
        }
    }
}

impl Engine for CpuEngine {
    type Buffer = CpuBuffer;
    type Program = CpuProgram;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn prepare(&mut self, plan: Arc<Plan>) -> CpuProgram {
        let steps = prepare_steps(&plan);
        CpuProgram { plan, steps }
    }

    fn submit(&mut self, program: &Arc<CpuProgram>, run: Run<CpuBuffer>) -> Box<dyn Ticket> {
        if let Some(messengers) = &self.messengers {
            messengers.keep_away();
        }
        let plan = &*program.plan;
        let _charging = run.quota.map(|quota| self.allocator.charge_to(quota));
        let mut slots = std::mem::take(&mut self.slots);
        let cx = Context { plan, immediates: &run.immediates, allocator: &self.allocator, pool: &self.pool };
        run_steps(&cx, &program.steps, run.inputs, &mut slots, &*run.sink);
        self.slots = slots;
        Box::new(Done)
    }

    fn synchronize(&mut self) {}

    fn memory(&self) -> Memory {
        self.allocator.memory()
    }

    fn trim(&mut self) {
        self.allocator.trim();
    }

    fn host_memory(&self) -> Arc<dyn HostMemory> {
        Arc::new(Lending(self.allocator.clone()))
    }

    fn adopter(&self) -> Option<Arc<dyn Adopt<CpuBuffer>>> {
        Some(Arc::new(Lending(self.allocator.clone())))
    }
}

/// The steps of a plan made ready.
pub(crate) fn prepare_steps(plan: &Plan) -> Vec<Prepared> {
    let uploads: Vec<usize> = (0..plan.instrs.len()).filter(|&i| matches!(plan.instrs[i].op, Op::Upload(_))).collect();
    let payload_of = |instr: u32| uploads.binary_search(&(instr as usize)).unwrap_or(usize::MAX);
    let prepare = |step: &Step| match fused_space(plan, step) {
        Some(space) => Prepared::Fused(Box::new(Fused::compile(plan, step, space))),
        None => {
            let instr = step.instrs[0];
            Prepared::Single(Lone { payload: payload_of(instr), turned: is_turned(plan, instr), beside_next: false })
        }
    };
    let mut steps: Vec<Prepared> = plan.steps.iter().map(prepare).collect();
    pair_products(plan, &mut steps);
    steps
}

/// Finds products that run side by side.
fn pair_products(plan: &Plan, steps: &mut [Prepared]) {
    let is_product = |step: &Step| matches!(plan.instrs[step.instrs[0] as usize].op, Op::Matmul(_));
    let mut at = 0;
    while at + 1 < steps.len() {
        let (step, next) = (&plan.steps[at], &plan.steps[at + 1]);
        let apart = is_product(step) && is_product(next) && !next.ins.contains(&step.outs[0]);
        if let (true, Prepared::Single(lone)) = (apart, &mut steps[at]) {
            lone.beside_next = true;
            at += 1;
        }
        at += 1;
    }
}

/// Whether an instruction is a product that others read only with its last two axes swapped.
fn is_turned(plan: &Plan, at: u32) -> bool {
    let instr = &plan.instrs[at as usize];
    let out = instr.outs[0];
    if !matches!(instr.op, Op::Matmul(_)) || plan.live_outs.contains(&(out.0 as Slot)) {
        return false;
    }
    let swaps = |reader: &gt_ir::Instr| match &reader.op {
        Op::Permute(permute) => {
            let rank = permute.perm.rank() as i64;
            permute.perm.iter().enumerate().all(|(axis, &from)| match rank - axis as i64 {
                1 => from == rank - 2,
                2 => from == rank - 1,
                _ => from == axis as i64,
            })
        }
        _ => false,
    };
    let mut readers = plan.instrs[at as usize + 1..].iter().filter(|reader| reader.ins.contains(&out)).peekable();
    readers.peek().is_some() && readers.all(swaps)
}

/// Runs every step of a plan; `slots` is memory to work with, empty again afterwards.
pub(crate) fn run_steps(
    cx: &Context<'_>,
    steps: &[Prepared],
    inputs: Vec<Value<CpuBuffer>>,
    slots: &mut Vec<Option<Value<CpuBuffer>>>,
    sink: &dyn Sink<CpuBuffer>,
) {
    let plan = cx.plan;
    bind(plan, inputs, slots);
    let profiled = profile::is_enabled();
    let mut done = 0;
    for (at, (step, prepared)) in plan.steps.iter().zip(steps).enumerate() {
        let start = profiled.then(Instant::now);
        match prepared {
            _ if at < done => {}
            Prepared::Fused(fused) => run_fused(cx, step, fused, slots),
            Prepared::Single(Lone { beside_next: true, .. }) if run_two_products(cx, steps, at, slots) => done = at + 2,
            Prepared::Single(lone) => {
                let instr = step.instrs[0];
                if matches!(plan.instrs[instr as usize].op, Op::Write(_)) {
                    write(plan, instr, slots, sink);
                } else {
                    run_single(cx, step, *lone, slots);
                }
            }
        }
        for &slot in &step.publish {
            if let Some(value) = &slots[slot as usize] {
                sink.publish(slot, value.clone());
            }
        }
        for &slot in &step.drops {
            slots[slot as usize] = None;
        }
        if let Some(start) = start {
            let family = match prepared {
                Prepared::Fused(_) => Family::Elementwise,
                Prepared::Single(_) => Family::of(&plan.instrs[step.instrs[0] as usize].op),
            };
            profile::count(family, start);
        }
    }
    slots.clear();
}

/// The space of a step that tile programs run: also of one that the planner left single.
fn fused_space(plan: &Plan, step: &Step) -> Option<gt_ir::Shape> {
    if let StepKind::Fused { space } = &step.kind {
        return Some(*space);
    }
    let instr = &plan.instrs[step.instrs[0] as usize];
    let shape_of = |id: TensorId| plan.types[id.0 as usize].shape;
    match gt_plan::role(&instr.op) {
        Role::Elementwise => Some(shape_of(instr.outs[0])),
        Role::Reduction => Some(shape_of(instr.ins[0])),
        Role::Single => None,
    }
}

/// The inputs as the plan's first slots. One of another type than the plan was made for is our mistake and poisons
/// what reads it.
fn bind(plan: &Plan, inputs: Vec<Value<CpuBuffer>>, slots: &mut Vec<Option<Value<CpuBuffer>>>) {
    slots.clear();
    for (value, ty) in inputs.into_iter().zip(&plan.types) {
        slots.push(Some(match value {
            Ok(buffer) if buffer.layout.shape != ty.shape || buffer.layout.dtype != ty.dtype => {
                let message = format!("an input of the plan is {}, expected {ty}", buffer.layout.ty());
                Err(Arc::new(Failure::new(FailureKind::Internal, message)))
            }
            value => value,
        }));
    }
    slots.resize_with(plan.types.len(), || None);
}

impl Context<'_> {
    /// A failure with the place where it happened.
    fn placed(&self, instr: u32, failure: Failure, slots: &Slots) -> Arc<Failure> {
        let at = &self.plan.instrs[instr as usize];
        let holders = match failure.kind {
            FailureKind::Memory => self.holders(slots),
            FailureKind::Index
            | FailureKind::Value
            | FailureKind::Domain
            | FailureKind::WorkerLost
            | FailureKind::Internal => Vec::new(),
        };
        Arc::new(Failure {
            op: at.op.display_name().to_string(),
            ins: at.ins.iter().map(|id| self.ty(*id)).collect(),
            site: self.site(instr),
            holders,
            ..failure
        })
    }

    fn ty(&self, id: TensorId) -> TensorType {
        self.plan.types[id.0 as usize]
    }

    fn site(&self, instr: u32) -> SiteId {
        self.immediates.sites.get(instr as usize).copied().unwrap_or_default()
    }

    /// The largest values of this run, with the lines that made them.
    fn holders(&self, slots: &Slots) -> Vec<(u64, SiteId)> {
        const MOST: usize = 5;
        let mut holders: Vec<(u64, SiteId)> = Vec::new();
        for (at, instr) in self.plan.instrs.iter().enumerate() {
            for id in &instr.outs {
                if let Some(Some(Ok(buffer))) = slots.get(id.0 as usize) {
                    holders.push((buffer.storage.len_bytes() as u64, self.site(at as u32)));
                }
            }
        }
        holders.sort_by_key(|h| std::cmp::Reverse(h.0));
        holders.truncate(MOST);
        holders
    }
}

fn poison_of(slots: &Slots, slot: Slot) -> Option<&Arc<Failure>> {
    match &slots[slot as usize] {
        Some(Err(failure)) => Some(failure),
        Some(Ok(_)) | None => None,
    }
}

fn run_fused(cx: &Context<'_>, step: &Step, fused: &Fused, slots: &mut Slots) {
    if fused.ins.iter().any(|i| poison_of(slots, i.slot).is_some()) {
        return run_healthy_part(cx, step, slots);
    }
    let work = || fused.run(slots, &cx.immediates.scalars, cx.allocator, cx.pool);
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => {}
        Ok(Err((instr, failure))) => {
            let failure = cx.placed(instr, failure, slots);
            step.outs.iter().for_each(|&slot| slots[slot as usize] = Some(Err(failure.clone())));
        }
        Err(panic) => {
            let failure = cx.placed(step.instrs[0], internal(&*panic), slots);
            step.outs.iter().for_each(|&slot| slots[slot as usize] = Some(Err(failure.clone())));
        }
    }
}

/// Poisons what depends on a poisoned input and computes the rest as a step of its own (ENGINE-3). Rare, so it is
/// compiled on the spot and thrown away.
fn run_healthy_part(cx: &Context<'_>, step: &Step, slots: &mut Slots) {
    let mut poisoned: Vec<(Slot, Arc<Failure>)> = Vec::new();
    let mut healthy = Step {
        kind: step.kind.clone(),
        instrs: Vec::new(),
        ins: Vec::new(),
        outs: Vec::new(),
        takes: Vec::new(),
        drops: Vec::new(),
        publish: Vec::new(),
    };
    for &at in &step.instrs {
        let instr = &cx.plan.instrs[at as usize];
        let failure = instr.ins.iter().find_map(|id| {
            let slot = id.0 as Slot;
            let inside = poisoned.iter().find(|(s, _)| *s == slot).map(|(_, f)| f);
            inside.or_else(|| poison_of(slots, slot)).cloned()
        });
        let outs = instr.outs.iter().map(|id| id.0 as Slot);
        match failure {
            Some(failure) => poisoned.extend(outs.map(|slot| (slot, failure.clone()))),
            None => {
                healthy.instrs.push(at);
                healthy.outs.extend(outs.filter(|slot| step.outs.contains(slot)));
                let read = instr.ins.iter().map(|id| id.0 as Slot).filter(|slot| step.ins.contains(slot));
                for slot in read {
                    if !healthy.ins.contains(&slot) {
                        healthy.ins.push(slot);
                    }
                }
            }
        }
    }
    for (slot, failure) in poisoned {
        if step.outs.contains(&slot) {
            slots[slot as usize] = Some(Err(failure));
        }
    }
    // What led to a poisoned concatenation alone leads nowhere now.
    for nth in (0..healthy.instrs.len()).rev() {
        let out = cx.plan.instrs[healthy.instrs[nth] as usize].outs[0];
        let later = &healthy.instrs[nth + 1..];
        let read = later.iter().any(|&i| cx.plan.instrs[i as usize].ins.contains(&out));
        if !read && !healthy.outs.contains(&(out.0 as Slot)) {
            healthy.instrs.remove(nth);
        }
    }
    if let (false, Some(space)) = (healthy.outs.is_empty(), fused_space(cx.plan, step)) {
        let fused = Fused::compile(cx.plan, &healthy, space);
        run_fused(cx, &healthy, &fused, slots);
    }
}

fn run_single(cx: &Context<'_>, step: &Step, lone: Lone, slots: &mut Slots) {
    let at = step.instrs[0];
    let instr = &cx.plan.instrs[at as usize];
    let poison = instr.ins.iter().find_map(|id| poison_of(slots, id.0 as Slot)).cloned();
    let outcome = match poison {
        Some(failure) => Err(failure),
        None => {
            let work = || single::run(cx, step, instr, lone, slots);
            match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(results)) => Ok(results),
                Ok(Err(failure)) => Err(cx.placed(at, failure, slots)),
                Err(panic) => Err(cx.placed(at, internal(&*panic), slots)),
            }
        }
    };
    match outcome {
        Ok(results) => {
            for (id, buffer) in instr.outs.iter().zip(results) {
                slots[id.0 as usize] = Some(Ok(buffer));
            }
        }
        Err(failure) => instr.outs.iter().for_each(|id| slots[id.0 as usize] = Some(Err(failure.clone()))),
    }
}

/// Runs the products of a step and of the next one together; whether that was possible. If not, each is to run, or to
/// fail, by itself.
fn run_two_products(cx: &Context<'_>, steps: &[Prepared], at: usize, slots: &mut Slots) -> bool {
    let (Some([first, second]), Some([Prepared::Single(a), Prepared::Single(b)])) =
        (cx.plan.steps.get(at..at + 2), steps.get(at..at + 2))
    else {
        return false;
    };
    if [first, second].iter().any(|step| step.ins.iter().any(|&slot| poison_of(slots, slot).is_some())) {
        return false;
    }
    let work = || single::run_two_products(cx, [first, second], [*a, *b], slots);
    let Ok(Ok(results)) = catch_unwind(AssertUnwindSafe(work)) else { return false };
    for (step, result) in [first, second].into_iter().zip(results) {
        slots[step.outs[0] as usize] = Some(Ok(result));
    }
    true
}

/// All or nothing: with a poisoned new value the cells keep their old ones. An old value may be gone when the step that
/// made its new one took its storage over; it is then not needed (PLAN-3).
fn write(plan: &Plan, instr: u32, slots: &mut Slots, sink: &dyn Sink<CpuBuffer>) {
    let instr = &plan.instrs[instr as usize];
    let (old, new) = instr.ins.split_at(instr.ins.len() / 2);
    let poison = new.iter().find_map(|id| poison_of(slots, id.0 as Slot)).cloned();
    if let Some(failure) = &poison {
        sink.write_skipped(failure.clone());
    }
    let chosen = if poison.is_some() { old } else { new };
    let values: SmallVec<[_; 4]> = chosen.iter().map(|id| slots[id.0 as usize].clone()).collect();
    for (id, value) in instr.outs.iter().zip(values) {
        slots[id.0 as usize] = value;
    }
}

fn internal(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_string());
    Failure::new(FailureKind::Internal, format!("the CPU engine failed: {text}"))
}
