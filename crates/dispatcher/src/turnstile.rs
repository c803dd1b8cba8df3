//! One event at a time, without anyone waiting.
//!
//! Events come from the I/O thread, from the timer, and, where connections are pairs within a process, from whoever sends;
//! there, what a handler sends may come straight back as the next event, further up the same stack.
//!
//! TURNSTILE-1: whoever finds the core free handles its event, and then those that came meanwhile. Whoever finds it taken leaves
//!         its event in the queue: nobody waits, and no handler is entered twice.
//! TURNSTILE-2: events of one connection are handled in the order they came.

use std::collections::VecDeque;
use std::sync::Arc;

use gt_net::{Connection, NetError};
use parking_lot::Mutex;

use crate::clock::Alarm;
use crate::core::Core;

/// Names a connection for as long as the dispatcher lives.
pub(crate) type ConnectionId = u64;

/// Something that happened.
pub(crate) enum Event<'a> {
    Opened,
    Message(&'a [u8]),
    Closed(&'a NetError),
}

/// The same, to be handled later.
enum Waiting {
    Opened(ConnectionId, Connection),
    Message(ConnectionId, Connection, Vec<u8>),
    Closed(ConnectionId, NetError),
    Call(Box<dyn FnOnce(&mut Core) + Send>),
}

pub(crate) struct Turnstile {
    core: Mutex<Core>,
    waiting: Mutex<VecDeque<Waiting>>,
    pub(crate) alarm: Arc<Alarm>,
}

impl Turnstile {
    pub(crate) fn new(core: Core) -> Turnstile {
        Turnstile { core: Mutex::new(core), waiting: Mutex::new(VecDeque::new()), alarm: Arc::default() }
    }

    /// Handles an event of a connection, now or as soon as its turn comes.
    pub(crate) fn event(&self, id: ConnectionId, connection: &Connection, event: Event<'_>) {
        if let Some(mut core) = self.core.try_lock() {
            self.run_waiting(&mut core);
            match event {
                Event::Opened => core.opened(id, connection),
                Event::Message(head) => core.message(id, connection, head),
                Event::Closed(why) => core.closed(id, why),
            }
            self.run_waiting(&mut core);
            self.set_alarm(&mut core);
        } else {
            self.waiting.lock().push_back(match event {
                Event::Opened => Waiting::Opened(id, connection.clone()),
                Event::Message(head) => Waiting::Message(id, connection.clone(), head.to_vec()),
                Event::Closed(why) => Waiting::Closed(id, why.clone()),
            });
        }
        self.finish();
    }

    /// Runs `call` on the core, now or as soon as its turn comes.
    pub(crate) fn call(&self, call: impl FnOnce(&mut Core) + Send + 'static) {
        self.waiting.lock().push_back(Waiting::Call(Box::new(call)));
        self.finish();
    }

    /// Waits for the core; for those who are not called by it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Core) -> T) -> T {
        let seen = look(&mut self.core.lock());
        self.finish();
        seen
    }

    /// Something may have been left just before the core was free again.
    fn finish(&self) {
        while !self.waiting.lock().is_empty() {
            let Some(mut core) = self.core.try_lock() else { return };
            self.run_waiting(&mut core);
            self.set_alarm(&mut core);
        }
    }

    fn run_waiting(&self, core: &mut Core) {
        loop {
            let Some(next) = self.waiting.lock().pop_front() else { return };
            match next {
                Waiting::Opened(id, connection) => core.opened(id, &connection),
                Waiting::Message(id, connection, head) => core.message(id, &connection, &head),
                Waiting::Closed(id, why) => core.closed(id, &why),
                Waiting::Call(call) => call(core),
            }
        }
    }

    fn set_alarm(&self, core: &mut Core) {
        if let Some(at) = core.take_alarm() {
            self.alarm.set(at);
        }
    }
}
