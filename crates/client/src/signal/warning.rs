//! What is wrong with a config for the workers there are: a warning, once, or an error.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static STRICT: AtomicBool = AtomicBool::new(false);

/// Whether what would be a warning is an error: `GT_STRICT_CONFIG`.
pub fn set_strict(on: bool) {
    STRICT.store(on, Ordering::Relaxed);
}

/// As [`set_strict`] said.
pub fn is_strict() -> bool {
    STRICT.load(Ordering::Relaxed)
}

/// Warns, unless this was said before.
pub(super) fn warn_once(message: String) -> Result<()> {
    match is_strict() {
        true => Err(Error::Value(format!("{message} (GT_STRICT_CONFIG=1)"))),
        false => crate::warn_once(message),
    }
}
