//! The binary form: little varints, every length checked against what is left.
//!
//! CODEC-1: decoding never panics and never allocates more than the input's own length allows.
//! CODEC-2: `decode(encode(x)) == x` for every instruction and window.

use smallvec::SmallVec;

use crate::window::Payload;
use crate::{Bytes, INSTR_BYTES, Instr, Op, OpError, Scalar, ScopeId, SiteId, TensorId, Window};

/// The most instructions of one window.
pub const MAX_WINDOW_INSTRS: usize = 1 << 20;

/// What the lists of one message may take in memory once they are decoded.
const MOST_DECODED_BYTES: usize = 256 << 20;

/// A cursor over bytes that came from outside.
///
/// READER-1: decoded, an instruction takes up to fifty times its encoded size, and a scalar sixteen times. So the memory that decoded
/// lists take is limited, not only the size of the message.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What further lists may take in memory.
    room_bytes: usize,
    most_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`. What is decoded may take as much memory as any message may.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader::within(bytes, usize::MAX)
    }

    /// The same, where what is decoded may take `most_bytes` of memory at most (READER-1).
    pub fn within(bytes: &'a [u8], most_bytes: usize) -> Self {
        let most_bytes = most_bytes.min(MOST_DECODED_BYTES);
        Reader { bytes, at: 0, room_bytes: most_bytes, most_bytes }
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, OpError> {
        let b = *self.bytes.get(self.at).ok_or_else(|| OpError::malformed("the message ends too early"))?;
        self.at += 1;
        Ok(b)
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], OpError> {
        if len > self.left() {
            return Err(OpError::malformed(format!("{len} bytes announced, but {} left", self.left())));
        }
        let out = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(out)
    }

    /// An unsigned number of at most 64 bits.
    pub fn varint(&mut self) -> Result<u64, OpError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            let bits = (b & 0x7f) as u64;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if b & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(OpError::malformed("a number exceeds 64 bits"))
    }

    /// A signed number (zigzag).
    pub fn signed(&mut self) -> Result<i64, OpError> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// The length of a list whose items take at least `item_bytes` each.
    pub fn count(&mut self, item_bytes: usize) -> Result<usize, OpError> {
        let n = self.varint()?;
        if n > (self.left() / item_bytes.max(1)) as u64 {
            return Err(OpError::malformed(format!("{n} items announced, but only {} bytes left", self.left())));
        }
        Ok(n as usize)
    }

    /// The length of a list whose items take at least `item_bytes` each in the message, and `held_bytes` in memory (READER-1).
    pub fn list(&mut self, item_bytes: usize, held_bytes: usize) -> Result<usize, OpError> {
        let n = self.count(item_bytes)?;
        self.spend(n.saturating_mul(held_bytes))?;
        Ok(n)
    }

    /// Counts memory that is about to be taken for what is decoded (READER-1).
    pub fn spend(&mut self, held_bytes: usize) -> Result<(), OpError> {
        match self.room_bytes.checked_sub(held_bytes) {
            Some(room) => {
                self.room_bytes = room;
                Ok(())
            }
            None => Err(OpError::malformed(format!("a message needs more than {} bytes of memory", self.most_bytes))),
        }
    }

    /// The number of instructions of a window.
    pub fn instr_count(&mut self, item_bytes: usize) -> Result<usize, OpError> {
        match self.list(item_bytes, INSTR_BYTES)? {
            n if n <= MAX_WINDOW_INSTRS => Ok(n),
            n => Err(OpError::malformed(format!("a window has {n} instructions; the limit is {MAX_WINDOW_INSTRS}"))),
        }
    }

    /// The length of a [`crate::Dims`].
    pub fn rank(&mut self) -> Result<usize, OpError> {
        match self.byte()? as usize {
            n if n <= crate::MAX_RANK => Ok(n),
            n => Err(OpError::malformed(format!("rank {n} exceeds the maximum of {}", crate::MAX_RANK))),
        }
    }

    fn id(&mut self) -> Result<TensorId, OpError> {
        self.varint().map(TensorId)
    }

    /// An unsigned number of at most 32 bits.
    pub fn small(&mut self) -> Result<u32, OpError> {
        u32::try_from(self.varint()?).map_err(|_| OpError::malformed("a number exceeds 32 bits"))
    }

    /// Payloads as [`put_payloads`] wrote them.
    pub fn payloads(&mut self) -> Result<Vec<Payload>, OpError> {
        let n = self.list(2, size_of::<Payload>())?;
        let mut payloads = Vec::with_capacity(n);
        for _ in 0..n {
            let instr = self.small()?;
            let len = self.count(1)?;
            payloads.push(Payload { instr, bytes: Bytes::from(self.take(len)?) });
        }
        Ok(payloads)
    }

    /// A tagged scalar.
    pub fn scalar(&mut self) -> Result<Scalar, OpError> {
        Ok(match self.byte()? {
            0 => Scalar::Bool(false),
            1 => Scalar::Bool(true),
            2 => Scalar::I64(self.signed()?),
            3 => {
                let bytes = self.take(8)?;
                Scalar::F64(f64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
            }
            tag => return Err(OpError::malformed(format!("unknown scalar tag {tag}"))),
        })
    }
}

/// Appends an unsigned number.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number (zigzag).
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

impl Scalar {
    /// Appends the binary form; [`Reader::scalar`] reads it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Scalar::Bool(b) => out.push(b as u8),
            Scalar::I64(i) => {
                out.push(2);
                put_signed(out, i);
            }
            Scalar::F64(f) => {
                out.push(3);
                out.extend_from_slice(&f.to_le_bytes());
            }
        }
    }
}

fn put_ids(out: &mut Vec<u8>, ids: &[TensorId]) {
    put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| put_varint(out, id.0));
}

impl Instr {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.op.encode(out);
        put_ids(out, &self.outs);
        put_ids(out, &self.ins);
        put_varint(out, self.scalars.len() as u64);
        self.scalars.iter().for_each(|s| s.encode(out));
        put_varint(out, self.scope.0 as u64);
        put_varint(out, self.site.0 as u64);
    }

    /// Reads the binary form.
    pub fn decode(r: &mut Reader<'_>) -> Result<Instr, OpError> {
        let op = Op::decode(r)?;
        let n = r.list(1, size_of::<TensorId>())?;
        let outs = (0..n).map(|_| r.id()).collect::<Result<SmallVec<_>, _>>()?;
        let n = r.list(1, size_of::<TensorId>())?;
        let ins = (0..n).map(|_| r.id()).collect::<Result<SmallVec<_>, _>>()?;
        let n = r.list(1, size_of::<Scalar>())?;
        let scalars = (0..n).map(|_| r.scalar()).collect::<Result<SmallVec<_>, _>>()?;
        let scope = ScopeId(r.small()?);
        let site = SiteId(r.small()?);
        Ok(Instr { op, outs, ins, scalars, scope, site })
    }

    /// Bytes of the binary form.
    pub fn encoded_len(&self) -> usize {
        let mut out = Vec::with_capacity(64);
        self.encode(&mut out);
        out.len()
    }
}

/// Appends payloads, each behind the place of its instruction.
pub fn put_payloads<'a>(out: &mut Vec<u8>, payloads: impl IntoIterator<Item = &'a Payload, IntoIter: Clone>) {
    let payloads = payloads.into_iter();
    put_varint(out, payloads.clone().count() as u64);
    for payload in payloads {
        put_varint(out, payload.instr as u64);
        put_varint(out, payload.bytes.len() as u64);
        out.extend_from_slice(&payload.bytes);
    }
}

impl Window {
    /// Appends the binary form, payloads included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.instrs.len() as u64);
        self.instrs.iter().for_each(|i| i.encode(out));
        put_payloads(out, &self.uploads);
        put_ids(out, &self.frees);
        out.push(self.eager as u8);
        out.push(self.joined as u8);
    }

    /// Reads the binary form.
    pub fn decode(r: &mut Reader<'_>) -> Result<Window, OpError> {
        let n = r.instr_count(4)?;
        let instrs = (0..n).map(|_| Instr::decode(r)).collect::<Result<Vec<_>, _>>()?;
        let uploads = r.payloads()?;
        let n = r.list(1, size_of::<TensorId>())?;
        let frees = (0..n).map(|_| r.id()).collect::<Result<Vec<_>, _>>()?;
        let eager = crate::attr::Attr::decode(r)?;
        let joined = crate::attr::Attr::decode(r)?;
        Ok(Window { instrs, uploads, frees, eager, joined, met: Vec::new() })
    }
}
