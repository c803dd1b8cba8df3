//! A real server, with real workers and clients.

use gt_dispatcher::{Dispatcher, DispatcherConfig, Timer};
use gt_net::{Address, Io, Listener, RELAY_SILENCE, Relay, Secret};
use gt_remote::{Network, Options, Remote, ShardedSession};
use gt_serve::{ServeConfig, Service};
use tempfile::TempDir;

use super::super::support::{never, wait_until};
use super::proxy::Proxy;
use super::{PATIENCE, config, device, reference_worker};

/// A server, whose parts live as long as it does.
pub struct Server {
    pub dispatcher: Dispatcher,
    _timer: Timer,
    listener: Listener,
    io: Io,
    directory: TempDir,
}

impl Server {
    pub fn start(tcp: bool) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let io = Io::start("server").unwrap();
        // By a network workers have to show something.
        let worker_token = Some(Secret::from_bytes(b"a worker of this test"));
        let dispatcher = Dispatcher::new(DispatcherConfig { worker_token, ..DispatcherConfig::default() }).unwrap();
        let address = match tcp {
            true => "127.0.0.1:0".parse().unwrap(),
            false => Address::Unix(directory.path().join("server.sock")),
        };
        let finder = dispatcher.clone();
        let relay = Relay::new(&io, RELAY_SILENCE, move |pass, worker| finder.find_worker(pass, worker));
        let door = move |receiver| relay.receiver(receiver);
        let listener = dispatcher.listen_behind(&io, &address, None, door).unwrap();
        let timer = dispatcher.start_timer().unwrap();
        Server { dispatcher, _timer: timer, listener, io, directory }
    }

    pub fn worker(&self) -> Service {
        self.worker_that(|_| {})
    }

    pub fn worker_that(&self, change: impl FnOnce(&mut ServeConfig)) -> Service {
        let mut config = config(self.listener.address(), self.directory.path());
        config.token = Some(Secret::from_bytes(b"a worker of this test"));
        config.listen_host = Some("127.0.0.1".to_string());
        change(&mut config);
        let service = Service::start(reference_worker(), device(), config).unwrap();
        wait_until(|| service.is_joined());
        service
    }

    fn way(&self) -> (Box<Network>, Options) {
        let addresses = vec![self.listener.address().clone()];
        let network = Network { io: self.io.clone(), addresses, tls: None, host: gt_net::host_id() };
        let options = Options {
            name: "test".to_string(),
            token: None,
            variables: Vec::new(),
            workers: 0,
            pin: None,
            timeout: PATIENCE,
            idle: std::sync::Arc::new(|| false),
            reports: false,
        };
        (Box::new(network), options)
    }

    pub fn port(&self) -> u16 {
        match self.listener.address() {
            Address::Tcp { port, .. } => *port,
            Address::Unix(_) => panic!("it has no port"),
        }
    }

    /// A client on another machine, whose network is a proxy.
    pub fn connect_by(&self, proxy: &Proxy) -> Remote {
        let (network, options) = self.way();
        let addresses = vec![Address::Tcp { host: "127.0.0.1".to_string(), port: proxy.port }];
        let network = Network { addresses, host: "elsewhere".to_string(), ..*network };
        Remote::open(Box::new(network), options, &never).unwrap()
    }

    pub fn connect(&self) -> Remote {
        let (network, options) = self.way();
        Remote::open(network, options, &never).unwrap()
    }

    pub fn group(&self) -> ShardedSession {
        let (network, options) = self.way();
        ShardedSession::open(network, options, &never).unwrap()
    }
}
