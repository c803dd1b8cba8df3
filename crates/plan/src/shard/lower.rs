//! A placed window as one worker runs it.

use gt_ir::{OpError, TensorId, TensorType, Window};

use super::PlacedWindow;

/// What a worker does, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalStep {
    /// Runs a window on its parts. Uploads without a payload are on their way.
    Window(Window),
    /// Sends a value, as soon as it is there, to another worker, which receives it under the same name.
    Send {
        /// Which.
        id: TensorId,
        /// To whom.
        to: u32,
    },
    /// Waits for a value of another worker.
    Receive {
        /// Which.
        id: TensorId,
        /// What it must be.
        ty: TensorType,
        /// Who sends it.
        from: u32,
    },
}

/// What `worker` does of a placed window.
///
/// # Errors
/// When the window makes no sense; nothing of it has been done then.
pub fn lower(window: &PlacedWindow, worker: u32) -> Result<Vec<LocalStep>, OpError> {
    let _ = (window, worker);
    Err(OpError::argument("not yet"))
}
