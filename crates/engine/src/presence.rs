//! Whether those who record are at work on the cores that engines use, or wait.
//!
//! On a machine with few cores a helping thread takes its core from the thread that records, and is itself interrupted by
//! it while others wait for its part. So for short work an engine keeps to one thread while somebody records, and uses all
//! of them while everybody waits for a value. It only tells when to hurry: no result depends on it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static RECORDS_HERE: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Says that some thread of this machine records for an engine of this process.
pub fn recorder_is_here() {
    RECORDS_HERE.store(true, Relaxed);
}

/// Whether somebody may be recording on this machine just now.
#[inline]
pub fn is_recording() -> bool {
    RECORDS_HERE.load(Relaxed) && WAITING.load(Relaxed) == 0
}

/// Somebody who waits for a value, for as long as this lives.
///
/// ```
/// use gt_engine::presence::{self, Waiting};
/// presence::recorder_is_here();
/// assert!(presence::is_recording());
/// let reader = Waiting::begin();
/// assert!(!presence::is_recording());
/// drop(reader);
/// assert!(presence::is_recording());
/// ```
#[derive(Debug)]
pub struct Waiting(());

impl Waiting {
    /// From now on.
    pub fn begin() -> Self {
        WAITING.fetch_add(1, Relaxed);
        Waiting(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}
