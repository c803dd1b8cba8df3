//! Sizes of blocks: classes an eighth apart, and what the system is asked for.

use std::alloc::{Layout as Block, LayoutError};

/// Where blocks start: a cache line, and the widest vector.
pub(super) const ALIGN: usize = 64;

/// The distance of the places in a page where large blocks start, one after the other. A loop over several blocks that were a line
/// apart there would wait at each load for the store before it, whose address ends alike; over blocks at the same place of
/// everything it would find their lines in one another's way. Either takes twice as long.
pub(super) const APART: usize = 1024;
pub(super) const PAGE: usize = 4096;
/// The smallest block that is called large; it has a page more than it says.
pub(super) const LARGE: usize = 16 * PAGE;

/// Steps between one power of two and the next.
const STEPS: usize = 8;
/// The smallest block.
const SMALLEST: usize = 64;

/// The class of a size, and the bytes of its blocks.
pub(super) fn class_of(len_bytes: usize) -> Option<(u32, usize)> {
    if len_bytes <= SMALLEST {
        return Some((0, SMALLEST));
    }
    if len_bytes > isize::MAX as usize / 2 {
        return None;
    }
    // Between 2^k (excluded) and 2^(k+1) lie STEPS classes; small ones stay multiples of the alignment.
    let k = (len_bytes - 1).ilog2();
    let step = ((1usize << k) / STEPS).max(ALIGN);
    let steps = (len_bytes - (1 << k)).div_ceil(step);
    let class = (k - SMALLEST.ilog2()) as usize * STEPS + steps;
    Some((class as u32, (1 << k) + steps * step))
}

/// Bytes of the blocks of a class.
pub(super) fn block_bytes(class: u32) -> usize {
    if class == 0 {
        return SMALLEST;
    }
    // Steps run from 1 to STEPS inside a power of two.
    let (k, steps) = ((class as usize - 1) / STEPS, (class as usize - 1) % STEPS + 1);
    let base = SMALLEST << k;
    base + steps * (base / STEPS).max(ALIGN)
}

/// What the system is asked for.
pub(super) fn layout(block_bytes: usize) -> Result<Block, LayoutError> {
    match block_bytes < LARGE {
        true => Block::from_size_align(block_bytes, ALIGN),
        false => Block::from_size_align(block_bytes + PAGE, PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        for len in (1..5000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let (class, bytes) = class_of(len).unwrap();
            assert!(bytes >= len && bytes % ALIGN == 0, "{len} in {bytes}");
            assert!(bytes <= (len + ALIGN).max(len + len / STEPS + ALIGN), "{len} in {bytes}");
            assert_eq!(block_bytes(class), bytes, "{len}");
        }
    }
}
