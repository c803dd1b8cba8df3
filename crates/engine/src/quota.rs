//! What one session may hold of a device that it shares.
//!
//! QUOTA-1: storage is charged when it is allocated and given back when it is freed, by whichever thread drops the last
//! handle. A charge that would go over the limit changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gt_ir::{Failure, FailureKind};

use crate::engine::Memory;

/// Bytes that all runs of one session have in buffers, under a limit.
#[derive(Debug)]
pub struct Quota {
    limit_bytes: u64,
    live: AtomicU64,
    peak: AtomicU64,
}

impl Quota {
    /// A quota of which nothing is used.
    pub fn new(limit_bytes: u64) -> Arc<Quota> {
        Arc::new(Quota { limit_bytes, live: AtomicU64::new(0), peak: AtomicU64::new(0) })
    }

    /// Takes `bytes` of it.
    ///
    /// # Errors
    /// When so much is not left.
    pub fn charge(&self, bytes: u64) -> Result<(), Failure> {
        let fits = |live: u64| live.checked_add(bytes).filter(|&sum| sum <= self.limit_bytes);
        match self.live.fetch_update(Relaxed, Relaxed, fits) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Relaxed);
                Ok(())
            }
            Err(live) => {
                let limit = self.limit_bytes;
                let message = format!(
                    "out of memory: tried to allocate {bytes} bytes with {live} bytes in use; the session's limit is {limit} bytes"
                );
                Err(Failure::new(FailureKind::Memory, message))
            }
        }
    }

    /// Gives back what was charged.
    pub fn give_back(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Relaxed);
    }

    /// The most there may be.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What is used of it. Nothing is ever cached on a session's account.
    pub fn memory(&self) -> Memory {
        Memory {
            live_bytes: self.live.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            cached_bytes: 0,
            limit_bytes: self.limit_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_over_the_limit_changes_nothing() {
        let quota = Quota::new(100);
        quota.charge(60).unwrap();
        assert_eq!(quota.charge(41).unwrap_err().kind, FailureKind::Memory);
        assert_eq!(quota.charge(u64::MAX).unwrap_err().kind, FailureKind::Memory);
        quota.charge(40).unwrap();
        quota.give_back(60);
        let memory = quota.memory();
        assert_eq!((memory.live_bytes, memory.peak_bytes, memory.limit_bytes), (40, 100, 100));
    }
}
