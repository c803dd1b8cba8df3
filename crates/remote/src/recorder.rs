//! On which core the thread that records runs: a worker on the same host keeps its device's thread off it.
//!
//! Two threads that hand work to each other and sit on one core take turns there, while another core idles, and the system may
//! leave it so for many steps. Within a process the engine sees to it; a worker in another one has to be told.

use std::sync::atomic::{AtomicU32, Ordering};

use gt_net::Connection;
use gt_net::protocol::{DataRequest, encode};

/// No core has these numbers.
const UNTOLD: u32 = u32::MAX;
const ANYWHERE: u32 = u32::MAX - 1;

/// What the worker was told last.
pub(super) struct RecorderCore(AtomicU32);

impl RecorderCore {
    pub(super) fn new() -> Self {
        RecorderCore(AtomicU32::new(UNTOLD))
    }

    /// The core to tell of, if it is another one than the worker knows. One cheap look on every send.
    #[inline]
    pub(super) fn moved(&self) -> Option<u32> {
        let core = core()?;
        (self.0.load(Ordering::Relaxed) != core).then_some(core)
    }

    /// Tells the worker, if its cores are the client's.
    #[cold]
    pub(super) fn tell(&self, core: u32, data: Option<Connection>) {
        let Some(data) = data.filter(Connection::is_same_host) else { return };
        if data.send(&encode(&DataRequest::RecorderAt { core })).is_ok() {
            self.0.store(core, Ordering::Relaxed);
        }
    }

    /// Lets the worker's threads run where they like.
    #[inline]
    pub(super) fn clear_affinity(&self, data: Option<&Connection>) {
        if self.0.load(Ordering::Relaxed) != ANYWHERE
            && let Some(data) = data.filter(|data| data.is_same_host())
            && data.send(&encode(&DataRequest::RecorderAt { core: ANYWHERE })).is_ok()
        {
            self.0.store(ANYWHERE, Ordering::Relaxed);
        }
    }

    /// The worker is another one.
    pub(super) fn forget(&self) {
        self.0.store(UNTOLD, Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
fn core() -> Option<u32> {
    u32::try_from(rustix::thread::sched_getcpu()).ok()
}

#[cfg(not(target_os = "linux"))]
fn core() -> Option<u32> {
    None
}
