//! What waits to leave on one connection.
//!
//! Heads and small frames are bytes on the `wire`. Large bodies take turns beside it: each turn puts one fragment into the
//! socket, or one chunk into a segment, behind whatever heads have come meanwhile.
//!
//! OUT-1: bytes leave in the order in which they were put on the wire, and no frame is cut by another.
//! OUT-2: a body has one fragment per turn, so that a head waits for one fragment at most, and bodies share alike.
//! OUT-3: when something waits, somebody will look: the socket would block, and the poll tells the I/O thread; or the I/O
//!        thread has been told, or has put it off to the end of its turn; or all segments are with the other side, whose release is awaited.
//! OUT-4: a descriptor leaves with the first byte of the frame that announces it.
//! OUT-5: the poll is asked for room in a Unix socket only while one would block: such a socket tells of room each time its
//!        reader reads, so that every message sent would wake the I/O thread for nothing.
//!
//! How it leaves is in `flush.rs`.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gt_ir::Bytes;

use crate::frame::Frame;
use crate::io::IoShared;
use crate::proof::Nonce;
use crate::segment::{SEGMENT_BYTES, SegmentPool, Taken};
use crate::socket::Socket;
use crate::tls::TlsStream;
use crate::{Limits, NetError};

/// How many bodies a side may have begun and not ended. The other side checks it.
pub(crate) const MAX_OPEN_BODIES: usize = 32;

/// How far a connection is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// The greeting of the other side has not come yet.
    Opening,
    /// Messages go both ways.
    Open,
    /// Closed on this side; what waits is still sent.
    Closing,
    /// Over.
    Closed(NetError),
}

/// A body that has begun.
pub(crate) struct QueuedBody {
    pub(crate) stream: u32,
    pub(crate) bytes: Bytes,
    pub(crate) sent: usize,
}

/// A turn of a body that goes through a segment: copied by the caller with no lock held.
pub(crate) struct Fill {
    body: QueuedBody,
    taken: Taken,
    len: usize,
}

impl Fill {
    pub(crate) fn copy(&self) {
        // SAFETY: `taken` came from this connection's pool and is in no other hands (SEGMENT-3).
        unsafe { self.taken.segment.fill(&self.body.bytes[self.body.sent..self.body.sent + self.len]) }
    }
}

pub(crate) struct Outgoing {
    pub(crate) state: State,
    pub(crate) socket: Option<Arc<Socket>>,
    pub(crate) tls: Option<Box<TlsStream>>,
    pub(crate) wire: Vec<u8>,
    pub(crate) written: usize,
    /// How many bytes of the wire have left since the connection began.
    pub(crate) position: u64,
    /// Descriptors and the positions of their frames (OUT-4).
    pub(crate) shares: VecDeque<(u64, OwnedFd)>,
    /// Bodies that have begun, in turns.
    pub(crate) bodies: VecDeque<QueuedBody>,
    /// Bodies that will begin when others have ended, and how much of each is not sent.
    unopened: VecDeque<(Vec<u8>, Bytes, usize)>,
    body_bytes: u64,
    open_bodies: usize,
    next_stream: u32,
    pub(crate) pool: SegmentPool,
    pub(crate) blocked: bool,
    /// The I/O thread will flush at the end of its turn.
    pub(crate) flushed_later: bool,
    /// Whom to ask for room, under which name, and whether that has been done (OUT-5).
    pub(crate) poll: Arc<IoShared>,
    pub(crate) token: usize,
    pub(crate) awaits_room: bool,
    pub(crate) limits: Limits,
    pub(crate) peer_max_head_bytes: u32,
    pub(crate) peer_max_body_bytes: u64,
    said_goodbye: bool,
}

impl Outgoing {
    pub(crate) fn new(
        (poll, token): (Arc<IoShared>, usize),
        socket: Arc<Socket>,
        tls: Option<Box<TlsStream>>,
        limits: Limits,
        features: u32,
        nonce: Nonce,
    ) -> Outgoing {
        let mut wire = Vec::with_capacity(256);
        Frame::Greeting { features }.encode(&mut wire);
        Frame::Challenge { nonce }.encode(&mut wire);
        Frame::Allow { head: limits.max_head_bytes, body: limits.max_body_bytes }.encode(&mut wire);
        Outgoing {
            state: State::Opening,
            socket: Some(socket),
            tls,
            wire,
            written: 0,
            position: 0,
            shares: VecDeque::new(),
            bodies: VecDeque::new(),
            unopened: VecDeque::new(),
            body_bytes: 0,
            open_bodies: 0,
            next_stream: 0,
            pool: SegmentPool::disabled(),
            blocked: false,
            flushed_later: false,
            poll,
            token,
            // As the I/O thread first has it watched.
            awaits_room: true,
            limits,
            peer_max_head_bytes: 0,
            peer_max_body_bytes: 0,
            said_goodbye: false,
        }
    }

    /// Bytes on the wire that the socket has not taken.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.wire.len() - self.written
    }

    /// Everything that waits, bodies included.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.wire_bytes() as u64 + self.body_bytes
    }

    /// Whether a message can be taken at all.
    pub(crate) fn check_open(&self) -> Result<(), NetError> {
        match &self.state {
            State::Open => Ok(()),
            State::Opening => Err(NetError::Internal { reason: "the connection is not open yet".into() }),
            State::Closing => Err(NetError::ClosedHere),
            State::Closed(why) => Err(why.clone()),
        }
    }

    /// Whether a message of such lengths can be taken now.
    pub(crate) fn check(&self, head: usize, body: u64) -> Result<(), NetError> {
        self.check_open()?;
        let too_large = |what, bytes, limit| Err(NetError::TooLarge { what, bytes, limit });
        if head as u64 > self.peer_max_head_bytes as u64 {
            return too_large("head", head as u64, self.peer_max_head_bytes as u64);
        }
        if body > self.peer_max_body_bytes {
            return too_large("body", body, self.peer_max_body_bytes);
        }
        if self.wire_bytes() + head > self.limits.max_queued_bytes {
            return Err(NetError::Full { queued_bytes: self.queued_bytes() });
        }
        Ok(())
    }

    /// Puts a frame on the wire.
    pub(crate) fn put(&mut self, frame: Frame<'_>) {
        frame.encode(&mut self.wire);
    }

    /// Begins a body, when not too many have begun already; its parts follow by its number.
    pub(crate) fn open_body(&mut self, head: &[u8], len: u64) -> Option<u32> {
        if self.open_bodies >= self.most_open_bodies() {
            return None;
        }
        self.open_bodies += 1;
        let stream = self.next_stream;
        self.next_stream = self.next_stream.wrapping_add(1);
        self.put(Frame::Open { stream, len, head });
        Some(stream)
    }

    fn most_open_bodies(&self) -> usize {
        self.limits.open_bodies.clamp(1, MAX_OPEN_BODIES)
    }

    /// A body has ended, or was given up.
    pub(crate) fn end_body(&mut self) {
        self.open_bodies -= 1;
        while self.open_bodies < self.most_open_bodies()
            && let Some((head, bytes, from)) = self.unopened.pop_front()
        {
            self.begin(&head, bytes, from);
        }
    }

    fn begin(&mut self, head: &[u8], bytes: Bytes, from: usize) {
        if let Some(stream) = self.open_body(head, (bytes.len() - from) as u64) {
            self.bodies.push_back(QueuedBody { stream, bytes, sent: from });
        }
    }

    /// Queues what follows the first `from` bytes of a body: it takes turns.
    pub(crate) fn queue_body(&mut self, head: &[u8], bytes: Bytes, from: usize) -> Result<(), NetError> {
        let (waiting, len) = (self.body_bytes, (bytes.len() - from) as u64);
        if waiting > 0 && waiting.saturating_add(len) > self.limits.max_queued_body_bytes {
            return Err(NetError::Full { queued_bytes: self.queued_bytes() });
        }
        self.body_bytes += len;
        match self.open_bodies < self.most_open_bodies() {
            true => self.begin(head, bytes, from),
            false => self.unopened.push_back((head.to_vec(), bytes, from)),
        }
        Ok(())
    }

    /// Whether bodies wait for their turns.
    pub(crate) fn has_bodies(&self) -> bool {
        !self.bodies.is_empty() || !self.unopened.is_empty()
    }

    /// Announces a filled segment, and the segment itself where the other side has not seen it.
    pub(crate) fn put_filled(&mut self, stream: u32, taken: Taken, len: usize) {
        if let Some(fd) = taken.share {
            self.shares.push_back((self.position + self.wire_bytes() as u64, fd));
            self.put(Frame::Share { segment: taken.index, len: SEGMENT_BYTES as u32 });
        }
        self.put(Frame::Filled { stream, segment: taken.index, len: len as u32 });
    }

    /// The next turn of a body that goes through a segment, if a segment is free.
    pub(crate) fn take_fill(&mut self) -> Option<Fill> {
        if self.bodies.is_empty() {
            return None;
        }
        let taken = self.pool.take()?;
        let body = self.bodies.pop_front()?;
        let len = (body.bytes.len() - body.sent).min(SEGMENT_BYTES);
        Some(Fill { body, taken, len })
    }

    /// A turn was copied.
    pub(crate) fn finish_fill(&mut self, fill: Fill) {
        let Fill { mut body, taken, len } = fill;
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        self.put_filled(body.stream, taken, len);
        body.sent += len;
        self.after_turn(body, len);
    }

    /// A body has had a turn of `len` bytes.
    pub(crate) fn after_turn(&mut self, body: QueuedBody, len: usize) {
        self.body_bytes -= len as u64;
        match body.sent == body.bytes.len() {
            true => self.end_body(),
            false => self.bodies.push_back(body),
        }
    }

    /// Ends sending: bodies are dropped, what is on the wire may still leave, and then the reason.
    pub(crate) fn fail(&mut self, why: NetError, say: Option<&str>) {
        self.bodies.clear();
        self.unopened.clear();
        self.body_bytes = 0;
        // The first reason is the true one: what follows are its consequences.
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(why);
        }
        if let Some(reason) = say {
            self.goodbye(reason);
        }
    }

    /// Says the last word, once.
    pub(crate) fn goodbye(&mut self, reason: &str) {
        if !self.said_goodbye {
            self.said_goodbye = true;
            self.put(Frame::Close { reason });
        }
    }

    /// Gives the socket and everything that waits back to the system.
    pub(crate) fn release(&mut self) {
        self.socket = None;
        self.tls = None;
        self.pool = SegmentPool::disabled();
        self.shares.clear();
        (self.wire, self.written) = (Vec::new(), 0);
    }
}
