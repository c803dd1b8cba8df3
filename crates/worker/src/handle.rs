//! What the rest of the process holds of a worker.

use std::sync::Arc;
use std::time::Duration;

use gt_engine::{Engine, Memory};
use gt_ir::{HostTensor, TensorId, Window};
use gt_observe::Counters;

use crate::device::Device;
use crate::queue::{Credits, Message, Queue};
use crate::shared::Shared;
use crate::table::{Table, Values};
use crate::{IdleHook, Interrupted, ReadError, WorkerConfig, WorkerStats};

struct Inner {
    queue: Arc<Queue>,
    values: Arc<dyn Values>,
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread is not joined: it may be running a long plan, or be the one that drops this handle.
        self.queue.stop();
    }
}

/// A worker, shared by all who send to it. When the last handle goes, the worker ends.
#[derive(Clone)]
pub struct WorkerHandle {
    inner: Arc<Inner>,
}

impl WorkerHandle {
    /// Starts the device thread; `make` makes the engine there, since some devices belong to a thread.
    ///
    /// # Panics
    /// If the system has no thread to give.
    pub fn spawn<E: Engine>(make: impl FnOnce() -> E + Send + 'static, config: WorkerConfig) -> WorkerHandle {
        let limit = Credits { instrs: config.credits_instrs.max(1), bytes: config.credits_bytes.max(1) };
        let queue = Arc::new(Queue::new(limit));
        let table: Arc<Table<E::Buffer>> = Arc::new(Table::new());
        let shared = Arc::new(Shared::new(&config));
        let values: Arc<dyn Values> = table.clone();
        let inner = Arc::new(Inner { queue: queue.clone(), values, shared: shared.clone() });
        std::thread::Builder::new()
            .name(config.name.clone())
            .spawn(move || Device::run(make, config, queue, table, shared))
            .expect("the system starts a thread");
        WorkerHandle { inner }
    }

    /// Sends a window; windows run in the order they were sent. Waits while credits are spent, asking `cancel` now
    /// and then; see [`Interrupted`].
    pub fn send(&self, window: Window, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        self.inner.queue.send(Message::Window(window), cancel)
    }

    /// Whether a send would wait for credits just now.
    pub fn is_full(&self) -> bool {
        self.inner.queue.is_full()
    }

    /// Waits until the value is there (not until its window ends) and copies it on this thread. Raises the
    /// failure of a skipped write first, once.
    pub fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError> {
        let Inner { queue, values, shared } = &*self.inner;
        Counters::add(&shared.counters.round_trips, 1);
        let value = values.read(id, queue.sent(), &shared.name, cancel)?;
        Counters::add(&shared.counters.bytes_out, value.bytes.len() as u64);
        if let Some(journal) = &shared.journal {
            journal.sent(id, value.bytes.len());
        }
        Ok(value)
    }

    /// Waits until everything sent so far has run. Raises the failure of a skipped write, once.
    pub fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        let Inner { queue, values, shared } = &*self.inner;
        Counters::add(&shared.counters.syncs, 1);
        values.wait_done(queue.sent(), cancel)?;
        if let Some(journal) = &shared.journal {
            journal.flush();
        }
        values.take_skipped().map_or(Ok(()), |failure| Err(ReadError::Failed(failure)))
    }

    /// What the worker has done so far.
    pub fn stats(&self) -> WorkerStats {
        self.inner.shared.stats(&*self.inner.values)
    }

    /// What the engine had allocated when the last window finished.
    pub fn memory(&self) -> Memory {
        *self.inner.shared.memory.lock()
    }

    /// Gives cached memory back to the system, after everything sent so far.
    pub fn trim(&self) {
        // A trim takes no credits, so it does not wait.
        let _ = self.inner.queue.send(Message::Trim, &|| true);
    }

    /// Sets what is called when the worker has been dry for 2 ms; see [`IdleHook`]. The hook runs on the device thread
    /// and may send. It must not hold a handle of this worker, or the worker never ends.
    pub fn set_idle_hook(&self, hook: IdleHook) {
        *self.inner.shared.idle_hook.lock() = Some(Arc::new(hook));
        self.inner.queue.wake();
    }

    /// To be called when the first instruction of a window is recorded: the worker may have stopped asking for
    /// such instructions. One load unless it has.
    #[inline]
    pub fn wake_if_sleeping(&self) {
        self.inner.queue.wake_if_sleeping();
    }

    /// Makes a worker that has nothing to do ask the idle hook again.
    pub fn wake(&self) {
        self.inner.queue.wake();
    }

    /// Whether everything sent has run and the device thread is parked.
    pub fn is_idle(&self) -> bool {
        self.inner.queue.is_idle() && self.inner.values.done() >= self.inner.queue.sent()
    }

    /// Ends the worker: what waits is not run any more, readers get [`ReadError::Stopped`].
    pub fn shutdown(&self) {
        self.inner.queue.stop();
    }

    /// Ends the worker and waits for its thread, but no longer than `timeout`; whether it ended.
    pub fn shutdown_and_wait(&self, timeout: Duration) -> bool {
        self.shutdown();
        if self.inner.queue.is_device_thread() {
            return false;
        }
        let deadline = std::time::Instant::now() + timeout;
        let expired = || std::time::Instant::now() >= deadline;
        // Nobody ever finishes this many messages: only the end of the thread ends the wait.
        self.inner.values.wait_done(u64::MAX, &expired) == Err(ReadError::Stopped)
    }
}
