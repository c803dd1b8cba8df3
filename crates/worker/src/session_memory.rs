//! What a session has in ordinary memory beside its values: counted against its own limit, and against the device's. And where
//! memory for its payloads comes from.

use std::sync::{Arc, OnceLock};

use gt_engine::{HostMemory, Quota, Uncounted};
use gt_ir::{Failure, HostAllocator, HostBuffer};

use crate::shared::Shared;

/// An account of one session. Clones are the same.
#[derive(Clone)]
pub struct SessionMemory {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    quota: Option<Arc<Quota>>,
    /// The engine's: as it was when it was first needed, so that all is given back to whom it was taken from.
    host: OnceLock<Arc<dyn HostMemory>>,
}

impl SessionMemory {
    pub(crate) fn new(shared: Arc<Shared>, quota: Option<Arc<Quota>>) -> SessionMemory {
        SessionMemory { inner: Arc::new(Inner { shared, quota, host: OnceLock::new() }) }
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
