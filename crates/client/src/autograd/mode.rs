//! Whether the calling thread tracks what it records.

use crate::thread::THREAD;

/// Whether the calling thread tracks gradients.
#[inline]
pub fn grad_enabled() -> bool {
    THREAD.with(|thread| thread.tracks.get())
}

/// Switches tracking; returns what it was.
pub fn set_grad_enabled(on: bool) -> bool {
    THREAD.with(|thread| thread.tracks.replace(on))
}

/// Restores the mode when dropped.
pub struct GradModeGuard(bool);

impl GradModeGuard {
    /// Switches tracking until the guard is dropped.
    pub fn new(on: bool) -> Self {
        GradModeGuard(set_grad_enabled(on))
    }
}

impl Drop for GradModeGuard {
    fn drop(&mut self) {
        set_grad_enabled(self.0);
    }
}

/// Runs `f` without tracking.
///
/// ```
/// assert!(gt_client::autograd::no_grad(|| !gt_client::autograd::grad_enabled()));
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    let _guard = GradModeGuard::new(false);
    f()
}

/// Runs `f` with tracking.
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    let _guard = GradModeGuard::new(true);
    f()
}
