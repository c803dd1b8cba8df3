//! What a run counts.

use serde::{Deserialize, Serialize};

/// Time and amounts since a run began. Times of several threads add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Seconds spent reading bytes.
    pub read_s: f64,
    /// Seconds spent making columns of them.
    pub decode_s: f64,
    /// Seconds spent making batches of columns.
    pub gather_s: f64,
    /// Seconds the consumer waited for a batch.
    pub wait_s: f64,
    /// Batches consumed.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Blocks decoded. More than the data set has, where the memory budget did not hold what was needed again.
    pub blocks: u64,
    /// The most that blocks and finished batches took in memory.
    pub peak_bytes: u64,
    /// Samples left out, as their file could not be read.
    pub skipped_samples: u64,
}

impl Stats {
    /// Adds up two runs that go on at the same time.
    #[must_use]
    pub fn beside(mut self, other: &Stats) -> Stats {
        let peak_bytes = self.peak_bytes + other.peak_bytes;
        self.merge(other);
        Stats { peak_bytes, ..self }
    }

    /// Adds up two runs.
    pub fn merge(&mut self, other: &Stats) {
        self.read_s += other.read_s;
        self.decode_s += other.decode_s;
        self.gather_s += other.gather_s;
        self.wait_s += other.wait_s;
        self.batches += other.batches;
        self.samples += other.samples;
        self.bytes += other.bytes;
        self.read_bytes += other.read_bytes;
        self.blocks += other.blocks;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.skipped_samples += other.skipped_samples;
    }
}
