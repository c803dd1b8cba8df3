//! Sessions with a server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gt_client::link::{Link, WaitError};
use gt_client::remote::{Group, Network, Options};
use gt_client::session::{self, Cuts, Session};
use gt_client::{Error, Result, synchronize};
use gt_ir::ops::Upload;
use gt_ir::{Bytes, Instr, Payload, SiteId, TensorId, Window};
use gt_net::protocol::WorkerInfo;
use gt_net::{Address, ClientTls, Io};
use parking_lot::Mutex;

use crate::config::{self, Config};
use crate::connected::{Connected, instruction_log};
use crate::current::{self, Current};
use crate::{group, signals};

/// The largest window that `GT_CLIENT_BATCH_SIZE` can ask for: servers take messages of a few MiB.
const MOST_IN_A_WINDOW: usize = 16_384;

/// How a server is reached, beyond its address.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// What it asks for beyond loopback; `GT_TOKEN` otherwise.
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

/// Connects this process to the server at `host:port`. Tensors that exist are carried over; those of a server that is gone are
/// gone, and say so when they are used.
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
    let config = Config::from_env()?;
    signals::settle(&config)?;
    if session::running().is_some() {
        let done = synchronize();
        // A server that is gone has nothing to be waited for, and no value to be carried over.
        if !current::is_lost() {
            done?;
        }
    }
    let (new, opened) = open(&config, address, options)?;
    move_to(new, opened)?;
    group::end();
    remember(address, options);
    Ok(())
}

/// How the server of this process was reached last.
static REACHED: Mutex<Option<(String, ConnectOptions)>> = Mutex::new(None);

pub(crate) fn remember(address: &str, options: &ConnectOptions) {
    *REACHED.lock() = Some((address.to_string(), options.clone()));
}

/// Goes on with `n` of the server's workers; tensors are carried over.
///
/// # Errors
/// When the server has fewer: nothing has changed then.
pub(crate) fn limit(n: usize) -> Result<()> {
    let Some((address, options)) = REACHED.lock().clone() else {
        return Err(Error::State("there is no server whose workers could be counted".into()));
    };
    synchronize()?;
    let options = ConnectOptions { workers: n as u32, ..options };
    let (new, opened) = open(&Config::from_env()?, &address, &options)?;
    let there = new.link.workers().len();
    if there < n {
        end(Some(opened));
        return Err(Error::Value(format!("gpu_workers({n}): the server has {there} workers")));
    }
    move_to(new, opened)?;
    remember(&address, &options);
    Ok(())
}

/// Makes a new session the process's own, with every value of the old one. Of those that are gone it says why.
pub(crate) fn move_to(new: Session, opened: Current) -> Result<()> {
    match (current::loss(), &opened, session::running()) {
        (Some((ids, why)), Current::Remote(remote), _) => remote.lost_before(&ids, why),
        (None, _, Some(old)) => carry_over(&*old.link, &current::values(), &*new.link)?,
        (Some(_), Current::Embedded(_), _) | (None, _, None) => {}
    }
    let old = current::take();
    session::replace(Some(new));
    current::began(opened);
    end(old);
    Ok(())
}

/// Ends the session with the server, once everything recorded has run; the next op starts one in this process. Tensors that
/// lived there are gone. Without a server there is only the wait.
///
/// # Errors
/// As [`synchronize`]; the session has ended all the same.
pub fn disconnect() -> Result<()> {
    current::leave_server();
    if session::running().is_none() {
        return Ok(());
    }
    // With no worker left there is nothing to wait for.
    let done = if current::has_worker() { synchronize() } else { Ok(()) };
    if current::is_remote() {
        let old = current::take();
        session::replace(None);
        end(old);
        group::end();
    }
    done
}

fn end(old: Option<Current>) {
    match old {
        Some(Current::Embedded(session)) => session.worker().shutdown(),
        Some(Current::Remote(remote)) => remote.close(),
        None => {}
    }
}

/// The process's one thread for connections.
fn io() -> Result<Io> {
    static IO: OnceLock<Io> = OnceLock::new();
    if let Some(io) = IO.get() {
        return Ok(io.clone());
    }
    let io = Io::start("gt-io").map_err(|e| Error::State(e.to_string()))?;
    Ok(IO.get_or_init(|| io).clone())
}

/// Opens a session with a server.
pub(crate) fn open(config: &Config, address: &str, options: &ConnectOptions) -> Result<(Session, Current)> {
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
    let token = options.token.clone().or_else(|| config.token.clone()).unwrap_or_default().into_bytes();
    let network = Network { io: io()?, addresses, tls, token: token.clone(), host: gt_net::host_id() };
    let remote = session::blocking(|| {
        Group::open(
            Box::new(network),
            Options {
                name: format!("{} (process {})", script(), std::process::id()),
                token,
                variables: config::session_variables(),
                workers: options.workers,
                pin: None,
                timeout: options.timeout,
                idle: gt_client::cut_idle,
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
    let remote = Arc::new(Connected::new(remote, &address.to_string(), instruction_log(config)?));
    let session = Session {
        link: Box::new(remote.clone()),
        batch_size: config.client_batch_size.map(|n| n.min(MOST_IN_A_WINDOW)),
        cuts: Cuts::FAR,
        join_after: config.join_after(joining_pays),
        waits: config.blocking,
        debug: config.client_debug(),
    };
    Ok((session, Current::Remote(remote)))
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

/// Sends every value of one session to another, under the name it has.
fn carry_over(from: &dyn Link, ids: &[TensorId], to: &dyn Link) -> Result<()> {
    for &id in ids {
        let read = session::blocking(|| from.read(id, &session::interrupted));
        // A poisoned value stays behind: whoever reads it learns that it is gone.
        let Ok(value) = read else { continue };
        let upload = Upload { dtype: value.ty.dtype, shape: value.ty.shape };
        let instr = Instr {
            op: upload.into(),
            outs: [id].into_iter().collect(),
            ins: Default::default(),
            scalars: Default::default(),
            scope: Default::default(),
            site: SiteId(0),
        };
        let payload = Payload { instr: 0, bytes: Bytes::from(value.bytes) };
        let window = Window { instrs: vec![instr], uploads: vec![payload], eager: true, ..Window::default() };
        session::blocking(|| to.send(window, &session::interrupted)).map_err(session::wait_error)?;
    }
    Ok(())
}
