//! Runs that the engine has, and what is left to do when they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gt_engine::{Engine, Ticket};
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
    /// What the message gives back that this is the end of, if it is the end of one.
    pub(crate) credits: Option<Credits>,
}

impl<E: Engine> Device<E> {
    /// Waits for everything the engine has.
    pub(crate) fn drain(&mut self) {
        while self.complete_first() {}
    }

    /// Waits for the run that was handed to the engine first; whether there was one.
    pub(crate) fn complete_first(&mut self) -> bool {
        let first = self.in_flight.pop_front();
        let found = first.is_some();
        first.into_iter().for_each(|run| self.complete(run));
        found
    }

    pub(crate) fn complete(&mut self, in_flight: InFlight<E::Buffer>) {
        let InFlight { session, run, credits } = in_flight;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.end_run(&session, run))) {
            session.break_off(panicked(&self.shared.name, panic));
        }
        if let Some(credits) = credits {
            *self.shared.memory.lock() = self.engine.memory();
            self.shared.cached_plans.store(self.cache.len() as u64, Relaxed);
            // Last, so that who waits for it sees the memory and the statistics of after.
            self.queue.release(&session, credits);
            session.finish();
        }
    }

    /// Waits for the end of a run, and counts it.
    fn end_run(&mut self, session: &Session<E::Buffer>, run: Launched<E::Buffer>) {
        let Launched { ticket, sink, started, submitted, .. } = run;
        let waiting = Instant::now();
        let waited = ticket.map_or(Ok(()), |ticket| catch_unwind(AssertUnwindSafe(|| ticket.wait())));
        if let Some(sink) = &sink {
            if let Err(panic) = waited {
                sink.poison_pending(&panicked(&self.shared.name, panic));
            }
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
        // The run may hold the last handle of a value; it is dropped here, before anybody hears of the end.
    }
}
