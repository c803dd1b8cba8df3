//! Who answers for the memory of a run: what its blocks and batches take is counted there, beside what others take.
//!
//! ACCOUNT-1: what is counted is what blocks in memory or on their way take, the order of samples, and batches; it goes down as they
//!            go. All but batches that were given is gone when the run ends.
//! ACCOUNT-2: where there is no room, idle blocks are dropped and nothing is read or made ahead. What the next batch needs is read if
//!            there is room once everything else is gone; otherwise that batch is an error that says how much was wanted.

//! ACCOUNT-3: a batch is counted before it takes memory, from its lengths and its spec alone. What its tensors take goes with their
//!            bytes, until they are values of a session, which count by themselves, or nobody has them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gt_ir::Companion;

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

/// The memory of a run's batches.
#[derive(Clone, Default)]
pub(super) struct BatchMemory {
    pub(super) account: Option<Arc<dyn MemoryAccount>>,
    /// What batches have that are neither values yet nor gone.
    held_bytes: Arc<AtomicU64>,
}

impl BatchMemory {
    pub(super) fn new(account: Option<Arc<dyn MemoryAccount>>) -> BatchMemory {
        BatchMemory { account, held_bytes: Arc::default() }
    }

    /// Whether some batch has memory.
    pub(super) fn is_held(&self) -> bool {
        self.held_bytes.load(Ordering::Acquire) > 0
    }

    /// For a batch that has nothing yet.
    pub(super) fn reserve(&self) -> Reserved {
        Reserved {
            memory: self.clone(),
            len_bytes: Cell::new(0),
            needed_bytes: Cell::new(0),
            refused_bytes: Cell::new(0),
        }
    }
}

/// What one batch may take (ACCOUNT-3). What its tensors have not taken goes back when this is dropped.
pub struct Reserved {
    memory: BatchMemory,
    len_bytes: Cell<u64>,
    /// The most it had.
    needed_bytes: Cell<u64>,
    refused_bytes: Cell<u64>,
}

impl Reserved {
    /// Has so many bytes counted in all.
    ///
    /// # Errors
    /// When there is no room for them; it has what it had, then.
    pub(crate) fn grow_to(&self, len_bytes: u64) -> Result<()> {
        let Some(account) = &self.memory.account else { return Ok(()) };
        let more = len_bytes.saturating_sub(self.len_bytes.get());
        let limit = account.limit_bytes();
        let refused = |why: String| {
            self.refused_bytes.set(len_bytes);
            DataError::Memory(format!("the batch needs {len_bytes} bytes, and the limit is {limit} bytes{why}"))
        };
        if len_bytes > limit {
            return Err(refused(String::new()));
        }
        account.charge(more).map_err(|why| refused(format!(" with what else is held: {why}")))?;
        self.memory.held_bytes.fetch_add(more, Ordering::AcqRel);
        self.len_bytes.set(self.len_bytes.get() + more);
        self.needed_bytes.set(self.needed_bytes.get().max(len_bytes));
        Ok(())
    }

    /// The most bytes that were counted for the batch at a time.
    pub(super) fn needed_bytes(&self) -> u64 {
        self.needed_bytes.get()
    }

    /// How many bytes there was no room for, if that has happened and they may be had later.
    pub(super) fn waits_for(&self) -> Option<u64> {
        let account = self.memory.account.as_ref()?;
        Some(self.refused_bytes.get()).filter(|&refused| refused > 0 && refused <= account.limit_bytes())
    }

    /// Whether anybody counts.
    pub(crate) fn is_counted(&self) -> bool {
        self.memory.account.is_some()
    }

    /// Takes out what some bytes of the batch count for, to go with them; nothing where nobody counts.
    ///
    /// # Errors
    /// When it has less.
    pub(crate) fn split(&self, len_bytes: u64) -> Result<Option<BatchCharge>> {
        if !self.is_counted() {
            return Ok(None);
        }
        let left = self.len_bytes.get().checked_sub(len_bytes);
        let too_few = || DataError::Internal("a batch takes more memory than was computed for it".into());
        self.len_bytes.set(left.ok_or_else(too_few)?);
        Ok(Some(BatchCharge { memory: self.memory.clone(), len_bytes, is_given_back: AtomicBool::new(false) }))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.give_back(self.len_bytes.get());
    }
}

impl BatchMemory {
    fn give_back(&self, len_bytes: u64) {
        if let Some(account) = self.account.as_ref().filter(|_| len_bytes > 0) {
            account.give_back(len_bytes);
            self.held_bytes.fetch_sub(len_bytes, Ordering::AcqRel);
        }
    }
}

/// What some bytes of a batch count for, as long as they are neither a value nor gone.
pub struct BatchCharge {
    memory: BatchMemory,
    len_bytes: u64,
    is_given_back: AtomicBool,
}

impl Companion for BatchCharge {
    fn settle(&self) {
        if !self.is_given_back.swap(true, Ordering::AcqRel) {
            self.memory.give_back(self.len_bytes);
        }
    }
}

impl Drop for BatchCharge {
    fn drop(&mut self) {
        self.settle();
    }
}
