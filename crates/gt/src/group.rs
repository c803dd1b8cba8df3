//! Several workers in this process: a server and its workers, as they would be over a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gt_client::session::{self, Session};
use gt_client::{Error, Result, synchronize};
use gt_dispatcher::{Dispatcher, DispatcherConfig, Timer};
use gt_net::{Address, Io, Listener, NetError};
use gt_serve::{ServeConfig, Service};
use parking_lot::Mutex;

use crate::config::Config;
use crate::current;
use crate::server::{self, ConnectOptions};
use crate::serving::{Device, ServedData, serve};
use crate::signals;

/// How long workers of this process may take to join.
const JOIN: Duration = Duration::from_secs(10);

/// A server with its workers; ends when it is dropped.
struct WorkerSet {
    workers: Vec<Service>,
    dispatcher: Dispatcher,
    _timer: Timer,
    _listener: Listener,
    _io: Io,
    address: Address,
}

/// The group of this process, if it asked for one.
static GROUP: Mutex<Option<WorkerSet>> = Mutex::new(None);

impl WorkerSet {
    fn start(config: &Config, n: usize) -> Result<WorkerSet> {
        let wrong = |e: NetError| Error::Connection(format!("cannot start a group of {n} workers: {e}"));
        let path = gt_net::process_socket(&gt_net::runtime_directory().map_err(wrong)?, "group");
        let io = Io::start("gt-server").map_err(wrong)?;
        let debug = config.dispatcher_debug();
        let log = gt_dispatcher::Log::new(move |line| debug.print(|| line));
        let dispatcher = Dispatcher::new(DispatcherConfig { log, ..DispatcherConfig::default() }).map_err(wrong)?;
        let listener = dispatcher.listen(&io, &Address::Unix(path), None).map_err(wrong)?;
        let timer = dispatcher.start_timer().map_err(wrong)?;
        let address = listener.address().clone();
        let cores = config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |c| c.get()));
        let device = Device {
            backend: config.backend,
            threads: Some((cores / n).max(1)),
            memory_limit: Some((config.memory_limit / n as u64).to_string()),
            debug: config.debug_worker,
            data: ServedData::default(),
        };
        let mut group =
            WorkerSet { workers: Vec::new(), dispatcher, _timer: timer, _listener: listener, _io: io, address };
        for i in 0..n {
            let mut serving = ServeConfig::new(group.address.clone(), Arc::new(crate::config::session_config));
            serving.id = format!("worker_{i}");
            let worker = serve(&device, serving)?;
            let deadline = Instant::now() + JOIN;
            // One after the other, so that places and names agree.
            while !worker.is_joined() {
                if session::interrupted() {
                    return Err(Error::Interrupted);
                }
                if Instant::now() > deadline {
                    return Err(Error::Connection(format!("worker {i} did not join within {JOIN:?}")));
                }
                session::blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
            group.workers.push(worker);
        }
        Ok(group)
    }
}

impl Drop for WorkerSet {
    fn drop(&mut self) {
        self.dispatcher.end();
        for worker in self.workers.drain(..) {
            worker.stop(Duration::ZERO);
        }
    }
}

/// Whether the program said itself how many workers it wants.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Gives this process's session `n` workers. Called again it re-forms the group; tensors are carried over. With a server, the
/// session is limited to as many of its workers.
///
/// ```
/// gt::gpu_workers(2)?;
/// assert_eq!(gt::worker_count(), 2);
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// When `n` is 0, a server has fewer, or the workers cannot be started.
pub fn gpu_workers(n: usize) -> Result<()> {
    if n == 0 {
        return Err(Error::Value("gpu_workers needs at least one worker, got 0".into()));
    }
    ASKED.store(true, Ordering::SeqCst);
    // A plan is made for as many as its user says.
    if Config::from_env()?.plan.is_some() {
        return Ok(());
    }
    form(n)
}

/// Where the program leaves the number of workers to its signals: at least `n`. The first op sees to it by itself.
pub(crate) fn grow(n: usize) -> Result<()> {
    let is_elsewhere = !session::is_process() || session::lock(&GROUP).is_none() && current::is_remote();
    let is_planned = Config::from_env()?.plan.is_some();
    if is_planned || ASKED.load(Ordering::SeqCst) || is_elsewhere || session::running().is_none() || worker_count() >= n
    {
        return Ok(());
    }
    form(n)
}

/// The session of the first op, if signals ask for more than one worker and the program did not say otherwise.
pub(crate) fn first(config: &Config, n: usize) -> Result<Option<Session>> {
    let n = config.plan.map_or(n, |plan| plan.workers);
    if n == 1 || config.plan.is_none() && ASKED.load(Ordering::SeqCst) {
        return Ok(None);
    }
    // Somebody forms a group right now, and will replace this session: not waited for, since they wait for it.
    let Some(mut group) = GROUP.try_lock() else { return Ok(None) };
    let formed = WorkerSet::start(config, n)?;
    let opened = server::open(config, &formed.address.to_string(), &ConnectOptions::default())?;
    *group = Some(formed);
    Ok(Some(opened))
}

fn form(n: usize) -> Result<()> {
    session::settle()?;
    if !session::is_process() {
        return if current::remote_workers() == Some(n) { Ok(()) } else { server::limit(n) };
    }
    let mut group = session::lock(&GROUP);
    if group.is_none()
        && let Some(there) = current::remote_workers()
    {
        return if there == n { Ok(()) } else { server::limit(n) };
    }
    let have = group.as_ref().map_or(1, |g| g.workers.len());
    if have == n {
        return Ok(());
    }
    let config = Config::at_first_op()?;
    signals::settle(&config)?;
    let running = session::running().is_some();
    if running {
        synchronize()?;
    }
    let (new, formed) = if n == 1 {
        (crate::embedded::start(&config)?, None)
    } else {
        let formed = WorkerSet::start(&config, n)?;
        let session = server::open(&config, &formed.address.to_string(), &ConnectOptions::default())?;
        (session, Some(formed))
    };
    server::replace(new)?;
    *group = formed;
    Ok(())
}

/// How many workers the session has.
pub fn worker_count() -> usize {
    if session::is_process()
        && let Some(group) = &*session::lock(&GROUP)
    {
        return group.workers.len();
    }
    current::remote_workers().unwrap_or(1)
}

/// The group ends with the session it was for.
pub(crate) fn end() {
    let group = session::lock(&GROUP).take();
    drop(group);
}
