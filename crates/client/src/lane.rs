//! Lanes: where a thread records.
//!
//! Each thread owns one lane: a window being recorded, an id counter, a random stream. The owner touches it on every
//! op; the idle hook and other threads that use one of its values touch it rarely. Its fields sit behind two locks:
//! `pending` (held for the few stores of a record, never across a wait) and `sending` (held from the moment a window is
//! taken until the link has it, so that windows of one lane leave in order).
//!
//! LANE-1: where a window is cut depends on the stream alone. An idle cut sends what there is but leaves the count that
//! decides the next cut as it was; what follows until that cut is sent as `eager` too, so that no odd window enters a cache.
//! A stretch between two reads that is expected to repeat ([`Stretches`]) is not cut at all: cuts that the stream decides
//! are only counted. Should an idle cut fall into it after all, the rest is cut as if nothing had been joined, into
//! windows that were seen before the joining.
//! LANE-2: an id is freed through the lane that made it, after every instruction that lane recorded with it. A value
//! another lane used is marked; its free follows a cut of all lanes.
//! LANE-3: neither lock is held while a `Value` is dropped, a session is started or Python runs.
//! LANE-4: a window names all values from before that it uses, or none; a lane changes over between two windows. Only one that
//! names them carries scopes.
//! LANE-5: a session that `waits` waits for the windows that the stream cuts, with no lock held. What another thread cuts is not its
//! failure to raise: the lane's own next cut does.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gt_ir::{Bytes, Ins, Instr, Met, Op, Outs, Payload, Scalar, Scalars, ScopeId, TensorId, Window};
use parking_lot::Mutex;

use crate::error::Result;
use crate::rng::Stream;
use crate::session::{self, Session, blocking, interrupted, session, wait_error};
use crate::signal;
use crate::site;
use crate::stretch::Stretches;
use crate::value::Value;

/// Instructions in the first window after a read, so that a device starts early.
const FIRST_CUT: usize = 32;
/// Instructions in the largest window: a read waits for the last one, so it should not be most of what was recorded.
const LAST_CUT: usize = 256;
/// Instructions beyond which a joined window is cut all the same.
const JOINED_MOST: usize = 4096;
/// Uploads up to this size ride inside the window however many there are; larger ones cut it when they add up.
pub(crate) const UPLOAD_CUT_BYTES: usize = 16 << 20;

/// One thread's part of the stream.
pub struct Lane {
    number: u16,
    pending: Mutex<Pending>,
    sending: Mutex<()>,
}

#[derive(Default)]
struct Pending {
    window: Window,
    upload_bytes: usize,
    next: u64,
    first_unsent: u64,
    /// Instructions since the last cut that the stream decided.
    since_cut: usize,
    cut_at: usize,
    /// An idle cut fell into the window being recorded.
    broken: bool,
    /// Instructions ever recorded and their number when the idle hook last looked.
    recorded: u64,
    seen_by_idle: u64,
    stretches: Stretches,
    /// An idle cut fell into the stretch being recorded.
    stretch_broken: bool,
    random: Stream,
    /// Under signals: values from before are written down, those of this window so far in `met`.
    meets: bool,
    met: HashSet<(TensorId, bool)>,
}

/// All lanes there ever were; a thread that starts takes over the lane of one that ended.
struct Registry {
    lanes: Vec<Arc<Lane>>,
    idle: Vec<u16>,
    meets: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { lanes: Vec::new(), idle: Vec::new(), meets: false });
static LANES_STARTED: AtomicU64 = AtomicU64::new(0);

struct Mine(Arc<Lane>);

impl Drop for Mine {
    fn drop(&mut self) {
        // The thread ends: what it recorded is sent, and its number serves the next thread.
        if !session::is_forked() {
            let _ = self.0.send(Cut::Stream);
            REGISTRY.lock().idle.push(self.0.number);
        }
    }
}

thread_local! {
    static MINE: OnceCell<Mine> = const { OnceCell::new() };
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// A read, a boundary or the count.
    Stream,
    /// The worker ran dry.
    Idle,
    /// Another lane needs a value.
    Foreign,
}

/// Gives the calling thread's lane.
fn mine<T>(f: impl FnOnce(&Lane) -> T) -> T {
    MINE.with(|slot| f(&slot.get_or_init(|| Mine(claim())).0))
}

#[cold]
fn claim() -> Arc<Lane> {
    let mut registry = REGISTRY.lock();
    let lane = match registry.idle.pop() {
        Some(number) => registry.lanes[number as usize].clone(),
        None => {
            let number = u16::try_from(registry.lanes.len()).expect("fewer than 65,536 threads use GT at once");
            let lane = Arc::new(Lane { number, pending: Mutex::default(), sending: Mutex::default() });
            registry.lanes.push(lane.clone());
            lane
        }
    };
    let mut pending = lane.pending.lock();
    pending.cut_at = FIRST_CUT;
    pending.meets = registry.meets;
    pending.random = Stream::for_thread(LANES_STARTED.fetch_add(1, Ordering::Relaxed));
    drop(pending);
    lane
}

fn lane_of(id: TensorId) -> Option<Arc<Lane>> {
    REGISTRY.lock().lanes.get(id.lane() as usize).cloned()
}

/// Records one instruction and returns the id of its first output; the others follow it.
///
/// # Errors
/// When no session can be started, a wait for credits was interrupted, or what was waited for failed (the instruction is
/// recorded all the same).
#[inline]
#[track_caller]
pub(crate) fn record(
    op: Op,
    ins: &[&Value],
    scalars: &[Scalar],
    outs: usize,
    payload: Option<Bytes>,
) -> Result<TensorId> {
    let (id, sent) = recorded(op, ins, scalars, outs, payload)?;
    if sent.is_err() {
        // Nobody will have what it defines.
        (0..outs as u64).for_each(|i| free(TensorId(id.0 + i), false));
    }
    sent.map(|()| id)
}

/// As [`record`], with the id also where the instruction is recorded and a wait for credits was interrupted. An upload without
/// a payload is one whose payload follows by the link.
///
/// # Errors
/// When nothing was recorded.
#[inline]
#[track_caller]
pub(crate) fn recorded(
    op: Op,
    ins: &[&Value],
    scalars: &[Scalar],
    outs: usize,
    payload: Option<Bytes>,
) -> Result<(TensorId, Result<()>)> {
    let session = session()?;
    let site = site::here(Location::caller());
    mine(|lane| {
        let mut ids = Ins::new();
        for value in ins {
            let id = value.id();
            if id.lane() != lane.number {
                value.mark_shared();
                cut_foreign(id)?;
            }
            ids.push(id);
        }
        let kind = op.kind();
        let mut pending = lane.pending.lock();
        let first = TensorId::new(lane.number, pending.next);
        pending.next += outs as u64;
        let was_empty = pending.window.instrs.is_empty();
        if let Op::Upload(upload) = &op {
            pending.upload_bytes += upload.shape.numel() * upload.dtype.size();
            if let Some(bytes) = payload {
                let instr = pending.window.instrs.len() as u32;
                pending.window.uploads.push(Payload { instr, bytes });
            }
        }
        let scope = if pending.meets { pending.meet(lane.number, ins) } else { ScopeId(0) };
        let mut made = Outs::new();
        for i in 0..outs as u64 {
            made.push(TensorId(first.0 + i));
        }
        pending.window.instrs.push(Instr {
            op,
            outs: made,
            ins: ids,
            scalars: Scalars::from_slice(scalars),
            scope,
            site,
        });
        pending.since_cut += 1;
        pending.recorded += 1;
        if session.join_after.is_some() {
            pending.stretches.record(kind);
        }
        let full = pending.since_cut >= session.batch_size.unwrap_or(pending.cut_at)
            || pending.upload_bytes >= UPLOAD_CUT_BYTES;
        drop(pending);
        if full {
            return Ok((first, lane.cut_unless_joined()));
        }
        if was_empty {
            session.link.wake();
        }
        Ok((first, Ok(())))
    })
}

/// The names of the values that the calling thread will define next: nobody else records in its lane.
pub(crate) fn upcoming(count: usize) -> Vec<TensorId> {
    mine(|lane| {
        let first = TensorId::new(lane.number, lane.pending.lock().next);
        (0..count as u64).map(|i| TensorId(first.0 + i)).collect()
    })
}

/// Hands the free of a value to the lane that made it.
#[inline]
pub(crate) fn free(id: TensorId, shared: bool) {
    if session::is_forked() {
        return;
    }
    if shared {
        // Other lanes may have recorded it: their instructions go out first.
        let _ = cut_all();
    }
    let done = MINE.try_with(|slot| match slot.get() {
        Some(lane) if lane.0.number == id.lane() => {
            lane.0.pending.lock().window.frees.push(id);
            true
        }
        _ => false,
    });
    if !matches!(done, Ok(true))
        && let Some(lane) = lane_of(id)
    {
        lane.pending.lock().window.frees.push(id);
    }
}

/// Sends the window that defines `id`, if it is still being recorded by another lane.
fn cut_foreign(id: TensorId) -> Result<()> {
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
    mine(|lane| lane.cut_unless_joined())
}

/// Cuts the calling thread's window.
pub fn cut() -> Result<()> {
    mine(|lane| lane.cut(Cut::Stream))
}

/// Cuts for a read of `value`: the next windows are small again, so that the device starts early.
pub(crate) fn cut_for_read(value: &Value) -> Result<()> {
    mine(|lane| {
        lane.cut(Cut::Stream)?;
        let enough = session::running().filter(|s| s.batch_size.is_none()).and_then(|s| s.join_after);
        let mut pending = lane.pending.lock();
        pending.cut_at = FIRST_CUT;
        pending.stretch_broken = false;
        pending.stretches.read(enough);
        drop(pending);
        if value.id().lane() == lane.number {
            return Ok(());
        }
        value.mark_shared();
        cut_foreign(value.id())
    })
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
        if pending.seen_by_idle != pending.recorded {
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

/// Runs `f` on the calling thread's random stream.
pub(crate) fn with_random<T>(f: impl FnOnce(&mut Stream) -> T) -> T {
    mine(|lane| f(&mut lane.pending.lock().random))
}

/// From now on every lane writes down the values from before that its windows use. What was recorded so far is sent without.
///
/// # Errors
/// When a wait for credits was interrupted; it is done all the same.
pub(crate) fn meet_from_now_on() -> Result<()> {
    let mut registry = REGISTRY.lock();
    registry.meets = true;
    let lanes = registry.lanes.clone();
    drop(registry);
    let own = MINE.try_with(|slot| slot.get().map(|lane| lane.0.number)).ok().flatten();
    let mut all_sent = Ok(());
    for lane in lanes {
        loop {
            let cut = if own == Some(lane.number) { Cut::Stream } else { Cut::Foreign };
            all_sent = all_sent.and(lane.cut(cut));
            let mut pending = lane.pending.lock();
            // Its own thread may have gone on meanwhile. With no session there is nobody to send to, and nothing to send.
            if pending.window.instrs.is_empty() || session::running().is_none() {
                pending.meets = true;
                break;
            }
        }
    }
    all_sent
}

impl Pending {
    /// Writes down the values of an instruction that are from before, or state, each once a window. Gives the scope it is
    /// under.
    #[cold]
    fn meet(&mut self, lane: u16, ins: &[&Value]) -> ScopeId {
        for value in ins {
            let (id, is_state) = (value.id(), value.is_state());
            let is_own = id.lane() == lane && id.n() >= self.first_unsent;
            // State is named wherever it was made: a model may be made and used in one window.
            if (!is_own || is_state) && self.met.insert((id, is_state)) {
                self.window.met.push(Met { id, ty: *value.ty(), is_state });
            }
        }
        signal::current()
    }
}

impl Lane {
    fn take(&self, cut: Cut) -> Option<Window> {
        let mut pending = self.pending.lock();
        let broken = pending.broken;
        match cut {
            Cut::Stream => {
                if pending.since_cut > 0 {
                    pending.cut_at = (pending.cut_at * 2).min(LAST_CUT);
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
        let (instrs, frees) = (pending.window.instrs.capacity().min(LAST_CUT), pending.window.frees.len());
        let fresh =
            Window { instrs: Vec::with_capacity(instrs), frees: Vec::with_capacity(frees), ..Window::default() };
        let window = std::mem::replace(&mut pending.window, fresh);
        Some(Window { eager, joined, ..window })
    }

    /// A cut that the stream decides. In a stretch that is being joined it is counted, not made.
    fn cut_unless_joined(&self) -> Result<()> {
        let mut pending = self.pending.lock();
        let joins = pending.stretches.is_expected()
            && !pending.stretch_broken
            && pending.window.instrs.len() < JOINED_MOST
            && pending.upload_bytes < UPLOAD_CUT_BYTES;
        if joins {
            if pending.since_cut > 0 {
                pending.cut_at = (pending.cut_at * 2).min(LAST_CUT);
            }
            pending.since_cut = 0;
            return Ok(());
        }
        drop(pending);
        self.cut(Cut::Stream)
    }

    /// Sends what was recorded, and waits for it if that is wanted (LANE-5).
    fn cut(&self, cut: Cut) -> Result<()> {
        match self.send(cut)? {
            Some(session) if session.waits && cut == Cut::Stream => {
                blocking(|| session.link.synchronize(&interrupted)).map_err(wait_error)
            }
            _ => Ok(()),
        }
    }

    /// Sends what was recorded; the session it went to, if there was anything.
    fn send(&self, cut: Cut) -> Result<Option<&'static Session>> {
        let Some(session) = session::running() else { return Ok(None) };
        let _in_order = session::lock(&self.sending);
        let Some(window) = self.take(cut) else { return Ok(None) };
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
        if let Some(window) = self.take(Cut::Idle) {
            // The worker calls this while it is dry, so there are credits.
            let _ = session.link.send(window, &|| true);
        }
        Some(())
    }
}
