//! What an engine is.

use std::sync::Arc;

use gt_ir::{Failure, HostTensor, TensorType};
use gt_plan::{EngineLimits, Immediates, Plan, Slot};

use crate::cancel::Cancel;
use crate::family_times::FamilyTimes;
use crate::quota::Quota;
use crate::transfer::{Transfer, Uncounted};

/// A value on a device, or the failure that poisons it.
pub type Value<B> = Result<B, Arc<Failure>>;

/// Whether a value is computed.
#[derive(Clone, Debug)]
pub enum ValueState {
    /// A run that was submitted will compute it.
    Pending,
    /// Its elements can be read.
    Ready,
    /// The run that was to compute it failed.
    Failed(Arc<Failure>),
}

/// A value's storage on a device. Clones share it; it never changes while it is shared. A handle is good for every engine
/// that has such buffers, in the whole process: values move between workers so.
pub trait Buffer: Clone + Send + Sync + 'static {
    /// What it holds.
    fn ty(&self) -> TensorType;
    /// Bytes of the storage it keeps alive.
    fn bytes(&self) -> usize;
    /// Tells handles of one storage from those of another, while both live.
    fn storage(&self) -> usize;
    /// Whether it is computed. An engine that is done when `submit` returns has no pending values.
    fn state(&self) -> ValueState {
        ValueState::Ready
    }
    /// A packed copy in ordinary memory, or a failure where there is no memory for it. Any thread may call it. It waits for a
    /// pending value.
    fn read(&self) -> Result<HostTensor, Failure>;
    /// The elements where they are, packed, where that is ordinary memory: spares a copy. They do not change while this
    /// handle lives.
    fn packed(&self) -> Option<&[u8]> {
        None
    }
}

/// Receives the values of one run.
///
/// PUBLISH-1: every live-out slot is published once, before `submit` returns: ready, pending or poisoned. So a run can be submitted
///         while those that compute its inputs still execute. Only a cancelled run may leave slots out.
/// PUBLISH-2: a pending value is settled once, before the ticket's wait returns, whatever becomes of the run.
/// PUBLISH-3: a pending value fails with a failure that `place` returned, so that dependents of other runs carry the same one.
/// PUBLISH-4: a skipped write is reported before its values are published or settled.
pub trait Sink<B>: Send + Sync {
    /// A live-out slot has this value.
    fn publish(&self, slot: Slot, value: Value<B>);
    /// The value that was published as pending is no longer so.
    fn settled(&self, slot: Slot);
    /// Adds to a failure of this run what the engine does not know, such as the worker's name.
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure>;
    /// The write of this number in the plan was skipped because a new value was poisoned; the cell kept its old value.
    fn write_skipped(&self, instr: u32, failure: Arc<Failure>);
}

/// One run of a plan.
pub struct Run<B> {
    /// The values of the input slots. A dying input is moved in, so that its buffer can be reused.
    pub inputs: Vec<Value<B>>,
    /// Scalars, sites and payloads.
    pub immediates: Immediates,
    /// Where results go.
    pub sink: Arc<dyn Sink<B>>,
    /// What the run's allocations are charged to, beside the engine's own limit. An allocation that it refuses fails
    /// its instruction as any lack of memory does.
    pub quota: Option<Arc<Quota>>,
    /// Whether anybody still wants the results.
    pub cancel: Cancel,
    /// Whether denormal numbers are zeros, in operands and results. An engine that cannot do so computes with them.
    pub flush_denormal: bool,
}

/// Work that was handed to an engine.
pub trait Ticket: Send {
    /// Waits until no value of the run is pending.
    fn wait(self: Box<Self>);
}

/// A ticket for work that is already done.
pub struct Done;

impl Ticket for Done {
    fn wait(self: Box<Self>) {}
}

/// What an engine has allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in buffers that someone holds.
    pub live_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// Bytes kept for reuse.
    pub cached_bytes: u64,
    /// The most that may be allocated.
    pub limit_bytes: u64,
}

/// Executes plans on one device, in the order they were submitted. `submit` may return before the work is done: then values are
/// published as pending, and the inputs of later runs may be pending too. Failures are values: they poison their dependents and
/// never end a run.
pub trait Engine: Send + 'static {
    /// The device's storage.
    type Buffer: Buffer;
    /// A plan made ready for this engine.
    type Program: Send + Sync + 'static;

    /// A short name: `cpu`, `reference`.
    fn name(&self) -> &'static str;
    /// How large the steps of its plans may be.
    fn limits(&self) -> EngineLimits;
    /// Does once per plan what need not be done per run.
    ///
    /// # Errors
    /// When the device's compiler or memory does not allow it. The plan's values are poisoned then.
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure>;
    /// Queues a run.
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<Self::Buffer>) -> Box<dyn Ticket>;
    /// Waits for all that was submitted.
    fn synchronize(&mut self);
    /// What is allocated.
    fn memory(&self) -> Memory;
    /// Gives cached memory back to the system.
    fn trim(&mut self);
    /// Where the time of its steps goes, if it measures that.
    fn family_times(&self) -> Option<Arc<FamilyTimes>> {
        None
    }
    /// How payloads get into its memory.
    fn transfer(&self) -> Arc<dyn Transfer<Self::Buffer>> {
        Arc::new(Uncounted)
    }
}
