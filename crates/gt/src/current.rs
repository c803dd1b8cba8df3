//! The calling thread's session, whichever kind it is: the process's, or one of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connected::Connected;
use crate::memory_limit::available;
use crate::server::Gone;
use crate::{embedded, gpus, group, server, signals};
use gt_client::link::Link;
use gt_client::session::Session;
use gt_client::{Error, Result, session};
use gt_ir::{Failure, HostAllocator, TensorId};
use gt_shard::Traffic;
use gt_worker::{Memory, SessionHandle, WorkerStats};

/// What the session's own functions need of it.
pub(crate) enum Current {
    /// A worker in this process.
    Embedded(SessionHandle),
    /// A server.
    Remote(Arc<Connected>),
}

static ON_START: OnceLock<fn()> = OnceLock::new();
/// The program has left its server: `GT_ADDRESS` no longer says where its sessions are.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Says that the first op starts a session: with the server of `GT_ADDRESS`, or with a worker in this process. Call it
/// before anything else; again does nothing.
pub fn install() {
    session::set_starter(start);
}

/// Says what else to do when a session starts. The first call wins.
pub fn on_start(f: fn()) {
    let _ = ON_START.set(f);
}

fn start() -> Result<Session> {
    let config = Config::at_first_op()?;
    signals::settle(&config)?;
    if config.address.is_none() {
        gpus::tell_of_unused(&config);
    }
    let address = config.address.as_ref().filter(|_| !LEFT.load(Ordering::SeqCst) && config.plan.is_none());
    let session = match address {
        Some(address) => server::open(&config, address, &server::ConnectOptions::default())?,
        None => match group::first(&config, gt_client::signal::demand())? {
            Some(session) => session,
            None => embedded::start(&config)?,
        },
    };
    give_up(&session, &server::take_left());
    began();
    Ok(session)
}

/// A session is about to be used.
pub(crate) fn began() {
    if let Some(f) = ON_START.get() {
        f();
    }
}

/// The next session is one in this process.
pub(crate) fn leave_server() {
    LEFT.store(true, Ordering::SeqCst);
}

/// What was kept with a session.
pub(crate) fn of(session: &Session) -> Option<&Current> {
    session.owner.downcast_ref::<Current>()
}

/// The calling thread's session, if that is an embedded one.
pub(crate) fn embedded_session() -> Option<SessionHandle> {
    match of(session::running()?)? {
        Current::Embedded(session) => Some(session.clone()),
        Current::Remote(_) => None,
    }
}

/// The calling thread's session, if that is one with a server.
pub(crate) fn remote() -> Option<Arc<Connected>> {
    match of(session::running()?)? {
        Current::Remote(remote) => Some(remote.clone()),
        Current::Embedded(_) => None,
    }
}

/// The names of the values the session holds.
pub(crate) fn values() -> Vec<TensorId> {
    match session::running().and_then(of) {
        Some(Current::Embedded(session)) => session.values(),
        Some(Current::Remote(remote)) => remote.values(),
        None => Vec::new(),
    }
}

/// Values that a server's session has not, though their tensors may still be there. Of values that failed, the worker of an embedded
/// session tells itself.
pub(crate) fn lost_values() -> Vec<Gone> {
    remote().map_or_else(Vec::new, |remote| remote.all_lost())
}

/// Says why a new session has not these values.
pub(crate) fn give_up(session: &Session, gone: &[Gone]) {
    for (ids, why) in gone {
        match of(session) {
            Some(Current::Embedded(session)) => session.give_up(ids, why),
            Some(Current::Remote(remote)) => remote.lost_before(ids, why.clone()),
            None => {}
        }
    }
}

/// How many workers the session's server has, if it has a server.
pub(crate) fn remote_workers() -> Option<usize> {
    remote().map(|r| r.workers().len())
}

/// Whether what is recorded is going to run.
pub(crate) fn has_worker() -> bool {
    remote().is_none_or(|r| r.has_worker())
}

/// Whether the session has ended by itself: its server is gone, or has no place for it.
pub(crate) fn is_lost() -> bool {
    remote().is_some_and(|r| r.is_lost())
}

/// Why the session has ended by itself, and the values that went with it.
pub(crate) fn loss() -> Option<(Vec<TensorId>, Failure)> {
    remote().and_then(|r| r.loss())
}

/// Whether the session is one with a server.
pub(crate) fn is_remote() -> bool {
    remote().is_some()
}

/// Where payloads for the session's engine are best written, if that is in this process.
pub fn payload_memory() -> Option<Arc<dyn HostAllocator>> {
    embedded_session().map(|session| Arc::new(session.memory()) as Arc<dyn HostAllocator>)
}

/// What the workers have done so far, all that the calling thread recorded before included: waits for that, as a read does. What
/// failed meanwhile is raised by the next read all the same. None before the first op.
///
/// # Errors
/// When a server does not answer, or the wait was interrupted.
pub fn stats() -> Result<Vec<WorkerStats>> {
    gt_client::cut()?;
    let interrupted = |_| Error::Interrupted;
    if let Some(remote) = remote() {
        session::blocking(|| remote.wait_executed(&session::interrupted)).map_err(session::wait_error)?;
    } else if let Some(session) = embedded_session() {
        session::blocking(|| session.wait_executed(&session::interrupted)).map_err(interrupted)?;
    }
    counts()
}

/// What the workers have done so far, of what they have been sent.
fn counts() -> Result<Vec<WorkerStats>> {
    if let Some(remote) = remote() {
        let texts = session::blocking(|| remote.stats(&session::interrupted)).map_err(session::wait_error)?;
        // A worker that did not ask for a name has been given one.
        let read = |(worker, text): (String, String)| Ok(WorkerStats { worker, ..WorkerStats::from_json(&text)? });
        let stats = texts.into_iter().map(read).collect::<Result<Vec<_>, String>>();
        return stats.map_err(|e| Error::Connection(format!("cannot read a worker's statistics: {e}")));
    }
    Ok(embedded_session().map(|s| vec![s.worker().stats()]).unwrap_or_default())
}

/// What the session's workers have allocated.
///
/// # Errors
/// When a server does not answer.
pub fn memory() -> Result<Memory> {
    if let Some(session) = embedded_session() {
        return Ok(session.worker().memory());
    }
    let mut memory = Memory::default();
    for s in counts()? {
        memory.live_bytes += s.live_bytes;
        memory.peak_bytes += s.peak_bytes;
        memory.cached_bytes += s.cached_bytes;
        memory.limit_bytes += s.limit_bytes;
    }
    Ok(memory)
}

/// The most memory that this process may take: what its engine has, or would have.
pub fn memory_limit_bytes() -> u64 {
    static CONFIGURED: OnceLock<u64> = OnceLock::new();
    let of_engine = embedded_session().map(|session| session.worker().memory().limit_bytes);
    // A worker that has just been started has no engine yet, and so no limit.
    of_engine.filter(|&limit| limit > 0).unwrap_or_else(|| {
        *CONFIGURED.get_or_init(|| Config::from_env().map_or_else(|_| available(), |config| config.memory_limit))
    })
}

/// What has travelled between workers so far: for each kind of collective how often, and how many bytes.
pub fn traffic() -> Traffic {
    remote().map_or_else(Traffic::default, |group| group.traffic())
}

/// What `gt plan` prints, if this process is one that is planned.
fn print_plan() {
    let Ok(Config { plan: Some(plan), .. }) = Config::from_env() else { return };
    // What was recorded last is part of it.
    let _ = gt_client::synchronize();
    match remote().and_then(|group| group.report(plan.explain)) {
        Some(report) => print!("{report}"),
        None => println!("nothing is sharded: the script enters no signal with more than one worker"),
    }
}

/// Gives cached memory back to the system, once everything recorded has run.
///
/// # Errors
/// As [`gt_client::synchronize`].
pub fn empty_cache() -> Result<()> {
    if session::running().is_none() {
        return Ok(());
    }
    gt_client::synchronize()?;
    match (embedded_session(), remote()) {
        (Some(session), _) => session.trim(),
        (None, Some(remote)) => remote.trim(),
        (None, None) => {}
    }
    gt_client::synchronize()
}

/// For the end of a program: waits until everything that was recorded has run, in all sessions, and gives the failures that nobody was
/// told of. A session that has run everything is given `news` to tell of one, and one without a worker to find one.
pub fn finish(news: Duration) -> Vec<Error> {
    // A forked child has none of the sessions, nor the threads that wait for them.
    if session::is_forked() {
        return Vec::new();
    }
    let mut errors = session::finish_left();
    for session in session::all_running() {
        match finish_session(session, news) {
            Ok(()) => {}
            // Its thread has ended meanwhile, and closes the session.
            Err(Error::Connection(_) | Error::State(_)) if session::was_left(session) => {}
            Err(error) => {
                let interrupted = matches!(error, Error::Interrupted);
                errors.push(error);
                if interrupted {
                    break;
                }
            }
        }
    }
    // Python joins a thread before the thread's own end is over, so one may have left its session since.
    errors.extend(session::finish_left());
    errors
}

fn finish_session(session: &'static Session, news: Duration) -> Result<()> {
    let remote = match of(session) {
        Some(Current::Remote(remote)) => remote,
        _ => return session::finish(session, &|| false),
    };
    let has_unrun = || session::has_unsent(session) || remote.has_unrun();
    if remote.has_told_loss() && (remote.is_lost() || !remote.has_worker()) {
        return Ok(());
    }
    let was_unrun = has_unrun();
    let deadline = Instant::now() + news;
    let gives_up = || !(has_unrun() && remote.has_worker()) && Instant::now() >= deadline;
    session::blocking(|| {
        while was_unrun && !remote.has_worker() && !remote.is_lost() && !gives_up() && !session::interrupted() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    // Without one there may be no room for what was recorded.
    let can_run = remote.has_worker() && !remote.is_lost();
    let done = if can_run { session::finish(session, &gives_up) } else { Err(Error::Interrupted) };
    match (done, remote.loss()) {
        // It took nothing with it that was still to be done.
        (Err(_), Some(_)) if !was_unrun => Ok(()),
        (Err(_), Some((_, why))) => Err(session::failed(why)),
        (Err(Error::Interrupted), None) if session::interrupted() => Err(Error::Interrupted),
        (Err(Error::Interrupted), None) if has_unrun() => Err(Error::Connection(format!(
            "{} has no workers, so the last recorded operations have not run",
            session.name
        ))),
        (Err(Error::Interrupted), None) => Ok(()),
        (done, _) => done,
    }
}

/// Ends all sessions: nothing waits for what was still recorded. For the end of a program.
pub fn shutdown() {
    // A forked child has a copy of the connections; the session is its parent's.
    if session::is_forked() {
        return;
    }
    if session::running().is_some() {
        print_plan();
    }
    session::mark_ended();
    session::all_running().iter().for_each(|session| session.link.close());
}
