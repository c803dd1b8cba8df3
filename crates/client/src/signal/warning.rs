//! What is wrong with a config for the workers there are: a warning, once, or an error.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// How this process warns. A hook that fails makes the warning an error.
type Hook = fn(&str) -> Result<()>;

static HOOK: OnceLock<Hook> = OnceLock::new();
static STRICT: AtomicBool = AtomicBool::new(false);
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says how to warn; without, warnings go to stderr. The first call wins.
pub fn set_warning_hook(hook: Hook) {
    let _ = HOOK.set(hook);
}

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
    if is_strict() {
        return Err(Error::Value(format!("{message} (GT_STRICT_CONFIG=1)")));
    }
    if !SAID.lock().insert(message.clone()) {
        return Ok(());
    }
    match HOOK.get() {
        Some(hook) => hook(&message),
        None => {
            eprintln!("gt: warning: {message}");
            Ok(())
        }
    }
}
