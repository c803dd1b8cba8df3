//! What the rest of the process holds of a worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_engine::{Engine, Memory};

use crate::attached::{AttachedWorker, WorkerPort};
use crate::device::Device;
use crate::queue::{Queue, Signals};
use crate::shared::Shared;
use crate::{Load, SessionConfig, SessionHandle, WorkerConfig, WorkerStats};

struct Inner {
    port: Box<dyn WorkerPort>,
    shared: Arc<Shared>,
    signals: Arc<Signals>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread is not joined: it may be running a long plan, or be the one that drops this handle.
        self.port.stop();
    }
}

/// A worker, shared by all who use it. When the last handle goes, of it and of its sessions, the worker ends.
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
        let queue: Arc<Queue<E::Buffer>> = Arc::new(Queue::new());
        let shared = Arc::new(Shared::new(&config));
        let signals = queue.signals.clone();
        let port = Box::new(AttachedWorker { queue: queue.clone(), shared: shared.clone() });
        let inner = Arc::new(Inner { port, shared: shared.clone(), signals });
        std::thread::Builder::new()
            .name(config.name.clone())
            .spawn(move || Device::run(make, &config, queue, shared))
            .expect("the system starts a thread");
        WorkerHandle { inner }
    }

    /// Opens a session: ids, failures, credits, counts and settings of its own. After [`WorkerHandle::shutdown`] it is
    /// closed from the start.
    pub fn open(&self, config: SessionConfig) -> SessionHandle {
        SessionHandle::new(self.inner.port.open(config), self.inner.signals.clone(), self.clone())
    }

    /// What all sessions have done together, those that were closed included.
    pub fn stats(&self) -> WorkerStats {
        self.inner.port.stats()
    }

    /// What all sessions have done together, in three numbers: cheap enough to be asked for all the time.
    pub fn load(&self) -> Load {
        let counts = self.inner.port.counts();
        let live_bytes = self.memory().live_bytes;
        Load { busy_ns: counts.busy_ns, live_bytes, instructions: counts.total_instructions }
    }

    /// What the engine has allocated.
    pub fn memory(&self) -> Memory {
        self.inner.port.memory()
    }

    /// Ends the worker: what waits is not run any more, readers get [`ReadError::Stopped`](crate::ReadError::Stopped).
    pub fn shutdown(&self) {
        self.inner.port.stop();
    }

    /// Ends the worker and waits for its thread, but no longer than `timeout`; whether it ended.
    pub fn shutdown_and_wait(&self, timeout: Duration) -> bool {
        self.shutdown();
        !self.inner.port.is_device_thread() && self.inner.shared.wait_ended(Instant::now() + timeout)
    }
}
