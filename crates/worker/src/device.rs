//! The device thread: takes work in turns, sleeps when there is none.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_engine::{Buffer, Engine};
use gt_ir::{TensorId, TensorType};
use gt_observe::Counters;
use gt_plan::PlanCache;
use gt_stream::Occurrence;

use crate::WorkerConfig;
use crate::adopt;
use crate::flight::{InFlight, Launched};
use crate::handover;
use crate::inbox::{Message, Queued};
use crate::launch::Sender;
use crate::moved::Departing;
use crate::places::Work;
use crate::planner::{Prepared, panicked};
use crate::queue::{Parked, Queue};
use crate::session::Session;
use crate::shared::Shared;

/// How long the worker is dry before it asks for instructions that were recorded and not sent.
const DRY: Duration = Duration::from_millis(2);

/// The part of an engine's memory limit that its plans may take, beside it.
const PLANS_PART: u64 = 8;
/// The least that plans may take.
const LEAST_PLAN_BYTES: u64 = 64 << 20;

pub(crate) struct Device<E: Engine> {
    pub(crate) engine: E,
    pub(crate) queue: Arc<Queue<E::Buffer>>,
    pub(crate) shared: Arc<Shared>,
    /// The types of the inputs of the window that is being planned.
    pub(crate) input_types: Vec<TensorType>,
    pub(crate) cache: PlanCache<Prepared<E::Program>>,
    pub(crate) in_flight: VecDeque<InFlight<E::Buffer>>,
    pub(crate) last_end: Instant,
}

/// Sends readers home however the thread ends.
struct StopOnDrop<B: Buffer>(Arc<Queue<B>>, Arc<Shared>);

impl<B: Buffer> Drop for StopOnDrop<B> {
    fn drop(&mut self) {
        let StopOnDrop(queue, shared) = self;
        queue.stop();
        for session in queue.clear() {
            session.stop();
            if let Some(journal) = &session.journal {
                journal.flush();
            }
        }
        shared.copier.stop();
        shared.set_ended();
    }
}

impl<E: Engine> Device<E> {
    /// The body of the thread.
    pub(crate) fn run(
        make: impl FnOnce() -> E,
        config: &WorkerConfig,
        queue: Arc<Queue<E::Buffer>>,
        shared: Arc<Shared>,
    ) {
        queue.set_device(std::thread::current().id());
        let _stop = StopOnDrop(queue.clone(), shared.clone());
        let engine = make();
        *shared.engine.lock() = engine.name();
        *shared.memory.lock() = engine.memory();
        if let Some(times) = engine.family_times() {
            let _ = shared.family_times.set(times);
        }
        let transfer = engine.transfer();
        let _ = shared.host.set(transfer.clone());
        queue.set_transfer(transfer);
        shared.debug.print(|| format!("{} runs on {}", shared.name, engine.name()));
        let plan_bytes = (engine.memory().limit_bytes / PLANS_PART).max(LEAST_PLAN_BYTES);
        let cache = PlanCache::within(config.cached_plans, usize::try_from(plan_bytes).unwrap_or(usize::MAX));
        let (in_flight, last_end) = (VecDeque::new(), Instant::now());
        let mut device = Device { engine, queue, shared, input_types: Vec::new(), cache, in_flight, last_end };
        while let Some(work) = device.next() {
            match work {
                Work::Message(session, queued) => device.guarded_message(session, queued),
                Work::Closed(session) => device.closed(&session),
            }
        }
    }

    /// A message of a session. Should it panic where nothing else takes note of that, its session ends, and nobody else
    /// (WORKER-2); the message counts as run, so its sender is not left waiting.
    fn guarded_message(&mut self, session: Arc<Session<E::Buffer>>, queued: Queued) {
        let credits = queued.credits;
        if !session.cancel.is_cancelled() {
            let of_it = session.clone();
            match catch_unwind(AssertUnwindSafe(|| self.message(of_it, queued))) {
                Ok(()) => return,
                Err(panic) => session.break_off(panicked(&self.shared.name, panic)),
            }
        }
        self.track_run(InFlight { session, run: Launched::nothing(), credits: Some(credits) });
    }

    fn message(&mut self, session: Arc<Session<E::Buffer>>, queued: Queued) {
        let Queued { message, moved, mut lost, loaded_bytes, credits, is_arrival, .. } = queued;
        match message {
            Message::Run(mut occurrence) => {
                count(&session, &occurrence, &moved, loaded_bytes, is_arrival);
                if is_arrival && adopt::publish(&session, &occurrence, &moved) {
                    // The handle that came with the message goes before the first run that may want the memory.
                    drop(moved);
                    return self.free(session, &[], Some(credits));
                }
                adopt::copy(&mut occurrence, moved, &mut lost);
                let transfer = self.queue.transfer().filter(|_| lost.is_empty());
                if transfer.is_some_and(|transfer| handover::publish(&session, &occurrence, &**transfer)) {
                    let frees: Vec<TensorId> = occurrence.frees().collect();
                    drop(occurrence);
                    return self.free(session, &frees, Some(credits));
                }
                let sender = if is_arrival { Sender::Worker } else { Sender::Client };
                self.run_window(session, occurrence, lost, credits, sender);
            }
            Message::Trim => {
                self.drain();
                self.engine.trim();
                self.complete(InFlight { session, run: Launched::nothing(), credits: Some(credits) });
            }
        }
    }

    /// Lets go of a session that was closed.
    fn closed(&mut self, session: &Arc<Session<E::Buffer>>) {
        // Its handle has dropped its values; what its runs still hold goes with them.
        if self.in_flight.iter().any(|run| Arc::ptr_eq(&run.session, session)) {
            self.drain();
        }
        session.stop();
        *self.shared.memory.lock() = self.engine.memory();
        // Last, so that who sees that it is gone sees the memory of after.
        self.queue.forget(session);
    }

    /// The next work, or none at the end.
    fn next(&mut self) -> Option<Work<E::Buffer>> {
        loop {
            if let Some(work) = self.queue.try_pop() {
                return Some(work);
            }
            // New work may come while a run ends: it is handed to the engine before the next run is waited for.
            if !self.complete_first() {
                break;
            }
        }
        if self.queue.spin()
            && let Some(work) = self.queue.try_pop()
        {
            return Some(work);
        }
        if let Some(log) = &self.shared.log {
            log.flush();
        }
        self.idle()
    }

    /// Waits for work, asking the idle hooks for instructions that were not sent.
    ///
    /// Dry → (hooks: nothing pending) → last look, with `sleeping` set → (hooks: still nothing) → asleep. The pause
    /// between setting `sleeping` and the last look is what lets clients read it without a fence (QUEUE-3).
    fn idle(&mut self) -> Option<Work<E::Buffer>> {
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
                Parked::Work(work) => {
                    self.queue.set_sleeping(false);
                    return Some(work);
                }
                Parked::Stopping => return None,
                Parked::Woken => {
                    self.queue.set_sleeping(false);
                    stage = Stage::Dry;
                }
                Parked::TimedOut => {
                    let pending = self.ask_idle_hooks();
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

    /// Whether some session has recorded what it has not sent.
    fn ask_idle_hooks(&self) -> bool {
        let mut pending = false;
        for (key, hook) in self.queue.idle_hooks() {
            match catch_unwind(AssertUnwindSafe(|| hook())) {
                Ok(some) => pending |= some,
                Err(_) => {
                    // It would panic again in two milliseconds.
                    let hook = self.queue.set_idle_hook(key, None);
                    drop(hook);
                }
            }
        }
        pending
    }
}

/// Counts what was received.
pub(crate) fn count<B: Buffer>(
    session: &Session<B>,
    occurrence: &Occurrence,
    moved: &[(u32, Departing)],
    loaded_bytes: usize,
    is_arrival: bool,
) {
    let counters = &session.counters;
    let bytes = moved.iter().fold(occurrence.payload_bytes(), |bytes, (_, value)| bytes + value.ty().bytes());
    if is_arrival {
        return Counters::add(&counters.moved_bytes_in, bytes as u64);
    }
    Counters::add(&counters.windows, 1);
    Counters::add(&counters.total_instructions, occurrence.len() as u64);
    Counters::add(&counters.idle_cuts, occurrence.bindings().eager as u64);
    Counters::add(&counters.bytes_in, (bytes - loaded_bytes) as u64);
    Counters::add(&counters.loaded_bytes, loaded_bytes as u64);
    if let Some(journal) = &session.journal {
        journal.received(&occurrence.window());
    }
}
