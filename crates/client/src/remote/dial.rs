//! How the other ends are reached.

use std::time::Duration;

use gt_net::protocol::WorkerInfo;
use gt_net::{Address, ClientTls, Connection, Fingerprint, Io, Limits, NetError, Receiver};

/// Opens the connections of a session: over a network, or within the process.
pub trait Dialer: Send + Sync {
    /// Where the server is, for people.
    fn server(&self) -> String;
    /// A connection to the server.
    fn control(
        &self,
        receiver: Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError>;
    /// A connection to a worker.
    fn data(
        &self,
        worker: &WorkerInfo,
        receiver: Box<dyn Receiver>,
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
    fn limits() -> Limits {
        // A peer that is silent for longer is asked to show itself, and then given up.
        Limits { idle_timeout: Some(Duration::from_secs(4)), ..Limits::default() }
    }
}

impl Dialer for Network {
    fn server(&self) -> String {
        self.addresses.last().map(ToString::to_string).unwrap_or_default()
    }

    fn control(
        &self,
        receiver: Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        let address = self.addresses.iter().find(|a| matches!(a, Address::Unix(path) if path.exists()));
        let Some(address) = address.or(self.addresses.last()) else {
            return Err(NetError::Unreachable { address: String::new(), reason: "the server has no address".into() });
        };
        let tls = self.tls.as_ref().filter(|_| matches!(address, Address::Tcp { .. }));
        self.io.connect(address, tls, Self::limits(), receiver, timeout, cancel)
    }

    fn data(
        &self,
        worker: &WorkerInfo,
        receiver: Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection, NetError> {
        // Who asked for TLS gets it on every connection that can have it.
        let wants_tls = self.tls.is_some() && worker.fingerprint.is_some();
        let near = worker.unix.as_ref().filter(|_| worker.host == self.host && !wants_tls);
        if let Some(path) = near {
            return self.io.connect(&Address::Unix(path.into()), None, Self::limits(), receiver, timeout, cancel);
        }
        let Some(address) = &worker.tcp else {
            return Err(NetError::Unreachable {
                address: worker.id.clone(),
                reason: "it listens on its own host only; start it with --listen".into(),
            });
        };
        let tls = match &worker.fingerprint {
            Some(text) => Some(ClientTls::pinned(String::from_utf8_lossy(text).parse::<Fingerprint>()?)?),
            None => None,
        };
        self.io.connect(&address.parse()?, tls.as_ref(), Self::limits(), receiver, timeout, cancel)
    }
}
