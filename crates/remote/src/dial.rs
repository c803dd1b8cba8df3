//! How the other ends are reached.

use std::time::Duration;

use gt_net::protocol::WorkerInfo;
use gt_net::{Address, ClientTls, Connection, Io, NetError, Reach, Receiver, SessionPass};

/// How long a peer over a network may be silent before it is given up.
const SILENCE: Duration = Duration::from_secs(3);

/// Opens the connections of a session: over a network, or within the process.
pub trait Dialer: Send + Sync {
    /// Where the server is, for people.
    fn server(&self) -> String;
    /// A connection to the server.
    fn control(
        &self,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError>;
    /// A connection to a worker, for a session that lives there; [`NetError::NoWay`] when it can never be reached from here.
    fn data(
        &self,
        worker: &WorkerInfo,
        pass: &SessionPass,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError>;
}

/// Sockets.
pub struct Network {
    /// The process's I/O thread.
    pub io: Io,
    /// Where the server may be, the best way first.
    pub addresses: Vec<Address>,
    /// What its certificate must be, where it speaks TLS.
    pub tls: Option<ClientTls>,
    /// Of this host; see [`WorkerInfo::host`].
    pub host: String,
}

impl Network {
    /// The ways to the server; files of sockets that are not there are none.
    fn reach(&self) -> Reach {
        let is_there = |address: &&Address| !matches!(address, Address::Unix(path) if !path.exists());
        // Who asked for TLS gets it on every connection that can have it.
        let way =
            |address: &Address| (address.clone(), self.tls.clone().filter(|_| matches!(address, Address::Tcp { .. })));
        let mut server: Vec<_> = self.addresses.iter().filter(is_there).map(way).collect();
        if server.is_empty() {
            server.extend(self.addresses.last().map(way));
        }
        Reach {
            io: self.io.clone(),
            host: self.host.clone(),
            encrypted: self.tls.is_some(),
            server,
            silence: Some(SILENCE),
        }
    }
}

impl Dialer for Network {
    fn server(&self) -> String {
        self.addresses.last().map(ToString::to_string).unwrap_or_default()
    }

    fn control(
        &self,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        let reach = self.reach();
        reach.first_of(&reach.server, receiver, timeout, cancel)
    }

    fn data(
        &self,
        worker: &WorkerInfo,
        pass: &SessionPass,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        self.reach().worker(worker, pass, receiver, timeout, cancel)
    }
}
