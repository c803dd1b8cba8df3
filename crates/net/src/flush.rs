//! How what waits on a connection leaves it: plainly, or through TLS.

use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd};

use mio::Interest;

use crate::NetError;
use crate::frame::{FRAGMENT_BYTES, Frame, part_header};
use crate::outgoing::Outgoing;
use crate::socket::{Family, Moved, Socket};

/// A wire that was this long gives its memory back once it is empty.
const KEPT_WIRE_BYTES: usize = 1 << 20;

/// What a flush left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Nothing.
    Done,
    /// The socket takes no more now.
    Blocked,
    /// Bodies that have had their turns for now.
    More,
}

impl Outgoing {
    /// Hands what waits to the socket. `bodies_budget` is how many bytes of bodies may go before others have their turn;
    /// only the I/O thread gives one (OUT-3).
    pub(crate) fn flush(&mut self, bodies_budget: usize) -> Result<Flow, NetError> {
        let Some(socket) = self.socket.clone() else { return Ok(Flow::Done) };
        let flow = match self.tls.is_some() {
            true => self.flush_tls(&socket, bodies_budget),
            false => self.flush_plain(&socket, bodies_budget),
        };
        self.blocked = matches!(flow, Ok(Flow::Blocked));
        if flow.is_ok() && socket.family == Family::Unix && self.awaits_room != self.blocked {
            self.await_room(&socket)?;
        }
        flow
    }

    /// OUT-5.
    fn await_room(&mut self, socket: &Socket) -> Result<(), NetError> {
        let interest = match self.blocked {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        let asked = self.poll.watch_again(socket.as_raw_fd(), self.token, interest);
        match asked {
            Ok(()) => self.awaits_room = self.blocked,
            // A connection that has ended is not watched any more.
            Err(_) if !self.blocked => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn flush_plain(&mut self, socket: &Socket, bodies_budget: usize) -> Result<Flow, NetError> {
        let mut bodies_sent = 0;
        loop {
            let (mut len, mut share) = (self.wire_bytes(), None);
            for (at, fd) in &self.shares {
                if *at == self.position {
                    share = Some(fd.as_fd());
                } else {
                    len = (at - self.position) as usize;
                    break;
                }
            }
            let mut next = None;
            if self.shares.is_empty()
                && self.pool.disabled
                && let Some(body) = self.bodies.front()
                && bodies_budget > 0
            {
                if bodies_sent >= bodies_budget {
                    return Ok(Flow::More);
                }
                let end = body.bytes.len().min(body.sent + FRAGMENT_BYTES);
                next = Some((part_header(body.stream, end - body.sent), &body.bytes[body.sent..end]));
            }
            if len == 0 && next.is_none() {
                self.tidy();
                return Ok(Flow::Done);
            }
            let wire = &self.wire[self.written..self.written + len];
            let (header, part) = next.as_ref().map_or((&[][..], &[][..]), |(header, part)| (&header[..], *part));
            let slices = [IoSlice::new(wire), IoSlice::new(header), IoSlice::new(part)];
            let sent = match socket.send(&slices, share)? {
                Moved::WouldBlock => return Ok(Flow::Blocked),
                Moved::Bytes(sent) => sent,
            };
            // What of a fragment has begun to leave must end before anything else may (OUT-1).
            let mut rest = Vec::new();
            let mut turn = 0;
            if sent > len {
                let of_fragment = sent - len;
                rest.extend_from_slice(header.get(of_fragment..).unwrap_or(&[]));
                rest.extend_from_slice(part.get(of_fragment.saturating_sub(header.len())..).unwrap_or(&[]));
                turn = part.len();
            }
            if share.is_some() {
                self.shares.pop_front();
            }
            self.left(sent.min(len));
            if turn > 0 {
                self.tidy();
                self.position += (sent - len) as u64;
                self.wire.extend_from_slice(&rest);
                bodies_sent += turn;
                if let Some(mut body) = self.bodies.pop_front() {
                    body.sent += turn;
                    self.after_turn(body, turn);
                }
            }
        }
    }

    fn flush_tls(&mut self, socket: &Socket, bodies_budget: usize) -> Result<Flow, NetError> {
        let mut bodies_sent = 0;
        loop {
            let Some(tls) = self.tls.as_mut() else { return Ok(Flow::Done) };
            if let Moved::WouldBlock = tls.flush(socket)? {
                return Ok(Flow::Blocked);
            }
            if self.wire.len() > self.written {
                // What TLS holds goes before later heads, so it is given little at a time.
                let end = self.wire.len().min(self.written + FRAGMENT_BYTES);
                let taken = tls.connection().writer().write(&self.wire[self.written..end]).map_err(NetError::lost)?;
                if taken == 0 {
                    return Ok(Flow::Done); // the handshake is not over: what comes next for it is read first
                }
                self.left(taken);
                continue;
            }
            self.tidy();
            if bodies_budget == 0 {
                return Ok(Flow::Done);
            }
            let Some(mut body) = self.bodies.pop_front() else { return Ok(Flow::Done) };
            if bodies_sent >= bodies_budget {
                self.bodies.push_front(body);
                return Ok(Flow::More);
            }
            let end = body.bytes.len().min(body.sent + FRAGMENT_BYTES);
            let turn = end - body.sent;
            self.put(Frame::Part { stream: body.stream, bytes: &body.bytes[body.sent..end] });
            bodies_sent += turn;
            body.sent = end;
            self.after_turn(body, turn);
        }
    }

    /// `len` bytes of the wire have left.
    fn left(&mut self, len: usize) {
        self.written += len;
        self.position += len as u64;
        // A reader that is always a little behind must not make the wire grow for ever.
        if self.written >= KEPT_WIRE_BYTES && self.written >= self.wire.len() / 2 {
            self.wire.drain(..self.written);
            self.written = 0;
        }
    }

    /// Makes an empty wire start at the front again.
    fn tidy(&mut self) {
        if self.written == self.wire.len() {
            self.wire.clear();
            self.written = 0;
            if self.wire.capacity() > KEPT_WIRE_BYTES {
                self.wire = Vec::new();
            }
        }
    }
}
