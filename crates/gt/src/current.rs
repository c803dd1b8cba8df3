//! The process's session, whichever kind it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gt_client::link::Link;
use gt_client::session::Session;
use gt_client::{Error, Result, session};
use gt_ir::{Failure, HostAllocator, TensorId};
use gt_plan::shard::Traffic;
use gt_worker::{Memory, SessionHandle, WorkerStats};
use parking_lot::Mutex;

use crate::config::Config;
use crate::connected::Connected;
use crate::{embedded, group, server, signals};

/// What the session's own functions need of it.
pub(crate) enum Current {
    /// A worker in this process.
    Embedded(SessionHandle),
    /// A server.
    Remote(Arc<Connected>),
}

static CURRENT: Mutex<Option<Current>> = Mutex::new(None);
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
    let config = Config::from_env()?;
    signals::settle(&config)?;
    let address = config.address.as_ref().filter(|_| !LEFT.load(Ordering::SeqCst));
    let (session, current) = match address {
        Some(address) => {
            let options = server::ConnectOptions::default();
            server::remember(address, &options);
            server::open(&config, address, &options)?
        }
        None => match group::first(&config, gt_client::signal::demand())? {
            Some(opened) => opened,
            None => {
                let (session, handle) = embedded::start(&config)?;
                (session, Current::Embedded(handle))
            }
        },
    };
    began(current);
    Ok(session)
}

/// A session is the process's own from now on.
pub(crate) fn began(current: Current) {
    *CURRENT.lock() = Some(current);
    if let Some(f) = ON_START.get() {
        f();
    }
}

/// The next session is one in this process.
pub(crate) fn leave_server() {
    LEFT.store(true, Ordering::SeqCst);
}

/// Takes the session out of use.
pub(crate) fn take() -> Option<Current> {
    CURRENT.lock().take()
}

/// The embedded session, if that is what runs.
pub(crate) fn embedded_session() -> Option<SessionHandle> {
    match &*CURRENT.lock() {
        Some(Current::Embedded(session)) => Some(session.clone()),
        Some(Current::Remote(_)) | None => None,
    }
}

fn remote() -> Option<Arc<Connected>> {
    match &*CURRENT.lock() {
        Some(Current::Remote(remote)) => Some(remote.clone()),
        Some(Current::Embedded(_)) | None => None,
    }
}

/// The names of the values the session holds.
pub(crate) fn values() -> Vec<TensorId> {
    match &*CURRENT.lock() {
        Some(Current::Embedded(session)) => session.values(),
        Some(Current::Remote(remote)) => remote.values(),
        None => Vec::new(),
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

/// What the workers have done so far; none before the first op.
///
/// # Errors
/// When a server does not answer.
pub fn stats() -> Result<Vec<WorkerStats>> {
    if let Some(remote) = remote() {
        let texts = session::blocking(|| remote.stats(&session::interrupted)).map_err(session::wait_error)?;
        // A worker that did not ask for a name has been given one.
        let read = |(worker, text): (String, String)| Ok(WorkerStats { worker, ..WorkerStats::from_json(&text)? });
        let stats = texts.into_iter().map(read).collect::<Result<Vec<_>, String>>();
        return stats.map_err(|e| Error::State(format!("the statistics of a worker: {e}")));
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
    for s in stats()? {
        memory.live_bytes += s.live_bytes;
        memory.peak_bytes += s.peak_bytes;
        memory.cached_bytes += s.cached_bytes;
        memory.limit_bytes += s.limit_bytes;
    }
    Ok(memory)
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
        None => println!("nothing is placed: the program enters no signal that means more than one worker"),
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

/// Ends the session: nothing waits for what was still recorded. For the end of a program.
pub fn shutdown() {
    // A forked child has a copy of the connections; the session is its parent's.
    if session::is_forked() {
        return;
    }
    if session::running().is_some() {
        print_plan();
    }
    match &*CURRENT.lock() {
        Some(Current::Embedded(session)) => session.worker().shutdown(),
        Some(Current::Remote(remote)) => remote.close(),
        None => {}
    }
}
