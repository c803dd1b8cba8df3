//! A hash that is the same in every release: saved states hold it.

/// FNV-1a over 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(crate) fn eat(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ b as u64).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn eat_u64(&mut self, n: u64) {
        self.eat(&n.to_le_bytes());
    }

    /// Takes in a file: what it is called and how long it is. Not where it lies and when it was written, so that a copy of the
    /// data on another machine is the same data.
    pub(crate) fn eat_file(&mut self, file_name: &[u8], len_bytes: u64) {
        self.eat(file_name);
        self.eat_u64(len_bytes);
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}
