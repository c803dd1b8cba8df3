//! Making connections.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::channel::{CANCEL_INTERVAL, Channel};
use crate::connection::{Connection, End};
use crate::entry::Entry;
use crate::incoming::Incoming;
use crate::io::{Command, Io};
use crate::receiver::{Peer, Receiver};
use crate::socket::{Family, Socket};
use crate::tls::ClientTls;
use crate::{Address, Limits, NetError, Result};

/// How long a connection attempt may take, and who may end it earlier.
struct Patience<'a> {
    address: &'a Address,
    deadline: Instant,
    timeout: Duration,
    cancel: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    fn check(&self) -> Result<()> {
        if (self.cancel)() {
            return Err(NetError::Interrupted);
        }
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(NetError::TimedOut { what: format!("connecting to {}", self.address), after: self.timeout }),
        }
    }

    fn nobody_listens(&self) -> NetError {
        NetError::NobodyListens { address: self.address.to_string() }
    }

    fn unreachable(&self, reason: impl ToString) -> NetError {
        NetError::Unreachable { address: self.address.to_string(), reason: reason.to_string() }
    }
}

impl Io {
    /// Connects, and waits until the other side has introduced itself. When it fails, `receiver` is dropped without a call.
    pub fn connect(
        &self,
        address: &Address,
        tls: Option<&ClientTls>,
        limits: Limits,
        receiver: Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection> {
        self.connect_as(0, address, tls, limits, receiver, timeout, cancel)
    }

    /// As [`Io::connect`], with something to say about this side.
    #[allow(clippy::too_many_arguments)] // one more than its only caller but one
    pub(crate) fn connect_as(
        &self,
        features: u32,
        address: &Address,
        tls: Option<&ClientTls>,
        limits: Limits,
        receiver: Box<dyn Receiver>,
        timeout: Duration,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Connection> {
        let io = self.shared();
        if io.is_this_thread() {
            return Err(NetError::OnIoThread);
        }
        let patience = Patience { address, deadline: Instant::now() + timeout, timeout, cancel };
        let (fd, family, host) = match address {
            Address::Unix(path) => {
                let at = SocketAddrUnix::new(path.as_path()).map_err(|e| patience.unreachable(e))?;
                (connect_unix(&at, &patience)?, Family::Unix, "localhost")
            }
            Address::Tcp { host, port } => (connect_tcp(host, *port, &patience)?, Family::Tcp, host.as_str()),
        };
        let same_host = family == Family::Unix;
        let socket = Arc::new(Socket::new(fd, family)?);
        let tls = tls.map(|tls| tls.connect(host)).transpose()?;
        let peer = Peer { address: address.to_string(), same_host, user_id: None };
        // This side waits as long as its caller says; the limit is for those who knock.
        let limits_until_open = Limits { handshake_timeout: timeout.max(limits.handshake_timeout), ..limits };
        let channel = Arc::new(Channel::new(io.clone(), socket.clone(), tls, peer, limits_until_open, features)?);
        let incoming = Incoming::new(receiver, limits.max_head_bytes);
        io.tell(Command::Add(Entry::new(channel.clone(), socket, incoming, false)));
        match channel.wait_open(patience.deadline, timeout, cancel) {
            Ok(()) => Ok(Connection(End::Socket(channel))),
            Err(why) => {
                channel.abandon(why.clone());
                Err(why)
            }
        }
    }
}

fn connect_unix(at: &SocketAddrUnix, patience: &Patience<'_>) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| NetError::resource("socket", e))?;
    loop {
        match rustix::net::connect(&fd, at) {
            Ok(()) => return Ok(fd),
            // Too many wait there already.
            Err(Errno::AGAIN | Errno::INTR) => {
                patience.check()?;
                std::thread::sleep(CANCEL_INTERVAL);
            }
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(patience.nobody_listens()),
            Err(error) => return Err(patience.unreachable(error)),
        }
    }
}

fn connect_tcp(host: &str, port: u16, patience: &Patience<'_>) -> Result<OwnedFd> {
    let mut last = patience.unreachable("the host name has no address");
    for at in resolve(host, port, patience)? {
        match connect_to(&at, patience) {
            Ok(fd) => return Ok(fd),
            Err(error @ (NetError::Interrupted | NetError::TimedOut { .. })) => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(at: &SocketAddr, patience: &Patience<'_>) -> Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|e| NetError::resource("socket", e))?;
    let refused = |e: Errno| match e {
        Errno::CONNREFUSED => patience.nobody_listens(),
        other => patience.unreachable(other),
    };
    match rustix::net::connect(&fd, at) {
        Ok(()) => return Ok(fd),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(refused(error)),
    }
    let step = Timespec { tv_sec: 0, tv_nsec: CANCEL_INTERVAL.as_nanos() as i64 };
    loop {
        match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&step)) {
            Ok(0) | Err(Errno::INTR) => patience.check()?,
            Ok(_) => break,
            Err(error) => return Err(NetError::resource("poll", error)),
        }
    }
    match rustix::net::sockopt::socket_error(&fd) {
        Ok(Ok(())) => Ok(fd),
        Ok(Err(error)) | Err(error) => Err(refused(error)),
    }
}

/// The addresses of a host. The system's resolver can be neither cancelled nor timed, so that a thread waits for it.
fn resolve(host: &str, port: u16, patience: &Patience<'_>) -> Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (found, wait) = mpsc::channel();
    let name = host.to_string();
    std::thread::Builder::new()
        .name("gt-resolve".to_string())
        .spawn(move || found.send((name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)))
        .map_err(|e| NetError::resource("thread", e))?;
    loop {
        match wait.recv_timeout(CANCEL_INTERVAL) {
            Ok(Ok(addresses)) => return Ok(addresses),
            Ok(Err(error)) => return Err(patience.unreachable(error)),
            Err(mpsc::RecvTimeoutError::Timeout) => patience.check()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(patience.unreachable("the host name lookup failed"));
            }
        }
    }
}
