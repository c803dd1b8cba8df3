//! How a command that runs until it is told to end is told.
//!
//! END-1: the first signal is for the command, which drains; from then on one more ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// What a shell reports for a program that a signal ended.
pub(crate) fn of_signal(signal: usize) -> u8 {
    128 + signal as u8
}

/// A command has ended as it was asked to, with this exit code: there is nothing to say about it.
#[derive(Debug)]
pub(crate) struct Ended(pub u8);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended with exit code {}", self.0)
    }
}

impl std::error::Error for Ended {}

/// Whether the end has begun.
pub(crate) struct Ending(Arc<AtomicBool>);

impl Ending {
    /// Has signals end the process at once, from [`Ending::begin`] on.
    pub(crate) fn prepare() -> anyhow::Result<Ending> {
        let begun = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, begun.clone()).context("signals")?;
        }
        Ok(Ending(begun))
    }

    /// The signals that ask for the end.
    pub(crate) fn signals() -> anyhow::Result<Signals> {
        Signals::new([SIGINT, SIGTERM]).context("signals")
    }

    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
