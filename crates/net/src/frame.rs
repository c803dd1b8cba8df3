//! Bytes of a connection as frames, and frames as bytes.
//!
//! A connection opens with a greeting of 16 bytes each way, whose layout no version may change: eight bytes of magic, the
//! version (u16), two bytes of zero, the features (u32), all little endian. Frames follow: a kind, the length of the
//! payload (u32), the payload. The first is a challenge, the second says what this side allows.
//!
//! [`crate::Decoder`] reads them.

/// The protocol's version. Both sides must have the same.
pub const VERSION: u16 = 8;
/// Bodies may come in shared memory.
pub const FEATURE_SEGMENTS: u32 = 1;
/// This side passes on what somebody else says.
pub const FEATURE_RELAYED: u32 = 2;

pub(crate) const MAGIC: [u8; 8] = *b"\x93GT\r\n\x1a\n\0";
pub(crate) const GREETING_BYTES: usize = 16;
pub(crate) const HEADER_BYTES: usize = 5;
/// The longest stretch of a body in one frame: what a head may have to wait for.
pub(crate) const FRAGMENT_BYTES: usize = 64 << 10;
/// The longest reason that a closing side may give.
pub(crate) const MAX_REASON_BYTES: usize = 1 << 10;

/// What one side says to the other.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The greeting: the version was this side's.
    Greeting {
        /// What the other side can do.
        features: u32,
    },
    /// A message with no body.
    Head(&'a [u8]),
    /// A message whose body comes in parts.
    Open {
        /// Names the body in its parts.
        stream: u32,
        /// Length of the body.
        len: u64,
        /// The head.
        head: &'a [u8],
    },
    /// The next bytes of a body.
    Part {
        /// Which body.
        stream: u32,
        /// Some of the part's bytes, as many as have arrived.
        bytes: &'a [u8],
    },
    /// The rest of a body will not come; the message is void.
    Abort {
        /// Which body.
        stream: u32,
    },
    /// A segment of shared memory; its descriptor comes beside the frame.
    Share {
        /// Number of the segment.
        segment: u8,
        /// Its length.
        len: u32,
    },
    /// The next bytes of a body lie at the start of a segment.
    Filled {
        /// Which body.
        stream: u32,
        /// Which segment.
        segment: u8,
        /// How many bytes.
        len: u32,
    },
    /// A segment was read and may be filled again.
    Release {
        /// Which segment.
        segment: u8,
    },
    /// Asks for a pong with the same number.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
    /// What the side that says so takes from now on.
    Allow {
        /// Longest head.
        head: u32,
        /// Longest body.
        body: u64,
    },
    /// Random bytes of the side that says so, for proofs on this connection (PROOF-1).
    Challenge {
        /// The bytes.
        nonce: [u8; 32],
    },
    /// The last frame of a side.
    Close {
        /// Why; empty for a goodbye.
        reason: &'a str,
    },
}

pub(crate) const HEAD: u8 = 1;
pub(crate) const OPEN: u8 = 2;
pub(crate) const PART: u8 = 3;
pub(crate) const ABORT: u8 = 4;
pub(crate) const SHARE: u8 = 5;
pub(crate) const FILLED: u8 = 6;
pub(crate) const RELEASE: u8 = 7;
pub(crate) const PING: u8 = 8;
pub(crate) const PONG: u8 = 9;
pub(crate) const ALLOW: u8 = 10;
pub(crate) const CLOSE: u8 = 11;
pub(crate) const CHALLENGE: u8 = 12;

/// The greeting of this side.
pub(crate) fn greeting(version: u16, features: u32) -> [u8; GREETING_BYTES] {
    let mut out = [0; GREETING_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&version.to_le_bytes());
    out[12..].copy_from_slice(&features.to_le_bytes());
    out
}

/// The start of a part of `len` bytes.
pub(crate) fn part_header(stream: u32, len: usize) -> [u8; HEADER_BYTES + 4] {
    let mut out = [0; HEADER_BYTES + 4];
    out[0] = PART;
    out[1..5].copy_from_slice(&(len as u32 + 4).to_le_bytes());
    out[5..].copy_from_slice(&stream.to_le_bytes());
    out
}

impl Frame<'_> {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        fn put(out: &mut Vec<u8>, kind: u8, fields: &[&[u8]]) {
            let len: usize = fields.iter().map(|f| f.len()).sum();
            out.reserve(HEADER_BYTES + len);
            out.push(kind);
            out.extend_from_slice(&(len as u32).to_le_bytes());
            fields.iter().for_each(|f| out.extend_from_slice(f));
        }
        match *self {
            Frame::Greeting { features } => out.extend_from_slice(&greeting(VERSION, features)),
            Frame::Head(head) => put(out, HEAD, &[head]),
            Frame::Open { stream, len, head } => put(out, OPEN, &[&stream.to_le_bytes(), &len.to_le_bytes(), head]),
            Frame::Part { stream, bytes } => put(out, PART, &[&stream.to_le_bytes(), bytes]),
            Frame::Abort { stream } => put(out, ABORT, &[&stream.to_le_bytes()]),
            Frame::Share { segment, len } => put(out, SHARE, &[&[segment], &len.to_le_bytes()]),
            Frame::Filled { stream, segment, len } => {
                put(out, FILLED, &[&stream.to_le_bytes(), &[segment], &len.to_le_bytes()])
            }
            Frame::Release { segment } => put(out, RELEASE, &[&[segment]]),
            Frame::Ping(number) => put(out, PING, &[&number.to_le_bytes()]),
            Frame::Pong(number) => put(out, PONG, &[&number.to_le_bytes()]),
            Frame::Allow { head, body } => put(out, ALLOW, &[&head.to_le_bytes(), &body.to_le_bytes()]),
            Frame::Challenge { nonce } => put(out, CHALLENGE, &[&nonce]),
            Frame::Close { reason } => {
                let end = (0..=reason.len().min(MAX_REASON_BYTES)).rev().find(|&i| reason.is_char_boundary(i));
                put(out, CLOSE, &[&reason.as_bytes()[..end.unwrap_or(0)]])
            }
        }
    }
}
