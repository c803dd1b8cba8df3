//! The process's session: one link at a time, started by the first op or by connecting to a server.
//!
//! SESSION-1: after a fork the child's session is unusable; every call but a drop reports it.
//! SESSION-2: a session that was replaced is kept to the end of the process, since other threads may be inside its calls.
//!            There are few of them, and their links are closed.
//! SESSION-3: a lock that is held during a wait is taken with [`lock`], so that nobody waits for it with Python's own in hand.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gt_ir::Failure;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Failed, Result};
use crate::link::{Link, WaitError};
use crate::thread::THREAD;

static SESSION: Mutex<Option<&'static Session>> = Mutex::new(None);
/// Raised with every change of [`SESSION`], so that threads can look at a copy of their own.
static CHANGES: AtomicU64 = AtomicU64::new(1);
static STARTER: OnceLock<fn() -> Result<Session>> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
static FORKED: AtomicBool = AtomicBool::new(false);
static WAITING: OnceLock<WaitHooks> = OnceLock::new();

/// A link and what belongs to it.
pub struct Session {
    /// The other end.
    pub link: Box<dyn Link>,
    /// A fixed window size, where the user asked for one.
    pub batch_size: Option<usize>,
    /// How long windows are otherwise.
    pub cuts: Cuts,
    /// How often a stretch between two reads must have repeated before its windows are joined; never, if there is none.
    pub join_after: Option<u64>,
    /// Each window is waited for before its thread goes on, so that a failure is raised where it was recorded. The link raises
    /// every failure then, not only those of skipped writes.
    pub waits: bool,
    /// Prints what lanes do, when `GT_DEBUG_CLIENT` asks for it.
    pub debug: Option<fn(&str)>,
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
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether this process was forked from one that had a session.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// The session, started if need be.
#[inline]
pub fn session() -> Result<&'static Session> {
    if is_forked() {
        return Err(Error::State(
            "GT was started before this process was forked, and its threads did not come along; use the 'spawn' or \
             'forkserver' start method, or call GT only in the child"
                .into(),
        ));
    }
    match current() {
        Some(session) => Ok(session),
        None => start(),
    }
}

#[inline]
fn current() -> Option<&'static Session> {
    let (changes, seen) = THREAD.with(|thread| thread.session.get());
    if changes == CHANGES.load(Ordering::Acquire) { seen } else { look() }
}

#[cold]
fn look() -> Option<&'static Session> {
    let session = SESSION.lock();
    THREAD.with(|thread| thread.session.set((CHANGES.load(Ordering::Acquire), *session)));
    *session
}

fn set(session: Option<&'static Session>) {
    let mut current = SESSION.lock();
    *current = session;
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The session if one runs; never starts one.
pub fn running() -> Option<&'static Session> {
    if is_forked() { None } else { current() }
}

#[cold]
fn start() -> Result<&'static Session> {
    let _one_at_a_time = lock(&STARTING);
    if let Some(session) = current() {
        return Ok(session);
    }
    let starter = STARTER.get().ok_or_else(|| Error::State("no worker is linked into this program".into()))?;
    let session: &'static Session = Box::leak(Box::new(starter()?));
    set(Some(session));
    Ok(session)
}

/// Makes another session the process's own, or none. What lanes recorded has to be sent before, and nothing may be recorded
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
    Error::Failed(Box::new(Failed { failure, site, holders }))
}

/// Waits until everything this process recorded has run.
///
/// # Errors
/// The failure of a write that was skipped since the last read, once.
pub fn synchronize() -> Result<()> {
    synchronize_within(None)
}

/// As [`synchronize`], but no longer than `timeout`.
///
/// # Errors
/// Also [`Error::TimedOut`]; what was recorded goes on running then.
pub fn synchronize_within(timeout: Option<Duration>) -> Result<()> {
    // The caller's own window ends here, as at a read; what others record is only sent.
    crate::lane::cut()?;
    crate::lane::cut_all()?;
    let session = session()?;
    let Some(timeout) = timeout else {
        return blocking(|| session.link.synchronize(&interrupted)).map_err(wait_error);
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
