//! Denormal numbers as zeros: a session's setting.

use std::sync::atomic::{AtomicU8, Ordering};

use gt_client::Result;

use crate::current;

/// The variable that says so for a session when it is opened.
pub(crate) const VARIABLE: &str = "GT_FLUSH_DENORMAL";

/// What a call asked for before any session: nothing, no, or yes.
static ASKED: AtomicU8 = AtomicU8::new(NOT_ASKED);
const NOT_ASKED: u8 = 2;

/// What counts instead of the environment's variable, if a call asked for something.
pub(crate) fn asked() -> Option<bool> {
    match ASKED.load(Ordering::Relaxed) {
        NOT_ASKED => None,
        asked => Some(asked == 1),
    }
}

/// Says whether denormal numbers are zeros, in operands and results, of what is recorded from here on; whether that could be done.
///
/// It is the session's setting: other sessions of its workers compute as they did. A session with a server, or of several workers, has
/// it from its beginning: ask before connecting, and before the first operation.
///
/// ```
/// gt::install();
/// let tiny = gt::Tensor::full(&[1], 1e-40, None)?;
/// if gt::set_flush_denormal(true)? {
///     assert_eq!(tiny.mul(2.0)?.item()?.as_f64(), 0.0);
///     gt::set_flush_denormal(false)?;
/// }
/// assert!(tiny.mul(2.0)?.item()?.as_f64() > 0.0);
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The failure of something recorded before: all of it runs first, as it was.
pub fn set_flush_denormal(on: bool) -> Result<bool> {
    if !gt_engine_cpu::denormal::is_supported() {
        return Ok(false);
    }
    if current::is_remote() {
        // The session has what it was opened with.
        return Ok(is_on() == on);
    }
    if let Some(session) = current::embedded_session() {
        gt_client::synchronize()?;
        session.set_flush_denormal(on);
    }
    ASKED.store(on as u8, Ordering::Relaxed);
    Ok(true)
}

/// What a session that is opened now would have.
fn is_on() -> bool {
    asked().unwrap_or_else(|| crate::config::Config::from_env().is_ok_and(|config| config.flush_denormal))
}
