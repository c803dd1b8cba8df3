//! Runs that the engine has, and what is left to do when they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gt_engine::{Engine, Ticket};
use gt_ir::{Failure, FailureKind, TensorId};
use gt_observe::Counters;

use crate::device::Device;
use crate::inbox::Credits;
use crate::planner::panicked;
use crate::session::Session;
use crate::sink::RunSink;

/// A ticket that is waited for no longer than this was done before.
const AT_ONCE: Duration = Duration::from_micros(5);

/// A run that the engine has.
pub(crate) struct Launched<B> {
    /// None when the engine panicked, or there was nothing to run.
    pub(crate) ticket: Option<Box<dyn Ticket>>,
    pub(crate) sink: Option<Arc<RunSink<B>>>,
    pub(crate) started: Instant,
    pub(crate) submitted: Instant,
}

impl<B> Launched<B> {
    /// Nothing to wait for.
    pub(crate) fn nothing() -> Self {
        let now = Instant::now();
        Launched { ticket: None, sink: None, started: now, submitted: now }
    }
}

/// A run, whose it is, and what is left to do when it ends.
pub(crate) struct InFlight<B> {
    pub(crate) session: Arc<Session<B>>,
    pub(crate) run: Launched<B>,
    /// The message this is the end of.
    pub(crate) last_of: Option<Finished>,
}

/// What a finished message gives back.
#[derive(Default)]
pub(crate) struct Finished {
    pub(crate) credits: Credits,
    pub(crate) frees: Vec<TensorId>,
}

impl<E: Engine> Device<E> {
    /// Waits for everything the engine has.
    pub(crate) fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            self.complete_first();
        }
    }

    pub(crate) fn complete_first(&mut self) {
        if let Some(run) = self.in_flight.pop_front() {
            self.complete(run);
        }
    }

    pub(crate) fn complete(&mut self, in_flight: InFlight<E::Buffer>) {
        let InFlight { session, run: Launched { ticket, sink, started, submitted }, last_of } = in_flight;
        let waiting = Instant::now();
        let waited = ticket.map_or(Ok(()), |ticket| catch_unwind(AssertUnwindSafe(|| ticket.wait())));
        if let Some(sink) = &sink {
            let failure = match waited {
                Err(panic) => panicked(&self.shared.name, panic),
                Ok(()) => Arc::new(Failure::new(FailureKind::Internal, "the engine did not publish this value")),
            };
            sink.poison_rest(&failure);
            // A ticket that needs no waiting is that of an engine which was done when `submit` returned.
            let end = Instant::now();
            let end = if end - waiting < AT_ONCE { submitted } else { end };
            let took = end - started.max(self.last_end).min(end);
            self.last_end = end;
            Counters::add(&session.counters.busy_ns, took.as_nanos() as u64);
            if let Some(journal) = &session.journal {
                journal.executed(&sink.plan, sink.sites.first().copied().unwrap_or_default(), took);
            }
        }
        // The run may hold the last handle of a value.
        drop(sink);
        if let Some(finished) = last_of {
            let gone = session.table.forget(&finished.frees);
            drop(gone);
            *self.shared.memory.lock() = self.engine.memory();
            self.shared.cached_plans.store(self.cache.len() as u64, Relaxed);
            // Last, so that who waits for it sees the memory and the statistics of after.
            self.queue.release(&session, finished.credits);
            session.finish();
        }
    }
}
