//! The client's side of the stream's other end, whatever that is: a worker in this process or a server.

use gt_ir::{Failure, HostTensor, TensorId, Window};

/// Why a wait ended without an answer.
#[derive(Debug)]
pub enum WaitError {
    /// The value is poisoned, or a write was skipped earlier.
    Failed(Failure),
    /// The cancel function said so.
    Interrupted,
}

/// Where windows go and values come from. All methods may be called from any thread.
pub trait Link: Send + Sync {
    /// Takes a window, in order. Waits while credits are spent; when `cancel` says so it stops waiting and reports
    /// it, but the window is taken all the same.
    fn send(&self, window: Window, cancel: &dyn Fn() -> bool) -> Result<(), WaitError>;
    /// Waits for one value.
    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError>;
    /// Waits for everything sent.
    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError>;
    /// The other side may have gone to sleep; there is something recorded now that it should ask for.
    fn wake(&self);
    /// Whether a send would have to wait for credits.
    fn is_full(&self) -> bool;
}

impl<L: Link + ?Sized> Link for std::sync::Arc<L> {
    fn send(&self, window: Window, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        (**self).send(window, cancel)
    }
    fn read(&self, id: TensorId, cancel: &dyn Fn() -> bool) -> Result<HostTensor, WaitError> {
        (**self).read(id, cancel)
    }
    fn synchronize(&self, cancel: &dyn Fn() -> bool) -> Result<(), WaitError> {
        (**self).synchronize(cancel)
    }
    fn wake(&self) {
        (**self).wake();
    }
    fn is_full(&self) -> bool {
        (**self).is_full()
    }
}
