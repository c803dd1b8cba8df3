//! Time: what tells it, and the thread that has leases end when nothing else happens.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gt_net::NetError;
use parking_lot::{Condvar, Mutex};

use crate::Dispatcher;

/// Tells the time; tests have their own.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Instant;
}

/// The system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// When the dispatcher next wants to be looked at.
#[derive(Default)]
pub(crate) struct Alarm {
    state: Mutex<AlarmState>,
    changed: Condvar,
}

#[derive(Default)]
struct AlarmState {
    at: Option<Instant>,
    ended: bool,
}

impl Alarm {
    /// Rings at `at`, or earlier if that was wanted already.
    pub(crate) fn set(&self, at: Instant) {
        let mut state = self.state.lock();
        if state.at.is_none_or(|earlier| at < earlier) {
            state.at = Some(at);
            self.changed.notify_one();
        }
    }

    fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_one();
    }

    /// Waits for the alarm; false when it has ended.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return false;
            }
            match state.at {
                Some(at) if at <= Instant::now() => {
                    state.at = None;
                    return true;
                }
                Some(at) => {
                    self.changed.wait_until(&mut state, at);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

/// The thread that calls [`Dispatcher::tick`] when it is time; ends when dropped.
pub struct Timer {
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    pub(crate) fn start(dispatcher: Dispatcher, alarm: Arc<Alarm>) -> Result<Timer, NetError> {
        let of_thread = alarm.clone();
        let thread = std::thread::Builder::new()
            .name("gt-leases".to_string())
            .spawn(move || {
                while of_thread.wait() {
                    dispatcher.tick();
                }
            })
            .map_err(|e| NetError::Resource { what: "thread", reason: e.to_string() })?;
        Ok(Timer { alarm, thread: Some(thread) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.alarm.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How soon held messages are looked at again when nobody says that there is room.
pub(crate) const HELD_INTERVAL: Duration = Duration::from_millis(2);
