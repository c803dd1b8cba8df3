//! Warnings: said once each, the way this process warns.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::error::Result;

/// How this process warns. A hook that fails makes the warning an error.
type Hook = fn(&str) -> Result<()>;

static HOOK: OnceLock<Hook> = OnceLock::new();
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says how to warn; without, warnings go to stderr. The first call wins.
pub fn set_warning_hook(hook: Hook) {
    let _ = HOOK.set(hook);
}

/// Warns, unless this was said before.
///
/// # Errors
/// When the program made an error of warnings.
pub fn warn_once(message: String) -> Result<()> {
    if !SAID.lock().insert(message.clone()) {
        return Ok(());
    }
    match HOOK.get() {
        Some(hook) => hook(&message),
        None => {
            gt_observe::say(format_args!("gt: warning: {message}"));
            Ok(())
        }
    }
}
