//! Seats: the places where sessions are. The process has one, whose session all threads use that have none of their own. A
//! thread may take a seat of its own, for a stretch of what it does or to its end.
//!
//! SEAT-1: a lane belongs to one seat for as long as any of its values is alive. So a value's name says whose it is.
//! SEAT-2: an own seat is used by the thread that took it, and by no other; it has a session from its beginning to its end.
//! SEAT-3: a seat that was left is kept to the end of the process: tensors may still be of it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::lane::Lane;
use crate::session::Session;

/// A place for a session.
pub struct Seat {
    pub(crate) session: Mutex<Option<&'static Session>>,
    /// Where its session is, or was, for people.
    name: Mutex<String>,
    has_ended: AtomicBool,
    /// None for that of the process.
    pub(crate) outer: Option<Outer>,
}

/// Where a thread was before it took a seat of its own.
pub(crate) struct Outer {
    pub(crate) seat: &'static Seat,
    pub(crate) lane: Option<&'static Lane>,
}

/// That of the process.
pub(crate) static PROCESS: Seat = Seat::new(None);
/// Own seats that were not left.
static OWN: Mutex<Vec<&'static Seat>> = Mutex::new(Vec::new());

impl Seat {
    const fn new(outer: Option<Outer>) -> Seat {
        Seat { session: Mutex::new(None), name: Mutex::new(String::new()), has_ended: AtomicBool::new(false), outer }
    }

    /// A new one of the calling thread's own.
    pub(crate) fn own(outer: Outer) -> &'static Seat {
        let seat: &'static Seat = Box::leak(Box::new(Seat::new(Some(outer))));
        OWN.lock().push(seat);
        seat
    }

    /// Has another session from now on, or none; the one before.
    pub(crate) fn hold(&'static self, session: Option<&'static Session>) -> Option<&'static Session> {
        if let Some(session) = session {
            self.name.lock().clone_from(&session.name);
            // One that follows another in its seat has that of the other.
            let _ = session.seat.set(self);
        }
        std::mem::replace(&mut *self.session.lock(), session)
    }

    /// Nothing more happens here; the session that was.
    pub(crate) fn end(&'static self) -> Option<&'static Session> {
        self.has_ended.store(true, Ordering::Release);
        OWN.lock().retain(|seat| !std::ptr::eq(*seat, self));
        self.session.lock().take()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// What is said of a tensor that is used where it is not.
    pub(crate) fn foreign_tensor(&self, here: &Seat) -> String {
        let (there, name) = (self.name.lock().clone(), here.name.lock().clone());
        match self.has_ended() {
            true => format!("this tensor's session (with {there}) has ended"),
            false => format!(
                "the tensor belongs to the session with {there}, but is used in the session with {name}; read it there with x.numpy() \
                 and make a tensor of the array here"
            ),
        }
    }
}

/// The own seats that were not left.
pub(crate) fn own() -> Vec<&'static Seat> {
    OWN.lock().clone()
}
