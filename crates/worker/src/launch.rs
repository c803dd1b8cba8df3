//! From a window to a run of the engine.
//!
//! LAUNCH-1: values that a window frees without using them leave the table before the window runs, so that a loop that replaces a
//! large tensor never holds two of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use gt_engine::{Buffer, Engine, Run, Value, ValueState};
use gt_ir::{Failure, FailureKind, Instr, Op, TensorId, Window};
use gt_observe::Counters;
use gt_plan::{Immediates, PlanError};
use gt_stream::Occurrence;

use crate::device::Device;
use crate::flight::{InFlight, Launched};
use crate::inbox::{Credits, Lost};
use crate::lost_inputs;
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

/// Whom a window comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The session's client: it counts.
    Client,
    /// Another worker of the session.
    Worker,
}

impl<E: Engine> Device<E> {
    /// Runs a window, in parts if it must be.
    pub(crate) fn run_window(
        &mut self,
        session: Arc<Session<E::Buffer>>,
        occurrence: Occurrence,
        mut lost: Vec<Lost>,
        credits: Credits,
        sender: Sender,
    ) {
        let limit = session.config.batch_limit.map(|limit| limit.max(1));
        let is_short = limit.is_none_or(|limit| occurrence.len() <= limit);
        if is_short && lost.is_empty() && session.config.lost.is_none() {
            return self.part(session, &occurrence, Some(credits), sender);
        }
        let mut window = occurrence.window();
        if session.config.lost.is_some() {
            self.take_out_lost(&session, &mut window, &mut lost);
        }
        if is_short && lost.is_empty() {
            return self.spelled_out(session, window, Some(credits), sender);
        }
        let (before, last) = parts(window, limit, lost);
        self.parts(&session, before, sender);
        self.spelled_out(session, last, Some(credits), sender);
    }

    /// Runs the parts of a window before its last.
    fn parts(&mut self, session: &Arc<Session<E::Buffer>>, parts: Vec<Part>, sender: Sender) {
        for part in parts {
            match part {
                Part::Window(window) => self.spelled_out(session.clone(), window, None, sender),
                Part::Lost(instr, failure) => self.lost(session, &instr, &failure),
            }
        }
    }

    /// Runs a part of a window.
    fn spelled_out(
        &mut self,
        session: Arc<Session<E::Buffer>>,
        window: Window,
        credits: Option<Credits>,
        sender: Sender,
    ) {
        // A part of a window is a window, so there is nothing to refuse.
        match Occurrence::of(window.clone()) {
            Ok(occurrence) => self.part(session, &occurrence, credits, sender),
            Err(error) => {
                refuse::poison(&session, &window.instrs, &error.into());
                self.free(session, &window.frees, credits);
            }
        }
    }

    /// Forgets values, and is done with the message that freed them.
    pub(crate) fn free(&mut self, session: Arc<Session<E::Buffer>>, frees: &[TensorId], credits: Option<Credits>) {
        drop(session.table.forget(frees));
        self.track_run(InFlight { session, run: Launched::nothing(), credits });
    }

    /// Adds the instructions that depend on values the session has lost.
    fn take_out_lost(&mut self, session: &Arc<Session<E::Buffer>>, window: &mut Window, lost: &mut Vec<Lost>) {
        if lost_inputs::is_whole(&session.table.lock(), window) {
            return;
        }
        let mut found = lost_inputs::find(&session.table.lock(), window);
        lost.retain(|upload| found.iter().all(|lost_input| lost_input.instr != upload.instr));
        lost.append(&mut found);
        lost.sort_by_key(|lost| lost.instr);
    }

    /// Poisons an upload whose payload never came, or what depends on a lost value.
    fn lost(&mut self, session: &Arc<Session<E::Buffer>>, instr: &Instr, failure: &Arc<Failure>) {
        if !matches!(instr.op, Op::Upload(_)) {
            return refuse::poison_instr(session, instr, failure);
        }
        let mut placed = (**failure).clone();
        // What failed on another worker says so itself.
        if placed.worker.is_empty() {
            placed.op = instr.op.display_name().to_string();
            placed.site = instr.site;
            placed.worker = session.worker.name.clone();
        }
        let placed = Arc::new(placed);
        session.report(&placed);
        let types = instr.op.primitive().infer(&[]).unwrap_or_default();
        for (k, &id) in instr.outs.iter().enumerate() {
            let ty = types.get(k).copied();
            session.publish(id, Entry { value: Err(placed.clone()), ty, site: instr.site });
        }
    }

    /// Runs a window that becomes one plan.
    fn part(
        &mut self,
        session: Arc<Session<E::Buffer>>,
        occurrence: &Occurrence,
        credits: Option<Credits>,
        sender: Sender,
    ) {
        // What a closed session sent is dropped between the parts of a window too.
        let run = match session.cancel.is_cancelled() {
            true => Launched::nothing(),
            false => self.start(&session, occurrence, sender),
        };
        // A run has taken the window's frees out of the table; without one they are still there.
        if run.sink.is_none() {
            let frees: Vec<TensorId> = occurrence.frees().collect();
            drop(session.table.forget(&frees));
        }
        self.track_run(InFlight { session, run, credits });
    }

    /// A run has begun: waits for the ends of those well before it.
    pub(crate) fn track_run(&mut self, run: InFlight<E::Buffer>) {
        self.in_flight.push_back(run);
        while self.in_flight.len() > MAX_IN_FLIGHT {
            self.complete_first();
        }
    }

    fn start(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        occurrence: &Occurrence,
        sender: Sender,
    ) -> Launched<E::Buffer> {
        if occurrence.is_empty() {
            return Launched::nothing();
        }
        let started = Instant::now();
        let launched = self.launch_guarded(session, occurrence, sender, started);
        launched.unwrap_or_else(|error| match &error {
            PlanError::UnknownInput { .. } => self.start_spared(session, occurrence, sender, &error),
            _ => self.refuse(session, &occurrence.instrs(), &error),
        })
    }

    fn refuse(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        instrs: &[Instr],
        error: &PlanError,
    ) -> Launched<E::Buffer> {
        refuse::poison(session, instrs, error);
        Launched::nothing()
    }

    /// Runs what does not depend on values that were [given up](crate::SessionHandle::give_up): one of them may be the input that is
    /// not known. Where none is, the window is refused.
    fn start_spared(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        occurrence: &Occurrence,
        sender: Sender,
        error: &PlanError,
    ) -> Launched<E::Buffer> {
        let mut spared = occurrence.window();
        let lost = lost_inputs::find(&session.table.lock(), &mut spared);
        let is_spared = !lost.is_empty() || spared.instrs != occurrence.instrs();
        let (before, last) = parts(spared, None, lost);
        match Occurrence::of(last) {
            Ok(last) if is_spared => {
                self.parts(session, before, sender);
                self.start(session, &last, sender)
            }
            _ => self.refuse(session, &occurrence.instrs(), error),
        }
    }

    /// [`Device::launch`], with a panic as the reason why the window is refused (WORKER-2).
    fn launch_guarded(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        occurrence: &Occurrence,
        sender: Sender,
        started: Instant,
    ) -> Result<Launched<E::Buffer>, PlanError> {
        let launched = catch_unwind(AssertUnwindSafe(|| self.launch(session, occurrence, sender, started)));
        launched.unwrap_or_else(|panic| Err(PlanError::Panicked { message: panic_text(&panic) }))
    }

    /// Plans a window and hands it to the engine. Nothing has changed when it fails.
    fn launch(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        occurrence: &Occurrence,
        sender: Sender,
        started: Instant,
    ) -> Result<Launched<E::Buffer>, PlanError> {
        let Device { engine, shared, input_types, cache, .. } = self;
        let (table, recipe, bindings) = (&session.table, occurrence.recipe(), occurrence.bindings());
        if let Some((place, _)) = occurrence.missing().next() {
            return Err(PlanError::NoPayload { instr: place.instr });
        }
        input_types.clear();
        let state = table.lock();
        for (k, &id) in bindings.inputs.iter().enumerate() {
            let known = state.get(id).and_then(|entry| entry.ty);
            input_types.push(known.ok_or_else(|| PlanError::UnknownInput { instr: recipe.first_reader(k), id })?);
        }
        drop(state);
        let mut planner = Planner { engine, cache, session };
        let planned = match bindings.eager {
            true => planner.eager(recipe, input_types),
            false => planner.cached(recipe, input_types, bindings.joined, sender),
        };
        match planned {
            Ok(ready) => Ok(submit(engine, shared, session, ready, occurrence, sender, started)),
            Err(Unplanned::Refused(error)) => Err(error),
            Err(Unplanned::Failed(plan, failure)) => {
                // There is no program, but the values have types: poison them like any failed run's.
                let definers = definers(&plan);
                let sink = Arc::new(RunSink::new(session.clone(), plan, definers, occurrence));
                drop(bind(table, occurrence, &shared.name));
                drop(table.forget(&bindings.older_frees));
                sink.poison_rest(&failure);
                Ok(Launched { ticket: None, sink: Some(sink), started, submitted: Instant::now() })
            }
        }
    }
}

/// Hands a plan to the engine.
fn submit<E: Engine>(
    engine: &mut E,
    shared: &Shared,
    session: &Arc<Session<E::Buffer>>,
    (plan, prepared, compiled): Ready<E>,
    occurrence: &Occurrence,
    sender: Sender,
    started: Instant,
) -> Launched<E::Buffer> {
    let counters = &session.counters;
    Counters::add(&counters.flops, prepared.flops);
    if compiled && sender == Sender::Client {
        Counters::add(&counters.compiled_windows, 1);
        Counters::add(&counters.compiled_instructions, plan.instrs.len() as u64);
    }
    let (definers, immediates) = (prepared.definers.clone(), Immediates::of(occurrence));
    let sink = Arc::new(RunSink::new(session.clone(), plan, definers, occurrence));
    // Inside too: binding clones buffers, which are the engine's.
    let bound = catch_unwind(AssertUnwindSafe(|| bind(&session.table, occurrence, &shared.name)));
    // Before the run, so that it may have their memory (LAUNCH-1).
    drop(session.table.forget(&occurrence.bindings().older_frees));
    let inputs = match bound {
        Ok(inputs) => inputs,
        Err(panic) => {
            sink.poison_rest(&panicked(&shared.name, panic));
            return Launched { ticket: None, sink: Some(sink), started, submitted: Instant::now() };
        }
    };
    let (quota, cancel) = (session.quota.clone(), session.cancel.clone());
    let flush_denormal = session.config.flush_denormal.load(Relaxed);
    let run = Run { inputs, immediates, sink: sink.clone(), quota, cancel, flush_denormal };
    let planned = Instant::now();
    Counters::add(&counters.planning_ns, (planned - started).as_nanos() as u64);
    let submitted = catch_unwind(AssertUnwindSafe(|| engine.submit(&prepared.program, run)));
    let (ticket, failure) = match submitted {
        Ok(ticket) => {
            let missing = || Failure::new(FailureKind::Internal, "the engine did not publish this value");
            (Some(ticket), sink.has_missing().then(|| Arc::new(missing())))
        }
        Err(panic) => (None, Some(panicked(&shared.name, panic))),
    };
    // Later windows find every value in the table (PUBLISH-1).
    failure.iter().for_each(|failure| sink.poison_rest(failure));
    Launched { ticket, sink: Some(sink), started: planned, submitted: Instant::now() }
}

/// Takes what dies out of the table and shares the rest. What a closed session's table has lost is a failure that
/// nobody will read.
fn bind<B: Buffer>(table: &Table<B>, occurrence: &Occurrence, worker: &str) -> Vec<Value<B>> {
    let mut state = table.lock();
    let missing = || {
        let mut failure = Failure::new(FailureKind::Internal, "a value was released before it was used");
        failure.worker = worker.to_string();
        Err(Arc::new(failure))
    };
    let take = |(&id, &dies): (&TensorId, &bool)| {
        let value = match dies {
            true => state.remove(id).map_or_else(missing, |entry| entry.value),
            false => state.get(id).map_or_else(missing, |entry| entry.value.clone()),
        };
        value.and_then(|buffer| match buffer.state() {
            ValueState::Failed(failure) => Err(failure),
            ValueState::Pending | ValueState::Ready => Ok(buffer),
        })
    };
    occurrence.bindings().inputs.iter().zip(occurrence.recipe().dying()).map(take).collect()
}
