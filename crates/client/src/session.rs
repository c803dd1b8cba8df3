//! Sessions: one link at a time in each seat, started by the first op or by connecting to a server.
//!
//! SESSION-1: after a fork the child's session is unusable, and so are all sessions once the program ends; every call but a drop
//!            reports it.
//! SESSION-2: a session that was replaced is kept to the end of the process, since other threads may be inside its calls.
//!            There are few of them, and their links are closed.
//! SESSION-3: a lock that is held during a wait is taken with [`lock`], so that nobody waits for it with Python's own in hand.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gt_ir::Failure;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Failed, Result};
use crate::lane::{self, LoopOptions};
use crate::link::{Link, Progress, WaitError};
use crate::run_ahead::{Patience, RunAhead};
use crate::seat::{self, Outer, PROCESS, Seat};
use crate::thread::THREAD;

/// Raised with every change of the process's session, so that threads can look at a copy of their own.
static CHANGES: AtomicU64 = AtomicU64::new(1);
static STARTER: OnceLock<fn() -> Result<Session>> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
/// Whether sessions can be used: one of the three below.
static USE: AtomicU8 = AtomicU8::new(USABLE);
const USABLE: u8 = 0;
const FORKED: u8 = 1;
const ENDED: u8 = 2;
static WAITING: OnceLock<WaitHooks> = OnceLock::new();

/// A link and what belongs to it.
pub struct Session {
    /// The other end.
    pub link: Box<dyn Link>,
    /// What whoever opened it keeps with it.
    pub owner: Box<dyn Any + Send + Sync>,
    /// Where it is, for people: `the server at 127.0.0.1:9000`.
    pub name: String,
    /// Where it was put to use, once it was; shared with the hook that cuts lanes which rest.
    pub seat: Arc<OnceLock<&'static Seat>>,
    /// A fixed window size, where the user asked for one.
    pub batch_size: Option<usize>,
    /// How long windows are otherwise.
    pub cuts: Cuts,
    /// How often a stretch between two reads must have repeated before its windows are joined; never, if there is none.
    pub join_after: Option<u64>,
    /// What is done with loops that run without a read. None leaves them as they are.
    pub loops: Option<LoopOptions>,
    /// Each window is waited for before its thread goes on, so that a failure is raised where it was recorded. The link raises
    /// every failure then, not only those of skipped writes.
    pub waits: bool,
    /// Prints what lanes do, when `GT_DEBUG_CLIENT` asks for it.
    pub debug: Option<fn(&str)>,
    /// What was handed over and has not run.
    pub ahead: RunAhead,
}

impl Session {
    /// Waits for an answer of the link. `ask` is given what tells whether the user wants the wait to end.
    ///
    /// # Errors
    /// As `ask`, with source lines resolved.
    pub(crate) fn wait_for<T>(
        &self,
        ask: impl FnOnce(&dyn Link, &dyn Fn() -> bool) -> Result<T, WaitError>,
    ) -> Result<T> {
        let patience = Patience::new(&self.ahead, &*self.link);
        blocking(|| ask(&*self.link, &|| patience.is_over())).map_err(wait_error)
    }
}

/// After how many instructions a window ends, where nothing else ends it: the first one after a read, and twice as many each
/// time up to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// Of the first window: a device starts as soon as it has it.
    pub first: usize,
    /// Of the largest: a read waits for the last one, so it should not be most of what was recorded.
    pub last: usize,
}

impl Cuts {
    /// For a device in the same process, to which a window costs next to nothing.
    pub const NEAR: Cuts = Cuts { first: 32, last: 256 };
    /// For a device behind other processes: a window wakes a thread in each of them, which takes as long as to record a
    /// few dozen instructions.
    pub const FAR: Cuts = Cuts { first: 256, last: 512 };

    /// The length of the window after one of this length.
    pub(crate) fn after(self, len: usize) -> usize {
        (len * 2).clamp(self.first, self.last)
    }
}

/// How this process waits. Python's extension releases its lock around waits and looks for signals.
pub struct WaitHooks {
    /// Runs the closure, which may block.
    pub around: fn(&mut dyn FnMut()),
    /// Whether the user wants waits to end.
    pub interrupted: fn() -> bool,
}

/// Says how a session is started when the first op needs one. The first call wins.
pub fn set_starter(starter: fn() -> Result<Session>) {
    let _ = STARTER.set(starter);
}

/// Says how to wait. The first call wins.
pub fn set_wait_hooks(hooks: WaitHooks) {
    let _ = WAITING.set(hooks);
}

/// To be called in a forked child: its threads are gone, so the session is too.
pub fn mark_forked() {
    USE.store(FORKED, Ordering::Relaxed);
}

/// To be called when the program ends and its sessions are closed.
pub fn mark_ended() {
    USE.store(ENDED, Ordering::Relaxed);
}

/// Whether this process was forked from one that had a session.
#[inline]
pub fn is_forked() -> bool {
    USE.load(Ordering::Relaxed) == FORKED
}

/// The session, started if need be.
#[inline]
pub fn session() -> Result<&'static Session> {
    check_usable()?;
    match current() {
        Some(session) => Ok(session),
        None => start(),
    }
}

/// Whether there can be a session.
///
/// # Errors
/// In a forked child, and after the end of the program (SESSION-1).
#[inline]
pub fn check_usable() -> Result<()> {
    match USE.load(Ordering::Relaxed) {
        USABLE => Ok(()),
        state => Err(unusable(state)),
    }
}

#[cold]
fn unusable(state: u8) -> Error {
    let why = match state {
        FORKED => {
            "GT was started before this process was forked, and its threads did not come along; use the 'spawn' or \
             'forkserver' start method, or call GT only in the child"
        }
        _ => {
            "GT has shut down because the program is ending; register atexit handlers that use GT after GT is imported, \
             so that they run before"
        }
    };
    Error::State(why.into())
}

#[inline]
fn current() -> Option<&'static Session> {
    let (changes, seen) = THREAD.with(|thread| thread.session.get());
    if changes == CHANGES.load(Ordering::Acquire) { seen } else { look() }
}

#[cold]
fn look() -> Option<&'static Session> {
    if THREAD.with(|thread| thread.unsettled.get()).is_some() {
        return None;
    }
    let changes = CHANGES.load(Ordering::Acquire);
    let session = *here().session.lock();
    THREAD.with(|thread| thread.session.set((changes, session)));
    session
}

fn set(session: Option<&'static Session>) {
    here().hold(session);
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The calling thread's seat.
pub(crate) fn here() -> &'static Seat {
    THREAD.with(|thread| thread.seat.get()).unwrap_or(&PROCESS)
}

/// Whether the calling thread uses the process's session, not one of its own.
pub fn is_process() -> bool {
    std::ptr::eq(here(), &PROCESS)
}

/// The session of a seat, if it has one.
pub(crate) fn running_in(seat: &Seat) -> Option<&'static Session> {
    if is_forked() { None } else { *seat.session.lock() }
}

/// Whether the thread that the session belonged to has left it.
pub fn was_left(session: &Session) -> bool {
    session.seat.get().is_some_and(|seat| seat.has_ended())
}

/// All sessions that run.
pub fn all_running() -> Vec<&'static Session> {
    let own = seat::own();
    std::iter::once(&PROCESS).chain(own).filter_map(running_in).collect()
}

/// The next call that needs this thread's session does this first: it says which one that is.
pub fn settle_later(settle: fn() -> Result<()>) {
    THREAD.with(|thread| {
        thread.unsettled.set(Some(settle));
        // No change has this number.
        thread.session.set((0, None));
    });
}

/// Does what [`settle_later`] left to be done.
///
/// # Errors
/// Those of what is done.
pub fn settle() -> Result<()> {
    THREAD.with(|thread| thread.unsettled.take()).map_or(Ok(()), |settle| settle())
}

/// Gives the calling thread a seat of its own with this session, until it [leaves](leave) it or ends. Tensors from before stay where
/// they are.
pub fn enter(session: Session) {
    let (seat, lane) = (here(), lane::leave());
    let own = Seat::own(Outer { seat, lane });
    own.hold(Some(Box::leak(Box::new(session))));
    THREAD.with(|thread| {
        thread.seat.set(Some(own));
        thread.session.set((0, None));
    });
    lane::enter(None, lane);
}

/// Leaves the calling thread's own seat for where it was before; the session that ends so is to be closed. Nothing happens to
/// one that uses the process's session.
pub fn leave() -> Option<&'static Session> {
    let own = here();
    let Outer { seat, lane } = own.outer.as_ref()?;
    let left = lane::leave();
    let session = own.end();
    THREAD.with(|thread| {
        thread.seat.set((!std::ptr::eq(*seat, &PROCESS)).then_some(*seat));
        thread.session.set((0, None));
    });
    lane::enter(*lane, left);
    lane::retire(left);
    session
}

/// The session if one runs; never starts one.
pub fn running() -> Option<&'static Session> {
    if is_forked() { None } else { current() }
}

#[cold]
fn start() -> Result<&'static Session> {
    settle()?;
    let _one_at_a_time = lock(&STARTING);
    if let Some(session) = current() {
        return Ok(session);
    }
    let starter = STARTER.get().ok_or_else(|| Error::State("this program was built without a worker".into()))?;
    let session: &'static Session = Box::leak(Box::new(starter()?));
    set(Some(session));
    Ok(session)
}

/// Makes another session that of the calling thread's seat, or none. What lanes recorded has to be sent before, and nothing may be recorded
/// meanwhile: ids of the old session mean nothing to the new one unless their values were carried over.
pub fn replace(session: Option<Session>) {
    let _one_at_a_time = lock(&STARTING);
    set(session.map(|s| &*Box::leak(Box::new(s))));
}

/// Runs something that may block, the way this process waits.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    let Some(hooks) = WAITING.get() else { return f() };
    let (mut f, mut out) = (Some(f), None);
    (hooks.around)(&mut || {
        if let Some(f) = f.take() {
            out = Some(f());
        }
    });
    out.expect("the wait hook runs its closure")
}

/// Takes a lock that others hold while they wait: whoever has Python's lock meanwhile would keep them from ever waking up.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| blocking(|| mutex.lock()))
}

/// Whether the user wants waits to end.
pub fn interrupted() -> bool {
    WAITING.get().is_some_and(|h| (h.interrupted)())
}

/// An error of the link, with source lines resolved.
pub fn wait_error(e: WaitError) -> Error {
    match e {
        WaitError::Interrupted => Error::Interrupted,
        WaitError::Failed(failure) => failed(failure),
    }
}

/// A failure with its source lines resolved.
pub fn failed(failure: Failure) -> Error {
    let name = |id| crate::site::name(id);
    let site = name(failure.site);
    let holders = failure
        .holders
        .iter()
        .map(|&(bytes, id)| (bytes, name(id).unwrap_or_else(|| "an unknown line".into())))
        .collect();
    let skipped_at = failure.skipped.as_ref().and_then(|write| name(write.site));
    Error::Failed(Box::new(Failed { failure, site, holders, skipped_at }))
}

/// Waits until everything this process recorded has run.
///
/// # Errors
/// The failure of a write that was skipped since the last read, once.
pub fn synchronize() -> Result<()> {
    synchronize_within(None)
}

/// Whether something was recorded for a session that was not sent to it yet.
pub fn has_unsent(session: &Session) -> bool {
    session.seat.get().is_some_and(|seat| lane::has_unsent(seat))
}

/// For the end of a program: waits until everything recorded for the session has run, or until `gives_up` says so. A long wait says
/// what it waits for, whatever standard error is.
///
/// # Errors
/// As [`synchronize`]; [`Error::Interrupted`] when the wait was given up.
pub fn finish(session: &Session, gives_up: &dyn Fn() -> bool) -> Result<()> {
    if let Some(&seat) = session.seat.get() {
        if std::ptr::eq(seat, here()) {
            lane::cut()?;
        }
        lane::cut_all(seat)?;
    }
    let patience = Patience::to_be_said(&session.ahead, &*session.link);
    blocking(|| session.link.synchronize(&|| patience.is_over() || gives_up())).map_err(wait_error)
}

/// How long a session whose thread has ended may take to report a failure, once everything it can run has run.
const LAST_NEWS: Duration = Duration::from_secs(5);
/// Threads that wait for the sessions of threads that have ended.
static LAST_WAITS: Mutex<Vec<JoinHandle<Result<()>>>> = Mutex::new(Vec::new());
/// How many threads are ending: their sessions may be in neither list, [`all_running`] or [`LAST_WAITS`].
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Ends the sessions of the calling thread's own, for a thread that ends. What was recorded still runs, and [`finish_left`]
/// returns what fails.
pub(crate) fn end_thread() {
    ENDING.fetch_add(1, Ordering::SeqCst);
    while let Some(session) = leave() {
        close_when_done(session);
    }
    ENDING.fetch_sub(1, Ordering::SeqCst);
}

fn close_when_done(session: &'static Session) {
    let wait = || {
        let began = Instant::now();
        let gives_up = || {
            let Progress { sent, executed } = session.link.progress();
            executed >= sent && began.elapsed() >= LAST_NEWS
        };
        let done = session.link.synchronize(&gives_up);
        session.link.close();
        match done {
            Err(WaitError::Interrupted) => Ok(()),
            done => done.map_err(wait_error),
        }
    };
    let mut waits = LAST_WAITS.lock();
    match std::thread::Builder::new().name("gt-last-work".into()).spawn(wait) {
        Ok(thread) => waits.push(thread),
        Err(_) => session.link.close(),
    }
}

/// For the end of a program: waits for the sessions whose threads have ended or are ending, and returns their failures.
pub fn finish_left() -> Vec<Error> {
    let is_left = || {
        let ending = ENDING.load(Ordering::SeqCst) > 0;
        ending || LAST_WAITS.lock().iter().any(|wait| !wait.is_finished())
    };
    blocking(|| {
        while is_left() && !interrupted() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let waits = std::mem::take(&mut *LAST_WAITS.lock());
    let done = waits.into_iter().filter(JoinHandle::is_finished);
    done.filter_map(|wait| wait.join().ok()?.err()).collect()
}

/// As [`synchronize`], but no longer than `timeout`.
///
/// # Errors
/// Also [`Error::TimedOut`]; what was recorded goes on running then.
pub fn synchronize_within(timeout: Option<Duration>) -> Result<()> {
    // The caller's own window ends here, as at a read; what others record is only sent.
    settle()?;
    lane::cut()?;
    lane::cut_all(here())?;
    let session = session()?;
    let Some(timeout) = timeout else {
        return session.wait_for(|link, cancel| link.synchronize(cancel));
    };
    let deadline = Instant::now() + timeout;
    let late = Cell::new(false);
    let give_up = || {
        late.set(Instant::now() >= deadline);
        late.get() || interrupted()
    };
    match blocking(|| session.link.synchronize(&give_up)) {
        Err(WaitError::Interrupted) if late.get() => Err(Error::TimedOut(timeout)),
        done => done.map_err(wait_error),
    }
}
