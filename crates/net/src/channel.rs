//! What the threads that send and the I/O thread share of one connection.
//!
//! CHANNEL-1: a send tries the socket itself when nothing waits before it; otherwise the I/O thread sends, many at once.
//! CHANNEL-2: the lock is never held while a body is copied, nor while anybody waits.
//! CHANNEL-3: heads that receivers send leave at the end of the I/O thread's turn, many in one write: a server that passes on
//!            several messages wakes their worker once.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use gt_ir::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::flush::Flow;
use crate::frame::{FEATURE_SEGMENTS, FRAGMENT_BYTES, Frame};
use crate::io::{Command, IoShared};
use crate::outgoing::{Outgoing, State};
use crate::proof::{self, Nonce};
use crate::receiver::Peer;
use crate::relay::RELAY_AHEAD_BYTES;
use crate::segment::SEGMENT_BYTES;
use crate::socket::{Family, Socket};
use crate::tls::TlsStream;
use crate::{Limits, NetError, Result, loopback};

/// Bodies up to this length go through the socket at once.
pub(crate) const INLINE_BODY_BYTES: usize = 64 << 10;
/// How much may wait on the wire before a thread that writes a body waits too.
const WRITE_AHEAD_BYTES: usize = 256 << 10;
/// How much may wait for the end of a turn.
const TURN_AHEAD_BYTES: usize = 64 << 10;
/// How often a wait asks whether it should go on.
pub(crate) const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Channel {
    pub(crate) token: usize,
    pub(crate) peer: Peer,
    out: Mutex<Outgoing>,
    /// The random bytes of both sides (PROOF-1). The other side's are there when messages may be sent.
    pub(crate) nonce: Nonce,
    pub(crate) their_nonce: OnceLock<Nonce>,
    /// There is room again, or the state has changed.
    room: Condvar,
    io: Arc<IoShared>,
    max_head_bytes: AtomicU32,
    max_body_bytes: AtomicU64,
    heard_ms: AtomicU64,
    rtt_ns: AtomicU64,
    /// Somebody between the two sides passes everything on (RELAY-3).
    relayed: AtomicBool,
    /// Where everything that arrives goes, if this is what passes it on (`relay.rs`).
    pub(crate) onward: OnceLock<Weak<Channel>>,
    /// Not read, as too much waits there (RELAY-2).
    pub(crate) held: AtomicBool,
}

impl Channel {
    pub(crate) fn new(
        io: Arc<IoShared>,
        socket: Arc<Socket>,
        tls: Option<Box<TlsStream>>,
        peer: Peer,
        limits: Limits,
        features: u32,
    ) -> Result<Channel> {
        let segments = if socket.family == Family::Unix && tls.is_none() { FEATURE_SEGMENTS } else { 0 };
        let features = features | segments;
        let token = io.next_token();
        let nonce = proof::nonce()?;
        Ok(Channel {
            token,
            peer,
            out: Mutex::new(Outgoing::new((io.clone(), token), socket, tls, limits, features, nonce)),
            nonce,
            their_nonce: OnceLock::new(),
            room: Condvar::new(),
            max_head_bytes: AtomicU32::new(limits.max_head_bytes),
            max_body_bytes: AtomicU64::new(limits.max_body_bytes),
            heard_ms: AtomicU64::new(io.now_ms()),
            rtt_ns: AtomicU64::new(0),
            relayed: AtomicBool::new(false),
            onward: OnceLock::new(),
            held: AtomicBool::new(false),
            io,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.out.lock()
    }

    /// Wakes who waits for room or for a change of state.
    pub(crate) fn notify(&self) {
        self.room.notify_all();
    }

    /// CHANNEL-3 on the I/O thread, CHANNEL-1 on others.
    pub(crate) fn flush_in_turn(&self, out: &mut Outgoing) {
        if out.blocked || out.wire_bytes() > TURN_AHEAD_BYTES || !self.io.is_this_thread() {
            return self.flush(out);
        }
        if !std::mem::replace(&mut out.flushed_later, true) {
            self.io.flush_later(self.token);
        }
    }

    /// CHANNEL-1. What goes wrong is found again, and told, by the I/O thread, which also knows the other side's last words.
    fn flush(&self, out: &mut Outgoing) {
        if !out.blocked && out.flush(0).is_err() {
            out.blocked = true;
            self.io.tell(Command::Look(self.token));
        }
    }

    pub(crate) fn send(&self, head: &[u8]) -> Result<()> {
        let mut out = self.out.lock();
        out.check(head.len(), 0)?;
        out.put(Frame::Head(head));
        self.flush_in_turn(&mut out);
        Ok(())
    }

    /// Sends what follows the first `from` bytes of a body; there are as many.
    pub(crate) fn send_with_body(&self, head: &[u8], body: Bytes, from: usize) -> Result<()> {
        let mut out = self.out.lock();
        let rest = &body[from..];
        out.check(head.len(), rest.len() as u64)?;
        if rest.len() <= INLINE_BODY_BYTES
            && let Some(stream) = out.open_body(head, rest.len() as u64)
        {
            if !rest.is_empty() {
                out.put(Frame::Part { stream, bytes: rest });
            }
            out.end_body();
            self.flush_in_turn(&mut out);
            return Ok(());
        }
        out.queue_body(head, body, from)?;
        drop(out);
        self.io.tell(Command::Look(self.token));
        Ok(())
    }

    pub(crate) fn write_body(&self, head: &[u8], body: &[u8], cancel: &dyn Fn() -> bool) -> Result<()> {
        if self.io.is_this_thread() {
            return Err(NetError::OnIoThread);
        }
        let mut out = self.out.lock();
        let stream = self.wait(&mut out, cancel, |out| match out.check(head.len(), body.len() as u64) {
            Err(NetError::Full { .. }) => Ok(None),
            Err(other) => Err(other),
            Ok(()) => Ok(out.open_body(head, body.len() as u64)),
        })?;
        let written = self.write_parts(&mut out, stream, body, cancel);
        if written.is_err() {
            out.put(Frame::Abort { stream });
        }
        out.end_body();
        self.flush(&mut out);
        let more = out.has_bodies();
        drop(out);
        self.notify(); // another body may begin
        if more {
            self.io.tell(Command::Look(self.token));
        }
        written
    }

    fn write_parts(
        &self,
        out: &mut MutexGuard<'_, Outgoing>,
        stream: u32,
        body: &[u8],
        cancel: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut rest = body;
        while !rest.is_empty() {
            let through_segments = body.len() > INLINE_BODY_BYTES;
            let taken = self.wait(out, cancel, |out| {
                out.check_open()?;
                if through_segments && let Some(taken) = out.pool.take() {
                    return Ok(Some(Some(taken)));
                }
                let by_socket = !through_segments || out.pool.disabled;
                Ok((by_socket && out.wire_bytes() < WRITE_AHEAD_BYTES).then_some(None))
            })?;
            let longest = if taken.is_some() { SEGMENT_BYTES } else { FRAGMENT_BYTES };
            let (now, later) = rest.split_at(rest.len().min(longest));
            match taken {
                Some(taken) => {
                    // SAFETY: `taken` came from this connection's pool and is in no other hands (SEGMENT-3).
                    MutexGuard::unlocked(out, || unsafe { taken.segment.fill(now) });
                    out.check_open()?;
                    out.put_filled(stream, taken, now.len());
                }
                None => out.put(Frame::Part { stream, bytes: now }),
            }
            self.flush(out);
            rest = later;
        }
        Ok(())
    }

    /// Waits until `ready` gives something, with the lock open.
    fn wait<T>(
        &self,
        out: &mut MutexGuard<'_, Outgoing>,
        cancel: &dyn Fn() -> bool,
        mut ready: impl FnMut(&mut Outgoing) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut asked = Instant::now();
        loop {
            if let Some(value) = ready(out)? {
                return Ok(value);
            }
            self.room.wait_for(out, CANCEL_INTERVAL);
            // Asking may be dear (Python's signals need its lock), and room comes often.
            if asked.elapsed() >= CANCEL_INTERVAL {
                if MutexGuard::unlocked(out, cancel) {
                    return Err(NetError::Interrupted);
                }
                asked = Instant::now();
            }
        }
    }

    /// Waits until the other side has introduced itself.
    pub(crate) fn wait_open(&self, deadline: Instant, timeout: Duration, cancel: &dyn Fn() -> bool) -> Result<()> {
        let mut out = self.out.lock();
        self.wait(&mut out, cancel, |out| match &out.state {
            State::Opening if Instant::now() >= deadline => {
                Err(NetError::TimedOut { what: format!("connecting to {}", self.peer.address), after: timeout })
            }
            State::Opening => Ok(None),
            State::Closed(why) => Err(why.clone()),
            State::Open | State::Closing => Ok(Some(())),
        })
    }

    /// A turn of the I/O thread: everything on the wire, and bodies up to the budget.
    pub(crate) fn pump(&self, bodies_budget: usize) -> Result<Flow> {
        let mut out = self.out.lock();
        out.flushed_later = false;
        let mut filled = 0;
        let flow = loop {
            let flow = out.flush(bodies_budget)?;
            if flow != Flow::Done || !out.has_bodies() {
                break flow;
            }
            if filled >= bodies_budget {
                break Flow::More;
            }
            let had_segments = !out.pool.disabled;
            let Some(fill) = out.take_fill() else {
                if had_segments && out.pool.disabled {
                    continue; // there are none to be had after all: through the socket
                }
                break Flow::Done;
            };
            MutexGuard::unlocked(&mut out, || fill.copy());
            out.finish_fill(fill);
            filled += SEGMENT_BYTES;
        };
        let has_room = out.wire_bytes() <= RELAY_AHEAD_BYTES / 2;
        drop(out);
        self.notify();
        if has_room {
            self.let_read();
        }
        Ok(flow)
    }

    /// Answers of the I/O thread to frames of the other side.
    pub(crate) fn reply(&self, frame: Frame<'_>) {
        let mut out = self.out.lock();
        out.put(frame);
        self.flush(&mut out);
    }

    pub(crate) fn close(&self) {
        let mut out = self.out.lock();
        if matches!(out.state, State::Open | State::Opening) {
            out.state = State::Closing;
            drop(out);
            self.io.tell(Command::Close(self.token));
        }
    }

    pub(crate) fn abandon(&self, why: NetError) {
        self.io.tell(Command::Fail(self.token, why));
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        self.max_head_bytes.store(limits.max_head_bytes, Ordering::Relaxed);
        self.max_body_bytes.store(limits.max_body_bytes, Ordering::Relaxed);
        let mut out = self.out.lock();
        out.limits = limits;
        out.put(Frame::Allow { head: limits.max_head_bytes, body: limits.max_body_bytes });
        self.flush(&mut out);
        drop(out);
        self.io.tell(Command::Deadlines);
    }

    pub(crate) fn max_head_bytes(&self) -> u32 {
        self.max_head_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn max_body_bytes(&self) -> u64 {
        self.max_body_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_relayed(&self) -> bool {
        self.relayed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_relayed(&self) {
        self.relayed.store(true, Ordering::Relaxed);
    }

    /// The user at the other end, as far as the kernel says (`loopback.rs`).
    pub(crate) fn peer_user(&self) -> Option<u32> {
        let socket = || self.lock().socket.clone();
        self.peer.user_id.or_else(|| socket()?.ends().and_then(|(other, own)| loopback::user_of(other, own)))
    }

    pub(crate) fn io(&self) -> &Arc<IoShared> {
        &self.io
    }

    pub(crate) fn heard(&self) {
        self.heard_ms.store(self.io.now_ms(), Ordering::Relaxed);
    }

    pub(crate) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.io.now_ms().saturating_sub(self.heard_ms.load(Ordering::Relaxed)))
    }

    pub(crate) fn ping(&self) -> Result<()> {
        let mut out = self.out.lock();
        out.check(0, 0)?;
        out.put(Frame::Ping(self.io.now_ns()));
        self.flush(&mut out);
        Ok(())
    }

    /// Answers a ping, unless the other side reads so little that it would not see the answer.
    pub(crate) fn pong(&self, number: u64) {
        let mut out = self.out.lock();
        if out.wire_bytes() < WRITE_AHEAD_BYTES {
            out.put(Frame::Pong(number));
            self.flush(&mut out);
        }
    }

    pub(crate) fn note_pong(&self, number: u64) -> Duration {
        let rtt_ns = self.io.now_ns().saturating_sub(number).max(1);
        self.rtt_ns.store(rtt_ns, Ordering::Relaxed);
        Duration::from_nanos(rtt_ns)
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        match self.rtt_ns.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }
}
