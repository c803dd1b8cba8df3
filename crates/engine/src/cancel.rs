//! Whether anybody still wants what a run gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Set once, by whoever the run is for. Engines look at it between instructions and leave the rest of a run that is cancelled: what
/// has not been published by then never is.
///
/// ```
/// use gt_engine::Cancel;
/// let cancel = Cancel::default();
/// let of_the_run = cancel.clone();
/// cancel.cancel();
/// assert!(of_the_run.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Nobody wants it any more.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether nobody does.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}
