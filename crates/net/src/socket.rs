//! A non-blocking socket: bytes, and descriptors beside them where the family can.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown,
};

use crate::NetError;
use crate::segment::MAX_SEGMENTS;

/// Which kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Unix,
    Tcp,
}

/// A connected stream socket that never blocks.
pub(crate) struct Socket {
    fd: OwnedFd,
    pub(crate) family: Family,
}

/// What a call to the socket gave.
pub(crate) enum Moved {
    /// So many bytes; for a read, 0 is the end of the stream.
    Bytes(usize),
    /// Nothing now; the poll tells when.
    WouldBlock,
}

fn moved(result: rustix::io::Result<usize>) -> Result<Moved, NetError> {
    match result {
        Ok(n) => Ok(Moved::Bytes(n)),
        Err(Errno::AGAIN) => Ok(Moved::WouldBlock),
        Err(error) => Err(NetError::lost(error)),
    }
}

impl Socket {
    /// The other end of a TCP connection, and this one.
    pub(crate) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (other, own) = (rustix::net::getpeername(&self.fd).ok()??, rustix::net::getsockname(&self.fd).ok()?);
        Some((other.try_into().ok()?, own.try_into().ok()?))
    }

    /// Takes a connected socket and makes it non-blocking and prompt.
    pub(crate) fn new(fd: OwnedFd, family: Family) -> Result<Socket, NetError> {
        use rustix::net::sockopt;
        let set = || -> rustix::io::Result<()> {
            rustix::io::ioctl_fionbio(&fd, true)?;
            if family == Family::Tcp {
                sockopt::set_tcp_nodelay(&fd, true)?;
                // A host that is gone is noticed in a minute, not in the two hours of the system's own setting.
                sockopt::set_socket_keepalive(&fd, true)?;
                sockopt::set_tcp_keepidle(&fd, Duration::from_secs(30))?;
                sockopt::set_tcp_keepintvl(&fd, Duration::from_secs(10))?;
                sockopt::set_tcp_keepcnt(&fd, 3)?;
            }
            Ok(())
        };
        set().map_err(|e| NetError::resource("socket", e))?;
        Ok(Socket { fd, family })
    }

    /// Sends what fits. `share` goes with the first byte; it was sent if any byte was.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], share: Option<BorrowedFd<'_>>) -> Result<Moved, NetError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = share.map(|fd| [fd]);
        if let Some(fds) = &fds
            && !control.push(SendAncillaryMessage::ScmRights(fds))
        {
            return Err(NetError::Internal { reason: "no space for a descriptor in the control message".into() });
        }
        // A process that uses GT as a library may not have SIGPIPE ignored.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        moved(rustix::io::retry_on_intr(|| rustix::net::sendmsg(&self.fd, slices, &mut control, flags)))
    }

    /// Receives what there is; descriptors that came beside it go to `shared`.
    pub(crate) fn receive(&self, into: &mut [u8], shared: &mut VecDeque<OwnedFd>) -> Result<Moved, NetError> {
        if self.family == Family::Tcp {
            return moved(rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.fd, &mut *into, RecvFlags::DONTWAIT).map(|(n, _)| n)
            }));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SEGMENTS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let result = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(&self.fd, &mut [IoSliceMut::new(into)], &mut control, flags).map(|m| m.bytes)
        });
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                shared.extend(fds);
            }
        }
        if shared.len() > MAX_SEGMENTS {
            shared.clear();
            return Err(NetError::malformed("too many descriptors were passed"));
        }
        moved(result)
    }

    /// Tells the other side that no more will come; reading goes on.
    pub(crate) fn finish_sending(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl std::os::fd::AsRawFd for Socket {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}
