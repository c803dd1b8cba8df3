//! What was sent and not yet run.
//!
//! Senders push, the device thread pops. All state is under one lock; two numbers are mirrored in atomics so that
//! the common cases need no lock: `waiting`, which the device thread watches for some microseconds before it parks,
//! and `sleeping`, which a client looks at when it records the first instruction of a window.
//!
//! QUEUE-1: messages are popped in the order they were sent.
//! QUEUE-2: a sender waits only while something is outstanding, and never on the device thread, so one window larger
//! than all credits still passes and nobody waits for himself.
//! QUEUE-3: `sleeping` is set before the last look at the idle hook, so a client that finds it unset has recorded
//! early enough to be seen by that look.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gt_ir::Window;
use parking_lot::{Condvar, Mutex};

use crate::Interrupted;

/// How often a waiting thread asks whether it should give up.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long threads watch before they park: longer would starve the recorder on two cores.
pub(crate) const SPIN: Duration = Duration::from_micros(20);

/// What the device thread is asked to do.
pub(crate) enum Message {
    Window(Window),
    Trim,
}

/// What a window occupies until it has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credits {
    pub(crate) instrs: usize,
    pub(crate) bytes: usize,
}

impl Credits {
    pub(crate) fn of(window: &Window) -> Self {
        Credits { instrs: window.instrs.len(), bytes: window.uploads.iter().map(|p| p.bytes.len()).sum() }
    }
}

struct State {
    messages: VecDeque<Message>,
    outstanding: Credits,
    /// Windows and other messages ever sent.
    sent: u64,
    woken: bool,
    stopping: bool,
    parked: bool,
    device: Option<ThreadId>,
}

/// What ended a park.
pub(crate) enum Parked {
    Message(Message),
    Woken,
    TimedOut,
    Stopping,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    /// The device thread waits here.
    work: Condvar,
    /// Senders wait here.
    room: Condvar,
    waiting: AtomicUsize,
    sleeping: AtomicBool,
    limit: Credits,
}

impl Queue {
    pub(crate) fn new(limit: Credits) -> Self {
        Queue {
            state: Mutex::new(State {
                messages: VecDeque::new(),
                outstanding: Credits::default(),
                sent: 0,
                woken: false,
                stopping: false,
                parked: false,
                device: None,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            waiting: AtomicUsize::new(0),
            sleeping: AtomicBool::new(false),
            limit,
        }
    }

    /// Says which thread pops.
    pub(crate) fn set_device(&self, thread: ThreadId) {
        self.state.lock().device = Some(thread);
    }

    /// Whether the caller is the device thread, which must not wait for itself.
    pub(crate) fn is_device_thread(&self) -> bool {
        self.state.lock().device == Some(std::thread::current().id())
    }

    /// Whether a send would wait for room just now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.outstanding.instrs >= self.limit.instrs || state.outstanding.bytes >= self.limit.bytes
    }

    /// Appends a message, after waiting for room.
    pub(crate) fn send(&self, message: Message, cancel: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        let credits = match &message {
            Message::Window(window) => Credits::of(window),
            Message::Trim => Credits::default(),
        };
        let mut result = Ok(());
        let mut state = self.state.lock();
        while (state.outstanding.instrs >= self.limit.instrs || state.outstanding.bytes >= self.limit.bytes)
            && state.outstanding != Credits::default()
            && !state.stopping
            && state.device != Some(std::thread::current().id())
        {
            if self.room.wait_for(&mut state, CANCEL_POLL).timed_out() {
                // The lock is not held while foreign code runs.
                drop(state);
                let cancelled = cancel();
                state = self.state.lock();
                if cancelled {
                    result = Err(Interrupted);
                    break;
                }
            }
        }
        if state.stopping {
            return result;
        }
        state.outstanding.instrs += credits.instrs;
        state.outstanding.bytes += credits.bytes;
        state.sent += 1;
        state.messages.push_back(message);
        self.waiting.store(state.messages.len(), Relaxed);
        let parked = state.parked;
        drop(state);
        if parked {
            self.work.notify_one();
        }
        result
    }

    /// Messages ever sent.
    pub(crate) fn sent(&self) -> u64 {
        self.state.lock().sent
    }

    /// The next message, if there is one.
    pub(crate) fn try_pop(&self) -> Option<Message> {
        let mut state = self.state.lock();
        if state.stopping {
            return None;
        }
        let message = state.messages.pop_front();
        self.waiting.store(state.messages.len(), Relaxed);
        message
    }

    /// Watches for a message for a short time; whether one came.
    pub(crate) fn spin(&self) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if self.waiting.load(Relaxed) > 0 {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    /// Sleeps until a message, a wake, the end, or the timeout.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> Parked {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return Parked::Stopping;
            }
            if let Some(message) = state.messages.pop_front() {
                self.waiting.store(state.messages.len(), Relaxed);
                return Parked::Message(message);
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
            if timed_out && state.messages.is_empty() && !state.woken && !state.stopping {
                return Parked::TimedOut;
            }
        }
    }

    /// Gives back what a window occupied.
    pub(crate) fn release(&self, credits: Credits) {
        let mut state = self.state.lock();
        state.outstanding.instrs -= credits.instrs;
        state.outstanding.bytes -= credits.bytes;
        drop(state);
        self.room.notify_all();
    }

    /// Says whether the device thread is about to sleep for good.
    pub(crate) fn set_sleeping(&self, sleeping: bool) {
        self.sleeping.store(sleeping, SeqCst);
    }

    /// Wakes the device thread if it sleeps for good: one load otherwise.
    #[inline]
    pub(crate) fn wake_if_sleeping(&self) {
        if self.sleeping.load(Relaxed) {
            self.wake();
        }
    }

    /// Wakes the device thread, so that it looks at the idle hook again.
    #[cold]
    pub(crate) fn wake(&self) {
        self.sleeping.store(false, SeqCst);
        self.state.lock().woken = true;
        self.work.notify_one();
    }

    /// Whether nothing is waiting and the device thread is parked.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.parked && state.messages.is_empty()
    }

    /// Asks for the end: what waits is not run any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        let waiting = std::mem::take(&mut state.messages);
        drop(state);
        drop(waiting);
        self.work.notify_all();
        self.room.notify_all();
    }
}
