//! What arrives on one connection: frames become messages. Only the I/O thread is here.
//!
//! IN-1: whatever the other side sends, nothing but its own connection ends.
//! IN-2: a body is delivered whole; of one that is cut short the receiver is told at the end what has come.
//! IN-3: a receiver that panics loses its connection, not the thread that serves all others.
//! IN-4: no memory is taken for a body before the receiver has admitted it. One that must wait stops the reading of its connection,
//!       not of others; one that is not wanted is read and thrown away.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use gt_ir::Bytes;

use crate::assembly::Assembly;
use crate::channel::Channel;
use crate::decoder::Decoder;
use crate::frame::{FEATURE_RELAYED, FEATURE_SEGMENTS, FRAGMENT_BYTES, Frame};
use crate::outgoing::{MAX_OPEN_BODIES, State};
use crate::receiver::{Admission, Receiver};
use crate::segment::{MAX_SEGMENTS, Segment};
use crate::socket::{Moved, Socket};
use crate::spares::Spares;
use crate::{Connection, NetError, Result};

/// How much a turn may copy out of the socket or out of segments: others wait meanwhile.
const TURN_BYTES: usize = 1 << 20;

/// What a turn of reading left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing to read now; the poll tells when there is.
    Drained,
    /// The turn is over, but there may be more.
    More,
}

/// A body that has been announced.
struct Announced {
    stream: u32,
    len: u64,
    head: Vec<u8>,
}

pub(crate) struct Incoming {
    decoder: Decoder,
    bodies: BTreeMap<u32, Assembly>,
    /// How much is still to come of bodies that nobody wants.
    discarded: BTreeMap<u32, u64>,
    /// One that is not admitted yet.
    waiting: Option<Announced>,
    segments: [Option<Segment>; MAX_SEGMENTS],
    descriptors: VecDeque<OwnedFd>,
    receiver: Option<Box<dyn Receiver>>,
    pub(crate) opened: bool,
    /// The other side has ended its stream: this was the last edge, and only a read to the end finds the end.
    pub(crate) read_to_end: bool,
    /// Nothing more is delivered; what the other side releases and asks is still seen to.
    pub(crate) muted: bool,
}

impl Incoming {
    pub(crate) fn new(receiver: Box<dyn Receiver>, max_head_bytes: u32) -> Incoming {
        Incoming {
            decoder: Decoder::new(max_head_bytes),
            bodies: BTreeMap::new(),
            discarded: BTreeMap::new(),
            waiting: None,
            segments: Default::default(),
            descriptors: VecDeque::new(),
            receiver: Some(receiver),
            opened: false,
            read_to_end: false,
            muted: false,
        }
    }

    /// Reads until the socket is empty or the turn is over, and delivers what has become whole.
    pub(crate) fn read(
        &mut self,
        channel: &Channel,
        socket: &Socket,
        connection: &Connection,
        spares: &mut Spares,
    ) -> Result<Progress> {
        let encrypted = channel.lock().tls.is_some();
        let mut copied = 0;
        // Holds within this turn only: what comes later makes an edge, which begins another turn.
        let mut emptied = false;
        loop {
            // First what an earlier turn has left in the buffer.
            copied += self.frames(channel, connection, spares, TURN_BYTES.saturating_sub(copied))?;
            if copied >= TURN_BYTES {
                return Ok(Progress::More);
            }
            if emptied || channel.is_held() {
                return Ok(Progress::Drained);
            }
            let space = self.decoder.space();
            let room = space.len();
            let descriptors = self.descriptors.len();
            let moved = match encrypted.then(|| channel.lock()) {
                Some(mut out) => match out.tls.as_mut() {
                    Some(tls) => tls.receive(socket, space)?,
                    None => return Ok(Progress::Drained),
                },
                None => socket.receive(space, &mut self.descriptors)?,
            };
            let n = match moved {
                Moved::WouldBlock => return Ok(Progress::Drained),
                Moved::Bytes(0) => return Err(NetError::lost("the peer process is gone")),
                Moved::Bytes(n) => n,
            };
            self.decoder.advance(n);
            channel.heard();
            copied += n;
            // A stream socket that gave less than there was room for is empty, except that a read ends where a descriptor
            // was passed, and that TLS gives one record at a time.
            let whole = self.descriptors.len() == descriptors && !encrypted && !self.read_to_end;
            emptied = n < room && whole;
        }
    }

    /// Handles the frames in the buffer, until `budget` bytes were copied out of segments. Returns how many were.
    fn frames(
        &mut self,
        channel: &Channel,
        connection: &Connection,
        spares: &mut Spares,
        budget: usize,
    ) -> Result<usize> {
        let mut copied = 0;
        let passes_on = channel.onward();
        let onward = passes_on.as_ref().and_then(Option::as_deref).filter(|_| !self.muted);
        if let Some(announced) = self.waiting.take() {
            self.begin(announced, channel, connection, spares)?;
        }
        loop {
            if self.waiting.is_some() {
                return Ok(copied);
            }
            if copied >= budget || (passes_on.is_some() && !channel.may_read(onward)) {
                return Ok(copied);
            }
            self.decoder.set_max_head_bytes(channel.max_head_bytes());
            let Some(frame) = self.decoder.next()? else { return Ok(copied) };
            match frame {
                Frame::Greeting { features } => {
                    let mut out = channel.lock();
                    out.peer_max_head_bytes = channel.max_head_bytes();
                    out.peer_max_body_bytes = channel.max_body_bytes();
                    out.pool.disabled = !channel.peer.same_host || features & FEATURE_SEGMENTS == 0;
                    if features & FEATURE_RELAYED != 0 {
                        channel.set_relayed();
                    }
                }
                Frame::Challenge { nonce } => {
                    if channel.their_nonce.set(nonce).is_err() {
                        return Err(NetError::malformed("unexpected second challenge"));
                    }
                }
                Frame::Allow { .. } if channel.their_nonce.get().is_none() => {
                    return Err(NetError::malformed("the handshake has no challenge"));
                }
                Frame::Allow { head, body } => {
                    let mut out = channel.lock();
                    out.peer_max_head_bytes = head;
                    out.peer_max_body_bytes = body;
                    // The first one ends the introduction: from here on messages may be sent.
                    let opening = out.state == State::Opening;
                    if opening {
                        out.state = State::Open;
                    }
                    drop(out);
                    if opening {
                        self.opened = true;
                        deliver(&mut self.receiver, self.muted, |r| r.opened(connection))?;
                        channel.notify();
                    }
                }
                Frame::Close { reason: "" } => return Err(NetError::Closed),
                Frame::Close { reason } => return Err(NetError::Refused { reason: reason.to_string() }),
                _ if !self.opened => return Err(NetError::malformed("received a message before the handshake")),
                // RELAY-1. What comes when one of the two is closed goes nowhere.
                Frame::Head(_) | Frame::Open { .. } | Frame::Part { .. } | Frame::Abort { .. }
                    if passes_on.is_some() =>
                {
                    if let Some(onward) = onward {
                        onward.pass_on(&[frame]);
                    }
                }
                Frame::Filled { stream, segment, len } if passes_on.is_some() => {
                    let filled = shared(&self.segments, segment)?;
                    let mut body = Assembly::new(&[], (len as u64).min(filled.len() as u64), spares)?;
                    body.push_segment(filled, len as usize)?;
                    copied += len as usize;
                    channel.reply(Frame::Release { segment });
                    let (_, bytes) = body.finish(spares);
                    if let Some(onward) = onward {
                        let parts = bytes.chunks(FRAGMENT_BYTES).map(|bytes| Frame::Part { stream, bytes });
                        onward.pass_on(&parts.collect::<Vec<_>>());
                    }
                }
                Frame::Head(head) => deliver(&mut self.receiver, self.muted, |r| r.message(connection, head, None))?,
                Frame::Open { stream, len, head } => {
                    let limit = channel.max_body_bytes();
                    if len > limit {
                        return Err(NetError::malformed(format!("a body of {len} bytes exceeds the limit of {limit}")));
                    }
                    let is_open = self.bodies.contains_key(&stream) || self.discarded.contains_key(&stream);
                    if self.bodies.len() + self.discarded.len() >= MAX_OPEN_BODIES || is_open {
                        return Err(NetError::malformed("too many open bodies, or a body opened twice"));
                    }
                    let announced = Announced { stream, len, head: head.to_vec() };
                    self.begin(announced, channel, connection, spares)?;
                }
                Frame::Part { stream, bytes } => {
                    if discards(&mut self.discarded, stream, bytes.len())? {
                        continue;
                    }
                    assembly(&mut self.bodies, stream)?.push(bytes)?;
                    self.finish(stream, connection, spares)?;
                }
                Frame::Abort { stream } => {
                    self.bodies.remove(&stream);
                    self.discarded.remove(&stream);
                }
                Frame::Share { segment, len } => {
                    let fd = self.descriptors.pop_front();
                    let fd = fd.ok_or_else(|| {
                        NetError::malformed("a shared segment arrived without its descriptor (too many open files?)")
                    })?;
                    match self.segments.get_mut(segment as usize) {
                        Some(place @ None) => *place = Some(Segment::open(&fd, len as usize)?),
                        _ => {
                            return Err(NetError::malformed(format!(
                                "segment {segment} is already shared or out of range"
                            )));
                        }
                    }
                }
                Frame::Filled { stream, segment, len } => {
                    let filled = shared(&self.segments, segment)?;
                    if discards(&mut self.discarded, stream, len as usize)? {
                        channel.reply(Frame::Release { segment });
                        continue;
                    }
                    assembly(&mut self.bodies, stream)?.push_segment(filled, len as usize)?;
                    copied += len as usize;
                    // At once, so that the other side fills it while this one copies the next.
                    channel.reply(Frame::Release { segment });
                    self.finish(stream, connection, spares)?;
                }
                Frame::Release { segment } => {
                    channel.lock().pool.release(segment)?;
                    channel.notify();
                }
                Frame::Ping(number) => channel.pong(number),
                Frame::Pong(number) => {
                    let rtt = channel.note_pong(number);
                    deliver(&mut self.receiver, self.muted, |r| r.ponged(connection, rtt))?;
                }
            }
        }
    }

    /// A body begins, waits, or is thrown away, as the receiver says (IN-4).
    fn begin(
        &mut self,
        announced: Announced,
        channel: &Channel,
        connection: &Connection,
        spares: &mut Spares,
    ) -> Result<()> {
        let Announced { stream, len, head } = &announced;
        // Nobody takes what comes once the receiver is gone, or is told nothing more.
        let mut admission = Admission::Discard;
        deliver(&mut self.receiver, self.muted, |r| admission = r.admit(connection, head, *len))?;
        channel.held.store(matches!(admission, Admission::Wait), Ordering::Relaxed);
        match admission {
            Admission::Wait => self.waiting = Some(announced),
            Admission::Discard if *len == 0 => {}
            Admission::Discard => _ = self.discarded.insert(*stream, *len),
            Admission::Take(companion) => {
                let stream = *stream;
                let body = Assembly::new(head, *len, spares)?.accompanied_by(companion);
                self.bodies.insert(stream, body);
                self.finish(stream, connection, spares)?;
            }
        }
        Ok(())
    }

    /// Whether a body waits to be admitted.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Delivers a body if it is whole.
    fn finish(&mut self, stream: u32, connection: &Connection, spares: &mut Spares) -> Result<()> {
        if !assembly(&mut self.bodies, stream)?.is_whole() {
            return Ok(());
        }
        let Some(whole) = self.bodies.remove(&stream) else { return Ok(()) };
        let (head, body): (Vec<u8>, Bytes) = whole.finish(spares);
        deliver(&mut self.receiver, self.muted, |r| r.message(connection, &head, Some(body)))
    }

    /// Tells the receiver, if it `is_told` at all, that the connection is over, and what has come of bodies that were on their way.
    pub(crate) fn tell_closed(&mut self, is_told: bool, connection: &Connection, why: &NetError) {
        let bodies = std::mem::take(&mut self.bodies);
        let mut receiver = self.receiver.take().filter(|_| is_told);
        // A panic in here has nobody left to be told (IN-3).
        for body in bodies.values() {
            let (head, arrived) = body.so_far();
            let _ = deliver(&mut receiver, false, |r| r.cut_short(connection, head, arrived));
        }
        let _ = deliver(&mut receiver, false, |r| r.closed(connection, why));
    }

    /// Reads and throws away: true at the end of the stream.
    pub(crate) fn discard(&mut self, socket: &Socket) -> bool {
        let mut scratch = [0; 16 << 10];
        for _ in 0..16 {
            match socket.receive(&mut scratch, &mut self.descriptors) {
                Ok(Moved::Bytes(0)) | Err(_) => return true,
                Ok(Moved::Bytes(_)) => self.descriptors.clear(),
                Ok(Moved::WouldBlock) => return false,
            }
        }
        false
    }
}

fn shared(segments: &[Option<Segment>; MAX_SEGMENTS], segment: u8) -> Result<&Segment> {
    let shared = segments.get(segment as usize).and_then(Option::as_ref);
    shared.ok_or_else(|| NetError::malformed(format!("segment {segment} was never shared")))
}

fn assembly(bodies: &mut BTreeMap<u32, Assembly>, stream: u32) -> Result<&mut Assembly> {
    bodies.get_mut(&stream).ok_or_else(|| NetError::malformed(format!("body {stream} was never opened")))
}

/// Whether a part is of a body that nobody wants.
fn discards(discarded: &mut BTreeMap<u32, u64>, stream: u32, len: usize) -> Result<bool> {
    let Some(left) = discarded.get_mut(&stream) else { return Ok(false) };
    let over = || NetError::malformed("a body is longer than announced");
    *left = left.checked_sub(len as u64).ok_or_else(over)?;
    if *left == 0 {
        discarded.remove(&stream);
    }
    Ok(true)
}

/// IN-3.
fn deliver(receiver: &mut Option<Box<dyn Receiver>>, muted: bool, call: impl FnOnce(&mut dyn Receiver)) -> Result<()> {
    let Some(r) = receiver.as_deref_mut().filter(|_| !muted) else { return Ok(()) };
    catch_unwind(AssertUnwindSafe(|| call(r)))
        .map_err(|_| NetError::Internal { reason: "a message handler panicked".to_string() })
}
