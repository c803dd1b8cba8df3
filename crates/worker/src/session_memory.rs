//! What a session has in ordinary memory beside its values: counted against its own limit, and against the device's. And where
//! memory for its payloads comes from.
//!
//! SESSION-MEMORY-1: a session has two accounts beside that of its values, each with the same limit. Bodies are payloads that arrive or
//! wait, and answers that its client has not taken; they count against the device's limit too, so that all sessions together stay
//! below it. Words are queued windows and the heads of answers. So a session whose values fill their limit can still read an error,
//! and one whose payloads fill theirs can still run the windows that use them.
//! SESSION-MEMORY-3: what has no bytes of its own takes memory too: names, values of no elements, readers that wait. Each counts as
//! [`RECORD_BYTES`], and together they may take as much as words may.
//! SESSION-MEMORY-2: a [`Charge`] goes with the bytes it is for ([`Bytes::accompanied_by`]), and is given back when they are.
//!
//! [`Bytes::accompanied_by`]: gt_ir::Bytes::accompanied_by

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gt_engine::{HostMemory, Quota, Uncounted};
use gt_ir::{Companion, Failure, FailureKind, HostAllocator, HostBuffer};

use crate::shared::Shared;

/// The least that an account may hold, for a session with a tiny limit.
const LEAST_IN_TRANSIT_BYTES: u64 = 16 << 20;
/// The most that words may take, and records, of a session that has no limit of its own.
const MOST_WORDS_BYTES: u64 = 1 << 30;
/// What a record counts for: an entry of a table, with the description of a value.
const RECORD_BYTES: u64 = 512;

/// An account of one session. Clones are the same.
#[derive(Clone)]
pub struct SessionMemory {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    quota: Option<Arc<Quota>>,
    /// SESSION-MEMORY-1.
    bodies: Arc<Quota>,
    words: Arc<Quota>,
    /// The engine's: as it was when it was first needed, so that all is given back to whom it was taken from.
    host: OnceLock<Arc<dyn HostMemory>>,
}

impl SessionMemory {
    pub(crate) fn new(shared: Arc<Shared>, quota: Option<Arc<Quota>>) -> SessionMemory {
        let most = quota.as_ref().map_or(u64::MAX, |quota| quota.limit_bytes().max(LEAST_IN_TRANSIT_BYTES));
        let words = if quota.is_some() { most } else { MOST_WORDS_BYTES };
        let inner = Inner { shared, quota, bodies: Quota::new(most), words: Quota::new(words), host: OnceLock::new() };
        SessionMemory { inner: Arc::new(inner) }
    }

    /// The account of a session that has no limit and no worker: for tests.
    pub fn unlimited() -> SessionMemory {
        SessionMemory::new(Arc::new(Shared::new(&crate::WorkerConfig::default())), None)
    }

    fn host(&self) -> &dyn HostMemory {
        let now = || self.inner.shared.host.get().cloned().unwrap_or_else(|| Arc::new(Uncounted));
        &**self.inner.host.get_or_init(now)
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// When the session or the device may not have them; nothing has changed then.
    pub fn charge(&self, len_bytes: u64) -> Result<(), Failure> {
        let quota = self.inner.quota.as_deref();
        quota.map_or(Ok(()), |quota| quota.charge(len_bytes))?;
        self.host().charge(len_bytes).inspect_err(|_| quota.iter().for_each(|quota| quota.give_back(len_bytes)))
    }

    /// Gives back what was taken.
    pub fn give_back(&self, len_bytes: u64) {
        self.host().give_back(len_bytes);
        self.inner.quota.iter().for_each(|quota| quota.give_back(len_bytes));
    }

    /// The most there may be, values included.
    pub fn limit_bytes(&self) -> u64 {
        let own = self.inner.quota.as_ref().map_or(u64::MAX, |quota| quota.limit_bytes());
        own.min(self.host().limit_bytes())
    }

    /// Counts a body in transit: a payload, or an answer.
    ///
    /// # Errors
    /// When there is no room for it in the session's account or the device's.
    pub fn hold(&self, len_bytes: usize) -> Result<Charge, Failure> {
        let mut charge = hold(&self.inner.bodies, len_bytes)?;
        if let Some(host) = self.inner.shared.host.get() {
            host.charge(charge.len_bytes)?;
            charge.host = Some(host.clone());
        }
        Ok(charge)
    }

    /// Counts words in transit, such as windows. The device's limit does not count them, so that sessions which fill it do not end
    /// others.
    ///
    /// # Errors
    /// When the session's account has no room for them.
    pub fn hold_words(&self, len_bytes: usize) -> Result<Charge, Failure> {
        hold(&self.inner.words, len_bytes)
    }

    /// Whether a session may have so many records; if not, why.
    pub fn allows_records(&self, records: usize) -> Result<(), String> {
        let most = self.inner.words.limit_bytes() / RECORD_BYTES;
        match records as u64 <= most {
            true => Ok(()),
            false => {
                Err(format!("out of memory: the session has {records} values, names and requests; the limit is {most}"))
            }
        }
    }

    /// The most that the words of one message may take.
    pub fn longest_words(&self) -> usize {
        usize::try_from(self.inner.words.limit_bytes()).unwrap_or(usize::MAX)
    }

    /// The longest body that could ever be held.
    pub fn longest_body(&self) -> u64 {
        let device = self.inner.shared.host.get().map_or(u64::MAX, |host| host.limit_bytes());
        self.inner.bodies.limit_bytes().min(device)
    }
}

fn hold(account: &Arc<Quota>, len_bytes: usize) -> Result<Charge, Failure> {
    let len_bytes = len_bytes as u64;
    account.charge(len_bytes).map_err(|_| {
        let (held, limit) = (account.memory().live_bytes, account.limit_bytes());
        let message = format!(
            "out of memory: cannot transfer {len_bytes} more bytes between the script and its worker; {held} of {limit} bytes are \
             in use"
        );
        Failure::new(FailureKind::Memory, message)
    })?;
    Ok(Charge { account: account.clone(), host: None, len_bytes, is_given_back: AtomicBool::new(false) })
}

/// Bytes in transit: they count until this is dropped, or becomes a value.
pub struct Charge {
    account: Arc<Quota>,
    /// The device it counts on too, if it does.
    host: Option<Arc<dyn HostMemory>>,
    len_bytes: u64,
    is_given_back: AtomicBool,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

impl Companion for Charge {
    fn settle(&self) {
        if !self.is_given_back.swap(true, Ordering::AcqRel) {
            self.account.give_back(self.len_bytes);
            self.host.iter().for_each(|host| host.give_back(self.len_bytes));
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.settle();
    }
}

impl HostAllocator for SessionMemory {
    /// Memory of the engine's (HOST-2); before there is an engine, anybody's.
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        match self.inner.shared.host.get() {
            Some(host) => host.allocate(len_bytes),
            None => Uncounted.allocate(len_bytes),
        }
    }
}
