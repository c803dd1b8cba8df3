//! Philox 4x32-10, the counter-based generator behind every random op.
//!
//! PHILOX-1: element `e` of a draw depends only on (seed, ordinal, e), so any layout, split or
//! thread count gives the same bits.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds over one counter.
///
/// ```
/// // Random123's known answer for all zeros.
/// let out = gt_ir::philox::rounds([0; 4], [0; 2]);
/// assert_eq!(out, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[inline(always)]
pub fn rounds(mut ctr: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = MULTIPLIERS[0] as u64 * ctr[0] as u64;
        let p1 = MULTIPLIERS[1] as u64 * ctr[2] as u64;
        ctr = [(p1 >> 32) as u32 ^ ctr[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ ctr[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    ctr
}

/// The four words of one block of a draw.
#[inline(always)]
pub fn block(seed: u64, ordinal: u64, index: u64) -> [u32; 4] {
    rounds(
        [index as u32, (index >> 32) as u32, ordinal as u32, (ordinal >> 32) as u32],
        [seed as u32, (seed >> 32) as u32],
    )
}

/// Element `e` of a draw of 32-bit words: four elements a block.
#[inline]
pub fn word32(seed: u64, ordinal: u64, e: u64) -> u32 {
    block(seed, ordinal, e / 4)[(e % 4) as usize]
}

/// Element `e` of a draw of 64-bit words: two elements a block.
#[inline]
pub fn word64(seed: u64, ordinal: u64, e: u64) -> u64 {
    let b = block(seed, ordinal, e / 2);
    let i = (e % 2) as usize * 2;
    b[i] as u64 | (b[i + 1] as u64) << 32
}

/// 24 bits as a float in `[0, 1)`.
#[inline(always)]
pub fn unit_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
}

/// 53 bits as a double in `[0, 1)`.
#[inline(always)]
pub fn unit_f64(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// An integer in `low..high`, by multiply and shift.
#[inline(always)]
pub fn ranged(word: u64, low: i64, high: i64) -> i64 {
    let span = high.wrapping_sub(low) as u64;
    low.wrapping_add(((word as u128 * span as u128) >> 64) as i64)
}

/// The Box–Muller pair of two uniforms.
#[inline]
pub fn normal_pair(u: f64, v: f64) -> (f64, f64) {
    // 1 - u lies in (0, 1], so the logarithm is finite.
    let r = (-2.0 * (1.0 - u).ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
    (r * cos, r * sin)
}

/// Element `e` of a single-precision normal draw: words pair up inside their block.
pub fn normal_f32(seed: u64, ordinal: u64, e: u64) -> f64 {
    let b = block(seed, ordinal, e / 4);
    let i = (e % 4) as usize & !1;
    let (x, y) = normal_pair(unit_f32(b[i]) as f64, unit_f32(b[i + 1]) as f64);
    if e.is_multiple_of(2) { x } else { y }
}

/// Element `e` of a double-precision normal draw: the pair `e & !1, e | 1`.
pub fn normal_f64(seed: u64, ordinal: u64, e: u64) -> f64 {
    let u = unit_f64(word64(seed, ordinal, e & !1));
    let v = unit_f64(word64(seed, ordinal, e | 1));
    let (x, y) = normal_pair(u, v);
    if e.is_multiple_of(2) { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::rounds;

    /// The known answers that Random123 publishes for philox4x32-10.
    #[test]
    fn known_answers() {
        assert_eq!(rounds([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(rounds([u32::MAX; 4], [u32::MAX; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            rounds([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }
}
