//! One session as its worker sees it: its values, its counts, its settings. Nothing of it is shared with another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};

use gt_engine::{Buffer, Cancel, Quota};
use gt_ir::{Failure, FailureKind, HostTensor, TensorId};
use gt_observe::Counters;
use parking_lot::{Condvar, Mutex};

use crate::answers::{Answer, Pending, ReadThen};
use crate::copier::SMALL_BYTES;
use crate::journal::Journal;
use crate::moved::Departing;
use crate::sequences::Sequences;
use crate::shared::Shared;
use crate::table::{Entry, Table};
use crate::turns::SessionKey;
use crate::{Charge, ReadError, SessionConfig, SessionMemory};

/// How many lines a failure for lack of memory names.
pub(crate) const HOLDERS: usize = 5;

/// A value's copy, and what it counts for while it is on its way.
#[derive(Debug)]
pub struct Copied {
    /// The value.
    pub tensor: HostTensor,
    /// Nothing for a small one.
    pub charge: Option<Charge>,
}

/// Called with the number of messages that have run, each time one has.
pub type ExecutedHook = Box<dyn Fn(u64) + Send + Sync>;

pub(crate) struct Session<B> {
    pub(crate) key: SessionKey,
    pub(crate) config: SessionConfig,
    /// The worker's part that sessions see.
    pub(crate) worker: Arc<Shared>,
    pub(crate) table: Table<B>,
    pub(crate) counters: Counters,
    pub(crate) sequences: Mutex<Sequences>,
    pub(crate) journal: Option<Journal>,
    /// What its memory is charged to, if it has a limit of its own.
    pub(crate) quota: Option<Arc<Quota>>,
    /// Its account of ordinary memory.
    pub(crate) memory: SessionMemory,
    /// Messages ever sent.
    pub(crate) sent: AtomicU64,
    /// Senders wait here, with the queue's lock.
    pub(crate) room: Condvar,
    pub(crate) executed: OnceLock<ExecutedHook>,
    /// Set once nobody wants its results: what was sent before and has not run is dropped, between two instructions if need be.
    pub(crate) cancel: Cancel,
}

/// Keeps a panic of foreign code from ending a thread that is not its own.
fn guarded(f: impl FnOnce()) {
    // The panic hook has told the world; there is nobody to pass it on to.
    let _ = catch_unwind(AssertUnwindSafe(f));
}

impl<B: Buffer> Session<B> {
    pub(crate) fn new(key: SessionKey, config: SessionConfig, worker: Arc<Shared>) -> Self {
        let quota = config.memory_limit_bytes.map(Quota::new);
        Session {
            key,
            table: Table::new(worker.name.clone(), config.lost.clone()),
            counters: Counters::default(),
            sequences: Mutex::default(),
            journal: worker.log.clone().map(|log| Journal::new(log, &worker.name, &config)),
            memory: SessionMemory::new(worker.clone(), quota.clone()),
            quota,
            sent: AtomicU64::new(0),
            room: Condvar::new(),
            executed: OnceLock::new(),
            cancel: Cancel::default(),
            config,
            worker,
        }
    }

    /// Whether everything that was sent has run.
    pub(crate) fn is_done(&self) -> bool {
        self.table.done() >= self.sent.load(Acquire)
    }

    /// Device time it has used so far.
    pub(crate) fn used_ns(&self) -> u64 {
        self.counters.busy_ns.load(Relaxed).saturating_add(self.counters.planning_ns.load(Relaxed))
    }

    /// A value is there.
    pub(crate) fn publish(self: &Arc<Self>, id: TensorId, entry: Entry<B>) {
        for answer in self.table.insert(id, entry) {
            self.answer(answer);
        }
    }

    /// A value that was pending is no longer so.
    pub(crate) fn settled(self: &Arc<Self>, id: TensorId) {
        for answer in self.table.settled(id) {
            self.answer(answer);
        }
    }

    /// One more message has run.
    pub(crate) fn finish(self: &Arc<Self>) {
        let (done, answers) = self.table.finish();
        answers.into_iter().for_each(|answer| self.answer(answer));
        if let (Some(done), Some(hook)) = (done, self.executed.get()) {
            guarded(|| hook(done));
        }
    }

    /// The worker failed it: it runs nothing more, and everybody who asks for something is told why. Its messages still count as
    /// run, so a sender that waits for room gets it.
    pub(crate) fn break_off(self: &Arc<Self>, failure: Arc<Failure>) {
        self.report(&failure);
        self.end(Some(failure));
    }

    /// Drops all values and sends readers home.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.end(None);
    }

    fn end(self: &Arc<Self>, why: Option<Arc<Failure>>) {
        self.cancel.cancel();
        let answers = self.table.stop(why);
        answers.into_iter().for_each(|answer| self.answer(answer));
    }

    /// Answers when it can be answered: now, or by the thread that makes it possible.
    pub(crate) fn on_ready(self: &Arc<Self>, pending: Pending) {
        if let Some(answer) = self.table.on_ready(pending) {
            self.answer(answer);
        }
    }

    /// Counts a failure that arose here, keeps it for the next synchronization, and logs it. Work that is dropped because its
    /// session was closed is no failure.
    pub(crate) fn report(&self, failure: &Arc<Failure>) {
        if self.table.lock().stopped {
            return;
        }
        Counters::add(&self.counters.failures, 1);
        self.worker.debug.print(|| format!("failure: {failure}"));
        if let Some(journal) = &self.journal {
            journal.error(failure);
        }
        self.table.failed(failure);
    }

    fn answer(self: &Arc<Self>, answer: Answer<B>) {
        match answer {
            Answer::Done { result, then } => {
                if let Some(journal) = &self.journal {
                    journal.flush();
                }
                guarded(|| then(result));
            }
            Answer::Value { found: Err(error), then, .. } => guarded(|| then(Err(error))),
            Answer::Move { found: Err(error), then, .. } => guarded(|| then(Err(error))),
            Answer::Move { id, found: Ok(buffer), then } => {
                self.count_moved(id, buffer.ty().bytes());
                guarded(|| then(Ok(Departing::new(buffer, &self.worker.name, self.memory.clone()))));
            }
            Answer::Value { id, found: Ok(buffer), then } if buffer.ty().bytes() <= SMALL_BYTES => {
                self.copy_then(id, buffer, then);
            }
            Answer::Value { id, found: Ok(buffer), then } => {
                let session = self.clone();
                self.worker.copier.run(Box::new(move || session.copy_then(id, buffer, then)));
            }
        }
    }

    /// The buffer goes before the answer: whoever has that may close the session, and what is then counted as held is not looked at
    /// again until something runs.
    fn copy_then(&self, id: TensorId, buffer: B, then: ReadThen) {
        let copied = self.copy(id, &buffer);
        drop(buffer);
        guarded(|| then(copied));
    }

    fn count_moved(&self, id: TensorId, len_bytes: usize) {
        Counters::add(&self.counters.transfers, 1);
        Counters::add(&self.counters.moved_bytes_out, len_bytes as u64);
        if let Some(journal) = &self.journal {
            journal.sent(id, len_bytes);
        }
    }

    /// A value's copy in ordinary memory, counted as on its way. A small one is not: who reads for itself takes it at once, and an
    /// answer counts in any case.
    pub(crate) fn copy(&self, id: TensorId, buffer: &B) -> Result<Copied, ReadError> {
        let len_bytes = buffer.ty().bytes();
        let charge = (len_bytes > SMALL_BYTES).then(|| self.memory.hold(len_bytes)).transpose();
        let copied = charge.and_then(|charge| Ok(Copied { tensor: buffer.read()?, charge }));
        let Copied { tensor: value, charge } = copied.map_err(|mut failure| {
            failure.worker = self.worker.name.clone();
            if failure.kind == FailureKind::Memory && failure.holders.is_empty() {
                failure.holders = self.table.lock().holders(HOLDERS, |_| true);
            }
            ReadError::Failed(Arc::new(failure))
        })?;
        Counters::add(&self.counters.bytes_out, value.bytes.len() as u64);
        if let Some(journal) = &self.journal {
            journal.sent(id, value.bytes.len());
        }
        Ok(Copied { tensor: value, charge })
    }
}
