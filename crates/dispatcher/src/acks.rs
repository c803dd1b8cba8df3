//! When a client hears how far its session has come. An ack wakes two processes, and a step may take a millisecond: acks
//! are cumulative and rare.
//!
//! ACK-1: an ack goes out at once when a quarter of the credits has come back, when [`MESSAGES`] messages or
//!        [`MESSAGE_BYTES`] of them can be forgotten, and when the session has become idle.
//! ACK-2: a session that runs without a pause has an ack every [`PROGRESS`] if there is something new: its client goes by it when it
//!        decides how far to run ahead.
//! ACK-3: acks that only say "idle" keep a distance from the last one; the last of them always comes (`leases.rs`).

use std::time::{Duration, Instant};

use crate::backlog::{Backlog, Cost};
use crate::config::DispatcherConfig;

/// Messages received since the last ack that make one due.
const MESSAGES: u64 = 256;
/// Bytes of such messages: a quarter of what a client keeps to send again.
const MESSAGE_BYTES: u64 = 4 << 20;

/// How long a client may be left without news of what has been executed.
const PROGRESS: Duration = Duration::from_millis(50);

/// Whether an ack goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// It says little: by then.
    By(Instant),
    No,
}

#[derive(Debug)]
pub(crate) struct Acks {
    received: u64,
    executed: u64,
    /// Received since the last ack.
    received_bytes: u64,
    /// Executed since the last ack.
    returned: Cost,
    at: Option<Instant>,
}

impl Acks {
    pub(crate) fn new() -> Acks {
        Acks { received: 0, executed: 0, received_bytes: 0, returned: Cost::default(), at: None }
    }

    pub(crate) fn note_received(&mut self, len_bytes: usize) {
        self.received_bytes += len_bytes as u64;
    }

    pub(crate) fn note_executed(&mut self, returned: Cost) {
        self.returned.add(returned);
    }

    pub(crate) fn due(&self, backlog: &Backlog, config: &DispatcherConfig, now: impl FnOnce() -> Instant) -> Due {
        let quarter = |returned: u64, credits: u64| returned > 0 && returned >= credits / 4;
        let (received, executed) = (backlog.received(), backlog.executed());
        if quarter(self.returned.instrs, config.credits_instrs)
            || quarter(self.returned.bytes, config.credits_bytes)
            || received - self.received >= MESSAGES
            || self.received_bytes >= MESSAGE_BYTES
        {
            return Due::Now;
        }
        if !backlog.is_idle() {
            let is_late = executed > self.executed && self.at.is_none_or(|last| now() >= last + PROGRESS);
            return if is_late { Due::Now } else { Due::No };
        }
        if executed == self.executed && received == self.received {
            return Due::No;
        }
        let Some(last) = self.at else { return Due::Now };
        let earliest = last + config.ack_interval;
        match config.ack_interval == Duration::ZERO || now() >= earliest {
            true => Due::Now,
            false => Due::By(earliest),
        }
    }

    /// An ack of these numbers has gone out.
    pub(crate) fn sent(&mut self, backlog: &Backlog, now: Instant) {
        *self = Acks {
            received: backlog.received(),
            executed: backlog.executed(),
            received_bytes: 0,
            returned: Cost::default(),
            at: Some(now),
        };
    }
}
