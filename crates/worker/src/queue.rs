//! What was sent to a worker and not yet run: an inbox for each session, and whose turn it is.
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
//! QUEUE-4: a closed session takes no more messages; its place goes once the device thread has seen that it is closed.
//! Nothing foreign is dropped or called while the lock is held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gt_engine::Buffer;
use gt_ir::TensorId;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::inbox::{Credits, Inbox, Queued, Supply};
use crate::session::Session;
use crate::stats::Totals;
use crate::turns::{SessionKey, Turns};
use crate::{IdleHook, Interrupted, Oversupplied};

/// How often a waiting thread asks whether it should give up.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long threads watch before they park: longer would starve the recorder on two cores.
pub(crate) const SPIN: Duration = Duration::from_micros(20);

/// What a turn costs whatever it runs, so that windows of nothing take turns too.
const TURN_NS: u64 = 500;

/// A session's place in the queue.
struct Place<B> {
    session: Arc<Session<B>>,
    inbox: Inbox,
    idle_hook: Option<Arc<IdleHook>>,
    closed: bool,
    /// How much of the session's time has been counted for its turns.
    billed_ns: u64,
}

struct State<B> {
    places: BTreeMap<SessionKey, Place<B>>,
    next_key: SessionKey,
    turns: Turns,
    /// Closed sessions that the device thread has not seen yet.
    closing: Vec<Arc<Session<B>>>,
    /// What sessions did that are gone.
    past: Totals,
    woken: bool,
    stopping: bool,
    parked: bool,
    device: Option<ThreadId>,
}

/// What the device thread does next.
pub(crate) enum Work<B> {
    Message(Arc<Session<B>>, Queued),
    /// The session was closed: let go of it.
    Closed(Arc<Session<B>>),
}

/// What ended a park.
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
}

impl<B> State<B> {
    fn update(&self, signals: &Signals) {
        signals.waiting.store(self.turns.ready() + self.closing.len(), Relaxed);
    }

    /// The session's place, if it still takes messages.
    fn open_place(&mut self, key: SessionKey) -> Option<&mut Place<B>> {
        self.places.get_mut(&key).filter(|place| !place.closed)
    }

    fn next(&mut self, signals: &Signals) -> Option<Work<B>> {
        let work = match self.closing.pop() {
            Some(session) => Work::Closed(session),
            None => {
                let key = self.turns.next()?;
                let place = self.places.get_mut(&key)?;
                let queued = place.inbox.pop()?;
                let (session, ready) = (place.session.clone(), place.inbox.is_ready());
                self.turns.set_ready(key, ready);
                self.turns.charge(key, TURN_NS);
                Work::Message(session, queued)
            }
        };
        self.update(signals);
        Some(work)
    }
}

impl<B: Buffer> Queue<B> {
    pub(crate) fn new() -> Self {
        let state = State {
            places: BTreeMap::new(),
            next_key: 0,
            turns: Turns::default(),
            closing: Vec::new(),
            past: Totals::default(),
            woken: false,
            stopping: false,
            parked: false,
            device: None,
        };
        Queue { state: Mutex::new(state), work: Condvar::new(), signals: Arc::default() }
    }

    /// Says which thread pops.
    pub(crate) fn set_device(&self, thread: ThreadId) {
        self.state.lock().device = Some(thread);
    }

    /// Whether the caller is the device thread, which must not wait for itself.
    pub(crate) fn is_device_thread(&self) -> bool {
        self.state.lock().device == Some(std::thread::current().id())
    }

    /// A place for a session that `make` makes; none when the worker ends. The session is given back either way.
    pub(crate) fn open(&self, limit: Credits, make: impl FnOnce(SessionKey) -> Session<B>) -> (Arc<Session<B>>, bool) {
        let mut state = self.state.lock();
        let key = state.next_key;
        state.next_key += 1;
        let session = Arc::new(make(key));
        let open = !state.stopping;
        if open {
            let inbox = Inbox::new(limit);
            let place = Place { session: session.clone(), inbox, idle_hook: None, closed: false, billed_ns: 0 };
            state.places.insert(key, place);
            state.turns.open(key);
        }
        (session, open)
    }

    /// Takes no more of a session: drops what waits, tells the device thread.
    pub(crate) fn close(&self, session: &Arc<Session<B>>) {
        let mut state = self.state.lock();
        let Some(place) = state.open_place(session.key) else { return };
        place.closed = true;
        let inbox = std::mem::replace(&mut place.inbox, Inbox::new(Credits::default()));
        let hook = place.idle_hook.take();
        state.turns.close(session.key);
        state.closing.push(session.clone());
        state.update(&self.signals);
        self.notify(state);
        session.room.notify_all();
        drop((inbox, hook));
    }

    /// Forgets a closed session, but not what it did.
    pub(crate) fn forget(&self, session: &Session<B>) {
        let mut state = self.state.lock();
        let place = state.places.remove(&session.key);
        state.past.add(session);
        drop(state);
        drop(place);
    }

    /// Wakes the device thread if it is parked.
    fn notify(&self, state: MutexGuard<'_, State<B>>) {
        let parked = state.parked;
        drop(state);
        if parked {
            self.work.notify_one();
        }
    }

    /// Whether a send would wait for room just now.
    pub(crate) fn is_full(&self, key: SessionKey) -> bool {
        self.state.lock().places.get(&key).is_some_and(|place| place.inbox.is_full())
    }

    /// Appends a message, after waiting for room.
    pub(crate) fn send(
        &self,
        session: &Session<B>,
        queued: Queued,
        cancel: &dyn Fn() -> bool,
    ) -> Result<(), Interrupted> {
        let mut result = Ok(());
        let mut state = self.state.lock();
        loop {
            let device = state.device;
            let Some(place) = state.open_place(session.key) else { return result };
            if result.is_err() || !place.inbox.is_full() || device == Some(std::thread::current().id()) {
                break;
            }
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
        match state.open_place(session.key) {
            Some(place) if place.inbox.is_full() => return Err(queued),
            _ => self.push(state, session, queued),
        }
        Ok(())
    }

    /// Appends a message whether there is room or not.
    pub(crate) fn post(&self, session: &Session<B>, queued: Queued) {
        self.push(self.state.lock(), session, queued);
    }

    fn push(&self, mut state: MutexGuard<'_, State<B>>, session: &Session<B>, queued: Queued) {
        let Some(place) = state.open_place(session.key) else { return };
        place.inbox.push(queued);
        // Under the lock, so that it counts the messages in their order.
        session.sent.fetch_add(1, Release);
        let ready = place.inbox.is_ready();
        state.turns.set_ready(session.key, ready);
        state.update(&self.signals);
        self.notify(state);
    }

    /// A payload came, or it never will.
    pub(crate) fn supply(&self, key: SessionKey, id: TensorId, supply: Supply) -> Result<(), Oversupplied> {
        let mut state = self.state.lock();
        let Some(place) = state.open_place(key) else { return Ok(()) };
        place.inbox.supply(id, supply)?;
        let ready = place.inbox.is_ready();
        state.turns.set_ready(key, ready);
        state.update(&self.signals);
        self.notify(state);
        Ok(())
    }

    /// What is next, if there is something.
    pub(crate) fn try_pop(&self) -> Option<Work<B>> {
        let mut state = self.state.lock();
        if state.stopping {
            return None;
        }
        state.next(&self.signals)
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
            if let Some(work) = state.next(&self.signals) {
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
            let nothing = state.turns.ready() == 0 && state.closing.is_empty();
            if timed_out && nothing && !state.woken && !state.stopping {
                return Parked::TimedOut;
            }
        }
    }

    /// Gives back what a message occupied, and counts the time the session has used since the last one.
    pub(crate) fn release(&self, session: &Session<B>, credits: Credits) {
        let used_ns = session.used_ns();
        let mut state = self.state.lock();
        let Some(place) = state.open_place(session.key) else { return };
        place.inbox.release(credits);
        let unbilled_ns = used_ns.saturating_sub(place.billed_ns);
        place.billed_ns = used_ns;
        state.turns.charge(session.key, unbilled_ns);
        drop(state);
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

    /// Sets what is asked when there is nothing to do; gives back what was asked before.
    #[must_use = "a hook is dropped outside the lock"]
    pub(crate) fn set_idle_hook(&self, key: SessionKey, hook: Option<Arc<IdleHook>>) -> Option<Arc<IdleHook>> {
        match self.state.lock().open_place(key) {
            Some(place) => std::mem::replace(&mut place.idle_hook, hook),
            None => hook,
        }
    }

    /// All that is asked when there is nothing to do.
    pub(crate) fn idle_hooks(&self) -> Vec<(SessionKey, Arc<IdleHook>)> {
        let state = self.state.lock();
        state.places.iter().filter_map(|(&key, place)| Some((key, place.idle_hook.clone()?))).collect()
    }

    /// Whether nothing of a session is waiting and the device thread is parked.
    pub(crate) fn is_idle(&self, key: SessionKey) -> bool {
        let state = self.state.lock();
        state.parked && state.places.get(&key).is_none_or(|place| place.inbox.is_empty())
    }

    /// What all sessions did together, and how many there are.
    pub(crate) fn totals(&self) -> (Totals, u64) {
        let state = self.state.lock();
        let mut totals = state.past.clone();
        let sessions: Vec<_> = state.places.values().map(|place| place.session.clone()).collect();
        drop(state);
        sessions.iter().for_each(|session| totals.add(session));
        (totals, sessions.len() as u64)
    }

    /// Asks for the end: what waits is not run any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        let mut inboxes = Vec::new();
        for place in state.places.values_mut() {
            inboxes.push(std::mem::replace(&mut place.inbox, Inbox::new(Credits::default())));
            place.closed = true;
        }
        let sessions: Vec<_> = state.places.values().map(|place| place.session.clone()).collect();
        drop(state);
        self.work.notify_all();
        for session in sessions {
            session.room.notify_all();
        }
        drop(inboxes);
    }

    /// The device thread ends: no session has a place any more.
    pub(crate) fn clear(&self) -> Vec<Arc<Session<B>>> {
        let mut state = self.state.lock();
        let places = std::mem::take(&mut state.places);
        state.closing.clear();
        let sessions: Vec<_> = places.values().map(|place| place.session.clone()).collect();
        sessions.iter().for_each(|session| state.past.add(session));
        drop(state);
        drop(places);
        sessions
    }
}
