//! Where a lane's window ends and is sent: at a read, at a boundary, by count (LANE-1), or because somebody waits for it.

use gt_ir::{TensorId, Window};

use super::{HAND_OVER_BYTES, Lane, REGISTRY, UPLOAD_CUT_BYTES, lane_of, mine};
use crate::error::Result;
use crate::session::{self, Cuts, Session, blocking, interrupted, wait_error};
use crate::value::Value;

/// Instructions beyond which a joined window is cut all the same.
const JOINED_MOST: usize = 4096;

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
pub(super) fn cut_foreign(id: TensorId) -> Result<()> {
    match lane_of(id) {
        Some(lane) => {
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
    let only_them = pending.window.uploads.len() == pending.window.instrs.len();
    let large = pending.upload_bytes >= HAND_OVER_BYTES;
    drop(pending);
    if only_them && large {
        lane.cut_unless_joined()?;
    }
    let is_sent = lane.pending.lock().window.instrs.is_empty();
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
    drop(pending);
    if value.id().lane() == lane.number {
        return Ok(());
    }
    value.mark_shared();
    cut_foreign(value.id())
}

/// Cuts every lane.
pub(crate) fn cut_all() -> Result<()> {
    let lanes = REGISTRY.lock().lanes.clone();
    lanes.iter().try_for_each(|lane| lane.cut(Cut::Foreign))
}

/// For the worker that has run dry: sends what lanes recorded and then left alone for a whole turn. Returns whether some
/// lane still has something to send.
pub fn cut_idle() -> bool {
    let lanes = REGISTRY.lock().lanes.clone();
    let mut more = false;
    for lane in lanes {
        let mut pending = lane.pending.lock();
        if pending.window.instrs.is_empty() {
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

impl Lane {
    fn take(&self, cut: Cut, cuts: Cuts) -> Option<Window> {
        let mut pending = self.pending.lock();
        let broken = pending.broken;
        match cut {
            Cut::Stream => {
                if pending.since_cut > 0 {
                    pending.cut_at = cuts.after(pending.cut_at);
                }
                pending.since_cut = 0;
                pending.broken = false;
            }
            Cut::Idle | Cut::Foreign => {
                pending.broken = pending.since_cut > 0;
                pending.stretch_broken = true;
            }
        }
        if pending.window.instrs.is_empty() && pending.window.frees.is_empty() {
            return None;
        }
        // Idle cuts depend on time; a foreign cut depends on another thread. Neither window may enter a cache.
        let eager = broken || cut != Cut::Stream;
        let joined = !eager && !pending.stretch_broken && pending.stretches.is_complete();
        pending.first_unsent = pending.next;
        pending.upload_bytes = 0;
        pending.met.clear();
        let (instrs, frees) = (pending.window.instrs.capacity().min(cuts.last), pending.window.frees.len());
        let fresh =
            Window { instrs: Vec::with_capacity(instrs), frees: Vec::with_capacity(frees), ..Window::default() };
        let window = std::mem::replace(&mut pending.window, fresh);
        Some(Window { eager, joined, ..window })
    }

    /// A cut that the stream decides. In a stretch that is being joined it is counted, not made.
    pub(super) fn cut_unless_joined(&self) -> Result<()> {
        let mut pending = self.pending.lock();
        let joins = pending.stretches.is_expected()
            && !pending.stretch_broken
            && pending.window.instrs.len() < JOINED_MOST
            && pending.upload_bytes < UPLOAD_CUT_BYTES;
        if joins {
            if pending.since_cut > 0 {
                pending.cut_at = cuts(session::running()).after(pending.cut_at);
            }
            pending.since_cut = 0;
            return Ok(());
        }
        drop(pending);
        self.cut(Cut::Stream)
    }

    /// Sends what was recorded, and waits for it if that is wanted (LANE-5).
    pub(super) fn cut(&self, cut: Cut) -> Result<()> {
        match self.send(cut)? {
            Some(session) if session.waits && cut == Cut::Stream => {
                blocking(|| session.link.synchronize(&interrupted)).map_err(wait_error)
            }
            _ => Ok(()),
        }
    }

    /// Sends what was recorded; the session it went to, if there was anything.
    pub(super) fn send(&self, cut: Cut) -> Result<Option<&'static Session>> {
        let Some(session) = session::running() else { return Ok(None) };
        let _in_order = session::lock(&self.sending);
        let Some(window) = self.take(cut, session.cuts) else { return Ok(None) };
        if let Some(print) = session.debug {
            let what = if window.eager { "early" } else { "whole" };
            print(&format!(
                "lane {} sends {} instructions, {} frees ({what})",
                self.number,
                window.instrs.len(),
                window.frees.len()
            ));
        }
        let sent = if session.link.is_full() {
            blocking(|| session.link.send(window, &interrupted))
        } else {
            session.link.send(window, &interrupted)
        };
        sent.map(|()| Some(session)).map_err(wait_error)
    }

    /// `None` when the owner is sending at this moment.
    fn try_cut_idle(&self) -> Option<()> {
        let session = session::running()?;
        let _in_order = self.sending.try_lock()?;
        if let Some(window) = self.take(Cut::Idle, session.cuts) {
            // The worker calls this while it is dry, so there are credits.
            let _ = session.link.send(window, &|| true);
        }
        Some(())
    }
}
