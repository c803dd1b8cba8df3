//! Where a lane's window ends and is sent: at a read, at a boundary, by count (LANE-1), or because somebody waits for it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use gt_ir::TensorId;
use gt_stream::Occurrence;

use super::{
    HAND_OVER_BYTES, Lane, LoopOptions, Pending, REGISTRY, SHARED_FREES, UPLOAD_CUT_BYTES, free_shared, lane_of, mine,
};
use crate::error::{Error, Result};
use crate::run_ahead::Kind;
use crate::seat::Seat;
use crate::session::{self, Cuts, Session, interrupted, wait_error};
use crate::value::Value;

/// Instructions beyond which a joined window is cut all the same.
const JOINED_MOST: usize = 4096;

/// Estimated work beyond which a joined window is cut, so that recording cannot run far ahead. The estimate is the op table's,
/// and so depends on the stream alone.
const JOINED_WORK_NS: u64 = 2_000_000_000;

/// Why a window ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Cut {
    /// A read, a boundary or the count.
    Stream,
    /// The worker ran dry.
    Idle,
    /// Another lane needs a value.
    Foreign,
}

/// How long windows are; before there is a session, as for one in this process.
fn cuts(session: Option<&Session>) -> Cuts {
    session.map_or(Cuts::NEAR, |session| session.cuts)
}

/// Sends the window that defines `id`, if it is still being recorded by another lane.
///
/// # Errors
/// Also when it belongs to another session than what is recorded in `own`.
pub(super) fn cut_foreign(id: TensorId, own: &Lane) -> Result<()> {
    match lane_of(id) {
        Some(lane) => {
            let there = lane.seat();
            let here = own.seat();
            if !std::ptr::eq(there, here) {
                return Err(Error::State(there.foreign_tensor(here)));
            }
            let unsent = lane.pending.lock().first_unsent <= id.n();
            // Whoever sends right now has it on its way; the lock says when it is there.
            if unsent {
                lane.cut(Cut::Foreign)
            } else {
                drop(session::lock(&lane.sending));
                Ok(())
            }
        }
        None => Ok(()),
    }
}

/// A boundary the client knows: cuts the calling thread's window, unless it is being joined with others.
pub(crate) fn boundary() -> Result<()> {
    mine().cut_unless_joined()
}

/// Cuts the calling thread's window.
pub fn cut() -> Result<()> {
    mine().cut(Cut::Stream)
}

/// Uploads values that somebody else has made, a batch for example. Large ones are sent at once where nothing was recorded before
/// them: then they need no plan, which would be another for every shape, and their memory comes back as soon as they are dropped.
///
/// # Errors
/// When a wait for credits was interrupted, or what was waited for failed.
pub fn hand_over<T>(upload: impl FnOnce() -> T) -> Result<T> {
    /// However it ends.
    struct Handing(&'static Lane);

    impl Drop for Handing {
        fn drop(&mut self) {
            self.0.pending.lock().handing = false;
        }
    }

    let lane = mine();
    lane.pending.lock().handing = true;
    let handing = Handing(lane);
    let uploaded = upload();
    drop(handing);
    let pending = lane.pending.lock();
    let only_them = pending.recording.payloads() == pending.recording.len();
    let large = pending.upload_bytes >= HAND_OVER_BYTES;
    drop(pending);
    if only_them && large {
        lane.cut_unless_joined()?;
    }
    let is_sent = lane.pending.lock().recording.is_empty();
    if let (false, Some(session)) = (is_sent, session::running()) {
        session.link.wake();
    }
    Ok(uploaded)
}

/// Cuts for a read of `value`: the next windows are small again, so that the device starts early.
pub(crate) fn cut_for_read(value: &Value) -> Result<()> {
    let lane = mine();
    lane.cut(Cut::Stream)?;
    let session = session::running();
    let enough = session.filter(|s| s.batch_size.is_none()).and_then(|s| s.join_after);
    let mut pending = lane.pending.lock();
    pending.cut_at = cuts(session).first;
    pending.stretch_broken = false;
    pending.stretches.read(enough);
    pending.loops.read();
    drop(pending);
    if value.id().lane() == lane.number {
        return Ok(());
    }
    value.mark_shared();
    cut_foreign(value.id(), lane)
}

/// Cuts every lane of a seat.
pub(crate) fn cut_all(seat: &Seat) -> Result<()> {
    lanes_of(seat).iter().try_for_each(|lane| lane.cut(Cut::Foreign))
}

/// Whether a lane of a seat has recorded what was not sent.
pub(crate) fn has_unsent(seat: &Seat) -> bool {
    lanes_of(seat).iter().any(|lane| !lane.pending.lock().recording.is_empty())
}

fn lanes_of(seat: &Seat) -> Vec<&'static Lane> {
    REGISTRY.lock().lanes.iter().copied().filter(|lane| lane.is_of(seat)).collect()
}

/// For a worker that has run dry: a hook that sends what lanes recorded for its session and then left alone for a whole turn, and
/// returns whether some lane still has something to send. The seat is that of the session, once it has one.
pub fn idle_cut(seat: Arc<OnceLock<&'static Seat>>) -> impl Fn() -> bool + Send + Sync {
    move || seat.get().is_some_and(|seat| cut_idle(seat))
}

fn cut_idle(seat: &Seat) -> bool {
    let lanes = lanes_of(seat);
    let mut more = false;
    for lane in lanes {
        let mut pending = lane.pending.lock();
        if pending.recording.is_empty() {
            continue;
        }
        // What is being handed over is sent whole, in a moment.
        if pending.handing || pending.seen_by_idle != pending.recorded {
            pending.seen_by_idle = pending.recorded;
            more = true;
            continue;
        }
        drop(pending);
        if lane.try_cut_idle().is_none() {
            more = true;
        }
    }
    more
}

impl Pending {
    /// A cut that the stream decides: how long the next window is. Whether the window joins several of a loop.
    fn count_cut(&mut self, cuts: Cuts, loops: Option<&LoopOptions>) -> bool {
        let ended = std::mem::take(&mut self.loop_ends);
        let joins = loops.is_some_and(|options| self.loops.cut(options, ended));
        if self.since_cut > 0 && !ended {
            self.cut_at = cuts.after(self.cut_at);
        }
        (self.since_cut, self.work_since_cut_ns) = (0, 0);
        joins
    }
}

impl Lane {
    fn take(&self, cut: Cut, cuts: Cuts, loops: Option<&LoopOptions>) -> Option<(Occurrence, Kind)> {
        let mut pending = self.pending.lock();
        let broken = pending.broken;
        let mut joins_loop = false;
        match cut {
            Cut::Stream => {
                joins_loop = pending.count_cut(cuts, loops);
                pending.broken = false;
            }
            Cut::Idle | Cut::Foreign => {
                pending.broken = pending.since_cut > 0;
                pending.stretch_broken = true;
            }
        }
        let frees = pending.recording.frees() as u64;
        // Idle cuts depend on time; a foreign cut depends on another thread. Neither window may enter a cache.
        let eager = broken || cut != Cut::Stream;
        let is_stretch = !pending.stretch_broken && pending.stretches.is_complete();
        let joined = !eager && (is_stretch || joins_loop || pending.compiles);
        let mut window = pending.recording.take(eager, joined)?;
        window.met = std::mem::take(&mut pending.met);
        pending.is_met.clear();
        pending.freed += frees;
        pending.first_unsent = pending.next;
        pending.upload_bytes = 0;
        pending.expectations.recorded(&window);
        // What follows an idle cut is the rest of a window.
        let expected = if pending.broken { None } else { pending.expectations.next() };
        pending.recording.expect(expected);
        let kind = Kind { instrs: window.len(), work_ns: std::mem::take(&mut pending.work_ns) };
        Some((window, kind))
    }

    /// A cut that the stream decides. In a stretch that is being joined it is counted, not made.
    pub(super) fn cut_unless_joined(&self) -> Result<()> {
        let mut pending = self.pending.lock();
        let joins = pending.stretches.is_expected()
            && !pending.stretch_broken
            && pending.recording.len() < JOINED_MOST
            && pending.work_ns < JOINED_WORK_NS
            && pending.upload_bytes < UPLOAD_CUT_BYTES;
        if joins {
            let session = session::running();
            pending.count_cut(cuts(session), session.and_then(|session| session.loops.as_ref()));
            return Ok(());
        }
        drop(pending);
        self.cut(Cut::Stream)
    }

    /// Sends what was recorded, once there is little enough ahead of it (LANE-7), and waits for it if that is wanted (LANE-5).
    pub(super) fn cut(&self, cut: Cut) -> Result<()> {
        let Some(session) = self.session() else { return Ok(()) };
        if cut != Cut::Stream {
            return self.send(cut).map(drop);
        }
        // What is recorded is sent also when a wait before that is given up.
        let freed = if SHARED_FREES.swap(false, Ordering::AcqRel) { free_shared() } else { Ok(()) };
        let waited = session.ahead.wait(&*session.link);
        let sent = self.send(cut);
        freed?;
        waited?;
        if sent? && session.waits {
            session.wait_for(|link, cancel| link.synchronize(cancel))?;
        }
        Ok(())
    }

    /// Sends what was recorded; whether there was anything.
    pub(super) fn send(&self, cut: Cut) -> Result<bool> {
        let Some(session) = self.session() else { return Ok(false) };
        let _in_order = session::lock(&self.sending);
        let Some((window, kind)) = self.take(cut, session.cuts, session.loops.as_ref()) else { return Ok(false) };
        if let Some(print) = session.debug {
            let what = if window.bindings().eager { "early" } else { "whole" };
            let (instrs, frees) = (window.len(), window.frees().count());
            print(&format!("lane {} sends {instrs} instructions, {frees} frees ({what})", self.number));
        }
        let sent = if session.link.is_full() {
            session.wait_for(|link, cancel| link.send(window, cancel))
        } else {
            session.link.send(window, &interrupted).map_err(wait_error)
        };
        session.ahead.sent(&*session.link, kind);
        sent.map(|()| true)
    }

    /// `None` when the owner is sending at this moment.
    fn try_cut_idle(&self) -> Option<()> {
        let session = self.session()?;
        let _in_order = self.sending.try_lock()?;
        if let Some((window, kind)) = self.take(Cut::Idle, session.cuts, session.loops.as_ref()) {
            // The worker calls this while it is dry, so there are credits.
            let _ = session.link.send(window, &|| true);
            session.ahead.sent(&*session.link, kind);
        }
        Some(())
    }
}
