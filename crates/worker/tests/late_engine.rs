//! An engine whose values are pending when `submit` returns: windows that depend on them, and windows that repeat, are handed to it
//! at once, each is planned once, and the results are those of an engine that is never late.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use gt_engine::{Engine, Memory, Run, Ticket};
use gt_engine_check::conformance::SplitMix;
use gt_engine_check::{Late, LateBuffer, Reference, ReferenceBuffer};
use gt_ir::{Failure, TensorId};
use gt_plan::{EngineLimits, Plan};
use gt_stream::Occurrence;
use gt_worker::{ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use support::*;

/// What an engine was asked for.
#[derive(Default)]
struct Calls {
    prepared: AtomicUsize,
    submitted: AtomicUsize,
}

/// A late engine that counts.
struct Counting(Late<Reference>, Arc<Calls>);

impl Engine for Counting {
    type Buffer = LateBuffer<ReferenceBuffer>;
    type Program = <Late<Reference> as Engine>::Program;

    fn name(&self) -> &'static str {
        "counting"
    }
    fn limits(&self) -> EngineLimits {
        self.0.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        self.1.prepared.fetch_add(1, SeqCst);
        self.0.prepare(plan)
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<Self::Buffer>) -> Box<dyn Ticket> {
        let ticket = self.0.submit(program, run);
        self.1.submitted.fetch_add(1, SeqCst);
        ticket
    }
    fn synchronize(&mut self) {
        self.0.synchronize();
    }
    fn memory(&self) -> Memory {
        self.0.memory()
    }
    fn trim(&mut self) {
        self.0.trim();
    }
}

fn counting(late: Late<Reference>) -> (SessionHandle, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let engine = Counting(late, calls.clone());
    (session(move || engine, SessionConfig::default()), calls)
}

/// A session on an engine that settles nothing before the gate is opened.
fn gated() -> (SessionHandle, Arc<Calls>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let of_engine = gate.clone();
    let (session, calls) = counting(Late::with_pauses(Reference::new(), 5, move || of_engine.pass()));
    (session, calls, gate)
}

/// Replaces `%from` by twice its value, as `%to`.
fn double(from: u64, to: u64) -> Occurrence {
    window(&[&format!("%{to} = binary(%{from}) kind=mul scalar=right $ 2.0")], &[from], &[])
}

#[test]
fn dependent_windows_reach_the_engine_before_anything_is_settled() {
    within_time(|| {
        let (session, calls, gate) = gated();
        session.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]), &never).unwrap();
        session.send(double(1, 2), &never).unwrap();
        session.send(double(2, 3), &never).unwrap();
        wait_until(|| calls.submitted.load(SeqCst) == 3);
        assert_eq!(calls.prepared.load(SeqCst), 2, "the same window is planned once");
        gate.open();
        assert_eq!(read(&session, 3), [12.0, 12.0]);
        session.synchronize(&never).unwrap();
        assert_eq!(session.stats().live_tensors, 1);
    });
}

#[test]
fn a_reader_gets_a_value_that_a_later_window_frees() {
    within_time(|| {
        let (session, calls, gate) = gated();
        session.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]), &never).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let read = Box::new(move |value: Result<gt_worker::Copied, ReadError>| tell.send(value).unwrap());
        session.read_then(TensorId(1), session.sent(), read);
        session.send(double(1, 2), &never).unwrap();
        wait_until(|| calls.submitted.load(SeqCst) == 2);
        gate.open();
        let value = told.recv_timeout(Duration::from_secs(5)).expect("it is answered").expect("it is there");
        assert_eq!(floats(&value.tensor), [3.0, 3.0]);
    });
}

/// A step of a random program on 4 cells: which cell is written, from which values, and whether its index is out of range.
struct Program {
    random: SplitMix,
    cells: Vec<u64>,
    next: u64,
}

const CELLS: u64 = 4;

impl Program {
    fn new(seed: u64) -> (Program, Occurrence) {
        let lines: Vec<String> = (1..=CELLS).map(|id| format!("%{id} = fill() dtype=f32 shape=[3] $ {id}.0")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let program = Program { random: SplitMix::new(seed), cells: (1..=CELLS).collect(), next: CELLS + 1 };
        (program, window(&lines, &[], &[]))
    }

    /// A window that rewrites some cells; `shape` decides its instructions, so that the same shape repeats.
    fn step(&mut self, shape: u64) -> Occurrence {
        let mut choice = SplitMix::new(shape);
        let (mut lines, mut frees, mut uploads) = (Vec::new(), Vec::new(), Vec::new());
        let mut fresh = || {
            self.next += 1;
            self.next - 1
        };
        for _ in 0..1 + choice.below(4) {
            let [to, a, b] = [(); 3].map(|()| choice.below(CELLS) as usize);
            let kind = *choice.pick(&["add", "mul"]);
            let [index, whole, taken, mixed, written] = [(); 5].map(|()| fresh());
            lines.push(format!("%{index} = upload() dtype=f32 shape=[3]"));
            // About one in six indices is out of range, whatever the shape of the window.
            uploads.push(std::array::from_fn::<f32, 3, _>(|_| {
                self.random.below(3) as f32 + f32::from(self.random.below(18) == 0) * 7.0
            }));
            lines.push(format!("%{whole} = cast(%{index}) dtype=i64"));
            lines.push(format!("%{taken} = take(%{}, %{whole}) axis=0 wrap=false", self.cells[a]));
            lines.push(format!("%{mixed} = binary(%{taken}, %{}) kind={kind} scalar=none", self.cells[b]));
            lines.push(format!("%{written} = write(%{}, %{mixed})", self.cells[to]));
            frees.extend([index, whole, taken, mixed, self.cells[to]]);
            self.cells[to] = written;
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let uploads: Vec<&[f32]> = uploads.iter().map(|values| &values[..]).collect();
        window(&lines, &frees, &uploads)
    }
}

/// What a session says of a value: its elements, or the message of its failure.
fn said(session: &SessionHandle, id: u64) -> Result<Vec<f32>, String> {
    match session.read(TensorId(id), &never) {
        Ok(value) => Ok(floats(&value)),
        Err(ReadError::Failed(failure)) => Err(failure.message.clone()),
        Err(other) => panic!("%{id}: {other:?}"),
    }
}

#[test]
fn random_programs_of_windows_and_repeats_give_the_same_on_a_late_engine() {
    within(Duration::from_secs(60), || {
        let mut failures = 0;
        for seed in 0..40 {
            let worker = |engine| WorkerHandle::spawn(move || engine, WorkerConfig::default());
            let late = worker(Late::new(Reference::new(), seed)).open(SessionConfig::default());
            let prompt = reference(SessionConfig::default());
            let (mut program, first) = Program::new(seed);
            late.send(first.clone(), &never).unwrap();
            prompt.send(first, &never).unwrap();
            for turn in 0..30 {
                // A few shapes come again and again.
                let shape = seed * 100 + program.random.below(3);
                let step = program.step(shape);
                late.send(step.clone(), &never).unwrap();
                prompt.send(step, &never).unwrap();
                if turn % 7 == 6 {
                    // Skipped writes are raised here, so that no read before has to tell of them.
                    let raised =
                        [&late, &prompt].map(|session| session.synchronize(&never).err().map(|e| e.to_string()));
                    failures += u64::from(raised[0].is_some());
                    assert_eq!(raised[0], raised[1], "seed {seed}, turn {turn}");
                    for &cell in &program.cells {
                        let (have, want) = (said(&late, cell), said(&prompt, cell));
                        assert_eq!(have, want, "seed {seed}, turn {turn}, %{cell}");
                    }
                }
            }
            for session in [&late, &prompt] {
                let _ = session.synchronize(&never);
                assert_eq!(session.stats().live_tensors, CELLS);
            }
        }
        assert!(failures > 20, "only {failures} waits met a failure, so failures were hardly tried");
    });
}
