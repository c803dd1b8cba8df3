//! The slow engine that *defines* every op: [`evaluate`] is the meaning of an instruction, everything else must
//! agree with it.
//!
//! REFERENCE-1: data movement copies elements bit for bit; arithmetic is done in double precision or 64-bit
//! integers by the rows' own functions and rounded (wrapped) to the dtype once per instruction.
//! REFERENCE-2: everything an instruction can fail at is checked before anything is written.
//! REFERENCE-3: a buffer is never changed once it exists.

mod elementwise;
mod index;
mod movement;
mod random;
mod reduce;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::{Bytes, Failure, FailureKind, HostTensor, Op, Scalar, TensorType, Val};
use gt_plan::Plan;

use crate::eager::Eager;
use crate::engine::{Buffer, Done, Engine, Memory, Run, Ticket};
use crate::numbers;
use crate::quota::Quota;
use crate::stepwise::{self, StepwiseProgram};

/// What an instruction computes. The inputs must be such that `infer` accepts them, and `scalars` as many as
/// the op says.
pub fn evaluate(
    op: &Op,
    ins: &[&HostTensor],
    scalars: &[Scalar],
    payload: Option<&Bytes>,
) -> Result<Vec<HostTensor>, Failure> {
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let outs = op.primitive().infer(&types).map_err(|e| Failure::new(FailureKind::Internal, e.to_string()))?;
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
            expanded(op, ins, scalars)?
        }
    })
}

/// A composite is what its expansion is.
fn expanded(op: &Op, ins: &[&HostTensor], scalars: &[Scalar]) -> Result<Vec<HostTensor>, Failure> {
    let composite =
        op.composite().ok_or_else(|| Failure::new(FailureKind::Internal, "a primitive has no expansion"))?;
    let mut eager = Eager::new();
    let vals: Vec<Val> = ins.iter().map(|&t| eager.put(t.clone())).collect();
    let outs = composite.expand(&vals, scalars, &mut eager);
    let outs =
        outs.map_err(|e| eager.take_failure().unwrap_or_else(|| Failure::new(FailureKind::Internal, e.to_string())))?;
    Ok(outs.iter().map(|&v| eager.get(v).clone()).collect())
}

/// The reference engine. It is done when `submit` returns.
pub struct Reference {
    meter: Arc<Meter>,
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
        Reference { meter: Arc::new(Meter { live: AtomicU64::new(0), peak: AtomicU64::new(0), limit: limit_bytes }) }
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

    fn check_room(&self, outs: &[TensorType]) -> Result<(), Failure> {
        let wanted: u64 = outs.iter().map(|t| t.bytes() as u64).sum();
        let live = self.meter.live.load(Ordering::Relaxed);
        if live.saturating_add(wanted) <= self.meter.limit {
            return Ok(());
        }
        let limit = self.meter.limit;
        Err(Failure::new(
            FailureKind::Memory,
            format!("out of memory: {wanted} bytes wanted, {live} of {limit} in use"),
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
    fn read(&self) -> Result<HostTensor, Failure> {
        Ok(self.0.tensor.clone())
    }
    fn packed(&self) -> Option<&[u8]> {
        Some(&self.0.tensor.bytes)
    }
}

impl Engine for Reference {
    type Buffer = ReferenceBuffer;
    type Program = StepwiseProgram;

    fn name(&self) -> &'static str {
        "reference"
    }
    fn prepare(&mut self, plan: Arc<Plan>) -> StepwiseProgram {
        StepwiseProgram::new(plan)
    }
    fn submit(&mut self, program: &Arc<StepwiseProgram>, run: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        let quota = run.quota.clone();
        stepwise::run(program, run, &mut |task| {
            self.check_room(task.outs)?;
            let ins: Vec<&HostTensor> = task.ins.iter().map(|b| &b.0.tensor).collect();
            let wanted: u64 = task.outs.iter().map(|t| t.bytes() as u64).sum();
            quota.as_ref().map_or(Ok(()), |quota| quota.charge(wanted))?;
            let outs = evaluate(task.op, &ins, task.scalars, task.payload).inspect_err(|_| {
                quota.iter().for_each(|quota| quota.give_back(wanted));
            })?;
            Ok(outs.into_iter().map(|t| self.charged(t, quota.clone())).collect())
        });
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
