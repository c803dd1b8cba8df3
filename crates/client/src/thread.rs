//! What a thread has of its own, in one place: to find where that is takes a call in a library that is loaded late, as
//! Python's extensions are, and every op needs all of it.

use std::cell::Cell;

use gt_ir::SiteId;

use crate::error::Result;
use crate::lane::Lane;
use crate::seat::Seat;
use crate::session::Session;

/// What a thread has of its own. Nothing in it is dropped, so it is there to the thread's very end.
pub(crate) struct Thread {
    /// Where it records, once it has.
    pub lane: Cell<Option<&'static Lane>>,
    /// Its own place for a session, if it has one.
    pub seat: Cell<Option<&'static Seat>>,
    /// What it has to do before it can say which session it has.
    pub unsettled: Cell<Option<fn() -> Result<()>>>,
    /// The session as it saw it, after so many changes.
    pub session: Cell<(u64, Option<&'static Session>)>,
    /// The line that what it records belongs to.
    pub site: Cell<SiteId>,
    /// Whether it tracks gradients.
    pub tracks: Cell<bool>,
}

thread_local! {
    pub(crate) static THREAD: Thread = const {
        Thread {
            lane: Cell::new(None),
            seat: Cell::new(None),
            unsettled: Cell::new(None),
            session: Cell::new((0, None)),
            site: Cell::new(SiteId(0)),
            tracks: Cell::new(true),
        }
    };
}
