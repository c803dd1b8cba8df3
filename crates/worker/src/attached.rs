//! Workers and sessions whatever their buffers are: what handles are made of.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use gt_engine::{Buffer, Memory};
use gt_ir::{Failure, HostTensor, TensorId};
use gt_observe::{CounterSnapshot, Counters};

use crate::answers::Pending;
use crate::handover;
use crate::inbox::{Credits, Queued, Supply};
use crate::queue::Queue;
use crate::session::{ExecutedHook, Session};
use crate::shared::Shared;
use crate::stats::Totals;
use crate::table::Entry;
use crate::{IdleHook, Interrupted, Oversupplied, ReadError, SessionConfig, SessionMemory, WorkerStats};

/// A worker, whatever its buffers are.
pub(crate) trait WorkerPort: Send + Sync {
    fn open(&self, config: SessionConfig) -> Box<dyn SessionPort>;
    fn stats(&self) -> WorkerStats;
    fn counts(&self) -> CounterSnapshot;
    fn memory(&self) -> Memory;
    fn stop(&self);
    fn is_device_thread(&self) -> bool;
}

/// A session, whatever its buffers are.
pub(crate) trait SessionPort: Send + Sync {
    fn send(&self, queued: Queued, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted>;
    fn try_send(&self, queued: Queued) -> Result<(), Queued>;
    fn post(&self, queued: Queued);
    fn is_full(&self) -> bool;
    fn sent(&self) -> u64;
    fn executed(&self) -> u64;
    fn wait_executed(&self, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted>;
    fn supply(&self, id: TensorId, supply: Supply) -> Result<(), Oversupplied>;
    fn give_up(&self, id: TensorId, failure: Arc<Failure>);
    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError>;
    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), ReadError>;
    fn on_ready(&self, pending: Pending);
    fn on_executed(&self, hook: ExecutedHook) -> bool;
    fn set_idle_hook(&self, hook: IdleHook);
    fn wake(&self);
    fn is_idle(&self) -> bool;
    fn stats(&self) -> WorkerStats;
    fn memory(&self) -> SessionMemory;
    fn set_flush_denormal(&self, on: bool);
    fn values(&self) -> Vec<TensorId>;
    fn records(&self) -> usize;
    fn close(&self);
}

/// A worker's queue and what all see of it.
pub(crate) struct AttachedWorker<B> {
    pub(crate) queue: Arc<Queue<B>>,
    pub(crate) shared: Arc<Shared>,
}

struct AttachedSession<B> {
    session: Arc<Session<B>>,
    queue: Arc<Queue<B>>,
}

impl<B: Buffer> WorkerPort for AttachedWorker<B> {
    fn open(&self, config: SessionConfig) -> Box<dyn SessionPort> {
        let limit = Credits { instrs: config.credits_instrs.max(1), bytes: config.credits_bytes.max(1) };
        let make = |key| Session::new(key, config, self.shared.clone());
        let (session, open) = self.queue.open(limit, make);
        if !open {
            session.stop();
        }
        Box::new(AttachedSession { session, queue: self.queue.clone() })
    }

    fn stats(&self) -> WorkerStats {
        let (totals, sessions) = self.queue.totals();
        totals.stats(&self.shared, self.memory(), sessions)
    }

    /// As it is now, where the engine can be asked; else as of the last window. Uploads that were cut short, for one, end while
    /// nothing runs.
    fn memory(&self) -> Memory {
        let now = self.queue.transfer().and_then(|transfer| transfer.memory());
        now.unwrap_or_else(|| *self.shared.memory.lock())
    }

    fn counts(&self) -> CounterSnapshot {
        self.queue.counts()
    }

    fn stop(&self) {
        self.queue.stop();
    }

    fn is_device_thread(&self) -> bool {
        self.queue.is_device_thread()
    }
}

impl<B: Buffer> SessionPort for AttachedSession<B> {
    fn send(&self, queued: Queued, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        let queued = match self.queue.transfer() {
            Some(transfer) => handover::give(&self.session, queued, &**transfer),
            None => Some(queued),
        };
        queued.map_or(Ok(()), |queued| self.queue.send(&self.session, queued, cancel))
    }

    fn try_send(&self, queued: Queued) -> Result<(), Queued> {
        self.queue.try_send(&self.session, queued)
    }

    fn post(&self, queued: Queued) {
        self.queue.post(&self.session, queued);
    }

    fn is_full(&self) -> bool {
        self.queue.is_full(self.session.key)
    }

    fn sent(&self) -> u64 {
        self.session.sent.load(Acquire)
    }

    fn executed(&self) -> u64 {
        self.session.table.passed().unwrap_or_else(|| self.sent())
    }

    fn wait_executed(&self, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        self.session.table.wait_passed(self.sent(), cancel)
    }

    fn supply(&self, id: TensorId, supply: Supply) -> Result<(), Oversupplied> {
        self.queue.supply(self.session.key, id, supply)
    }

    fn give_up(&self, id: TensorId, failure: Arc<Failure>) {
        let site = failure.site;
        self.session.publish(id, Entry { value: Err(failure), ty: None, site });
    }

    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, ReadError> {
        Counters::add(&self.session.counters.round_trips, 1);
        let buffer = self.session.table.wait_for(id, self.sent(), cancel)?;
        self.session.copy(id, &buffer).map(|copied| copied.tensor)
    }

    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), ReadError> {
        Counters::add(&self.session.counters.syncs, 1);
        let result = self.session.table.wait_done(self.sent(), cancel);
        if let Some(journal) = &self.session.journal {
            journal.flush();
        }
        result
    }

    fn on_ready(&self, pending: Pending) {
        let counters = &self.session.counters;
        match &pending {
            Pending::Value { .. } => Counters::add(&counters.round_trips, 1),
            Pending::Move { .. } => {}
            Pending::Done { .. } => Counters::add(&counters.syncs, 1),
        }
        self.session.on_ready(pending);
    }

    fn on_executed(&self, hook: ExecutedHook) -> bool {
        self.session.executed.set(hook).is_ok()
    }

    fn set_idle_hook(&self, hook: IdleHook) {
        let old = self.queue.set_idle_hook(self.session.key, Some(Arc::new(hook)));
        drop(old);
        self.queue.wake();
    }

    fn wake(&self) {
        self.queue.wake();
    }

    fn is_idle(&self) -> bool {
        self.queue.is_idle(self.session.key) && self.session.is_done()
    }

    fn stats(&self) -> WorkerStats {
        let mut totals = Totals::default();
        totals.add(&self.session);
        let memory: Memory = match &self.session.quota {
            Some(quota) => quota.memory(),
            None => *self.session.worker.memory.lock(),
        };
        totals.stats(&self.session.worker, memory, 1)
    }

    fn set_flush_denormal(&self, on: bool) {
        self.session.config.flush_denormal.store(on, Relaxed);
    }

    fn memory(&self) -> SessionMemory {
        self.session.memory.clone()
    }

    fn values(&self) -> Vec<TensorId> {
        self.session.table.ids()
    }

    fn records(&self) -> usize {
        self.session.table.records() + self.queue.records(self.session.key)
    }

    fn close(&self) {
        let was_open = self.queue.close(&self.session);
        self.session.stop();
        if was_open {
            self.queue.closed(&self.session);
        }
    }
}
