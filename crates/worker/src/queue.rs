//! What was sent to a worker and not yet run.
//!
//! Senders push, the device thread pops. All state is under one lock; two numbers are mirrored in atomics so that
//! the common cases need no lock: `waiting`, which the device thread watches for some microseconds before it parks,
//! and `sleeping`, which a client looks at when it records the first instruction of a window.
//!
//! QUEUE-1: a session's messages are popped in the order they were sent; sessions take turns.
//! QUEUE-2: a sender waits only while something of its own session is outstanding, and never on the device thread, so
//! one window larger than all credits still passes and nobody waits for himself.
//! QUEUE-3: `sleeping` is set before the last look at the idle hooks, so a client that finds it unset has recorded
//! early enough to be seen by that look.
//! QUEUE-4: nothing foreign is dropped or called while the lock is held.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gt_engine::presence::Waiting;
use gt_engine::{Buffer, Transfer};
use gt_ir::TensorId;
use gt_observe::CounterSnapshot;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::inbox::{Credits, Queued, Supply};
use crate::places::{Places, Work};
use crate::session::Session;
use crate::stats::Totals;
use crate::turns::SessionKey;
use crate::{IdleHook, Interrupted, Oversupplied};

/// How often a waiting thread asks whether it should give up.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long threads watch before they park: longer would starve the recorder on two cores.
pub(crate) const SPIN: Duration = Duration::from_micros(20);

struct State<B> {
    places: Places<B>,
    woken: bool,
    stopping: bool,
    parked: bool,
    device: Option<ThreadId>,
}

/// What ended a park.
// Nearly all of them are messages.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Parked<B> {
    Work(Work<B>),
    Woken,
    TimedOut,
    Stopping,
}

/// What is looked at without the lock.
#[derive(Default)]
pub(crate) struct Signals {
    /// Sessions with something to do.
    waiting: AtomicUsize,
    /// Whether the device thread sleeps for good.
    pub(crate) sleeping: AtomicBool,
}

pub(crate) struct Queue<B> {
    state: Mutex<State<B>>,
    /// The device thread waits here.
    work: Condvar,
    pub(crate) signals: Arc<Signals>,
    /// Uploads without the device thread, where the engine can.
    transfer: OnceLock<Arc<dyn Transfer<B>>>,
}

impl<B: Buffer> Queue<B> {
    pub(crate) fn new() -> Self {
        let state = State { places: Places::default(), woken: false, stopping: false, parked: false, device: None };
        Queue { state: Mutex::new(state), work: Condvar::new(), signals: Arc::default(), transfer: OnceLock::new() }
    }

    /// Says which thread pops.
    pub(crate) fn set_device(&self, thread: ThreadId) {
        self.state.lock().device = Some(thread);
    }

    /// Says how payloads are uploaded, once there is an engine.
    pub(crate) fn set_transfer(&self, transfer: Arc<dyn Transfer<B>>) {
        let _ = self.transfer.set(transfer);
    }

    pub(crate) fn transfer(&self) -> Option<&Arc<dyn Transfer<B>>> {
        self.transfer.get()
    }

    /// Whether the caller is the device thread, which must not wait for itself.
    pub(crate) fn is_device_thread(&self) -> bool {
        self.state.lock().device == Some(std::thread::current().id())
    }

    /// A place for the session that `make` makes, and whether it has one: none has when the worker ends.
    pub(crate) fn open(&self, limit: Credits, make: impl FnOnce(SessionKey) -> Session<B>) -> (Arc<Session<B>>, bool) {
        let mut state = self.state.lock();
        let session = Arc::new(make(state.places.next_key()));
        if !state.stopping {
            state.places.open(session.clone(), limit);
        }
        (session, !state.stopping)
    }

    /// Takes no more of a session, and drops what waits; whether it took something before.
    pub(crate) fn close(&self, session: &Session<B>) -> bool {
        let waited = self.state.lock().places.close(session.key);
        session.room.notify_all();
        waited.is_some()
    }

    /// Tells the device thread of a session that takes no more, once its values are dropped: then it finds their memory
    /// free.
    pub(crate) fn closed(&self, session: &Arc<Session<B>>) {
        let mut state = self.state.lock();
        state.places.closed(session);
        self.tell_device(state);
    }

    /// Forgets a closed session, but not what it did.
    pub(crate) fn forget(&self, session: &Session<B>) {
        let place = self.state.lock().places.forget(session);
        drop(place);
    }

    /// There may be something to do: says so, and wakes the device thread if it is parked.
    fn tell_device(&self, state: MutexGuard<'_, State<B>>) {
        self.signals.waiting.store(state.places.waiting(), Relaxed);
        let parked = state.parked;
        drop(state);
        if parked {
            self.work.notify_one();
        }
    }

    /// Whether a send would wait for room just now.
    pub(crate) fn is_full(&self, key: SessionKey) -> bool {
        self.state.lock().places.get(key).is_some_and(|place| place.inbox.is_full())
    }

    /// How many messages and payloads of a session wait.
    pub(crate) fn records(&self, key: SessionKey) -> usize {
        self.state.lock().places.get(key).map_or(0, |place| place.inbox.records())
    }

    /// Appends a message, after waiting for room.
    pub(crate) fn send(
        &self,
        session: &Session<B>,
        queued: Queued,
        cancel: &dyn Fn() -> bool,
    ) -> Result<(), Interrupted> {
        let mut result = Ok(());
        let mut waiting = None;
        let mut state = self.state.lock();
        while result.is_ok()
            && state.places.get(session.key).is_some_and(|place| place.inbox.is_full())
            && state.device != Some(std::thread::current().id())
        {
            waiting.get_or_insert_with(Waiting::begin);
            if session.room.wait_for(&mut state, CANCEL_POLL).timed_out() {
                // The lock is not held while foreign code runs.
                drop(state);
                if cancel() {
                    result = Err(Interrupted);
                }
                state = self.state.lock();
            }
        }
        self.push(state, session, queued);
        result
    }

    /// Appends a message if there is room, else gives it back.
    pub(crate) fn try_send(&self, session: &Session<B>, queued: Queued) -> Result<(), Queued> {
        let mut state = self.state.lock();
        if state.places.get(session.key).is_some_and(|place| place.inbox.is_full()) {
            return Err(queued);
        }
        self.push(state, session, queued);
        Ok(())
    }

    /// Appends a message whether there is room or not.
    pub(crate) fn post(&self, session: &Session<B>, queued: Queued) {
        self.push(self.state.lock(), session, queued);
    }

    fn push(&self, mut state: MutexGuard<'_, State<B>>, session: &Session<B>, queued: Queued) {
        let refused = state.places.push(session.key, queued);
        self.tell_device(state);
        drop(refused);
    }

    /// A payload came, or it never will.
    pub(crate) fn supply(&self, key: SessionKey, id: TensorId, supply: Supply) -> Result<(), Oversupplied> {
        let mut state = self.state.lock();
        let mut supply = Some(supply);
        let result = state.places.supply(key, id, &mut supply);
        self.tell_device(state);
        drop(supply);
        result
    }

    /// What is next, if there is something.
    pub(crate) fn try_pop(&self) -> Option<Work<B>> {
        let mut state = self.state.lock();
        match state.stopping {
            true => None,
            false => self.next(&mut state),
        }
    }

    fn next(&self, state: &mut State<B>) -> Option<Work<B>> {
        let work = state.places.next();
        self.signals.waiting.store(state.places.waiting(), Relaxed);
        work
    }

    /// Watches for work for a short time; whether some came.
    pub(crate) fn spin(&self) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if self.signals.waiting.load(Relaxed) > 0 {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    /// Sleeps until there is work, a wake, the end, or the timeout.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> Parked<B> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return Parked::Stopping;
            }
            if let Some(work) = self.next(&mut state) {
                return Parked::Work(work);
            }
            if std::mem::take(&mut state.woken) {
                return Parked::Woken;
            }
            state.parked = true;
            let timed_out = match deadline {
                Some(deadline) => self.work.wait_until(&mut state, deadline).timed_out(),
                None => {
                    self.work.wait(&mut state);
                    false
                }
            };
            state.parked = false;
            if timed_out && state.places.waiting() == 0 && !state.woken && !state.stopping {
                return Parked::TimedOut;
            }
        }
    }

    /// Gives back what a message occupied.
    pub(crate) fn release(&self, session: &Session<B>, credits: Credits) {
        self.state.lock().places.release(session.key, credits);
        session.room.notify_all();
    }

    /// Says whether the device thread is about to sleep for good.
    pub(crate) fn set_sleeping(&self, sleeping: bool) {
        self.signals.sleeping.store(sleeping, SeqCst);
    }

    /// Wakes the device thread, so that it looks at the idle hooks again.
    #[cold]
    pub(crate) fn wake(&self) {
        self.signals.sleeping.store(false, SeqCst);
        self.state.lock().woken = true;
        self.work.notify_one();
    }

    /// Sets what is asked when there is nothing to do; gives back what is to be dropped.
    #[must_use = "a hook is dropped outside the lock"]
    pub(crate) fn set_idle_hook(&self, key: SessionKey, hook: Option<Arc<IdleHook>>) -> Option<Arc<IdleHook>> {
        match self.state.lock().places.get(key) {
            Some(place) => std::mem::replace(&mut place.idle_hook, hook),
            None => hook,
        }
    }

    /// All that is asked when there is nothing to do.
    pub(crate) fn idle_hooks(&self) -> Vec<(SessionKey, Arc<IdleHook>)> {
        self.state.lock().places.idle_hooks()
    }

    /// Whether nothing of a session is waiting and the device thread is parked.
    pub(crate) fn is_idle(&self, key: SessionKey) -> bool {
        let mut state = self.state.lock();
        state.parked && state.places.get(key).is_none_or(|place| place.inbox.is_empty())
    }

    /// What all sessions did together, and how many there are.
    pub(crate) fn totals(&self) -> (Totals, u64) {
        let state = self.state.lock();
        let (mut totals, sessions) = (state.places.past(), state.places.sessions());
        drop(state);
        sessions.iter().for_each(|session| totals.add(session));
        (totals, sessions.len() as u64)
    }

    /// The counters of all sessions together.
    pub(crate) fn counts(&self) -> CounterSnapshot {
        self.state.lock().places.counts()
    }

    /// Asks for the end: what waits is not run any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        let waited = state.places.stop();
        let sessions = state.places.sessions();
        drop(state);
        self.work.notify_all();
        for session in sessions {
            session.room.notify_all();
        }
        drop(waited);
    }

    /// The device thread ends: no session has a place any more. Gives back those that had one.
    pub(crate) fn clear(&self) -> Vec<Arc<Session<B>>> {
        let places = self.state.lock().places.clear();
        places.into_iter().map(|place| place.session).collect()
    }
}
