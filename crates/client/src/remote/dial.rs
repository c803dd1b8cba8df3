//! How the other ends are reached.

use std::time::Duration;

use gt_net::protocol::WorkerInfo;
use gt_net::{Address, ClientTls, Connection, Fingerprint, Io, Limits, NetError, Receiver};

/// How long a peer over a network may be silent.
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
    /// A connection to a worker.
    fn data(
        &self,
        worker: &WorkerInfo,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError>;
    /// Why a worker can never be reached from here, if that is so.
    fn obstacle(&self, _worker: &WorkerInfo) -> Option<String> {
        None
    }
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
    /// A peer that is silent for longer than [`SILENCE`] is asked to show itself, and then given up. On one host a connection
    /// breaks with its process, and a stopped process is not a dead one: whoever waits for it may go on when it does.
    fn limits(address: &Address) -> Limits {
        let idle_timeout = matches!(address, Address::Tcp { .. }).then_some(SILENCE);
        Limits { idle_timeout, ..Limits::default() }
    }

    /// Connects to the first address that answers. Files of sockets stay when their process was killed, and hosts share files
    /// or do not: what looks near may be nobody.
    fn first_of(
        &self,
        addresses: &[(Address, Option<ClientTls>)],
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        let mut last = NetError::Unreachable { address: String::new(), reason: "it has no address".into() };
        for (address, tls) in addresses {
            match self.io.connect(address, tls.as_ref(), Self::limits(address), receiver(), timeout, cancel) {
                Err(error @ NetError::Unreachable { .. }) => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    fn is_near(&self, worker: &WorkerInfo) -> bool {
        // Who asked for TLS gets it on every connection that can have it.
        let wants_tls = self.tls.is_some() && worker.fingerprint.is_some();
        worker.host == self.host && !wants_tls
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
        let is_there = |address: &&Address| !matches!(address, Address::Unix(path) if !path.exists());
        let tls = |address: &Address| self.tls.clone().filter(|_| matches!(address, Address::Tcp { .. }));
        let mut ways: Vec<_> = self.addresses.iter().filter(is_there).map(|a| (a.clone(), tls(a))).collect();
        if ways.is_empty() {
            ways.extend(self.addresses.last().map(|a| (a.clone(), tls(a))));
        }
        self.first_of(&ways, receiver, timeout, cancel)
    }

    fn data(
        &self,
        worker: &WorkerInfo,
        receiver: &dyn Fn() -> Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        let mut ways = Vec::new();
        if let Some(path) = worker.unix.as_ref().filter(|_| self.is_near(worker)) {
            ways.push((Address::Unix(path.into()), None));
        }
        if let Some(address) = &worker.tcp {
            let tls = match &worker.fingerprint {
                Some(text) => Some(ClientTls::pinned(String::from_utf8_lossy(text).parse::<Fingerprint>()?)?),
                None => None,
            };
            ways.push((address.parse()?, tls));
        }
        self.first_of(&ways, receiver, timeout, cancel)
    }

    fn obstacle(&self, worker: &WorkerInfo) -> Option<String> {
        let elsewhere = worker.tcp.is_none() && !(worker.unix.is_some() && self.is_near(worker));
        elsewhere.then(|| format!("{} listens on its own host only; start it with --listen", worker.id))
    }
}
