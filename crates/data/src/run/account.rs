//! Who answers for the memory of a run: what its blocks and batches take is counted there, beside what others take.
//!
//! ACCOUNT-1: what is counted is what blocks in memory or on their way and finished batches take; it goes down as they go, and
//!            to nothing when the run ends.
//! ACCOUNT-2: where there is no room, idle blocks are dropped and nothing is read or made ahead. What the next batch needs is read if
//!            there is room once everything else is gone; otherwise that batch is an error that says how much was wanted.

use std::sync::Arc;

use crate::error::{DataError, Result};

/// Counts memory under a limit, for all who share it.
pub trait MemoryAccount: Send + Sync {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// Why they are not to be had; nothing has changed then.
    fn charge(&self, len_bytes: u64) -> std::result::Result<(), String>;
    /// Gives back what was taken.
    fn give_back(&self, len_bytes: u64);
    /// The most there may be.
    fn limit_bytes(&self) -> u64;
}

/// What one run has taken. Dropping it gives everything back.
#[derive(Default)]
pub(super) struct Charged {
    account: Option<Arc<dyn MemoryAccount>>,
    len_bytes: u64,
}

impl Charged {
    pub(super) fn new(account: Option<Arc<dyn MemoryAccount>>) -> Charged {
        Charged { account, len_bytes: 0 }
    }

    /// From now on it takes so many bytes; where they are not to be had, what it took before.
    pub(super) fn settle(&mut self, len_bytes: u64) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        match len_bytes.checked_sub(self.len_bytes) {
            Some(more) if more > 0 => account.charge(more).map_err(DataError::Memory)?,
            Some(_) => {}
            None => account.give_back(self.len_bytes - len_bytes),
        }
        self.len_bytes = len_bytes;
        Ok(())
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        // Giving back is never refused.
        let _ = self.settle(0);
    }
}
