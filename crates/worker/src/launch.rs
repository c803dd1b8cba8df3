//! From a window to a run of the engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use gt_engine::{Buffer, Engine, Run, Value};
use gt_ir::{Failure, FailureKind, Instr, Op, TensorId, Window};
use gt_observe::Counters;
use gt_plan::{Canonical, Immediates, PlanError};

use crate::bereft;
use crate::device::Device;
use crate::flight::{Finished, InFlight, Launched};
use crate::inbox::{Credits, Lost};
use crate::parts::{Part, parts};
use crate::planner::{Planner, Ready, Unplanned, definers, panic_text, panicked};
use crate::refuse;
use crate::session::Session;
use crate::shared::Shared;
use crate::sink::RunSink;
use crate::table::{Entry, Table};

/// Runs handed to the engine whose end has not been waited for: enough that an asynchronous engine has the next
/// one before it needs it.
const MAX_IN_FLIGHT: usize = 2;

impl<E: Engine> Device<E> {
    /// Runs a window, in parts if it must be.
    pub(crate) fn window(
        &mut self,
        session: Arc<Session<E::Buffer>>,
        mut window: Window,
        mut lost: Vec<Lost>,
        credits: Credits,
    ) {
        if session.config.lost.is_some() {
            self.take_out_bereft(&session, &mut window, &mut lost);
        }
        let finished = Finished { credits, frees: Vec::new() };
        let limit = session.config.batch_limit.map(|limit| limit.max(1));
        if lost.is_empty() && limit.is_none_or(|limit| window.instrs.len() <= limit) {
            return self.part(session, window, Some(finished));
        }
        let (before, last) = parts(window, limit, lost);
        for part in before {
            match part {
                Part::Window(window) => self.part(session.clone(), window, None),
                Part::Lost(instr, failure) => self.lost(&session, &instr, &failure),
            }
        }
        self.part(session, last, Some(finished));
    }

    /// Adds the instructions that depend on values the session has lost.
    fn take_out_bereft(&mut self, session: &Arc<Session<E::Buffer>>, window: &mut Window, lost: &mut Vec<Lost>) {
        if bereft::is_whole(&session.table.lock(), window) {
            return;
        }
        // An asynchronous engine may not have published what the window reads.
        self.drain();
        let mut found = bereft::find(&session.table.lock(), window);
        lost.retain(|upload| found.iter().all(|bereft| bereft.instr != upload.instr));
        lost.append(&mut found);
        lost.sort_by_key(|lost| lost.instr);
    }

    /// Poisons an upload whose payload never came, or what depends on a lost value.
    fn lost(&mut self, session: &Arc<Session<E::Buffer>>, instr: &Instr, failure: &Arc<Failure>) {
        if !matches!(instr.op, Op::Upload(_)) {
            // The parts before may still be on their way, and a write keeps what is there.
            self.drain();
            return refuse::poison_instr(session, instr, failure);
        }
        let mut placed = (**failure).clone();
        // What failed on another worker says so itself.
        if placed.worker.is_empty() {
            placed.op = instr.op.display_name().to_string();
            placed.site = instr.site;
            placed.worker = session.worker.name.clone();
        }
        session.report(&placed);
        let placed = Arc::new(placed);
        let types = instr.op.primitive().infer(&[]).unwrap_or_default();
        for (k, &id) in instr.outs.iter().enumerate() {
            let ty = types.get(k).copied();
            session.publish(id, Entry { value: Err(placed.clone()), ty, site: instr.site });
        }
    }

    /// Runs a window that becomes one plan.
    fn part(&mut self, session: Arc<Session<E::Buffer>>, window: Window, mut last_of: Option<Finished>) {
        let run = self.start(&session, &window);
        if let Some(finished) = &mut last_of {
            finished.frees = match &run.sink {
                // What the run used is gone already.
                Some(_) => forget(&session.table, self.canonicalizer.older_frees()),
                None => forget(&session.table, &window.frees),
            };
        }
        self.fly(InFlight { session, run, last_of });
    }

    /// A run has begun: waits for the ends of those well before it.
    pub(crate) fn fly(&mut self, run: InFlight<E::Buffer>) {
        self.in_flight.push_back(run);
        while self.in_flight.len() > MAX_IN_FLIGHT {
            self.complete_first();
        }
    }

    fn start(&mut self, session: &Arc<Session<E::Buffer>>, window: &Window) -> Launched<E::Buffer> {
        if window.instrs.is_empty() {
            return Launched::nothing();
        }
        let started = Instant::now();
        let first = catch_unwind(AssertUnwindSafe(|| self.launch(session, window, started)));
        let first = first.unwrap_or_else(|panic| Err(PlanError::Panicked { message: panic_text(&panic) }));
        let launched = match first {
            // An asynchronous engine may not have published what the window reads.
            Err(PlanError::UnknownInput { .. }) if !self.in_flight.is_empty() => {
                self.drain();
                self.launch(session, window, started)
            }
            launched => launched,
        };
        launched.unwrap_or_else(|error| {
            self.drain();
            refuse::poison(session, window, &error);
            Launched::nothing()
        })
    }

    /// Plans a window and hands it to the engine. Nothing has changed when it fails.
    fn launch(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        window: &Window,
        started: Instant,
    ) -> Result<Launched<E::Buffer>, PlanError> {
        let Device { engine, shared, canonicalizer, cache, .. } = self;
        let table = &session.table;
        let canonical = {
            let state = table.lock();
            canonicalizer.run(window, |id| state.get(id).and_then(|entry| entry.ty))?
        };
        let mut planner = Planner { engine, cache, session };
        let planned = match window.eager {
            true => planner.eager(window, canonical),
            false => planner.cached(window, canonical),
        };
        let immediates = Immediates::of(window);
        match planned {
            Ok(ready) => Ok(submit(engine, shared, session, ready, canonical, immediates, started)),
            Err(Unplanned::Refused(error)) => Err(error),
            Err(Unplanned::Panicked(plan, panic)) => {
                // There is no program, but the values have types: poison them like any failed run's.
                let definers = definers(&plan);
                let sink = Arc::new(RunSink::new(session.clone(), plan, definers, canonical.first, immediates.sites));
                drop(bind(table, canonical, &shared.name));
                sink.poison_rest(&panicked(&shared.name, panic));
                Ok(Launched { ticket: None, sink: Some(sink), started, submitted: Instant::now() })
            }
        }
    }
}

/// Hands a plan to the engine.
pub(crate) fn submit<E: Engine>(
    engine: &mut E,
    shared: &Shared,
    session: &Arc<Session<E::Buffer>>,
    (plan, prepared, compiled): Ready<E>,
    canonical: &Canonical,
    immediates: Immediates,
    started: Instant,
) -> Launched<E::Buffer> {
    let counters = &session.counters;
    Counters::add(&counters.flops, prepared.flops);
    if compiled {
        Counters::add(&counters.compiled_windows, 1);
        Counters::add(&counters.compiled_instructions, plan.instrs.len() as u64);
    }
    let inputs = bind(&session.table, canonical, &shared.name);
    let (definers, sites) = (prepared.definers.clone(), immediates.sites.clone());
    let sink = Arc::new(RunSink::new(session.clone(), plan, definers, canonical.first, sites));
    let run = Run { inputs, immediates, sink: sink.clone(), quota: session.quota.clone() };
    let planned = Instant::now();
    Counters::add(&counters.planning_ns, (planned - started).as_nanos() as u64);
    let ticket = match catch_unwind(AssertUnwindSafe(|| engine.submit(&prepared.program, run))) {
        Ok(ticket) => Some(ticket),
        Err(panic) => {
            sink.poison_rest(&panicked(&shared.name, panic));
            None
        }
    };
    Launched { ticket, sink: Some(sink), started: planned, submitted: Instant::now() }
}

/// Forgets values that were freed, so that the next run may have their memory; gives back those that may still be on their
/// way into the table.
pub(crate) fn forget<B: Buffer>(table: &Table<B>, ids: &[TensorId]) -> Vec<TensorId> {
    let mut late = Vec::new();
    if !ids.is_empty() {
        let mut gone = Vec::with_capacity(ids.len());
        let mut state = table.lock();
        for &id in ids {
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

/// Takes what dies out of the table and shares the rest. What a closed session's table has lost is a failure that
/// nobody will read.
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
