//! What an engine is.

use std::sync::Arc;

use gt_ir::{Failure, HostTensor, TensorType};
use gt_plan::{Immediates, Plan, Slot};

use crate::adopt::Adopt;
use crate::host_memory::{HostMemory, Uncounted};
use crate::quota::Quota;

/// A value on a device, or the failure that poisons it.
pub type Value<B> = Result<B, Arc<Failure>>;

/// A value's storage on a device. Clones share it; it never changes while it is shared. A handle is good for every engine
/// that has such buffers, in the whole process: values move between workers so.
pub trait Buffer: Clone + Send + Sync + 'static {
    /// What it holds.
    fn ty(&self) -> TensorType;
    /// Bytes of the storage it keeps alive.
    fn bytes(&self) -> usize;
    /// A packed copy in ordinary memory. May be called from any thread; waits for the device if it must.
    fn read(&self) -> Result<HostTensor, Failure>;
    /// The elements where they are, packed, where that is ordinary memory: spares a copy. They do not change while this
    /// handle lives.
    fn packed(&self) -> Option<&[u8]> {
        None
    }
}

/// Receives values as they are computed.
pub trait Sink<B>: Send + Sync {
    /// A live-out slot is ready (or poisoned).
    fn publish(&self, slot: Slot, value: Value<B>);
    /// A write was skipped because a new value was poisoned; the cell kept its old value.
    fn write_skipped(&self, failure: Arc<Failure>);
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
}

/// Work that was handed to an engine.
pub trait Ticket: Send {
    /// Waits until everything of the run has been published.
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

/// Executes plans on one device. Asynchronous: `submit` may return before the work is done; runs are
/// executed in the order they were submitted. Failures are values: they poison what depends on them
/// and never end a run.
pub trait Engine: Send + 'static {
    /// The device's storage.
    type Buffer: Buffer;
    /// A plan made ready for this engine.
    type Program: Send + Sync + 'static;

    /// A short name: `cpu`, `reference`.
    fn name(&self) -> &'static str;
    /// Does once per plan what need not be done per run.
    fn prepare(&mut self, plan: Arc<Plan>) -> Self::Program;
    /// Queues a run.
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<Self::Buffer>) -> Box<dyn Ticket>;
    /// Waits for all that was submitted.
    fn synchronize(&mut self);
    /// What is allocated.
    fn memory(&self) -> Memory;
    /// Gives cached memory back to the system.
    fn trim(&mut self);
    /// Gives memory for payloads, and counts what lies in ordinary memory for it.
    fn host_memory(&self) -> Arc<dyn HostMemory> {
        Arc::new(Uncounted)
    }
    /// Makes values of payloads in that memory, if it can do so where they lie.
    fn adopter(&self) -> Option<Arc<dyn Adopt<Self::Buffer>>> {
        None
    }
}
