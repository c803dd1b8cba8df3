//! A real server, with real workers and clients.

use gt_client::remote::{Group, Network, Options, Remote};
use gt_dispatcher::{Dispatcher, DispatcherConfig, Timer};
use gt_net::{Address, Io, Listener};
use gt_worker::serve::Service;
use tempfile::TempDir;

use super::super::support::{never, wait_until};
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
        let dispatcher = Dispatcher::new(DispatcherConfig::default()).unwrap();
        let address = match tcp {
            true => "127.0.0.1:0".parse().unwrap(),
            false => Address::Unix(directory.path().join("server.sock")),
        };
        let listener = dispatcher.listen(&io, &address, None).unwrap();
        let timer = dispatcher.start_timer().unwrap();
        Server { dispatcher, _timer: timer, listener, io, directory }
    }

    pub fn worker(&self) -> Service {
        let mut config = config(self.listener.address(), self.directory.path());
        config.listen_host = Some("127.0.0.1".to_string());
        let service = Service::start(reference_worker(), device(), config).unwrap();
        wait_until(|| service.is_joined());
        service
    }

    fn way(&self) -> (Box<Network>, Options) {
        let addresses = vec![self.listener.address().clone()];
        let network = Network { io: self.io.clone(), addresses, tls: None, token: Vec::new(), host: gt_net::host_id() };
        let options = Options {
            name: "test".to_string(),
            token: Vec::new(),
            variables: Vec::new(),
            workers: 0,
            pin: None,
            timeout: PATIENCE,
            idle: || false,
            reports: false,
        };
        (Box::new(network), options)
    }

    pub fn connect(&self) -> Remote {
        let (network, options) = self.way();
        Remote::open(network, options, &never).unwrap()
    }

    pub fn group(&self) -> Group {
        let (network, options) = self.way();
        Group::open(network, options, &never).unwrap()
    }
}
