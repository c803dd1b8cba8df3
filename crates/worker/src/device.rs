//! The device thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gt_engine::{Buffer, Engine, Run, Ticket, Value};
use gt_ir::{Failure, FailureKind, SiteId, TensorId, Window};
use gt_observe::Counters;
use gt_plan::{Canonical, Canonicalizer, Immediates, PlanCache, PlanError};

use crate::planner::{Planner, Prepared, Unplanned, definers, panicked};
use crate::queue::{Credits, Message, Parked, Queue};
use crate::shared::Shared;
use crate::sink::RunSink;
use crate::split::split;
use crate::table::Table;
use crate::{WorkerConfig, refuse};

/// How long the worker is dry before it asks for instructions that were recorded and not sent.
const DRY: Duration = Duration::from_millis(2);

/// Runs handed to the engine whose end has not been waited for: enough that an asynchronous engine has the next
/// one before it needs it.
const MAX_IN_FLIGHT: usize = 2;

/// A ticket that is waited for no longer than this was done before.
const AT_ONCE: Duration = Duration::from_micros(5);

/// A run that the engine has.
struct Launched<B> {
    /// None when the engine panicked, or there was nothing to run.
    ticket: Option<Box<dyn Ticket>>,
    sink: Option<Arc<RunSink<B>>>,
    started: Instant,
    submitted: Instant,
}

impl<B> Launched<B> {
    /// Nothing to wait for.
    fn nothing() -> Self {
        let now = Instant::now();
        Launched { ticket: None, sink: None, started: now, submitted: now }
    }
}

/// A run, and what is left to do when it ends.
struct InFlight<B> {
    run: Launched<B>,
    /// The message this is the end of.
    last_of: Option<Finished>,
}

/// What a finished message gives back.
#[derive(Default)]
struct Finished {
    credits: Credits,
    frees: Vec<TensorId>,
}

pub(crate) struct Device<E: Engine> {
    engine: E,
    config: WorkerConfig,
    queue: Arc<Queue>,
    table: Arc<Table<E::Buffer>>,
    shared: Arc<Shared>,
    canonicalizer: Canonicalizer,
    cache: PlanCache<Prepared<E::Program>>,
    in_flight: VecDeque<InFlight<E::Buffer>>,
    last_end: Instant,
}

/// Sends readers home however the thread ends.
struct StopOnDrop<B: Buffer>(Arc<Table<B>>, Arc<Queue>);

impl<B: Buffer> Drop for StopOnDrop<B> {
    fn drop(&mut self) {
        self.1.stop();
        self.0.stop();
    }
}

impl<E: Engine> Device<E> {
    /// The body of the thread.
    pub(crate) fn run(
        make: impl FnOnce() -> E,
        config: WorkerConfig,
        queue: Arc<Queue>,
        table: Arc<Table<E::Buffer>>,
        shared: Arc<Shared>,
    ) {
        queue.set_device(std::thread::current().id());
        let _stop = StopOnDrop(table.clone(), queue.clone());
        let engine = make();
        *shared.engine.lock() = engine.name();
        *shared.memory.lock() = engine.memory();
        shared.debug.print(|| format!("{} runs on {}", shared.name, engine.name()));
        let cache = PlanCache::new(config.cached_plans);
        let canonicalizer = Canonicalizer::default();
        let (in_flight, last_end) = (VecDeque::new(), Instant::now());
        let mut device = Device { engine, config, queue, table, shared, canonicalizer, cache, in_flight, last_end };
        while let Some(message) = device.next() {
            match message {
                Message::Window(window) => device.window(window),
                Message::Trim => {
                    device.drain();
                    device.engine.trim();
                    device.complete(InFlight { run: Launched::nothing(), last_of: Some(Finished::default()) });
                }
            }
        }
        if let Some(journal) = &device.shared.journal {
            journal.flush();
        }
    }

    /// The next message, or none at the end.
    fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.queue.try_pop() {
            return Some(message);
        }
        self.drain();
        if self.queue.spin()
            && let Some(message) = self.queue.try_pop()
        {
            return Some(message);
        }
        if let Some(journal) = &self.shared.journal {
            journal.flush();
        }
        self.idle()
    }

    /// Waits for a message, asking the idle hook for instructions that were not sent.
    ///
    /// Dry → (hook: nothing pending) → last look, with `sleeping` set → (hook: still nothing) → asleep. The pause
    /// between setting `sleeping` and the last look is what lets clients read it without a fence (QUEUE-3).
    fn idle(&mut self) -> Option<Message> {
        #[derive(PartialEq)]
        enum Stage {
            Dry,
            LastLook,
            Asleep,
        }
        let mut stage = Stage::Dry;
        loop {
            let timeout = (stage != Stage::Asleep).then_some(DRY);
            match self.queue.park(timeout) {
                Parked::Message(message) => {
                    self.queue.set_sleeping(false);
                    return Some(message);
                }
                Parked::Stopping => return None,
                Parked::Woken => {
                    self.queue.set_sleeping(false);
                    stage = Stage::Dry;
                }
                Parked::TimedOut => {
                    let pending = self.ask_idle_hook();
                    self.queue.set_sleeping(!pending);
                    stage = match stage {
                        _ if pending => Stage::Dry,
                        Stage::Dry => Stage::LastLook,
                        Stage::LastLook | Stage::Asleep => Stage::Asleep,
                    };
                }
            }
        }
    }

    fn ask_idle_hook(&self) -> bool {
        let hook = self.shared.idle_hook.lock().clone();
        let Some(hook) = hook else { return false };
        match catch_unwind(AssertUnwindSafe(|| hook())) {
            Ok(pending) => pending,
            Err(_) => {
                // It would panic again in two milliseconds.
                *self.shared.idle_hook.lock() = None;
                false
            }
        }
    }

    fn window(&mut self, window: Window) {
        let counters = &self.shared.counters;
        Counters::add(&counters.windows, 1);
        Counters::add(&counters.total_instructions, window.instrs.len() as u64);
        Counters::add(&counters.idle_cuts, window.eager as u64);
        let credits = Credits::of(&window);
        Counters::add(&counters.bytes_in, credits.bytes as u64);
        if let Some(journal) = &self.shared.journal {
            journal.received(&window);
        }
        let finished = Finished { credits, frees: Vec::new() };
        match self.config.batch_limit {
            Some(limit) if window.instrs.len() > limit.max(1) => {
                let mut parts = split(window, limit.max(1));
                let last = parts.pop();
                parts.into_iter().for_each(|part| self.part(part, None));
                self.part(last.unwrap_or_default(), Some(finished));
            }
            _ => self.part(window, Some(finished)),
        }
    }

    /// Runs a window that becomes one plan.
    fn part(&mut self, window: Window, mut last_of: Option<Finished>) {
        let run = self.start(&window);
        if let Some(finished) = &mut last_of {
            finished.frees = match &run.sink {
                // What the run used is gone already; the rest may still be on its way into the table.
                Some(_) => self.forget_older(),
                None => window.frees,
            };
        }
        self.in_flight.push_back(InFlight { run, last_of });
        while self.in_flight.len() > MAX_IN_FLIGHT {
            self.complete_first();
        }
    }

    fn start(&mut self, window: &Window) -> Launched<E::Buffer> {
        if window.instrs.is_empty() {
            return Launched::nothing();
        }
        let started = Instant::now();
        let first = catch_unwind(AssertUnwindSafe(|| self.launch(window, started)));
        let first =
            first.unwrap_or_else(|panic| Err(PlanError::Panicked { message: crate::planner::panic_text(&panic) }));
        let launched = match first {
            // An asynchronous engine may not have published what the window reads.
            Err(PlanError::UnknownInput { .. }) if !self.in_flight.is_empty() => {
                self.drain();
                self.launch(window, started)
            }
            launched => launched,
        };
        launched.unwrap_or_else(|error| {
            self.drain();
            let failure = refuse::failure(window, &error, &self.table, &self.shared.name);
            refuse::poison(window, failure, &self.table, &self.shared);
            Launched::nothing()
        })
    }

    /// Plans a window and hands it to the engine. Nothing has changed when it fails.
    fn launch(&mut self, window: &Window, started: Instant) -> Result<Launched<E::Buffer>, PlanError> {
        let Device { engine, config, table, shared, canonicalizer, cache, .. } = self;
        let canonical = {
            let state = table.lock();
            canonicalizer.run(window, |id| state.get(id).and_then(|entry| entry.ty))?
        };
        let mut planner = Planner { engine, cache, config, shared };
        let planned = match window.eager {
            true => planner.eager(window, canonical),
            false => planner.cached(window, canonical),
        };
        let sink = |plan, definers| {
            let sites: Vec<SiteId> = window.instrs.iter().map(|i| i.site).collect();
            Arc::new(RunSink::new(table.clone(), shared.clone(), plan, definers, canonical.first, sites))
        };
        let (plan, prepared, compiled) = match planned {
            Ok(planned) => planned,
            Err(Unplanned::Refused(error)) => return Err(error),
            Err(Unplanned::Panicked(plan, panic)) => {
                // There is no program, but the values have types: poison them like any failed run's.
                let definers = definers(&plan);
                let sink = sink(plan, definers);
                drop(bind(table, canonical, &shared.name));
                sink.poison_rest(&panicked(&shared.name, panic));
                return Ok(Launched { ticket: None, sink: Some(sink), started, submitted: Instant::now() });
            }
        };
        let counters = &shared.counters;
        Counters::add(&counters.flops, prepared.flops);
        if compiled {
            Counters::add(&counters.compiled_windows, 1);
            Counters::add(&counters.compiled_instructions, window.instrs.len() as u64);
        }
        let inputs = bind(table, canonical, &shared.name);
        let sink = sink(plan, prepared.definers.clone());
        let run = Run { inputs, immediates: Immediates::of(window), sink: sink.clone() };
        let planned = Instant::now();
        Counters::add(&counters.planning_ns, (planned - started).as_nanos() as u64);
        let ticket = match catch_unwind(AssertUnwindSafe(|| engine.submit(&prepared.program, run))) {
            Ok(ticket) => Some(ticket),
            Err(panic) => {
                sink.poison_rest(&panicked(&shared.name, panic));
                None
            }
        };
        Ok(Launched { ticket, sink: Some(sink), started: planned, submitted: Instant::now() })
    }

    /// Forgets freed values that the last window did not use; gives back those that are not there yet.
    fn forget_older(&mut self) -> Vec<TensorId> {
        let older = self.canonicalizer.older_frees();
        let mut late = Vec::new();
        if !older.is_empty() {
            let mut gone = Vec::with_capacity(older.len());
            let mut state = self.table.lock();
            for &id in older {
                match state.remove(id) {
                    Some(entry) => gone.push(entry),
                    None => late.push(id),
                }
            }
            // Buffers are dropped outside the lock.
            drop(state);
        }
        late
    }

    /// Waits for everything the engine has.
    fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            self.complete_first();
        }
    }

    fn complete_first(&mut self) {
        if let Some(run) = self.in_flight.pop_front() {
            self.complete(run);
        }
    }

    fn complete(&mut self, in_flight: InFlight<E::Buffer>) {
        let InFlight { run: Launched { ticket, sink, started, submitted }, last_of } = in_flight;
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
            Counters::add(&self.shared.counters.busy_ns, took.as_nanos() as u64);
            if let Some(journal) = &self.shared.journal {
                journal.executed(&sink.plan, sink.sites.first().copied().unwrap_or_default(), took);
            }
        }
        if let Some(finished) = last_of {
            let gone = self.table.forget(&finished.frees);
            drop(gone);
            *self.shared.memory.lock() = self.engine.memory();
            self.shared.cached_plans.store(self.cache.len() as u64, Relaxed);
            // Last, so that who waits for it sees the memory and the statistics of after.
            self.queue.release(finished.credits);
            self.table.finish();
        }
    }
}

/// Takes what dies out of the table and shares the rest.
fn bind<B: Buffer>(table: &Table<B>, canonical: &Canonical, worker: &str) -> Vec<Value<B>> {
    let mut state = table.lock();
    let missing = || {
        let mut failure = Failure::new(FailureKind::Internal, "a value vanished before its window ran");
        failure.worker = worker.to_string();
        Err(Arc::new(failure))
    };
    let take = |(&id, &dies): (&TensorId, &bool)| match dies {
        true => state.remove(id).map_or_else(missing, |entry| entry.value),
        false => state.get(id).map_or_else(missing, |entry| entry.value.clone()),
    };
    canonical.inputs.iter().zip(&canonical.dying).map(take).collect()
}
