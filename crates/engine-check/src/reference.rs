//! The slow engine that *defines* every op: [`evaluate`] is the meaning of an instruction, everything else must
//! agree with it. Fused steps are computed as their tile programs say, with the same bits (`reference/tiles.rs`).
//!
//! REFERENCE-1: data movement copies elements bit for bit; arithmetic is done in double precision or 64-bit
//! integers by the rows' own functions and rounded (wrapped) to the dtype once per instruction.
//! REFERENCE-2: everything an instruction can fail at is checked before anything is written.
//! REFERENCE-3: a buffer is never changed once it exists.
//! REFERENCE-4: before an instruction is computed, the memory that its results and all numbers on the way to them take is compared
//! with what there is: too much is a failure, never an allocation that is not to be had.

mod elementwise;
mod index;
mod movement;
mod random;
mod reduce;
mod tiles;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::{Bytes, Failure, FailureKind, HostTensor, Op, Scalar, TensorType, Val, moved_bytes};
use gt_plan::{EngineLimits, Plan, Slot};

use crate::eager::Eager;
use crate::numbers;
use crate::stepwise::{self, Compute, FusedTask, StepwiseProgram, Task};
use gt_engine::Quota;
use gt_engine::{Buffer, Done, Engine, Memory, Run, Ticket};

/// What an instruction computes. The inputs must be such that `infer` accepts them, and `scalars` as many as
/// the op says.
pub fn evaluate(
    op: &Op,
    ins: &[&HostTensor],
    scalars: &[Scalar],
    payload: Option<&Bytes>,
) -> Result<Vec<HostTensor>, Failure> {
    evaluate_within(u64::MAX, op, ins, scalars, payload)
}

/// What an element takes on the way to a result besides itself: its place, and a number or two in double precision.
const WORK_BYTES_PER_ELEMENT: u64 = 24;
/// What an instruction works with is looked at from here on; less is always there.
const SMALL_WORK_BYTES: u64 = 1 << 20;

/// The memory that computing `outs` from `ins` takes, about.
fn work_bytes(ins: &[TensorType], outs: &[TensorType]) -> u64 {
    let of = |ty: &TensorType| (ty.numel() as u64).saturating_mul(ty.dtype.size() as u64 + WORK_BYTES_PER_ELEMENT);
    ins.iter().chain(outs).map(of).fold(0, u64::saturating_add)
}

/// REFERENCE-4.
fn check_work(wanted: u64, room_bytes: u64) -> Result<(), Failure> {
    if wanted <= SMALL_WORK_BYTES {
        return Ok(());
    }
    if wanted > room_bytes {
        let message = format!(
            "out of memory: the operation needs {wanted} bytes of scratch memory, but {room_bytes} bytes are left"
        );
        return Err(Failure::new(FailureKind::Memory, message));
    }
    gt_ir::vec_for_bytes(usize::try_from(wanted).unwrap_or(usize::MAX)).map(drop)
}

/// [`evaluate`] in so many bytes.
pub(crate) fn evaluate_within(
    room_bytes: u64,
    op: &Op,
    ins: &[&HostTensor],
    scalars: &[Scalar],
    payload: Option<&Bytes>,
) -> Result<Vec<HostTensor>, Failure> {
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let outs = op.primitive().infer(&types).map_err(|e| Failure::new(FailureKind::Internal, e.to_string()))?;
    check_work(work_bytes(&types, &outs), room_bytes)?;
    let one = |tensor: HostTensor| vec![tensor];
    Ok(match op {
        Op::Fill(_) => one(movement::repeat(&numbers::scalar_element(scalars[0], outs[0].dtype), outs[0])),
        Op::Iota(_) => one(random::iota(outs[0], scalars)),
        Op::Random(op) => one(random::draw(op, outs[0], scalars)?),
        Op::Upload(_) => one(movement::upload(outs[0], payload)?),
        Op::Unary(op) => one(elementwise::unary(op, ins[0], outs[0])),
        Op::Binary(op) => one(elementwise::binary(op, ins, scalars, outs[0])),
        Op::Compare(op) => one(elementwise::compare(op, ins, scalars, outs[0])),
        Op::Select(op) => one(elementwise::select(op, ins, scalars, outs[0])),
        Op::Cast(_) => one(elementwise::cast(ins[0], outs[0])),
        Op::Reduce(op) => one(reduce::reduce(op, ins[0], outs[0])),
        Op::ArgReduce(op) => one(reduce::arg_reduce(op, ins[0], outs[0])),
        Op::Scan(op) => one(reduce::scan(op, ins[0])),
        Op::Sort(op) => reduce::sort(op, ins[0]),
        Op::Matmul(op) => {
            let (a, b) = (movement::turned(ins[0], op.turn_a), movement::turned(ins[1], op.turn_b));
            one(reduce::matmul(&a, &b, outs[0]))
        }
        Op::Reshape(_) => one(HostTensor { ty: outs[0], bytes: ins[0].bytes.clone() }),
        Op::Permute(op) => one(movement::permute(op, ins[0], outs[0])),
        Op::Broadcast(_) => one(movement::repeat(ins[0], outs[0])),
        Op::Slice(op) => one(movement::slice(op, ins[0], scalars, outs[0])?),
        Op::UpdateSlice(op) => one(movement::update_slice(op, ins[0], ins[1], scalars)?),
        Op::Pad(op) => one(movement::pad(op, ins[0], scalars[0], outs[0])),
        Op::Concat(op) => one(movement::concat(op, ins, outs[0])),
        Op::Take(op) => one(index::take(op, ins[0], ins[1], outs[0])?),
        Op::Put(op) => one(index::put(op, ins[0], ins[1], ins[2])?),
        Op::Gather(op) => one(index::gather(op, ins[0], ins[1], outs[0])?),
        Op::Scatter(op) => one(index::scatter(op, ins[0], ins[1], ins[2])?),
        // All inputs are good here; keeping the old values when one is not is the engine's part.
        Op::Write(_) => ins[ins.len() / 2..].iter().map(|&t| t.clone()).collect(),
        Op::Check(op) => one(index::check(op, ins[0], ins[1])?),
        Op::Attention(_) | Op::AttentionGrad(_) | Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) | Op::Update(_) => {
            expanded(room_bytes, op, ins, scalars)?
        }
    })
}

/// A composite is what its expansion is.
fn expanded(room_bytes: u64, op: &Op, ins: &[&HostTensor], scalars: &[Scalar]) -> Result<Vec<HostTensor>, Failure> {
    let composite =
        op.composite().ok_or_else(|| Failure::new(FailureKind::Internal, "a primitive has no expansion"))?;
    let mut eager = Eager::within(room_bytes);
    let vals: Vec<Val> = ins.iter().map(|&t| eager.put(t.clone())).collect();
    let outs = composite.expand(&vals, scalars, &mut eager);
    let outs =
        outs.map_err(|e| eager.take_failure().unwrap_or_else(|| Failure::new(FailureKind::Internal, e.to_string())))?;
    Ok(outs.iter().map(|&v| eager.get(v).clone()).collect())
}

/// The reference engine. It is done when `submit` returns.
pub struct Reference {
    meter: Arc<Meter>,
    one_by_one: bool,
}

struct Meter {
    live: AtomicU64,
    peak: AtomicU64,
    limit: u64,
}

/// A value of the reference engine.
#[derive(Clone)]
pub struct ReferenceBuffer(Arc<Storage>);

struct Storage {
    tensor: HostTensor,
    meter: Arc<Meter>,
    quota: Option<Arc<Quota>>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        let bytes = self.tensor.bytes.len() as u64;
        self.meter.live.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(quota) = &self.quota {
            quota.give_back(bytes);
        }
    }
}

impl Default for Reference {
    fn default() -> Self {
        Reference::with_limit(u64::MAX)
    }
}

impl Reference {
    /// An engine with no limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine that fails what would take it over `limit_bytes`.
    pub fn with_limit(limit_bytes: u64) -> Self {
        let meter = Meter { live: AtomicU64::new(0), peak: AtomicU64::new(0), limit: limit_bytes };
        Reference { meter: Arc::new(meter), one_by_one: false }
    }

    /// An engine that evaluates each instruction by itself, also those of fused steps.
    #[must_use]
    pub fn one_by_one(self) -> Self {
        Reference { one_by_one: true, ..self }
    }

    /// A value of this engine.
    pub fn buffer(&self, tensor: HostTensor) -> ReferenceBuffer {
        self.charged(tensor, None)
    }

    /// A value whose bytes were charged to `quota`.
    fn charged(&self, tensor: HostTensor, quota: Option<Arc<Quota>>) -> ReferenceBuffer {
        let bytes = tensor.bytes.len() as u64;
        let live = self.meter.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.meter.peak.fetch_max(live, Ordering::Relaxed);
        ReferenceBuffer(Arc::new(Storage { tensor, meter: self.meter.clone(), quota }))
    }

    /// What is left of the limit.
    fn left(&self) -> u64 {
        self.meter.limit.saturating_sub(self.meter.live.load(Ordering::Relaxed))
    }

    fn check_room(&self, wanted: u64) -> Result<(), Failure> {
        let live = self.meter.live.load(Ordering::Relaxed);
        if live.saturating_add(wanted) <= self.meter.limit {
            return Ok(());
        }
        let limit = self.meter.limit;
        Err(Failure::new(
            FailureKind::Memory,
            format!(
                "out of memory: tried to allocate {wanted} bytes with {live} bytes in use; the limit is {limit} bytes"
            ),
        ))
    }
}

impl Buffer for ReferenceBuffer {
    fn ty(&self) -> TensorType {
        self.0.tensor.ty
    }
    fn bytes(&self) -> usize {
        self.0.tensor.bytes.len()
    }
    fn storage(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        let HostTensor { ty, bytes } = &self.0.tensor;
        let mut copy = gt_ir::vec_for_bytes(bytes.len())?;
        copy.extend_from_slice(bytes);
        Ok(HostTensor { ty: *ty, bytes: copy })
    }
    fn packed(&self) -> Option<&[u8]> {
        Some(&self.0.tensor.bytes)
    }
}

/// The engine with what a run's allocations are charged to.
struct Charging<'a> {
    engine: &'a Reference,
    quota: Option<Arc<Quota>>,
}

impl Charging<'_> {
    /// Charges values of so many bytes together to the quota.
    fn charge(&self, wanted: u64) -> Result<(), Failure> {
        self.quota.as_ref().map_or(Ok(()), |quota| quota.charge(wanted))
    }
}

impl Compute<ReferenceBuffer> for Charging<'_> {
    fn instr(&mut self, task: Task<'_, ReferenceBuffer>) -> Result<Vec<ReferenceBuffer>, Failure> {
        let ins: Vec<&HostTensor> = task.ins.iter().map(|b| &b.0.tensor).collect();
        let wanted = moved_bytes(task.outs.iter());
        self.engine.check_room(wanted)?;
        task.payload.iter().for_each(|payload| payload.settle());
        self.charge(wanted)?;
        let outs =
            evaluate_within(self.engine.left(), task.op, &ins, task.scalars, task.payload).inspect_err(|_| {
                self.quota.iter().for_each(|quota| quota.give_back(wanted));
            })?;
        Ok(outs.into_iter().map(|t| self.engine.charged(t, self.quota.clone())).collect())
    }

    fn program(&mut self, task: FusedTask<'_, ReferenceBuffer>) -> Option<Vec<(Slot, ReferenceBuffer)>> {
        let FusedTask { program, ins, consts } = task;
        if self.engine.one_by_one || check_work(tiles::work_bytes(program), self.engine.left()).is_err() {
            return None;
        }
        let made = program.outs.iter().map(|out| out.ty).chain(program.folds.iter().map(|fold| fold.ty));
        let wanted = moved_bytes(made.collect::<Vec<_>>().iter());
        self.engine.check_room(wanted).and_then(|()| self.charge(wanted)).ok()?;
        let ins = ins.iter().map(|b| &b.0.tensor).collect();
        let results = tiles::Bound { program, ins, consts }.run();
        let charged = |(slot, tensor)| (slot, self.engine.charged(tensor, self.quota.clone()));
        Some(results.into_iter().map(charged).collect())
    }
}

impl Engine for Reference {
    type Buffer = ReferenceBuffer;
    type Program = StepwiseProgram;

    fn name(&self) -> &'static str {
        "reference"
    }
    fn limits(&self) -> EngineLimits {
        // Those of the CPU engine, so that its plans are tested here.
        EngineLimits::MODERATE
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<StepwiseProgram, Failure> {
        Ok(StepwiseProgram::new(plan.clone()))
    }
    fn submit(&mut self, program: &Arc<StepwiseProgram>, run: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        let mut charging = Charging { engine: self, quota: run.quota.clone() };
        stepwise::run(program, run, &mut charging);
        Box::new(Done)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        Memory {
            live_bytes: self.meter.live.load(Ordering::Relaxed),
            peak_bytes: self.meter.peak.load(Ordering::Relaxed),
            cached_bytes: 0,
            limit_bytes: self.meter.limit,
        }
    }
    fn trim(&mut self) {}
}
