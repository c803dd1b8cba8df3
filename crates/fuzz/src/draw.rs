//! Choices made of bytes, so that a fuzzer that changes a byte changes a choice. When the bytes end, choices are the first.

/// Bytes that decide.
pub struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Draw(bytes)
    }

    /// Whether all bytes have been used.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below `n`, which is at most 2^16.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = if n > 256 { (self.byte() as usize) << 8 } else { 0 };
        (wide | self.byte() as usize) % n.max(1)
    }

    /// An extent: mostly small, sometimes one at which a count, a product or a stride overflows.
    pub fn extent(&mut self) -> u64 {
        const EXTREMES: [u64; 12] = [
            1 << 16,
            1 << 20,
            1 << 31,
            1 << 32,
            1 << 40,
            1 << 59,
            (1 << 59) + 1,
            1 << 61,
            1 << 62,
            1 << 63,
            0xaaaa_aaaa_aaaa_aaab,
            u64::MAX,
        ];
        match self.byte() {
            choice @ 0..=199 => choice as u64 % 8,
            choice @ 200..=219 => [17, 33, 64, 100][choice as usize % 4],
            choice => EXTREMES[choice as usize % EXTREMES.len()],
        }
    }

    /// An immediate: where slices begin, seeds, numbers.
    pub fn signed(&mut self) -> i64 {
        match self.byte() {
            choice @ 0..=219 => choice as i64 % 12 - 3,
            220..=229 => i64::MAX,
            230..=239 => i64::MIN,
            choice => 1 << (choice as u32 % 63),
        }
    }
}
