//! What a session has to do next, in order: what has no room yet, and what has been done.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::config::HeldLimits;
use super::executed::Executed;
use super::reading::{Fault, Step};
use gt_worker::{Charge, SessionConfig, SessionMemory};

/// A session that runs dry again and again says so no more often than this: the server tells its client no more often either.
const DRY_REPORT: Duration = Duration::from_millis(5);
/// A session that runs without a pause says so this often, however little that is: its client goes by it when it decides how far
/// to run ahead.
const PROGRESS_REPORT: Duration = Duration::from_millis(50);
/// The part of the credits after which the server hears of what has run.
const REPORTS_PER_CREDITS: usize = 8;

/// The queue of one session, under one lock.
///
/// STEPS-1: a step counts on its session's account from when it was read until what it gave to the worker has run.
pub(super) struct Steps {
    waiting: VecDeque<(u64, Step, Option<Charge>)>,
    waiting_bytes: usize,
    most_bytes: usize,
    memory: Option<SessionMemory>,
    /// Of what the worker has been given and has not run, with the worker's count once it has.
    running: VecDeque<(u64, Charge)>,
    pub(super) executed: Executed,
    last_report: Instant,
}

impl Steps {
    pub(super) fn new(from: u64, session: &SessionConfig, held: &HeldLimits) -> Self {
        let every = |credits: usize| (credits / REPORTS_PER_CREDITS) as u64;
        Steps {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            memory: None,
            running: VecDeque::new(),
            most_bytes: held.message_bytes,
            executed: Executed::new(from, (every(session.credits_instrs), every(session.credits_bytes))),
            last_report: Instant::now(),
        }
    }

    /// The same, counted on an account.
    pub(super) fn charged_to(self, memory: SessionMemory) -> Self {
        Steps { memory: Some(memory), ..self }
    }

    /// Appends a step.
    pub(super) fn push(&mut self, stream: u64, step: Step) -> Result<(), Fault> {
        let len_bytes = step.len_bytes();
        if !self.waiting.is_empty() && self.waiting_bytes.saturating_add(len_bytes) > self.most_bytes {
            let (bytes, most) = (self.waiting_bytes.saturating_add(len_bytes), self.most_bytes);
            return Err(Fault::Broken(format!("the script has {bytes} bytes of work queued; the limit is {most}")));
        }
        let charge = self.memory.as_ref().map(|memory| memory.hold_words(len_bytes)).transpose();
        let charge = charge.map_err(|failure| Fault::Broken(format!("out of memory for queued work: {failure}")))?;
        self.waiting_bytes += len_bytes;
        self.waiting.push_back((stream, step, charge));
        Ok(())
    }

    /// The next step.
    pub(super) fn pop(&mut self) -> Option<(u64, Step, Option<Charge>)> {
        let (stream, step, charge) = self.waiting.pop_front()?;
        self.waiting_bytes -= step.len_bytes();
        Some((stream, step, charge))
    }

    /// Puts a step back that cannot be done yet.
    pub(super) fn put_back(&mut self, stream: u64, step: Step, charge: Option<Charge>) {
        self.waiting_bytes += step.len_bytes();
        self.waiting.push_front((stream, step, charge));
    }

    /// A step was done: what it counts for is given back when what it gave has run.
    pub(super) fn did(&mut self, charge: Option<Charge>) {
        if let (Some(count), Some(charge)) = (self.executed.last_given(), charge) {
            self.running.push_back((count, charge));
        }
    }

    /// The worker has run so much of what it was given.
    pub(super) fn ran(&mut self, count: u64) {
        self.executed.ran(count);
        while self.running.pop_front_if(|(given, _)| *given <= count).is_some() {}
    }

    /// Whether everything has been done and has run.
    pub(super) fn is_dry(&self) -> bool {
        self.waiting.is_empty() && self.executed.is_dry()
    }

    /// What the server should hear by now, if anything.
    pub(super) fn due_report(&mut self) -> Option<u64> {
        let pause = if self.is_dry() { DRY_REPORT } else { PROGRESS_REPORT };
        let due = self.executed.is_due() || self.last_report.elapsed() >= pause;
        if due { self.report() } else { None }
    }

    /// What the server does not know yet.
    pub(super) fn report(&mut self) -> Option<u64> {
        let report = self.executed.take_report()?;
        self.last_report = Instant::now();
        Some(report)
    }
}
