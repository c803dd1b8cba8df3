//! What a session has to do next, in order: what has no room yet, and what has been done.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::config::HeldLimits;
use super::executed::Executed;
use super::reading::{Fault, Step};
use crate::SessionConfig;

/// A session that runs dry again and again says so no more often than this: the server tells its client no more often either.
const DRY_REPORT: Duration = Duration::from_millis(5);
/// The part of the credits after which the server hears of what has run.
const REPORTS_PER_CREDITS: usize = 8;

/// The queue of one session, under one lock.
pub(super) struct Steps {
    waiting: VecDeque<(u64, Step)>,
    waiting_bytes: usize,
    most_bytes: usize,
    pub(super) executed: Executed,
    last_report: Instant,
}

impl Steps {
    pub(super) fn new(from: u64, session: &SessionConfig, held: &HeldLimits) -> Self {
        let every = |credits: usize| (credits / REPORTS_PER_CREDITS) as u64;
        Steps {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            most_bytes: held.message_bytes,
            executed: Executed::new(from, (every(session.credits_instrs), every(session.credits_bytes))),
            last_report: Instant::now(),
        }
    }

    /// Appends a step.
    pub(super) fn push(&mut self, stream: u64, step: Step) -> Result<(), Fault> {
        let len_bytes = step.len_bytes();
        if !self.waiting.is_empty() && self.waiting_bytes.saturating_add(len_bytes) > self.most_bytes {
            let bytes = self.waiting_bytes;
            return Err(Fault::Broken(format!("{bytes} bytes of windows wait to be run: the credits were overrun")));
        }
        self.waiting_bytes += len_bytes;
        self.waiting.push_back((stream, step));
        Ok(())
    }

    /// The next step.
    pub(super) fn pop(&mut self) -> Option<(u64, Step)> {
        let (stream, step) = self.waiting.pop_front()?;
        self.waiting_bytes -= step.len_bytes();
        Some((stream, step))
    }

    /// Puts a step back that cannot be done yet.
    pub(super) fn put_back(&mut self, stream: u64, step: Step) {
        self.waiting_bytes += step.len_bytes();
        self.waiting.push_front((stream, step));
    }

    /// Whether everything has been done and has run.
    pub(super) fn is_dry(&self) -> bool {
        self.waiting.is_empty() && self.executed.is_dry()
    }

    /// What the server should hear by now, if anything.
    pub(super) fn due_report(&mut self) -> Option<u64> {
        let due = self.executed.is_due() || self.is_dry() && self.last_report.elapsed() >= DRY_REPORT;
        if due { self.report() } else { None }
    }

    /// What the server does not know yet.
    pub(super) fn report(&mut self) -> Option<u64> {
        let report = self.executed.take_report()?;
        self.last_report = Instant::now();
        Some(report)
    }
}
