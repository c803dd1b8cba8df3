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
//! another lane used is marked; its free follows a cut of all lanes (LANE-8).
//! LANE-3: neither lock is held while a `Value` is dropped, a session is started or Python runs.
//! LANE-4: a window names all values from before that it uses, or none; a lane changes over between two windows. Only one that
//! names them carries scopes.
//! LANE-6: a lane records for one session at a time, that of its seat (SEAT-1); what is of another is refused where it is used.
//! LANE-5: a session that `waits` waits for the windows that the stream cuts, with no lock held. What another thread cuts is not its
//! failure to raise: the lane's own next cut does.
//! LANE-7: a hand-over that the stream decides waits while too much is ahead of the workers (AHEAD-2), before any lock is taken.
//! LANE-8: dropping a value never waits and has no error to swallow. The cut of all lanes that the free of a shared value needs
//! comes with the next cut that the stream decides in some lane, whose call raises what is wrong.

mod cut;
mod loops;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gt_ir::{Bytes, ExternalValue, Ins, Op, Payload, Scalar, ScopeId, SiteId, TensorId};
use gt_stream::{Expectations, Recording};
use parking_lot::{Mutex, MutexGuard};

use crate::error::Result;
use crate::rng::Stream;
use crate::seat::Seat;
use crate::session::{self, Cuts, Session, session};
use crate::signal;
use crate::site;
use crate::stretch::Stretches;
use crate::tensor::Tensor;
use crate::thread::THREAD;
use crate::value::Value;

use cut::{Cut, cut_foreign};
pub(crate) use cut::{boundary, cut_all, cut_for_read, has_unsent};
pub use cut::{cut, hand_over, idle_cut};
pub use loops::LoopOptions;
use loops::Loops;

/// Uploads up to this size ride inside the window however many there are; larger ones cut it when they add up.
pub(crate) const UPLOAD_CUT_BYTES: usize = 16 << 20;
/// Instructions estimated to take this long together are a window: recording can be held up between windows only.
const WORK_CUT_NS: u64 = 500_000_000;
/// From this size on, values that somebody else has made are handed over before anything is recorded with them.
const HAND_OVER_BYTES: usize = 256 << 10;

/// One thread's part of the stream.
pub struct Lane {
    number: u16,
    /// Whose session it records for (SEAT-1).
    seat: Mutex<&'static Seat>,
    pending: Mutex<Pending>,
    sending: Mutex<()>,
}

#[derive(Default)]
struct Pending {
    recording: Recording,
    /// What follows what: the next window is recorded against it.
    expectations: Expectations,
    upload_bytes: usize,
    next: u64,
    /// Names that were freed, and sent as such.
    freed: u64,
    first_unsent: u64,
    /// The estimated time of the window's large instructions.
    work_ns: u64,
    /// Instructions since the last cut that the stream decided, and the estimated time of the large ones.
    since_cut: usize,
    work_since_cut_ns: u64,
    /// Freed values that other lanes may have recorded: their windows go out first (LANE-8).
    shared_frees: Vec<TensorId>,
    cut_at: usize,
    /// An idle cut fell into the window being recorded.
    broken: bool,
    /// What is being recorded will be sent at once, or the other side woken for it.
    handing: bool,
    /// Instructions ever recorded and their number when the idle hook last looked.
    recorded: u64,
    seen_by_idle: u64,
    stretches: Stretches,
    loops: Loops,
    /// The window being recorded is under a signal that compiles, from its first instruction on.
    compiles: bool,
    /// An iteration of a loop ends with the last instruction, and a window with it.
    loop_ends: bool,
    /// An idle cut fell into the stretch being recorded.
    stretch_broken: bool,
    random: Stream,
    /// Under signals: values from before are written down, those of this window so far in `met`.
    meets: bool,
    met: Vec<ExternalValue>,
    is_met: HashSet<(TensorId, bool)>,
}

/// An instruction that is being recorded.
struct Recorded<'a> {
    op: Op,
    ins: &'a [TensorId],
    /// The name of its first result; the others follow.
    first: TensorId,
    outs: usize,
    scalars: &'a [Scalar],
    scope: ScopeId,
    site: SiteId,
}

/// All lanes there ever were; a thread that starts takes over the lane of one that ended.
struct Registry {
    lanes: Vec<&'static Lane>,
    idle: Vec<u16>,
    meets: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { lanes: Vec::new(), idle: Vec::new(), meets: false });
static LANES_STARTED: AtomicU64 = AtomicU64::new(0);
/// Whether some lane has shared values to free.
static SHARED_FREES: AtomicBool = AtomicBool::new(false);

/// What a thread leaves behind when it ends.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        if session::is_forked() {
            return;
        }
        // A session of its own ends with it.
        session::end_thread();
        // What it recorded is sent, and its number serves the next thread.
        if let Some(lane) = THREAD.with(|thread| thread.lane.take()) {
            let _ = lane.send(Cut::Stream);
            retire(Some(lane));
        }
    }
}

/// Has the end of the calling thread noticed.
fn watch_end() {
    thread_local! {
        static LEAVES: OnceCell<Leaves> = const { OnceCell::new() };
    }
    // A thread that ends is noticed already.
    let _ = LEAVES.try_with(|leaves| {
        leaves.get_or_init(|| Leaves);
    });
}

/// From now on windows of the calling thread are compiled at first sight, or no more. What was recorded before is another window.
///
/// # Errors
/// When a wait for credits was interrupted; it is done all the same.
pub(crate) fn compile_from_now_on(compiles: bool) -> Result<()> {
    let lane = mine();
    let cut = lane.cut_unless_joined();
    lane.pending.lock().compiles = compiles;
    cut
}

/// Takes the calling thread's lane from it; what was recorded there is sent.
pub(crate) fn leave() -> Option<&'static Lane> {
    watch_end();
    let lane = THREAD.with(|thread| thread.lane.take())?;
    let _ = lane.send(Cut::Stream);
    Some(lane)
}

/// The calling thread records in this lane from now on, or in a new one of its seat. Its random numbers go on as in the lane before.
pub(crate) fn enter(lane: Option<&'static Lane>, before: Option<&'static Lane>) {
    THREAD.with(|thread| thread.lane.set(lane));
    if let Some(before) = before {
        let random = before.pending.lock().random;
        mine().pending.lock().random = random;
    }
}

/// Marks a lane as free for another thread.
pub(crate) fn retire(lane: Option<&'static Lane>) {
    if let Some(lane) = lane {
        REGISTRY.lock().idle.push(lane.number);
    }
}

/// The calling thread's lane.
#[inline]
fn mine() -> &'static Lane {
    THREAD.with(|thread| thread.lane.get()).unwrap_or_else(claim)
}

#[cold]
fn claim() -> &'static Lane {
    watch_end();
    let seat = session::here();
    let mut registry = REGISTRY.lock();
    let reused = registry.idle.iter().rposition(|&number| registry.lanes[number as usize].can_serve(seat));
    let lane = match reused.map(|at| registry.idle.remove(at)) {
        Some(number) => registry.lanes[number as usize],
        None => {
            let number = u16::try_from(registry.lanes.len()).expect("fewer than 65,536 threads use GT at once");
            // Lanes are taken over, never given back.
            let lane: &Lane = Box::leak(Box::new(Lane {
                number,
                seat: Mutex::new(seat),
                pending: Mutex::default(),
                sending: Mutex::default(),
            }));
            registry.lanes.push(lane);
            lane
        }
    };
    let mut pending = lane.pending.lock();
    pending.cut_at = Cuts::NEAR.first;
    pending.meets = registry.meets;
    pending.random = Stream::for_thread(LANES_STARTED.fetch_add(1, Ordering::Relaxed));
    drop(pending);
    drop(registry);
    THREAD.with(|thread| thread.lane.set(Some(lane)));
    lane
}

fn lane_of(id: TensorId) -> Option<&'static Lane> {
    REGISTRY.lock().lanes.get(id.lane() as usize).copied()
}

/// Records one instruction, which is estimated to take so long, and returns the id of its first output; the others follow it.
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
    work_ns: u64,
) -> Result<TensorId> {
    let (id, sent) = recorded(op, ins, scalars, outs, payload, work_ns)?;
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
    work_ns: u64,
) -> Result<(TensorId, Result<()>)> {
    let (session, lane) = (session()?, mine());
    let mut ids = Ins::new();
    for value in ins {
        let id = value.id();
        if id.lane() != lane.number {
            value.mark_shared();
            cut_foreign(id, lane)?;
        }
        ids.push(id);
    }
    let mut pending = lane.pending.lock();
    if let Op::Upload(upload) = &op {
        pending.upload_bytes += upload.shape.numel() * upload.dtype.size();
        if let Some(bytes) = payload {
            let instr = pending.recording.len() as u32;
            pending.recording.add_payload(Payload { instr, bytes });
        }
    }
    let scope = if pending.meets { pending.meet(lane.number, ins) } else { ScopeId(0) };
    let first = pending.name(lane.number, outs);
    let recorded = Recorded { op, ins: &ids, first, outs, scalars, scope, site: site::here(Location::caller()) };
    Ok((first, lane.push(session, pending, recorded, work_ns)))
}

/// [`record`] of an instruction with one output on what tensors show. Nothing is counted: names are looked up where they are
/// good (SHOWN-3). Gives the op back where that does not do: when one of them has to be derived again or is another lane's, or
/// values are written down.
///
/// # Errors
/// As [`record`].
#[inline]
#[track_caller]
pub(crate) fn record_shown<const N: usize>(
    op: Op,
    ins: [&Tensor; N],
    scalars: &[Scalar],
    work_ns: u64,
) -> Result<std::result::Result<TensorId, Op>> {
    let (session, lane) = (session()?, mine());
    let mut pending = lane.pending.lock();
    if pending.meets {
        return Ok(Err(op));
    }
    let mut ids = Ins::new();
    for tensor in ins {
        let (current, id) = (tensor.is_current(), tensor.0.shown.id());
        if !current || id.lane() != lane.number {
            return Ok(Err(op));
        }
        ids.push(id);
    }
    let id = pending.name(lane.number, 1);
    let site = site::here(Location::caller());
    let recorded = Recorded { op, ins: &ids, first: id, outs: 1, scalars, scope: ScopeId(0), site };
    let sent = lane.push(session, pending, recorded, work_ns);
    if sent.is_err() {
        free(id, false);
    }
    sent.map(|()| Ok(id))
}

impl Lane {
    /// The session it records for, if there is one.
    fn session(&self) -> Option<&'static Session> {
        session::running_in(self.seat())
    }

    /// Never locked together with that of another lane.
    fn seat(&self) -> &'static Seat {
        *self.seat.lock()
    }

    fn is_of(&self, seat: &Seat) -> bool {
        std::ptr::eq(self.seat(), seat)
    }

    /// Whether a thread of this seat may record here, now that no other does. The values of a seat that was left keep its lane from
    /// serving another (SEAT-1).
    fn can_serve(&self, seat: &'static Seat) -> bool {
        let mut own = self.seat.lock();
        if std::ptr::eq(*own, seat) {
            return true;
        }
        let mut pending = self.pending.lock();
        if !own.has_ended() || pending.freed + pending.recording.frees() as u64 != pending.next {
            return false;
        }
        *own = seat;
        let (next, freed) = (pending.next, pending.next);
        *pending = Pending { next, freed, first_unsent: next, ..Pending::default() };
        true
    }

    /// Appends an instruction to the window, and sends the window once it is full.
    #[inline]
    fn push(
        &self,
        session: &Session,
        mut pending: MutexGuard<'_, Pending>,
        recorded: Recorded<'_>,
        work_ns: u64,
    ) -> Result<()> {
        let Recorded { op, ins, first, outs, scalars, scope, site } = recorded;
        if session.join_after.is_some() {
            pending.stretches.record(op.kind());
        }
        if session.loops.is_some() {
            pending.loops.record(site.0.rotate_left(7) ^ op.kind() as u32);
        }
        let wakes = pending.recording.is_empty() && !pending.handing;
        pending.recording.push(op, ins, first, outs, scalars, scope, site);
        pending.since_cut += 1;
        pending.recorded += 1;
        let (len, cut_at) = (pending.since_cut, pending.cut_at);
        let mut full = match (session.batch_size, &session.loops) {
            (Some(size), _) => len >= size,
            (None, None) => len >= cut_at,
            (None, Some(options)) => {
                pending.loop_ends = pending.loops.ends(options, len, cut_at);
                pending.loop_ends || len >= pending.loops.limit(options, cut_at)
            }
        };
        full |= pending.upload_bytes >= UPLOAD_CUT_BYTES;
        // Most instructions are small: they add nothing, so nothing is full of them.
        if work_ns > 0 {
            // What fits no machine is recorded too.
            pending.work_ns = pending.work_ns.saturating_add(work_ns);
            pending.work_since_cut_ns = pending.work_since_cut_ns.saturating_add(work_ns);
            full |= pending.work_since_cut_ns >= WORK_CUT_NS;
        }
        drop(pending);
        if full {
            return self.cut_unless_joined();
        }
        if wakes {
            session.link.wake();
        }
        Ok(())
    }
}

/// The names of the values that the calling thread will define next: nobody else records in its lane.
pub(crate) fn upcoming(count: usize) -> Vec<TensorId> {
    let lane = mine();
    let first = TensorId::new(lane.number, lane.pending.lock().next);
    (0..count as u64).map(|i| TensorId(first.0 + i)).collect()
}

/// Hands the free of a value to the lane that made it.
#[inline]
pub(crate) fn free(id: TensorId, shared: bool) {
    if session::is_forked() {
        return;
    }
    let own = THREAD.with(|thread| thread.lane.get()).filter(|lane| lane.number == id.lane());
    if let Some(lane) = own.or_else(|| lane_of(id)) {
        let mut pending = lane.pending.lock();
        if shared {
            pending.shared_frees.push(id);
            SHARED_FREES.store(true, Ordering::Release);
        } else {
            pending.recording.free(id);
        }
    }
}

/// Sends what lanes may have recorded with shared values that were dropped, and frees these (LANE-8).
#[cold]
fn free_shared() -> Result<()> {
    let lanes = REGISTRY.lock().lanes.clone();
    for lane in lanes {
        let ids = std::mem::take(&mut lane.pending.lock().shared_frees);
        if ids.is_empty() {
            continue;
        }
        let sent = cut_all(lane.seat());
        let mut pending = lane.pending.lock();
        if sent.is_err() {
            // Some of it was not sent: the next cut tries again.
            pending.shared_frees.extend(ids);
            SHARED_FREES.store(true, Ordering::Release);
            return sent;
        }
        pending.recording.free_all(ids);
    }
    Ok(())
}

/// Runs `f` on the calling thread's random stream.
pub(crate) fn with_random<T>(f: impl FnOnce(&mut Stream) -> T) -> T {
    f(&mut mine().pending.lock().random)
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
    let own = THREAD.with(|thread| thread.lane.get()).map(|lane| lane.number);
    let mut all_sent = Ok(());
    for lane in lanes {
        loop {
            let cut = if own == Some(lane.number) { Cut::Stream } else { Cut::Foreign };
            all_sent = all_sent.and(lane.cut(cut));
            let mut pending = lane.pending.lock();
            // Its own thread may have gone on meanwhile. With no session there is nobody to send to, and nothing to send.
            if pending.recording.is_empty() || lane.session().is_none() {
                pending.meets = true;
                break;
            }
        }
    }
    all_sent
}

impl Pending {
    /// The name of the first of so many new values; the others follow it.
    #[inline]
    fn name(&mut self, lane: u16, count: usize) -> TensorId {
        let first = TensorId::new(lane, self.next);
        self.next += count as u64;
        first
    }

    /// Writes down the values of an instruction that are from before, or state, each once a window. Gives the scope it is
    /// under.
    #[cold]
    fn meet(&mut self, lane: u16, ins: &[&Value]) -> ScopeId {
        for value in ins {
            let (id, is_state) = (value.id(), value.is_state());
            let is_own = id.lane() == lane && id.n() >= self.first_unsent;
            // State is named wherever it was made: a model may be made and used in one window.
            if (!is_own || is_state) && self.is_met.insert((id, is_state)) {
                self.met.push(ExternalValue { id, ty: *value.ty(), is_state });
            }
        }
        signal::current()
    }
}
