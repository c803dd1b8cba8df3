//! How much a compressed buffer can hold, by its frames alone.
//!
//! FRAMES-1: what is said here is an upper bound of what a decoder gives, found without decoding: memory may be reserved for that
//!           much, and for no more.

/// Bytes that a block of a zstd frame holds at most.
const ZSTD_BLOCK_BYTES: u64 = 128 << 10;
/// A byte of LZ4 stands for 255 at most, as lengths are written in such bytes.
pub(super) const LZ4_RATIO: u64 = 255;
/// The densest block of zstd: one byte repeated, in four.
pub(super) const ZSTD_RATIO: u64 = ZSTD_BLOCK_BYTES / 4;

const LZ4_MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Takes bytes off the beginning.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    bytes.split_off(..len)
}

/// The little-endian number in the next bytes, eight at most.
fn number(bytes: &mut &[u8], len: usize) -> Option<u64> {
    Some(take(bytes, len)?.iter().rev().fold(0, |n, &b| n << 8 | b as u64))
}

/// What LZ4 frames hold at most; none where they are none.
pub(super) fn lz4_most(mut bytes: &[u8]) -> Option<u64> {
    let mut most = 0u64;
    while bytes.len() >= LZ4_MAGIC.len() {
        if take(&mut bytes, 4)? != LZ4_MAGIC {
            return None;
        }
        let (flags, sizes) = (number(&mut bytes, 1)?, number(&mut bytes, 1)?);
        let block_bytes = match sizes >> 4 & 7 {
            n @ 4..=7 => 1u64 << (8 + 2 * n),
            _ => return None,
        };
        let said = (flags & 0x08 != 0).then(|| number(&mut bytes, 8)).map_or(Some(u64::MAX), |said| said)?;
        take(&mut bytes, if flags & 0x01 != 0 { 5 } else { 1 })?;
        let mut held = 0u64;
        loop {
            let block = number(&mut bytes, 4)?;
            if block == 0 {
                break;
            }
            let (plain, len) = (block >> 31 == 1, block & 0x7FFF_FFFF);
            take(&mut bytes, len as usize)?;
            take(&mut bytes, if flags & 0x10 != 0 { 4 } else { 0 })?;
            held += if plain { len } else { block_bytes.min(len * LZ4_RATIO) };
        }
        take(&mut bytes, if flags & 0x04 != 0 { 4 } else { 0 })?;
        most = most.saturating_add(held.min(said));
    }
    Some(most)
}

/// What zstd frames hold at most; none where they are none.
pub(super) fn zstd_most(mut bytes: &[u8]) -> Option<u64> {
    let mut most = 0u64;
    while bytes.len() >= ZSTD_MAGIC.len() {
        if take(&mut bytes, 4)? != ZSTD_MAGIC {
            return None;
        }
        let flags = number(&mut bytes, 1)?;
        let single = flags & 0x20 != 0;
        take(&mut bytes, usize::from(!single) + [0, 1, 2, 4][(flags & 3) as usize])?;
        let said = match flags >> 6 {
            0 if !single => u64::MAX,
            0 => number(&mut bytes, 1)?,
            1 => number(&mut bytes, 2)? + 256,
            2 => number(&mut bytes, 4)?,
            _ => number(&mut bytes, 8)?,
        };
        let mut held = 0u64;
        loop {
            let head = number(&mut bytes, 3)?;
            let len = head >> 3;
            let (stored, gives) = match head >> 1 & 3 {
                0 => (len, len),
                1 => (1, len.min(ZSTD_BLOCK_BYTES)),
                2 => (len, ZSTD_BLOCK_BYTES),
                _ => return None,
            };
            take(&mut bytes, stored as usize)?;
            held += gives;
            if head & 1 == 1 {
                break;
            }
        }
        take(&mut bytes, if flags & 0x04 != 0 { 4 } else { 0 })?;
        most = most.saturating_add(held.min(said));
    }
    Some(most)
}
