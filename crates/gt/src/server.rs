//! Sessions with a server.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gt_client::link::{Link, WaitError};
use gt_client::session::{self, Cuts, Session};
use gt_client::{Error, Result, RunAhead, synchronize};
use gt_ir::ops::Upload;
use gt_ir::{Bytes, Failure, FailureKind, Payload, ScopeId, SiteId, TensorId};
use gt_net::protocol::WorkerInfo;
use gt_net::{Address, ClientTls, Io, Secret};
use gt_observe::output;
use gt_remote::{Network, Options, ShardedSession};
use gt_stream::Recording;
use parking_lot::Mutex;

use crate::config::Config;
use crate::connected::{Connected, instruction_log};
use crate::current::{self, Current};
use crate::{group, signals, variables};

/// Values that cannot be had, and why.
pub(crate) type Gone = (Vec<TensorId>, Failure);

/// The largest window that `GT_CLIENT_BATCH_SIZE` can ask for: servers take messages of a few MiB.
const MOST_IN_A_WINDOW: usize = 16_384;

/// How a server is reached, beyond its address.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// What it asks for; `GT_TOKEN` otherwise.
    pub token: Option<String>,
    /// What its certificate must be; the connection is encrypted then.
    pub fingerprint: Option<String>,
    /// How many of its workers to use; 0 for all.
    pub workers: u32,
    /// How long it may take to answer.
    pub timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions { token: None, fingerprint: None, workers: 0, timeout: Duration::from_secs(10) }
    }
}

/// Connects the calling thread's seat to the server at `host:port`: that of the process, unless the thread has one of its own.
/// Tensors that exist there are carried over; those of a server that is gone are gone, and say so when they are used.
///
/// ```no_run
/// gt::install();
/// gt::connect("127.0.0.1:9000", &gt::ConnectOptions::default())?;
/// let x = gt::Tensor::randn(&[4, 3], None, None)?;
/// gt::disconnect()?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// When nothing answers there, or it refuses. The session that was stays as it is then.
pub fn connect(address: &str, options: &ConnectOptions) -> Result<()> {
    if is_planned(address) {
        return Ok(());
    }
    move_to(opened(address, options, true)?)
}

/// As [`connect`], but which session of the thread it becomes is said later: by [`enter_opened`], or, once the session is needed, by
/// itself. It is then the thread's own if that is wanted and it has none yet.
///
/// # Errors
/// As there.
pub fn open_session(address: &str, options: &ConnectOptions, own: bool) -> Result<()> {
    if is_planned(address) {
        return Ok(());
    }
    session::settle()?;
    let stays = own && session::is_process();
    let session = opened(address, options, !stays)?;
    OPENED.set(Some((session, own)));
    session::settle_later(settle_opened);
    Ok(())
}

/// Whether `gt plan` runs this program: its sessions stay on workers that compute nothing, and no server hears of them.
fn is_planned(address: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let planned = output::is_planned();
    if planned && SAID.lock().insert(address.to_string()) {
        gt_observe::say(format_args!("gt plan: did not connect to {address}"));
    }
    planned
}

thread_local! {
    /// A session that was opened, and whether it is to be the thread's own.
    static OPENED: Cell<Option<(Session, bool)>> = const { Cell::new(None) };
}

fn settle_opened() -> Result<()> {
    match OPENED.take() {
        Some((session, true)) if session::is_process() => {
            enter(session);
            Ok(())
        }
        Some((session, _)) => move_to(session),
        None => Ok(()),
    }
}

/// Gives the calling thread a seat of its own with the session that it opened last, until it [leaves](leave_entered) it. Whether
/// there is one that was not settled yet.
pub fn enter_opened() -> bool {
    match OPENED.take() {
        Some((session, _)) => {
            // There is nothing left to settle.
            let _ = session::settle();
            enter(session);
            true
        }
        None => false,
    }
}

fn enter(session: Session) {
    session::enter(session);
    current::began();
}

/// Leaves the calling thread's own seat once everything recorded there has run. Its tensors are gone.
///
/// # Errors
/// As [`synchronize`]; the session has ended all the same.
pub fn leave_entered() -> Result<()> {
    // With no worker left there is nothing to wait for.
    let done = if current::has_worker() { synchronize() } else { Ok(()) };
    if let Some(session) = session::leave() {
        session.link.close();
    }
    done
}

/// A session with a server, once what was recorded before has run if it may take the place of the one that is.
fn opened(address: &str, options: &ConnectOptions, replaces: bool) -> Result<Session> {
    let config = Config::at_first_op()?;
    signals::settle(&config)?;
    session::settle()?;
    if replaces && session::running().is_some() {
        let done = synchronize();
        // A server that is gone has nothing to be waited for, and no value to be carried over.
        if !current::is_lost() {
            done?;
        }
    }
    open(&config, address, options)
}

/// Goes on with `n` of the server's workers; tensors are carried over.
///
/// # Errors
/// When the server has fewer: nothing has changed then.
pub(crate) fn limit(n: usize) -> Result<()> {
    let Some((address, options)) = current::remote().map(|remote| remote.reached.clone()) else {
        return Err(Error::State("cannot count the workers: no server is connected".into()));
    };
    synchronize()?;
    let options = ConnectOptions { workers: n as u32, ..options };
    let new = open(&Config::from_env()?, &address, &options)?;
    let there = new.link.workers().len();
    if there < n {
        new.link.close();
        let s = if there == 1 { "" } else { "s" };
        return Err(Error::Value(format!("gpu_workers({n}): the server has only {there} worker{s}")));
    }
    replace(new)
}

/// Makes a new session that of the calling thread's seat, in place of one with other workers.
fn move_to(new: Session) -> Result<()> {
    replace(new)?;
    if session::is_process() {
        group::end();
    }
    Ok(())
}

/// Makes a new session that of the calling thread's seat, with every value of the old one. Of those that are gone it says why.
pub(crate) fn replace(new: Session) -> Result<()> {
    let old = session::running();
    let gone = match (current::loss(), old) {
        (Some(loss), _) => vec![loss],
        (None, Some(old)) => {
            let mut gone = carry_over(&*old.link, &current::values(), &*new.link)?;
            gone.extend(current::lost_values());
            gone
        }
        (None, None) => take_left(),
    };
    current::give_up(&new, &gone);
    session::replace(Some(new));
    current::began();
    if let Some(old) = old {
        old.link.close();
    }
    Ok(())
}

/// The values of the process's sessions that the program has left, and what is said of them.
static LEFT_VALUES: Mutex<Vec<Gone>> = Mutex::new(Vec::new());

/// The values of sessions that the program has left, for the process's next session.
pub(crate) fn take_left() -> Vec<Gone> {
    if session::is_process() { std::mem::take(&mut *LEFT_VALUES.lock()) } else { Vec::new() }
}

/// Ends the calling thread's session with a server, once everything recorded has run; a thread that had one of its own goes on with
/// that of the process, and the process's next op starts one in this process. Tensors that lived there are gone. Without a server
/// there is only the wait.
///
/// # Errors
/// As [`synchronize`]; the session has ended all the same.
pub fn disconnect() -> Result<()> {
    session::settle()?;
    if !session::is_process() {
        return leave_entered();
    }
    current::leave_server();
    let Some(old) = session::running() else { return Ok(()) };
    if output::is_planned() {
        // The session is not one with a server of the program's, and its report is still to come.
        return synchronize();
    }
    // With no worker left there is nothing to wait for.
    let done = if current::has_worker() { synchronize() } else { Ok(()) };
    if current::is_remote() {
        let why = format!("the tensor belongs to the session with {}, which gt.disconnect() closed", old.name);
        let mut left = current::lost_values();
        left.push((current::values(), Failure::new(FailureKind::WorkerLost, why)));
        *LEFT_VALUES.lock() = left;
        session::replace(None);
        old.link.close();
        group::end();
    }
    done
}

/// The process's one thread for connections.
fn io() -> Result<Io> {
    static IO: OnceLock<Io> = OnceLock::new();
    if let Some(io) = IO.get() {
        return Ok(io.clone());
    }
    let io = Io::start("gt-io").map_err(|e| Error::Connection(e.to_string()))?;
    Ok(IO.get_or_init(|| io).clone())
}

/// Opens a session with a server.
pub(crate) fn open(config: &Config, address: &str, options: &ConnectOptions) -> Result<Session> {
    session::check_usable()?;
    let reached = (address.to_string(), options.clone());
    let wrong = |e: gt_net::NetError| Error::Value(e.to_string());
    // `host:port#fingerprint` is an address that is sure of whom it names.
    let (address, named) = address.split_once('#').map_or((address, None), |(a, f)| (a, Some(f.to_string())));
    let fingerprint = options.fingerprint.clone().or(named);
    let address: Address = address.parse().map_err(wrong)?;
    let mut addresses = vec![address.clone()];
    if let Address::Tcp { port, .. } = &address
        && address.is_local()
        && fingerprint.is_none()
        && let Ok(path) = gt_net::server_socket(*port)
    {
        addresses.insert(0, Address::Unix(path));
    }
    let tls = match &fingerprint {
        Some(text) => Some(ClientTls::pinned(text.parse().map_err(wrong)?).map_err(wrong)?),
        None => None,
    };
    let token = options.token.as_ref().or(config.token.as_ref());
    let token = token.map(|text| Secret::from_text("the token", text)).transpose().map_err(wrong)?;
    let network = Network { io: io()?, addresses, tls, host: gt_net::host_id() };
    let seat = Arc::new(OnceLock::new());
    let remote = session::blocking(|| {
        ShardedSession::open(
            Box::new(network),
            Options {
                name: format!("{} (process {})", script(), std::process::id()),
                token,
                variables: variables::of_session(),
                workers: options.workers,
                pin: None,
                timeout: options.timeout,
                idle: Arc::new(gt_client::idle_cut(seat.clone())),
                reports: config.plan.is_some(),
            },
            &session::interrupted,
        )
    });
    let remote = remote.map_err(|e| match e {
        WaitError::Interrupted => Error::Interrupted,
        WaitError::Failed(failure) => Error::Connection(failure.message),
    })?;
    let joining_pays = joining_pays(remote.home_worker().as_ref());
    let remote = Arc::new(Connected::new(remote, &address.to_string(), reached, instruction_log(config)?));
    Ok(Session {
        link: Box::new(remote.clone()),
        owner: Box::new(Current::Remote(remote)),
        name: format!("the server at {address}"),
        seat,
        batch_size: config.client_batch_size.map(|n| n.min(MOST_IN_A_WINDOW)),
        cuts: Cuts::FAR,
        join_after: config.join_after(joining_pays),
        loops: config.loops(),
        waits: config.blocking,
        debug: config.client_debug(),
        ahead: RunAhead::default(),
    })
}

/// Whether a step that is sent whole is recorded while the worker has the end of the one before to work on. It is not where worker and
/// recorder share their cores: there the worker should begin with what is recorded first.
fn joining_pays(home: Option<&WorkerInfo>) -> bool {
    let has_spare_core =
        |threads: u32| std::thread::available_parallelism().is_ok_and(|cores| cores.get() > threads as usize);
    home.is_none_or(|worker| worker.host != gt_net::host_id() || has_spare_core(worker.threads))
}

/// What this process runs, for people: the script, where the program is an interpreter.
fn script() -> String {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let is_python = program.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
    // No other arguments: they may hold what is nobody's business.
    let script = args.find(|arg| !arg.starts_with('-')).filter(|arg| is_python && arg.ends_with(".py"));
    script.unwrap_or(program)
}

/// Sends every value of one session to another, under the name it has. Gives back those that failed, and why.
fn carry_over(from: &dyn Link, ids: &[TensorId], to: &dyn Link) -> Result<Vec<Gone>> {
    let mut failed = Vec::new();
    for &id in ids {
        let value = match session::blocking(|| from.read(id, &session::interrupted)) {
            Ok(value) => value,
            Err(WaitError::Failed(failure)) => {
                failed.push((vec![id], failure));
                continue;
            }
            Err(WaitError::Interrupted) => return Err(Error::Interrupted),
        };
        let upload = Upload { dtype: value.ty.dtype, shape: value.ty.shape };
        let mut recording = Recording::default();
        recording.push(upload.into(), &[], id, 1, &[], ScopeId(0), SiteId(0));
        recording.add_payload(Payload { instr: 0, bytes: Bytes::from(value.bytes) });
        let Some(window) = recording.take(true, false) else { continue };
        session::blocking(|| to.send(window, &session::interrupted)).map_err(session::wait_error)?;
    }
    Ok(failed)
}
