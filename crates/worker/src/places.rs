//! The sessions of a worker, each with its inbox, and whose turn it is. No lock in here: the queue has one around it.
//!
//! WORK-PLACES-1: a closed session takes no more messages; its place goes once the device thread has seen that it is closed, so
//! that its counts are always somewhere.
//! WORK-PLACES-2: nothing foreign is dropped here: what may hold a hook or a payload is given back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use gt_engine::Buffer;
use gt_ir::TensorId;
use gt_observe::CounterSnapshot;

use crate::inbox::{Credits, Inbox, Queued, Supply};
use crate::session::Session;
use crate::stats::Totals;
use crate::turns::{SessionKey, Turns};
use crate::{IdleHook, Oversupplied};

/// What a turn costs whatever it runs, so that windows of nothing take turns too.
const TURN_NS: u64 = 500;

/// A session's place.
pub(crate) struct Place<B> {
    pub(crate) session: Arc<Session<B>>,
    pub(crate) inbox: Inbox,
    pub(crate) idle_hook: Option<Arc<IdleHook>>,
    closed: bool,
    /// How much of the session's time has been counted for its turns.
    billed_ns: u64,
}

/// What the device thread does next.
// Nearly all of them are messages.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Work<B> {
    Message(Arc<Session<B>>, Queued),
    /// The session was closed: let go of it.
    Closed(Arc<Session<B>>),
}

pub(crate) struct Places<B> {
    places: BTreeMap<SessionKey, Place<B>>,
    next_key: SessionKey,
    turns: Turns,
    /// Closed sessions that the device thread has not seen yet.
    closing: Vec<Arc<Session<B>>>,
    /// What sessions did that are gone.
    past: Totals,
}

impl<B> Default for Places<B> {
    fn default() -> Self {
        let (places, turns, closing, past) = (BTreeMap::new(), Turns::default(), Vec::new(), Totals::default());
        Places { places, next_key: 0, turns, closing, past }
    }
}

impl<B: Buffer> Places<B> {
    /// A name for a session, never given before.
    pub(crate) fn next_key(&mut self) -> SessionKey {
        self.next_key += 1;
        self.next_key
    }

    /// A place for a session whose key is the youngest.
    pub(crate) fn open(&mut self, session: Arc<Session<B>>, limit: Credits) {
        let key = session.key;
        let place = Place { session, inbox: Inbox::new(limit), idle_hook: None, closed: false, billed_ns: 0 };
        self.places.insert(key, place);
        self.turns.open(key);
    }

    /// The session's place, if it still takes messages.
    pub(crate) fn get(&mut self, key: SessionKey) -> Option<&mut Place<B>> {
        self.places.get_mut(&key).filter(|place| !place.closed)
    }

    /// Takes no more of a session; gives back what waited and was to be asked.
    #[must_use = "dropped outside the lock"]
    pub(crate) fn close(&mut self, key: SessionKey) -> Option<(Inbox, Option<Arc<IdleHook>>)> {
        let place = self.get(key)?;
        place.closed = true;
        let inbox = std::mem::replace(&mut place.inbox, Inbox::new(Credits::default()));
        let hook = place.idle_hook.take();
        self.turns.close(key);
        Some((inbox, hook))
    }

    /// A session that takes no more has dropped its values: the device thread may forget it.
    pub(crate) fn closed(&mut self, session: &Arc<Session<B>>) {
        if self.places.contains_key(&session.key) {
            self.closing.push(session.clone());
        }
    }

    /// Forgets a closed session, but not what it did.
    #[must_use = "dropped outside the lock"]
    pub(crate) fn forget(&mut self, session: &Session<B>) -> Option<Place<B>> {
        let place = self.places.remove(&session.key)?;
        self.past.add(session);
        Some(place)
    }

    /// Appends a message, if the session still takes some; else gives it back.
    #[must_use = "dropped outside the lock"]
    pub(crate) fn push(&mut self, key: SessionKey, queued: Queued) -> Option<Queued> {
        let Some(place) = self.get(key) else { return Some(queued) };
        place.inbox.push(queued);
        place.session.sent.fetch_add(1, Release);
        let ready = place.inbox.is_ready();
        self.turns.set_ready(key, ready);
        None
    }

    /// A payload came, or it never will. What there is no use for stays with the caller, to be dropped outside the lock.
    pub(crate) fn supply(
        &mut self,
        key: SessionKey,
        id: TensorId,
        supply: &mut Option<Supply>,
    ) -> Result<(), Oversupplied> {
        let Some(place) = self.get(key) else { return Ok(()) };
        place.inbox.supply(id, supply)?;
        let ready = place.inbox.is_ready();
        self.turns.set_ready(key, ready);
        Ok(())
    }

    /// What there is to do for so many sessions.
    pub(crate) fn waiting(&self) -> usize {
        self.turns.ready() + self.closing.len()
    }

    /// What is next.
    pub(crate) fn next(&mut self) -> Option<Work<B>> {
        if let Some(session) = self.closing.pop() {
            return Some(Work::Closed(session));
        }
        let key = self.turns.next()?;
        let place = self.places.get_mut(&key)?;
        let queued = place.inbox.pop()?;
        let (session, ready) = (place.session.clone(), place.inbox.is_ready());
        self.turns.set_ready(key, ready);
        self.turns.charge(key, TURN_NS);
        Some(Work::Message(session, queued))
    }

    /// Gives back what a message occupied, and counts the time the session has used since the last one.
    pub(crate) fn release(&mut self, key: SessionKey, credits: Credits) {
        let Some(place) = self.get(key) else { return };
        place.inbox.release(credits);
        let used_ns = place.session.used_ns();
        let unbilled_ns = used_ns.saturating_sub(place.billed_ns);
        place.billed_ns = used_ns;
        self.turns.charge(key, unbilled_ns);
    }

    /// All that is asked when there is nothing to do, in the order sessions were opened.
    pub(crate) fn idle_hooks(&self) -> Vec<(SessionKey, Arc<IdleHook>)> {
        self.places.iter().filter_map(|(&key, place)| Some((key, place.idle_hook.clone()?))).collect()
    }

    /// What sessions did that are gone.
    pub(crate) fn past(&self) -> Totals {
        self.past.clone()
    }

    /// The counters of all sessions, those that are gone included.
    pub(crate) fn counts(&self) -> CounterSnapshot {
        let mut counts = self.past.counts;
        self.places.values().for_each(|place| counts.add(&place.session.counters.snapshot()));
        counts
    }

    /// The sessions that are not gone.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session<B>>> {
        self.places.values().map(|place| place.session.clone()).collect()
    }

    /// Takes no more of any session; gives back what waited.
    #[must_use = "dropped outside the lock"]
    pub(crate) fn stop(&mut self) -> Vec<Inbox> {
        let keys: Vec<SessionKey> = self.places.keys().copied().collect();
        let mut waited = Vec::with_capacity(keys.len());
        for key in keys {
            self.turns.close(key);
            if let Some(place) = self.get(key) {
                place.closed = true;
                waited.push(std::mem::replace(&mut place.inbox, Inbox::new(Credits::default())));
            }
        }
        waited
    }

    /// Forgets all sessions, but not what they did.
    #[must_use = "dropped outside the lock"]
    pub(crate) fn clear(&mut self) -> Vec<Place<B>> {
        self.closing.clear();
        let places: Vec<_> = std::mem::take(&mut self.places).into_values().collect();
        places.iter().for_each(|place| self.past.add(&place.session));
        places
    }
}
