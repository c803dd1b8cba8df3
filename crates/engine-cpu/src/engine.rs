//! The engine: plans in, published values out, all on the calling thread and its helpers.
//!
//! ENGINE-1: a run is done when `submit` returns.
//! ENGINE-2: a step allocates and checks before it writes, so a failed step changes nothing (PLAN-3).
//! ENGINE-3: a step with a poisoned input runs for those of its results that do not depend on it.
//! ENGINE-5: an instruction that would take hours fails instead: sessions share the engine, and none can interrupt another's work.
//! ENGINE-4: the steps that are left of a run when it is cancelled are not run. Long steps end early and leave garbage, which nobody
//! sees: what is left undone computes no addresses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use gt_engine::{
    Buffer, Cancel, Done, Engine, Family, FamilyTimes, MeasuredRun, Memory, Run, Sink, Ticket, Transfer, Value,
};
use gt_ir::{Failure, FailureKind, Op, SiteId, TensorId, TensorType};
use gt_plan::tile::TileProgram;
use gt_plan::{EngineLimits, Immediates, Plan, Slot, Step, StepKind};
use smallvec::SmallVec;

use crate::affinity::CoreAffinity;
use crate::alloc::Allocator;
use crate::buffer::CpuBuffer;
use crate::denormal::Mode;
use crate::fused::{Fused, Slots, TILE};
use crate::kernels::LONGEST_PAIRED_PRODUCT;
use crate::pool::Pool;
use crate::single;
use crate::transfer::CpuTransfer;

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
    messengers: Option<Arc<CoreAffinity>>,
    times: Arc<FamilyTimes>,
}

/// A plan made ready: its fused steps as loops.
pub struct CpuProgram {
    plan: Arc<Plan>,
    steps: Vec<Prepared>,
}

pub(crate) enum Prepared {
    Fused(Box<Fused>),
    Single(PreparedSingle),
    /// An instruction of the step would keep the engine busy for hours (ENGINE-5).
    TooLong,
}

/// What a step may hold. Its tiles have to stay in the nearest cache, rows are whole in a tile (FUSED-5), and each part is
/// looked at for every tile.
pub(crate) const LIMITS: EngineLimits = EngineLimits {
    max_step_instrs: 48,
    max_step_outs: 24,
    max_row_len: TILE,
    max_parts: 16,
    side_by_side_elements: 1 << 16,
    max_paired_product: LONGEST_PAIRED_PRODUCT,
};

/// The most arithmetic of one instruction, and the most bytes that it may go through: hours of a fast processor's work.
/// No memory limit stops such work: a tensor of one element can be expanded to any size.
const MOST_FLOPS: u64 = 1 << 51;
const MOST_BYTES: u64 = 1 << 49;

/// What is known of a step of one instruction before it runs.
#[derive(Clone, Copy)]
pub(crate) struct PreparedSingle {
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
    pub cancel: &'a Cancel,
}

impl CpuEngine {
    /// An engine with its helper threads started.
    pub fn new(config: Config) -> CpuEngine {
        let allocator = Allocator::new(config.memory_limit_bytes);
        CpuEngine {
            pool: Pool::within(config.threads.max(1), allocator.clone()),
            allocator,
            slots: Vec::new(),
            messengers: None,
            times: Arc::default(),
        }
    }

    /// With a limit of its memory that may change.
    #[must_use]
    pub fn limited_by(mut self, limit_bytes: Arc<AtomicU64>) -> CpuEngine {
        self.allocator = Allocator::under(limit_bytes);
        // What its threads work in counts too.
        self.pool = Pool::within(self.pool.threads(), self.allocator.clone());
        self
    }

    /// With threads that keep off the core of the thread that runs plans. Those that bring it messages are woken in the
    /// middle of its runs, and everybody waits for the runs; on another core they interrupt a helper, or somebody who records.
    #[must_use]
    pub fn with_messengers(mut self, messengers: Arc<CoreAffinity>) -> CpuEngine {
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
            self.pool = Pool::within(threads.max(1), self.allocator.clone());
        }
    }
}

impl Engine for CpuEngine {
    type Buffer = CpuBuffer;
    type Program = CpuProgram;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn limits(&self) -> EngineLimits {
        LIMITS
    }

    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<CpuProgram, Failure> {
        Ok(CpuProgram { plan: plan.clone(), steps: prepare_steps(plan) })
    }

    fn submit(&mut self, program: &Arc<CpuProgram>, run: Run<CpuBuffer>) -> Box<dyn Ticket> {
        if let Some(messengers) = &self.messengers {
            messengers.keep_away();
        }
        self.pool.set_cancel(run.cancel.clone());
        let plan = &*program.plan;
        let _mode = Mode::enter(run.flush_denormal);
        let _charging = run.quota.map(|quota| self.allocator.charge_to(quota));
        let mut slots = std::mem::take(&mut self.slots);
        let (immediates, cancel) = (&run.immediates, &run.cancel);
        let cx = Context { plan, immediates, allocator: &self.allocator, pool: &self.pool, cancel };
        run_steps(&cx, &program.steps, run.inputs, &mut slots, &*run.sink, self.times.measure().as_ref());
        self.slots = slots;
        Box::new(Done)
    }

    fn family_times(&self) -> Option<Arc<FamilyTimes>> {
        Some(self.times.clone())
    }

    fn synchronize(&mut self) {}

    fn memory(&self) -> Memory {
        self.allocator.memory()
    }

    fn trim(&mut self) {
        self.allocator.trim();
    }

    fn transfer(&self) -> Arc<dyn Transfer<CpuBuffer>> {
        Arc::new(CpuTransfer(self.allocator.clone()))
    }
}

/// The steps of a plan made ready.
pub(crate) fn prepare_steps(plan: &Plan) -> Vec<Prepared> {
    let uploads: Vec<usize> = (0..plan.instrs.len()).filter(|&i| matches!(plan.instrs[i].op, Op::Upload(_))).collect();
    let payload_of = |instr: u32| uploads.binary_search(&(instr as usize)).unwrap_or(usize::MAX);
    let prepare = |step: &Step| match &step.kind {
        _ if step.instrs.iter().any(|&at| takes_hours(plan, at)) => Prepared::TooLong,
        StepKind::Fused { program } => Prepared::Fused(Box::new(Fused::compile(plan, step, program))),
        StepKind::Single => {
            let instr = step.instrs[0];
            Prepared::Single(PreparedSingle {
                payload: payload_of(instr),
                turned: is_turned(plan, instr),
                beside_next: false,
            })
        }
    };
    let mut steps: Vec<Prepared> = plan.steps.iter().map(prepare).collect();
    pair_products(plan, &mut steps);
    steps
}

/// ENGINE-5.
fn takes_hours(plan: &Plan, at: u32) -> bool {
    let instr = &plan.instrs[at as usize];
    let types =
        |ids: &[TensorId]| ids.iter().map(|id| plan.types[id.0 as usize]).collect::<SmallVec<[TensorType; 4]>>();
    let cost = instr.op.primitive().cost(&types(&instr.ins), &types(&instr.outs));
    cost.flops > MOST_FLOPS || cost.bytes > MOST_BYTES
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
    measured: Option<&MeasuredRun<'_>>,
) {
    let plan = cx.plan;
    bind(plan, inputs, slots);
    let mut done = 0;
    for (at, (step, prepared)) in plan.steps.iter().zip(steps).enumerate() {
        if cx.cancel.is_cancelled() {
            break;
        }
        let start = measured.map(|measured| (measured, Instant::now()));
        match prepared {
            _ if at < done => {}
            Prepared::Fused(fused) => run_fused(cx, step, fused, slots),
            Prepared::TooLong => {
                let message = "this operation would take hours on this device: its tensors are too large";
                let failure = cx.placed(step.instrs[0], Failure::new(FailureKind::Value, message), slots);
                step.outs.iter().for_each(|&slot| slots[slot as usize] = Some(Err(failure.clone())));
            }
            Prepared::Single(PreparedSingle { beside_next: true, .. }) if run_two_products(cx, steps, at, slots) => {
                done = at + 2
            }
            Prepared::Single(lone) => {
                let instr = step.instrs[0];
                if matches!(plan.instrs[instr as usize].op, Op::Write(_)) {
                    write(plan, instr, slots, sink);
                } else {
                    run_single(cx, step, *lone, slots);
                }
            }
        }
        // What a cancelled step has left undone must not be seen.
        if cx.cancel.is_cancelled() {
            break;
        }
        for &slot in &step.publish {
            if let Some(value) = &slots[slot as usize] {
                sink.publish(slot, value.clone());
            }
        }
        for &slot in &step.drops {
            slots[slot as usize] = None;
        }
        if let Some((measured, start)) = start {
            let family = match prepared {
                Prepared::Fused(_) => Family::Elementwise,
                Prepared::Single(_) | Prepared::TooLong => Family::of(&plan.instrs[step.instrs[0] as usize].op),
            };
            measured.count(family, start);
        }
    }
    slots.clear();
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
            cause: failure.cause.and_then(|cause| cause.in_plan(at)),
            ..failure
        })
    }

    fn ty(&self, id: TensorId) -> TensorType {
        self.plan.types[id.0 as usize]
    }

    fn site(&self, instr: u32) -> SiteId {
        self.immediates.sites.get(instr as usize).copied().unwrap_or_default()
    }

    /// The lines of this run whose values hold most. What an input holds is not theirs: others know who made it.
    fn holders(&self, slots: &Slots) -> Vec<(u64, SiteId)> {
        const MOST: usize = 100;
        let buffer = |slot: usize| slots.get(slot).and_then(|value| value.as_ref()?.as_ref().ok());
        let mut seen: Vec<usize> = (0..self.plan.inputs).filter_map(buffer).map(Buffer::storage).collect();
        let mut held: Vec<(u64, SiteId)> = Vec::new();
        for (at, instr) in self.plan.instrs.iter().enumerate() {
            for buffer in instr.outs.iter().filter_map(|id| buffer(id.0 as usize)) {
                if !seen.contains(&buffer.storage()) {
                    seen.push(buffer.storage());
                    held.push((buffer.storage.len_bytes() as u64, self.site(at as u32)));
                }
            }
        }
        Failure::largest_holders(held, MOST)
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
        kind: StepKind::Single,
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
    if let (false, Some(space)) = (healthy.outs.is_empty(), step.space()) {
        let plan = cx.plan;
        let program = TileProgram::of(&plan.instrs, &plan.types, &healthy.instrs, &healthy.outs, space);
        let fused = Fused::compile(plan, &healthy, &program);
        run_fused(cx, &healthy, &fused, slots);
    }
}

fn run_single(cx: &Context<'_>, step: &Step, lone: PreparedSingle, slots: &mut Slots) {
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
    let at = instr;
    let instr = &plan.instrs[at as usize];
    let (old, new) = instr.ins.split_at(instr.ins.len() / 2);
    let poison = new.iter().find_map(|id| poison_of(slots, id.0 as Slot)).cloned();
    if let Some(failure) = &poison {
        sink.write_skipped(at, failure.clone());
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
