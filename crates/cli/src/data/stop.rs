//! How a data command is told to end.
//!
//! STOP-1: a signal asks; the command removes what it has half written, and ends with what a shell reports for that signal. One
//!         more ends the process at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::ending::of_signal;

/// The signal that asked; none is zero.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Has signals ask instead of ending the process.
pub(super) fn listen() -> anyhow::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = of_signal(signal as usize).into();
        // In this order: the first signal finds the flag as it was.
        signal_hook::flag::register_conditional_shutdown(signal, code, asked.clone()).context("signals")?;
        signal_hook::flag::register(signal, asked.clone()).context("signals")?;
        signal_hook::flag::register_usize(signal, SIGNAL.clone(), signal as usize).context("signals")?;
    }
    Ok(())
}

/// Whether a signal has asked for the end.
pub(super) fn is_asked() -> bool {
    signal().is_some()
}

/// The signal that has asked for the end.
pub(super) fn signal() -> Option<usize> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}
