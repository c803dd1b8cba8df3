//! Taking connections.
//!
//! LISTEN-1: a Unix socket is for processes of this user alone: its file has mode 0600, and the kernel is asked who connects.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::channel::Channel;
use crate::entry::Entry;
use crate::incoming::Incoming;
use crate::io::{Command, Io, IoShared};
use crate::receiver::{Peer, Receiver};
use crate::socket::{Family, Socket};
use crate::tls::ServerTls;
use crate::{Address, Limits, NetError, Result};

/// How many connections may wait to be taken.
const BACKLOG: i32 = 1024;
/// How many are taken before others have their turn.
const ACCEPT_BUDGET: usize = 64;

type Accept = Box<dyn Fn(&Peer) -> Option<Box<dyn Receiver>> + Send>;

/// A listening socket in the I/O thread's table.
pub(crate) struct Accepting {
    pub(crate) token: usize,
    fd: OwnedFd,
    family: Family,
    tls: Option<ServerTls>,
    limits: Limits,
    accept: Accept,
    /// There was no descriptor left: somebody may still be waiting.
    pub(crate) paused: bool,
}

/// Takes connections until it is dropped.
pub struct Listener {
    address: Address,
    token: usize,
    io: Arc<IoShared>,
    socket_file: Option<PathBuf>,
    process: u32,
}

impl Io {
    /// Takes connections at `address`, with TLS if given. `accept` is asked, on the I/O thread, who is to receive from
    /// each; with none the connection is closed again. A new connection is held to `limits`.
    pub fn listen(
        &self,
        address: &Address,
        tls: Option<ServerTls>,
        limits: Limits,
        accept: impl Fn(&Peer) -> Option<Box<dyn Receiver>> + Send + 'static,
    ) -> Result<Listener> {
        let unreachable = |e: Errno| {
            let reason = match e {
                Errno::ADDRINUSE => "cannot listen: the address is in use by another process".to_string(),
                e => format!("cannot listen: {e}"),
            };
            NetError::Unreachable { address: address.to_string(), reason }
        };
        let (fd, family, bound) = match address {
            Address::Unix(path) => {
                let socket = listen_unix(path).map_err(unreachable)?;
                (socket, Family::Unix, address.clone())
            }
            Address::Tcp { host, port } => {
                let reason = |e: std::io::Error| NetError::Unreachable {
                    address: address.to_string(),
                    reason: format!("cannot listen: {e}"),
                };
                let mut resolved = (host.as_str(), *port).to_socket_addrs().map_err(reason)?;
                let at = resolved.next().ok_or_else(|| unreachable(Errno::ADDRNOTAVAIL))?;
                let socket = listen_tcp(&at).map_err(unreachable)?;
                let bound = rustix::net::getsockname(&socket).map_err(unreachable)?;
                let port = SocketAddr::try_from(bound).map_err(unreachable)?.port();
                (socket, Family::Tcp, Address::Tcp { host: host.clone(), port })
            }
        };
        let io = self.shared().clone();
        let token = io.next_token();
        io.watch(fd.as_raw_fd(), token, mio::Interest::READABLE)?;
        let accept = Box::new(accept);
        io.tell(Command::Listen(Box::new(Accepting { token, fd, family, tls, limits, accept, paused: false })));
        let socket_file = match &bound {
            Address::Unix(path) => Some(path.clone()),
            Address::Tcp { .. } => None,
        };
        Ok(Listener { address: bound, token, io, socket_file, process: std::process::id() })
    }
}

fn listen_unix(path: &PathBuf) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let at = SocketAddrUnix::new(path.as_path())?;
    let fd = new()?;
    if let Err(error) = rustix::net::bind(&fd, &at) {
        // A process that was killed leaves its file behind; one that lives answers.
        if error != Errno::ADDRINUSE || rustix::net::connect(new()?, &at) != Err(Errno::CONNREFUSED) {
            return Err(error);
        }
        rustix::fs::unlink(path)?;
        rustix::net::bind(&fd, &at)?;
    }
    // Only this user may connect; nobody can before `listen`.
    rustix::fs::chmod(path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

fn listen_tcp(at: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, at)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

impl Listener {
    /// Where it listens; a port of 0 has become the one that was free.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // a forked child: the socket and its file are the parent's (IO-3)
        }
        self.io.tell(Command::StopListening(self.token));
        if let Some(path) = &self.socket_file {
            let _ = rustix::fs::unlink(path);
        }
    }
}

impl Accepting {
    /// Takes those that wait; `add` gets the ones that somebody will receive from. True if there may be more.
    pub(crate) fn accept_all(&mut self, io: &Arc<IoShared>, add: &mut dyn FnMut(Box<Entry>)) -> bool {
        self.paused = false;
        for _ in 0..ACCEPT_BUDGET {
            match rustix::net::acceptfrom_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((fd, from)) => {
                    // What fails here concerns this one connection, which is closed by being dropped.
                    if let Ok(Some(entry)) = self.welcome(io, fd, from) {
                        add(entry);
                    }
                }
                Err(Errno::AGAIN) => return false,
                // Gone before it was taken.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                // Out of descriptors or memory: it is tried again, as the edge will not come again.
                Err(_) => {
                    self.paused = true;
                    return false;
                }
            }
        }
        true
    }

    fn welcome(&self, io: &Arc<IoShared>, fd: OwnedFd, from: Option<SocketAddrAny>) -> Result<Option<Box<Entry>>> {
        let peer = match self.family {
            Family::Unix => {
                let who = sockopt::socket_peercred(&fd).map_err(|e| NetError::resource("socket", e))?;
                // The file's mode says so too, until somebody changes it (LISTEN-1).
                if who.uid.as_raw() != crate::own_user() {
                    return Ok(None);
                }
                let process = who.pid.as_raw_nonzero();
                Peer { address: format!("process {process}"), same_host: true, user_id: Some(who.uid.as_raw()) }
            }
            Family::Tcp => {
                let address = from.and_then(|a| SocketAddr::try_from(a).ok());
                let address = address.map_or_else(|| "unknown".to_string(), |a| a.to_string());
                Peer { address, same_host: false, user_id: None }
            }
        };
        let Some(receiver) = (self.accept)(&peer) else { return Ok(None) };
        let socket = Arc::new(Socket::new(fd, self.family)?);
        let tls = self.tls.as_ref().map(ServerTls::accept).transpose()?;
        let channel = Arc::new(Channel::new(io.clone(), socket.clone(), tls, peer, self.limits, 0)?);
        let incoming = Incoming::new(receiver, self.limits.max_head_bytes);
        Ok(Some(Entry::new(channel, socket, incoming, true)))
    }
}
