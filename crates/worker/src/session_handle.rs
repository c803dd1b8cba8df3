//! What the rest of the process holds of a session.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gt_ir::ops::Upload;
use gt_ir::{Bytes, Failure, HostTensor, Op, ScopeId, SiteId, TensorId, TensorType};
use gt_stream::{Occurrence, Recording};

use crate::answers::{DoneThen, MoveThen, Pending, ReadThen};
use crate::attached::SessionPort;
use crate::inbox::{Message, Missing, Queued};
use crate::moved::{Departing, Supplied};
use crate::queue::Signals;
use crate::session::ExecutedHook;
use crate::{IdleHook, Interrupted, Oversupplied, ReadError, SessionMemory, WorkerHandle, WorkerStats};

struct Inner {
    port: Box<dyn SessionPort>,
    signals: Arc<Signals>,
    worker: WorkerHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.port.close();
    }
}

/// A session of a worker, shared by all who send to it. When the last handle goes, the session is closed.
#[derive(Clone)]
pub struct SessionHandle {
    inner: Arc<Inner>,
}

impl SessionHandle {
    pub(crate) fn new(port: Box<dyn SessionPort>, signals: Arc<Signals>, worker: WorkerHandle) -> Self {
        SessionHandle { inner: Arc::new(Inner { port, signals, worker }) }
    }

    /// Its account of ordinary memory.
    pub fn memory(&self) -> SessionMemory {
        self.inner.port.memory()
    }

    /// Says whether denormal numbers are zeros in the windows that run from now on.
    pub fn set_flush_denormal(&self, on: bool) {
        self.inner.port.set_flush_denormal(on);
    }

    /// The worker it is a session of.
    pub fn worker(&self) -> &WorkerHandle {
        &self.inner.worker
    }

    /// Sends a window; a session's windows run in the order they were sent. Waits while credits are spent, asking `cancel`
    /// now and then.
    ///
    /// # Errors
    /// When `cancel` says so. The window is sent all the same.
    pub fn send(&self, occurrence: Occurrence, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        self.send_waiting(occurrence, Vec::new(), cancel)
    }

    /// As [`SessionHandle::send`], for a window some of whose payloads travel apart: it runs once all of them were
    /// [supplied](SessionHandle::supply). What is sent later waits with it; other sessions do not.
    ///
    /// # Errors
    /// As there.
    pub fn send_waiting(
        &self,
        occurrence: Occurrence,
        missing: Vec<Missing>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<(), Interrupted> {
        self.inner.port.send(Queued::new(Message::Run(occurrence), missing), cancel)
    }

    /// Sends a window if there is room for it: for threads that must not wait. There is room again when something has run
    /// ([`SessionHandle::on_executed`]).
    ///
    /// # Errors
    /// The window and what it waits for, if there is no room.
    pub fn try_send(
        &self,
        occurrence: Occurrence,
        missing: Vec<Missing>,
    ) -> Result<(), Box<(Occurrence, Vec<Missing>)>> {
        match self.inner.port.try_send(Queued::new(Message::Run(occurrence), missing)) {
            Err(queued) => queued.into_occurrence().map_or(Ok(()), |back| Err(Box::new(back))),
            Ok(()) => Ok(()),
        }
    }

    /// Delivers a payload that travelled apart, or a value that was [expected](SessionHandle::expect); it may come before
    /// the window that names it. Never waits.
    ///
    /// # Errors
    /// When it is more than the credits for bytes allow and nobody has asked for it: the peer breaks the rules.
    pub fn supply(&self, id: TensorId, bytes: Bytes) -> Result<(), Oversupplied> {
        self.inner.port.supply(id, Ok(Supplied::Bytes(bytes)))
    }

    /// As [`SessionHandle::supply`], for a value of another session of this process: it is not copied if the engines are
    /// of one kind. Its memory stays charged to where it comes from.
    ///
    /// # Errors
    /// As there.
    pub fn hand(&self, id: TensorId, value: Departing) -> Result<(), Oversupplied> {
        self.inner.port.supply(id, Ok(Supplied::Moved(value)))
    }

    /// As [`SessionHandle::supply`], for a payload that this process has made: no bytes of it came from the client.
    ///
    /// # Errors
    /// As there.
    pub fn supply_loaded(&self, id: TensorId, bytes: Bytes) -> Result<(), Oversupplied> {
        self.inner.port.supply(id, Ok(Supplied::Loaded(bytes)))
    }

    /// Says that a payload will never come: its value is poisoned with the failure, the rest of its window runs.
    pub fn fail(&self, id: TensorId, failure: Failure) {
        // A failure takes no bytes, so it is never too much.
        let _ = self.inner.port.supply(id, Err(Arc::new(failure)));
    }

    /// Values that cannot be had: whoever reads them, or what depends on them, gets this failure, and nobody else hears of it.
    pub fn give_up(&self, ids: &[TensorId], failure: &Failure) {
        let failure = Arc::new(failure.clone());
        ids.iter().for_each(|&id| self.inner.port.give_up(id, failure.clone()));
    }

    /// Defines a value of another worker that will be [supplied](SessionHandle::supply), or fail; what is sent later waits
    /// for it. Takes no credits: whoever sends it has no part in them.
    pub fn expect(&self, id: TensorId, ty: TensorType, site: SiteId) {
        self.inner.port.post(Queued::arrival(upload(id, ty, site), id));
    }

    /// Whether a send would wait for credits just now.
    pub fn is_full(&self) -> bool {
        self.inner.port.is_full()
    }

    /// Messages sent so far: windows, values defined from elsewhere, trims.
    pub fn sent(&self) -> u64 {
        self.inner.port.sent()
    }

    /// How many of them have run; all of them once the session has ended, since no more will.
    pub fn executed(&self) -> u64 {
        self.inner.port.executed()
    }

    /// Waits until all of them have, and raises nothing of what failed.
    ///
    /// # Errors
    /// When `cancel` says so.
    pub fn wait_executed(&self, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        self.inner.port.wait_executed(cancel)
    }

    /// Waits until the value is there (not until its window ends) and copies it on this thread. Raises the
    /// failure of a skipped write first, once.
    pub fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError> {
        self.inner.port.read(id, cancel)
    }

    /// As [`SessionHandle::read`], without waiting: `then` is called once, with the value or why there is none. A value
    /// that does not exist once `sent_before` messages have run never will.
    ///
    /// It is called on this thread before this returns if a small value is there already; on the thread that publishes
    /// it if a small one comes later; on a thread of its own for a large one. It must be quick and must not wait.
    pub fn read_then(&self, id: TensorId, sent_before: u64, then: ReadThen) {
        self.inner.port.on_ready(Pending::Value { id, sent: sent_before, then });
    }

    /// As [`SessionHandle::read_then`], for a value that goes to another worker: skipped writes stay to be raised, it is no
    /// round trip, and it is not copied, so `then` is called on this thread or the one that publishes it. Whatever becomes
    /// of its name afterwards, it stays as it is for as long as somebody holds it.
    pub fn move_then(&self, id: TensorId, sent_before: u64, then: MoveThen) {
        self.inner.port.on_ready(Pending::Move { id, sent: sent_before, then });
    }

    /// Waits until everything sent so far has run. Raises the failure of a skipped write, once.
    pub fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        self.inner.port.synchronize(cancel)
    }

    /// As [`SessionHandle::synchronize`], without waiting: `then` is called once `sent_before` messages have run, on this
    /// thread or the device's.
    pub fn synchronize_then(&self, sent_before: u64, then: DoneThen) {
        self.inner.port.on_ready(Pending::Done { sent: sent_before, then });
    }

    /// Sets what is called, on the device thread, each time a message has run, with the number that have. The first call
    /// wins; whether it is this one. The hook must not hold a handle of this session, or the session is never closed.
    pub fn on_executed(&self, hook: ExecutedHook) -> bool {
        self.inner.port.on_executed(hook)
    }

    /// What this session has done so far. Memory is its own where it has a limit of its own, else the worker's.
    pub fn stats(&self) -> WorkerStats {
        self.inner.port.stats()
    }

    /// The names of the values it holds, ascending: those of everything that has run.
    pub fn values(&self) -> Vec<TensorId> {
        self.inner.port.values()
    }

    /// How many values, messages, payloads and readers it has: each takes some memory, however small its bytes are.
    pub fn records(&self) -> usize {
        self.inner.port.records()
    }

    /// Gives cached memory back to the system, after everything sent so far.
    pub fn trim(&self) {
        self.inner.port.post(Queued::new(Message::Trim, Vec::new()));
    }

    /// Sets what is called when the worker has been dry for 2 ms; see [`IdleHook`]. The hook runs on the device thread
    /// and may send. It must not hold a handle of this session, or the session is never closed.
    pub fn set_idle_hook(&self, hook: IdleHook) {
        self.inner.port.set_idle_hook(hook);
    }

    /// To be called when the first instruction of a window is recorded: the worker may have stopped asking for
    /// such instructions. One load unless it has.
    #[inline]
    pub fn wake_if_sleeping(&self) {
        if self.inner.signals.sleeping.load(Relaxed) {
            self.inner.port.wake();
        }
    }

    /// Makes a worker that has nothing to do ask the idle hooks again.
    pub fn wake(&self) {
        self.inner.port.wake();
    }

    /// Whether everything sent has run and the device thread is parked.
    pub fn is_idle(&self) -> bool {
        self.inner.port.is_idle()
    }

    /// Ends the session: its values and what waits are dropped, readers get [`ReadError::Stopped`]. A plan that is
    /// running ends as it would; nobody sees what it gives.
    pub fn close(&self) {
        self.inner.port.close();
    }
}

/// A value from elsewhere is an upload in all but name: planned, charged and poisoned like one.
fn upload(id: TensorId, ty: TensorType, site: SiteId) -> Occurrence {
    let op = Op::Upload(Box::new(Upload { dtype: ty.dtype, shape: ty.shape }));
    let mut recording = Recording::default();
    recording.push(op, &[], id, 1, &[], ScopeId::default(), site);
    recording.take(false, false).expect("it has an instruction")
}
