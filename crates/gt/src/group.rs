//! Several workers in this process: a server and its workers, as they would be over a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gt_client::session::{self, Session};
use gt_client::{Error, Result, synchronize};
use gt_dispatcher::{Dispatcher, DispatcherConfig, Timer};
use gt_net::{Address, Io, Listener, NetError};
use gt_worker::serve::{ServeConfig, Service};
use parking_lot::Mutex;

use crate::config::Config;
use crate::current::{self, Current};
use crate::server::{self, ConnectOptions};
use crate::serving::{Device, serve};
use crate::signals;

/// How long workers of this process may take to join.
const JOIN: Duration = Duration::from_secs(10);

/// A server with its workers; ends when it is dropped.
struct Group {
    workers: Vec<Service>,
    dispatcher: Dispatcher,
    _timer: Timer,
    _listener: Listener,
    _io: Io,
    address: Address,
}

/// The group of this process, if it asked for one.
static GROUP: Mutex<Option<Group>> = Mutex::new(None);

impl Group {
    fn start(config: &Config, n: usize) -> Result<Group> {
        let wrong = |e: NetError| Error::Connection(format!("a group of {n} workers: {e}"));
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
        };
        let mut group = Group { workers: Vec::new(), dispatcher, _timer: timer, _listener: listener, _io: io, address };
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

impl Drop for Group {
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
    let is_elsewhere = session::lock(&GROUP).is_none() && current::is_remote();
    let is_planned = Config::from_env()?.plan.is_some();
    if is_planned || ASKED.load(Ordering::SeqCst) || is_elsewhere || session::running().is_none() || worker_count() >= n
    {
        return Ok(());
    }
    form(n)
}

/// The session of the first op, if signals ask for more than one worker and the program did not say otherwise.
pub(crate) fn first(config: &Config, n: usize) -> Result<Option<(Session, Current)>> {
    let n = config.plan.map_or(n, |plan| plan.workers);
    if n == 1 || config.plan.is_none() && ASKED.load(Ordering::SeqCst) {
        return Ok(None);
    }
    // Somebody forms a group right now, and will replace this session: not waited for, since they wait for it.
    let Some(mut group) = GROUP.try_lock() else { return Ok(None) };
    let formed = Group::start(config, n)?;
    let opened = server::open(config, &formed.address.to_string(), &ConnectOptions::default())?;
    *group = Some(formed);
    Ok(Some(opened))
}

fn form(n: usize) -> Result<()> {
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
    let config = Config::from_env()?;
    signals::settle(&config)?;
    let running = session::running().is_some();
    if running {
        synchronize()?;
    }
    let (new, opened, formed) = if n == 1 {
        let (session, handle) = crate::embedded::start(&config)?;
        (session, Current::Embedded(handle), None)
    } else {
        let formed = Group::start(&config, n)?;
        let (session, current) = server::open(&config, &formed.address.to_string(), &ConnectOptions::default())?;
        (session, current, Some(formed))
    };
    server::move_to(new, opened)?;
    *group = formed;
    Ok(())
}

/// How many workers the session has.
pub fn worker_count() -> usize {
    if let Some(group) = &*session::lock(&GROUP) {
        return group.workers.len();
    }
    current::remote_workers().unwrap_or(1)
}

/// The group ends with the session it was for.
pub(crate) fn end() {
    let group = session::lock(&GROUP).take();
    drop(group);
}
