//! A worker that serves, as its process holds it.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gt_net::protocol::{FromWorker, WorkerInfo};
use gt_net::{Address, Identity, Io, Limits, Listener, NetError, Reach, ServerTls};

use super::config::{ServeConfig, ServedDevice};
use super::courier::Couriers;
use super::data::FromGuest;
use super::error::ServeError;
use super::group::ServerConnection;
use super::host::Host;
use super::hosted::ServiceContext;
use super::join::{Joiner, News};
use super::neighbors::Neighbor;
use gt_worker::WorkerHandle;

/// How often a service that is to stop looks whether its sessions have run dry.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// How long another worker over a network may be silent before it is looked for again. Shorter than ROUTE-4 allows for both.
const SILENCE: Duration = Duration::from_secs(2);

/// A worker that serves. Dropping it ends that; the worker itself lives as long as its handles.
pub struct Service {
    host: Arc<Host>,
    news: Arc<News>,
    neighbor: Option<Neighbor>,
    info: WorkerInfo,
    joiner: Option<JoinHandle<()>>,
    /// Before the I/O thread, which they need to be ended.
    listeners: Vec<Listener>,
    io: Option<Io>,
    process: u32,
}

impl Service {
    /// Listens, and joins the server as soon as there is one.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(worker: WorkerHandle, device: ServedDevice, config: ServeConfig) -> Result<Service, ServeError> {
        let io = Io::start("gt-net")?;
        let couriers = Couriers::new(reach(&io, &config), config.held.transfer_bytes, config.lease);
        let around = ServiceContext {
            group: Arc::new(ServerConnection::default()),
            couriers: Arc::new(couriers),
            held: config.held,
            recorder_moved: config.recorder_moved.clone(),
            loading: config.loading.clone(),
        };
        let host = Arc::new(Host::new(worker, config.settings.clone(), around, config.idle_timeout));
        let (listeners, info) = listen(&io, &host, device, &config)?;
        let neighbor = Some(Neighbor::new(&info, &host));
        let news = Arc::new(News::default());
        let joiner = Joiner { io: io.clone(), host: host.clone(), config, info: info.clone(), news: news.clone() };
        let joiner = std::thread::Builder::new()
            .name("gt-join".to_string())
            .spawn(move || joiner.run())
            .map_err(|e| NetError::Resource { what: "thread", reason: e.to_string() })?;
        let (joiner, io, process) = (Some(joiner), Some(io), std::process::id());
        Ok(Service { host, news, neighbor, info, joiner, listeners, io, process })
    }

    /// What the server is told of the worker, with the addresses it listens at.
    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    /// Whether the server has taken the worker, and the connection holds.
    pub fn is_joined(&self) -> bool {
        self.news.is_joined()
    }

    /// The name that the server gave; empty before it has.
    pub fn id(&self) -> String {
        self.host.around().group.id()
    }

    /// The sessions that live here, by number.
    pub fn sessions(&self) -> Vec<u64> {
        self.host.sessions().iter().map(|hosted| hosted.number()).collect()
    }

    /// Waits until the service has ended by itself, but no longer than `timeout`: why it has, if so.
    pub fn wait_ended(&self, timeout: Duration) -> Option<ServeError> {
        self.news.wait_ended(timeout)
    }

    /// Lets what was sent run, for a time; then says goodbye and ends everything.
    pub fn stop(self, drain: Duration) {
        let deadline = Instant::now() + drain;
        while Instant::now() < deadline && !self.host.sessions().iter().all(|hosted| hosted.is_dry()) {
            std::thread::sleep(DRAIN_POLL);
        }
    }

    fn end(&mut self) {
        if self.process != std::process::id() {
            // A forked child: the threads are the parent's, and locks may have been held at the fork.
            std::mem::forget((self.joiner.take(), self.host.clone(), self.news.clone(), self.neighbor.take()));
            return;
        }
        self.news.stop();
        if let Some(joiner) = self.joiner.take() {
            let _ = joiner.join();
        }
        self.host.sessions().iter().for_each(|hosted| hosted.report());
        let group = &self.host.around().group;
        if let Some(connection) = group.connection() {
            group.say(&FromWorker::Goodbye {});
            connection.close();
        }
        self.neighbor = None;
        self.host.close_all();
        self.listeners.clear();
        self.host.around().couriers.stop();
        // Sends what was taken, for a bounded time.
        drop(self.io.take());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// How other workers are reached.
fn reach(io: &Io, config: &ServeConfig) -> Reach {
    let near = config.unix.iter().map(|address| (address.clone(), None));
    let far = [(config.server.clone(), config.server_tls.clone())];
    Reach {
        io: io.clone(),
        host: gt_net::host_id(),
        encrypted: false,
        server: near.chain(far).collect(),
        silence: Some(SILENCE),
    }
}

/// Opens the sockets, and says where they are.
fn listen(
    io: &Io,
    host: &Arc<Host>,
    device: ServedDevice,
    config: &ServeConfig,
) -> Result<(Vec<Listener>, WorkerInfo), ServeError> {
    let limits = Limits { idle_timeout: Some(config.idle_timeout), ..Limits::before_authentication() };
    let accept = || {
        let host = Arc::downgrade(host);
        move |_: &gt_net::Peer| Some(Box::new(FromGuest::new(&host)) as Box<dyn gt_net::Receiver>)
    };
    let path = socket_path(config)?;
    let mut listeners = vec![io.listen(&Address::Unix(path.clone()), None, limits, accept())?];
    let ServedDevice { engine, threads, memory_limit } = device;
    let mut info = WorkerInfo {
        index: 0,
        id: config.id.clone(),
        unix: Some(path.display().to_string()),
        tcp: None,
        fingerprint: None,
        host: gt_net::host_id(),
        engine,
        threads,
        memory_limit,
        seal: Box::default(),
    };
    if let Some(listen_host) = &config.listen_host {
        let at = Address::Tcp { host: listen_host.clone(), port: 0 };
        let advertised = advertised_host(listen_host, config);
        let identity = match &config.identity {
            Some(identity) => Some(identity.clone()),
            None if at.is_local() => None,
            None => Some(Identity::generate(std::slice::from_ref(&advertised))?),
        };
        let tls = identity.as_ref().map(ServerTls::new).transpose()?;
        let listener = io.listen(&at, tls, limits, accept())?;
        if let Address::Tcp { port, .. } = listener.address() {
            info.tcp = Some(Address::Tcp { host: advertised, port: *port }.to_string());
        }
        if let Some(identity) = &identity {
            info.fingerprint = Some(identity.fingerprint()?.to_string().into_bytes().into());
        }
        listeners.push(listener);
    }
    Ok((listeners, info))
}

/// A socket file that no other service of this host has. Those of services that were killed go.
fn socket_path(config: &ServeConfig) -> Result<PathBuf, NetError> {
    let directory = match &config.socket_directory {
        Some(directory) => directory.clone(),
        None => gt_net::runtime_directory()?,
    };
    gt_net::remove_stale_sockets(&directory);
    Ok(gt_net::process_socket(&directory, "worker"))
}

/// What others call this host.
fn advertised_host(listen_host: &str, config: &ServeConfig) -> String {
    if let Some(host) = &config.advertised_host {
        return host.clone();
    }
    let everywhere = listen_host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    let towards_server = match &config.server {
        // Nothing is sent: the system only says which of its addresses it would send from.
        Address::Tcp { host, port } if everywhere => ["0.0.0.0:0", "[::]:0"].iter().find_map(|any| {
            let socket = UdpSocket::bind(any).ok()?;
            socket.connect((host.as_str(), *port)).ok()?;
            Some(socket.local_addr().ok()?.ip().to_string())
        }),
        _ => None,
    };
    towards_server.unwrap_or_else(|| listen_host.to_string())
}
