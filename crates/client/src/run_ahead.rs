//! How far recording is ahead of the workers, in time. It waits while that is more than a second, so that a progress bar shows what
//! has run, and an interrupted program has little left to wait for.
//!
//! AHEAD-1: a hand-over is delayed; nothing else depends on time. Windows, plans and their order are the same without it.
//! AHEAD-2: a hand-over waits only while something that was handed over before has not run, and with no lock held.
//! AHEAD-3: the time of a window is estimated from the op table until a window like it has run. From then on it is measured, over
//! spans of at least 50 ms: the time between two looks says nothing of a window that takes less.
//! AHEAD-4: a worker that runs several windows as one tells of all of them at its end, and a server tells a little later. So a span is
//! measured together with the one before it; and when nothing is left to run, it is only known that the last windows took no longer
//! than these spans and that delay.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal;
use std::mem::take;
use std::time::{Duration, Instant};

use gt_ir::{Op, TensorType};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::link::{Link, Progress};
use crate::session::{blocking, interrupted};

/// How much work may be handed over and not have run, in nanoseconds.
const MOST_AHEAD_NS: u64 = 1_000_000_000;
/// A wait longer than this says what it waits for.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// A program that waits long again and again says so no more often than this.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// How often a wait looks at what has run.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// At least this often it asks whether it should end.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Instructions on tensors with fewer elements than this cost no more than any instruction does.
pub(crate) const SMALL_ELEMENTS: usize = 4096;
/// What an instruction costs besides its arithmetic.
const INSTR_NS: u64 = 1000;
/// What a few cores do in a nanosecond: good enough until something was measured.
struct Rates {
    flops_per_ns: u64,
    bytes_per_ns: u64,
}

impl Rates {
    fn of(op: &Op) -> Rates {
        match op {
            Op::Matmul(_) | Op::Attention(_) | Op::AttentionGrad(_) => Rates { flops_per_ns: 100, bytes_per_ns: 10 },
            Op::Sort(_) => Rates { flops_per_ns: 2, bytes_per_ns: 1 },
            // Single elements, wherever they lie.
            Op::Take(_) | Op::Put(_) | Op::Gather(_) | Op::Scatter(_) | Op::Scan(_) | Op::ArgReduce(_) => {
                Rates { flops_per_ns: 2, bytes_per_ns: 2 }
            }
            _ => Rates { flops_per_ns: 20, bytes_per_ns: 10 },
        }
    }
}
/// Kinds of windows whose times are remembered.
const REMEMBERED: usize = 512;
/// The shortest span that is measured.
const SHORTEST_SPAN: Duration = Duration::from_millis(50);
/// How much later than a window has run it may be known to have run.
const LATEST_NEWS: Duration = Duration::from_millis(250);
/// How many kinds of windows one span measures.
const MEASURED_KINDS: usize = 16;
/// How much of an estimate stays when something else was measured.
const KEPT: f64 = 0.75;

/// The estimated time of an instruction beyond what every instruction costs: 0 on small tensors.
#[inline]
pub(crate) fn work_ns(op: &Op, ins: &[TensorType], outs: &[TensorType]) -> u64 {
    match ins.iter().chain(outs).all(|ty| ty.numel() < SMALL_ELEMENTS) {
        true => 0,
        false => large_work_ns(op, ins, outs),
    }
}

/// [`work_ns`] of an instruction that has a large operand or result.
#[cold]
pub(crate) fn large_work_ns(op: &Op, ins: &[TensorType], outs: &[TensorType]) -> u64 {
    let cost = op.primitive().cost(ins, outs);
    let rates = Rates::of(op);
    (cost.flops / rates.flops_per_ns).max(cost.bytes / rates.bytes_per_ns)
}

/// What makes windows alike: how many instructions they have, and the estimated time of the large ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub instrs: usize,
    pub work_ns: u64,
}

/// A window that was handed over and has not run.
struct Queued {
    kind: Kind,
    /// What the link has run once the window has.
    until: u64,
    expected_ns: u64,
}

/// Windows that ran one after the other, with no pause between them.
struct Span {
    began: Instant,
    /// How many windows of a kind.
    kinds: Vec<(Kind, u64)>,
    /// What windows of other kinds were expected to take.
    others_ns: u64,
}

impl Span {
    fn new(began: Instant) -> Span {
        Span { began, kinds: Vec::new(), others_ns: 0 }
    }

    fn add(&mut self, kind: Kind, count: u64, expected_ns: u64) {
        if let Some((_, known)) = self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            *known += count;
        } else if self.kinds.len() < MEASURED_KINDS {
            self.kinds.push((kind, count));
        } else {
            self.others_ns = self.others_ns.saturating_add(expected_ns);
        }
    }
}

#[derive(Default)]
struct State {
    queued: VecDeque<Queued>,
    /// What all of them are expected to take.
    queued_ns: u64,
    /// Since when the first of them runs, as far as is known.
    since: Option<Instant>,
    /// What is being measured.
    span: Option<Span>,
    /// What was measured before that, without a pause between them.
    last_span: Option<Span>,
    measured_ns: HashMap<Kind, u64>,
    /// How much longer large instructions take than was estimated. None while nothing was measured.
    scale: Option<f64>,
    said: Option<Instant>,
}

impl State {
    fn expected_ns(&self, kind: Kind) -> u64 {
        self.measured_ns.get(&kind).copied().unwrap_or_else(|| {
            let work_ns = kind.work_ns as f64 * self.scale.unwrap_or(1.0);
            (kind.instrs as u64 * INSTR_NS).saturating_add(work_ns as u64)
        })
    }

    /// A window was handed over; the link has run it once it has run `until`.
    fn sent(&mut self, kind: Kind, progress: Progress, now: Instant) {
        self.look(progress.executed, now);
        if progress.executed >= progress.sent {
            return;
        }
        if self.queued.is_empty() {
            self.since = Some(now);
            (self.span, self.last_span) = (Some(Span::new(now)), None);
        }
        let expected_ns = self.expected_ns(kind);
        self.queued_ns = self.queued_ns.saturating_add(expected_ns);
        self.queued.push_back(Queued { kind, until: progress.sent, expected_ns });
    }

    /// The link has run so much by now (AHEAD-3).
    fn look(&mut self, executed: u64, now: Instant) {
        let ran = self.queued.iter().take_while(|queued| queued.until <= executed).count();
        if ran == 0 {
            return;
        }
        self.since = Some(now);
        let span = self.span.get_or_insert_with(|| Span::new(now));
        for Queued { kind, expected_ns, .. } in self.queued.drain(..ran) {
            self.queued_ns = self.queued_ns.saturating_sub(expected_ns);
            span.add(kind, 1, expected_ns);
        }
        // With nothing left to run the last window may have ended long before this look.
        let is_idle = self.queued.is_empty();
        if !is_idle && now.saturating_duration_since(span.began) < SHORTEST_SPAN {
            return;
        }
        let span = self.span.take().unwrap_or_else(|| Span::new(now));
        self.measure(&span, is_idle, now);
        if is_idle {
            self.last_span = None;
        } else {
            (self.span, self.last_span) = (Some(Span::new(now)), Some(span));
            self.estimate_again();
        }
    }

    /// What is known of the windows of a span now that it has ended (AHEAD-4).
    fn measure(&mut self, span: &Span, is_idle: bool, now: Instant) {
        let mut both = self.last_span.take().unwrap_or_else(|| Span::new(span.began));
        both.others_ns = both.others_ns.saturating_add(span.others_ns);
        for &(kind, count) in &span.kinds {
            both.add(kind, count, self.expected_ns(kind).saturating_mul(count));
        }
        let expected: Vec<(Kind, u64)> = both.kinds.iter().map(|&(kind, _)| (kind, self.expected_ns(kind))).collect();
        let sums_ns = expected.iter().zip(&both.kinds).map(|((_, ns), (_, count))| ns.saturating_mul(*count));
        let expected_ns = sums_ns.fold(both.others_ns, u64::saturating_add).max(1);
        let took = now.saturating_duration_since(both.began);
        let took = if is_idle { took.max(LATEST_NEWS) } else { took };
        let ratio = took.as_nanos() as f64 / expected_ns as f64;
        for (kind, ns) in expected {
            let ns = (ns as f64 * ratio) as u64;
            match is_idle {
                true => self.took_at_most(kind, ns),
                false => self.measured(kind, ns),
            }
        }
    }

    /// What is queued was estimated when it was handed over, with less knowledge.
    fn estimate_again(&mut self) {
        let mut queued = take(&mut self.queued);
        queued.iter_mut().for_each(|queued| queued.expected_ns = self.expected_ns(queued.kind));
        self.queued_ns = queued.iter().fold(0, |sum, queued| sum.saturating_add(queued.expected_ns));
        self.queued = queued;
    }

    fn measured(&mut self, kind: Kind, ns: u64) {
        let kept = |known: f64, new: f64| KEPT * known + (1.0 - KEPT) * new;
        let known = self.measured_ns.get(&kind).map_or(ns, |&known| kept(known as f64, ns as f64) as u64);
        self.remember(kind, known);
        if let Some(scale) = scale(kind, ns) {
            self.scale = Some(self.scale.map_or(scale, |known| kept(known, scale)).clamp(1e-4, 1e4));
        }
    }

    /// An estimate that is larger is wrong (AHEAD-4).
    fn took_at_most(&mut self, kind: Kind, ns: u64) {
        if ns < self.expected_ns(kind) {
            self.remember(kind, ns);
            if let Some(scale) = scale(kind, ns) {
                self.scale = Some(self.scale.map_or(scale, |known| known.min(scale)).clamp(1e-4, 1e4));
            }
        }
    }

    fn remember(&mut self, kind: Kind, ns: u64) {
        if self.measured_ns.len() >= REMEMBERED {
            self.measured_ns.clear();
        }
        self.measured_ns.insert(kind, ns);
    }

    /// What is expected to be left to run.
    fn ahead_ns(&self, now: Instant) -> u64 {
        let running = self.since.map_or(0, |since| now.saturating_duration_since(since).as_nanos() as u64);
        self.queued_ns - running.min(self.queued.front().map_or(0, |first| first.expected_ns)).min(self.queued_ns)
    }

    /// What a wait says that has lasted long, if there is something to say.
    fn say(&mut self, now: Instant) -> Option<String> {
        if self.queued.is_empty() || self.said.is_some_and(|said| now.saturating_duration_since(said) < SAY_AGAIN) {
            return None;
        }
        self.said = Some(now);
        let operations: usize = self.queued.iter().map(|queued| queued.kind.instrs).sum();
        let seconds = (self.ahead_ns(now) as f64 / 1e9).round().max(1.0);
        let s = if operations == 1 { "" } else { "s" };
        Some(format!("gt: waiting for {operations} queued operation{s}, about {seconds} s"))
    }
}

/// How much longer a window took than was estimated, if it has large instructions.
fn scale(kind: Kind, ns: u64) -> Option<f64> {
    let small_ns = kind.instrs as u64 * INSTR_NS;
    (kind.work_ns > small_ns).then(|| ns.saturating_sub(small_ns) as f64 / kind.work_ns as f64)
}

/// What a session has handed over and not run.
#[derive(Default)]
pub struct RunAhead {
    state: Mutex<State>,
}

impl RunAhead {
    /// A window was handed over to the link.
    pub(crate) fn sent(&self, link: &dyn Link, kind: Kind) {
        let progress = link.progress();
        self.state.lock().sent(kind, progress, Instant::now());
    }

    /// Waits until less than a second of work is left (AHEAD-2).
    ///
    /// # Errors
    /// When the user wants the wait to end.
    pub(crate) fn wait(&self, link: &dyn Link) -> Result<()> {
        if self.is_near(link).is_none() {
            return Ok(());
        }
        blocking(|| {
            let patience = Patience::new(self, link);
            let mut asked = Instant::now();
            while let Some(pause) = self.is_near(link) {
                link.pause(pause);
                if asked.elapsed() >= LONGEST_PAUSE {
                    asked = Instant::now();
                    if patience.is_over() {
                        return Err(Error::Interrupted);
                    }
                }
            }
            Ok(())
        })
    }

    /// None if less than a second of work is left, else when to look again.
    fn is_near(&self, link: &dyn Link) -> Option<Duration> {
        if self.state.lock().queued_ns <= MOST_AHEAD_NS {
            return None;
        }
        let progress = link.progress();
        let mut state = self.state.lock();
        let now = Instant::now();
        state.look(progress.executed, now);
        let more_ns = state.ahead_ns(now).saturating_sub(MOST_AHEAD_NS);
        (more_ns > 0).then(|| Duration::from_nanos(more_ns / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }
}

/// A wait for the workers. If it lasts long, it prints once how much work is queued.
pub(crate) struct Patience<'a> {
    ahead: &'a RunAhead,
    link: &'a dyn Link,
    says: bool,
    say_at: Cell<Option<Instant>>,
}

impl<'a> Patience<'a> {
    /// For a wait that says so on a terminal only.
    pub(crate) fn new(ahead: &'a RunAhead, link: &'a dyn Link) -> Self {
        Patience { says: std::io::stderr().is_terminal(), ..Patience::to_be_said(ahead, link) }
    }

    /// For a wait that says so wherever its user may look.
    pub(crate) fn to_be_said(ahead: &'a RunAhead, link: &'a dyn Link) -> Self {
        Patience { ahead, link, says: true, say_at: Cell::new(Some(Instant::now() + SAY_AFTER)) }
    }

    /// Whether the user wants the wait to end. To be asked now and then.
    pub(crate) fn is_over(&self) -> bool {
        let progress = self.link.progress();
        let mut state = self.ahead.state.lock();
        let now = Instant::now();
        state.look(progress.executed, now);
        let is_long = self.say_at.get().is_some_and(|at| now >= at);
        let line = is_long.then(|| state.say(now)).flatten();
        drop(state);
        if is_long {
            self.say_at.set(None);
        }
        if let Some(line) = line.filter(|_| self.says) {
            gt_observe::say(line);
        }
        interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A window of large instructions that are estimated to take so many milliseconds together.
    fn heavy(ms: u64) -> Kind {
        Kind { instrs: 2, work_ns: ms * 1_000_000 }
    }

    fn seconds(ns: u64) -> f64 {
        (ns as f64 / 1e8).round() / 10.0
    }

    #[test]
    fn what_was_never_measured_is_estimated() {
        let (mut state, start) = (State::default(), Instant::now());
        for sent in 1..=4 {
            state.sent(heavy(500), Progress { sent, executed: 0 }, start);
        }
        assert_eq!(seconds(state.ahead_ns(start)), 2.0);
        // The first one runs.
        assert_eq!(seconds(state.ahead_ns(start + SECOND / 5)), 1.8);
        assert_eq!(seconds(state.ahead_ns(start + 5 * SECOND)), 1.5, "no more than the first is known to run");
    }

    #[test]
    fn windows_that_ran_are_expected_to_take_as_long_again() {
        let (mut state, start) = (State::default(), Instant::now());
        for sent in 1..=4 {
            state.sent(heavy(100), Progress { sent, executed: 0 }, start);
        }
        // They take ten times as long as was estimated.
        state.look(1, start + SECOND);
        state.look(2, start + 2 * SECOND);
        state.sent(heavy(100), Progress { sent: 5, executed: 2 }, start + 2 * SECOND);
        assert_eq!(seconds(state.expected_ns(heavy(100))), 1.0);
        let other = seconds(state.expected_ns(heavy(200)));
        assert!((1.5..=2.1).contains(&other), "other large windows are expected to be slower too: {other}");
        assert_eq!(state.expected_ns(Kind { instrs: 100, work_ns: 0 }), 100 * INSTR_NS, "small ones are not");
    }

    #[test]
    fn looks_shorter_than_a_window_say_nothing_of_it() {
        let (mut state, start) = (State::default(), Instant::now());
        for sent in 1..=100 {
            state.sent(heavy(10), Progress { sent, executed: 0 }, start);
        }
        // Windows take 20 ms; every other look comes 1 ms after the one before.
        for (executed, ms) in [(1, 21), (2, 40), (3, 61), (4, 80), (5, 101), (6, 120), (7, 141)] {
            state.look(executed, start + Duration::from_millis(ms));
        }
        let measured_ms = state.expected_ns(heavy(10)) / 1_000_000;
        assert!((18..=22).contains(&measured_ms), "{measured_ms}");
    }

    #[test]
    fn a_link_that_has_run_everything_keeps_nobody_waiting() {
        let (mut state, start) = (State::default(), Instant::now());
        state.sent(heavy(5000), Progress { sent: 1, executed: 0 }, start);
        state.sent(heavy(5000), Progress { sent: 2, executed: 0 }, start);
        state.look(2, start + SECOND);
        assert_eq!(state.ahead_ns(start + SECOND), 0);
        // It had run when it was handed over: an upload that the engine took over at once.
        state.sent(heavy(5000), Progress { sent: 2, executed: 2 }, start + SECOND);
        assert_eq!((state.ahead_ns(start + SECOND), state.queued.len()), (0, 0));
    }

    #[test]
    fn windows_that_a_server_told_of_late_seemed_to_take_no_time() {
        let (mut state, start) = (State::default(), Instant::now());
        for sent in 1..=4 {
            state.sent(heavy(500), Progress { sent, executed: 0 }, start);
        }
        // Each takes 90 ms; the first three are told of with the last one, by two messages.
        for (executed, ms) in [(1, 354), (4, 360)] {
            state.look(executed, start + Duration::from_millis(ms));
        }
        let known_ms = state.expected_ns(heavy(500)) / 1_000_000;
        assert!((80..=150).contains(&known_ms), "{known_ms}");
        // In the middle of others, too.
        let (mut state, start) = (State::default(), Instant::now());
        for sent in 1..=9 {
            state.sent(heavy(500), Progress { sent, executed: 0 }, start);
        }
        for (executed, ms) in [(1, 354), (4, 410)] {
            state.look(executed, start + Duration::from_millis(ms));
        }
        let (known_ms, queued_ms) = (state.expected_ns(heavy(500)) / 1_000_000, state.queued_ns / 1_000_000);
        assert!((80..=300).contains(&known_ms), "{known_ms}");
        assert_eq!(queued_ms / 5, known_ms, "what is queued is estimated again");
    }

    #[test]
    fn windows_that_take_far_less_than_estimated_hold_nobody_up_for_long() {
        let (mut state, mut now) = (State::default(), Instant::now());
        let mut sent = 0;
        // Recorded until a second is expected to be left, then 50 ms of waiting, in which everything has run.
        for _ in 0..4 {
            while state.queued_ns <= MOST_AHEAD_NS {
                sent += 1;
                state.sent(heavy(10_000), Progress { sent, executed: sent - 1 - state.queued.len() as u64 }, now);
            }
            now += LONGEST_PAUSE;
            state.look(sent, now);
        }
        let known_us = state.expected_ns(heavy(10_000)) / 1000;
        assert!(known_us < 5000, "{known_us}");
    }

    #[test]
    fn a_pause_of_the_program_is_not_taken_for_work() {
        let (mut state, start) = (State::default(), Instant::now());
        state.sent(heavy(100), Progress { sent: 1, executed: 0 }, start);
        state.look(1, start + 100 * SECOND);
        assert_eq!(seconds(state.expected_ns(heavy(100))), 0.1);
    }

    #[test]
    fn a_long_wait_says_once_what_it_waits_for() {
        let (mut state, start) = (State::default(), Instant::now());
        assert_eq!(state.say(start), None, "nothing is queued");
        for sent in 1..=6 {
            state.sent(heavy(1000), Progress { sent, executed: 0 }, start);
        }
        assert_eq!(state.say(start).as_deref(), Some("gt: waiting for 12 queued operations, about 6 s"));
        assert_eq!(state.say(start + SECOND), None);
        assert!(state.say(start + 2 * SAY_AGAIN).is_some());
    }
}
