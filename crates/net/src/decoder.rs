//! What a socket gives, turned into frames.
//!
//! FRAME-1: no input panics; what is wrong is an error that ends the connection, and nothing after it is read.
//! FRAME-2: a length is checked against the limit of its kind before anything waits for or makes room for its bytes.
//! FRAME-3: the buffer at most doubles when it is filling with bytes that did arrive: a stated length reserves nothing.
//! FRAME-4: the bytes of a body are handed on as they come; only heads and fixed frames wait until they are whole.

use crate::NetError;
use crate::frame::*;
use crate::proof::NONCE_BYTES;

/// The longest stretch of a body that is accepted in one frame.
const MAX_FRAGMENT_BYTES: usize = 1 << 20;
const FIRST_READ_BYTES: usize = 8 << 10;
const READ_BYTES: usize = 128 << 10;

/// Turns what a socket gives, in whatever pieces, into frames.
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read filled all the room it was given.
    filled: bool,
    greeted: bool,
    /// The body that a part belongs to, and how many of the part's bytes are still to come.
    part: Option<(u32, usize)>,
    max_head_bytes: u32,
}

impl Decoder {
    /// Expects a greeting, then frames with heads of at most `max_head_bytes`.
    pub fn new(max_head_bytes: u32) -> Decoder {
        Decoder { buffer: Vec::new(), start: 0, end: 0, filled: false, greeted: false, part: None, max_head_bytes }
    }

    /// Changes the longest head taken.
    pub fn set_max_head_bytes(&mut self, max_head_bytes: u32) {
        self.max_head_bytes = max_head_bytes;
    }

    /// Room for bytes from the socket; never empty. [`Decoder::advance`] says how many were put there.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > 4 * READ_BYTES {
                self.buffer = Vec::new();
            }
        } else if self.start > 0 && self.buffer.len() - self.end < self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // A connection that says little keeps a small buffer; one that fills it gets a larger one.
        let full = self.buffer.len() - self.end < self.buffer.len() / 4;
        if full || self.buffer.is_empty() || (self.filled && self.buffer.len() < READ_BYTES) {
            let len = (2 * self.buffer.len()).max(FIRST_READ_BYTES);
            self.buffer.resize(len, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `len` bytes were put into [`Decoder::space`].
    pub fn advance(&mut self, len: usize) {
        debug_assert!(self.end + len <= self.buffer.len());
        self.end += len;
        self.filled = self.end == self.buffer.len();
    }

    /// The next frame, or none until more bytes arrive.
    #[allow(clippy::should_implement_trait)] // lends from itself, which an iterator cannot
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, NetError> {
        let waiting = self.end - self.start;
        if !self.greeted {
            return self.greeting();
        }
        if let Some((stream, left)) = self.part {
            let len = left.min(waiting);
            if len == 0 {
                return Ok(None);
            }
            self.part = (left > len).then_some((stream, left - len));
            let bytes = self.take(len);
            return Ok(Some(Frame::Part { stream, bytes }));
        }
        let Some(&[kind, a, b, c, d]) = self.buffer[self.start..self.end].first_chunk() else { return Ok(None) };
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        self.check(kind, len)?;
        if kind == PART {
            if waiting < HEADER_BYTES + 4 {
                return Ok(None);
            }
            self.take(HEADER_BYTES);
            let stream = Fields(self.take(4)).u32()?;
            self.part = (len > 4).then_some((stream, len - 4));
            // An empty part is of no use, but it does no harm either: each costs its sender nine bytes.
            return if len > 4 { self.next() } else { Ok(Some(Frame::Part { stream, bytes: &[] })) };
        }
        if waiting < HEADER_BYTES + len {
            return Ok(None);
        }
        self.take(HEADER_BYTES);
        parse(kind, self.take(len)).map(Some)
    }

    fn take(&mut self, len: usize) -> &[u8] {
        self.start += len;
        &self.buffer[self.start - len..self.start]
    }

    fn greeting(&mut self) -> Result<Option<Frame<'_>>, NetError> {
        let bytes = &self.buffer[self.start..self.end];
        if bytes.iter().zip(&MAGIC).any(|(a, b)| a != b) {
            let said = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).escape_debug().to_string();
            return Err(NetError::NotGt { reason: format!("it starts with \"{said}\"") });
        }
        if bytes.len() < GREETING_BYTES {
            return Ok(None);
        }
        let theirs = u16::from_le_bytes([bytes[8], bytes[9]]);
        let features = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        if theirs != VERSION {
            return Err(NetError::Version { ours: VERSION, theirs });
        }
        self.greeted = true;
        self.take(GREETING_BYTES);
        Ok(Some(Frame::Greeting { features }))
    }

    /// FRAME-2.
    fn check(&self, kind: u8, len: usize) -> Result<(), NetError> {
        let head = self.max_head_bytes as usize;
        let allowed = match kind {
            HEAD => 0..=head,
            OPEN => 12..=head.saturating_add(12),
            PART => 4..=MAX_FRAGMENT_BYTES + 4,
            ABORT => 4..=4,
            SHARE => 5..=5,
            FILLED => 9..=9,
            RELEASE => 1..=1,
            PING | PONG => 8..=8,
            ALLOW => 12..=12,
            CHALLENGE => NONCE_BYTES..=NONCE_BYTES,
            CLOSE => 0..=MAX_REASON_BYTES,
            _ => return Err(NetError::malformed(format!("unknown frame kind {kind}"))),
        };
        match allowed.contains(&len) {
            true => Ok(()),
            false => Err(NetError::malformed(format!(
                "a frame of kind {kind} announces {len} bytes, but {} to {} are allowed",
                allowed.start(),
                allowed.end()
            ))),
        }
    }
}

/// A payload whose length [`Decoder::check`] has passed.
fn parse(kind: u8, payload: &[u8]) -> Result<Frame<'_>, NetError> {
    let mut f = Fields(payload);
    Ok(match kind {
        HEAD => Frame::Head(payload),
        OPEN => Frame::Open { stream: f.u32()?, len: f.u64()?, head: f.0 },
        ABORT => Frame::Abort { stream: f.u32()? },
        SHARE => Frame::Share { segment: f.u8()?, len: f.u32()? },
        FILLED => Frame::Filled { stream: f.u32()?, segment: f.u8()?, len: f.u32()? },
        RELEASE => Frame::Release { segment: f.u8()? },
        PING => Frame::Ping(f.u64()?),
        PONG => Frame::Pong(f.u64()?),
        ALLOW => Frame::Allow { head: f.u32()?, body: f.u64()? },
        CHALLENGE => Frame::Challenge { nonce: f.array()? },
        CLOSE => {
            let reason =
                std::str::from_utf8(payload).map_err(|_| NetError::malformed("a close reason is not UTF-8 text"))?;
            Frame::Close { reason }
        }
        _ => return Err(NetError::malformed(format!("unknown frame kind {kind}"))),
    })
}

/// Reads the numbers of a payload one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NetError> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(|| NetError::malformed("a frame ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }
    fn u8(&mut self) -> Result<u8, NetError> {
        self.array::<1>().map(|[b]| b)
    }
    fn u32(&mut self) -> Result<u32, NetError> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, NetError> {
        self.array().map(u64::from_le_bytes)
    }
}
