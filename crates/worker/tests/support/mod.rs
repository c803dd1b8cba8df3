//! What the worker tests share: a time limit, windows from lines, and an engine that waits at a gate.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gt_engine::{Done, Engine, Memory, Run, Sink, Ticket, Value};
use gt_engine_check::{Reference, ReferenceBuffer};
use gt_ir::{Failure, HostTensor, OpKind, Payload, TensorId, Window};
use gt_plan::{EngineLimits, Plan, Slot};
use gt_stream::Occurrence;
use gt_worker::{ReadError, SessionConfig, SessionHandle, WorkerConfig, WorkerHandle};
use parking_lot::{Condvar, Mutex};

/// Fails the test if the body takes longer than ten seconds.
pub fn within_time(body: impl FnOnce() + Send + 'static) {
    within(Duration::from_secs(10), body);
}

/// Fails the test if the body takes longer than that.
pub fn within(limit: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, finished) = channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(limit) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// A window of the given lines; f32 uploads take their elements from `uploads`, in order.
pub fn window(lines: &[&str], frees: &[u64], uploads: &[&[f32]]) -> Occurrence {
    of(spelled(lines, frees, uploads))
}

pub fn of(window: Window) -> Occurrence {
    Occurrence::of(window).expect("an occurrence")
}

/// As [`window`], to be changed first.
pub fn spelled(lines: &[&str], frees: &[u64], uploads: &[&[f32]]) -> Window {
    let instrs: Vec<gt_ir::Instr> = lines.iter().map(|l| l.parse().unwrap_or_else(|e| panic!("{l}: {e}"))).collect();
    let places = instrs.iter().enumerate().filter(|(_, i)| i.op.kind() == OpKind::Upload).map(|(at, _)| at as u32);
    let bytes = |values: &&[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let payload = |(instr, values)| Payload { instr, bytes: bytes(values).into() };
    let uploads = places.zip(uploads).map(payload).collect();
    Window { instrs, uploads, frees: frees.iter().map(|&n| TensorId(n)).collect(), ..Window::default() }
}

/// Two values, so that the gated engine waits at the second.
pub fn two(first: u64) -> Occurrence {
    let fill = format!("%{first} = fill() dtype=f32 shape=[2] $ 3.0");
    let view = format!("%{} = reshape(%{first}) shape=[2, 1]", first + 1);
    window(&[&fill, &view], &[], &[])
}

/// Fails the test if the condition does not come true within five seconds.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(5), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn never() -> bool {
    false
}

/// A session on a worker of its own with this engine.
pub fn session<E: Engine>(make: impl FnOnce() -> E + Send + 'static, config: SessionConfig) -> SessionHandle {
    WorkerHandle::spawn(make, WorkerConfig::default()).open(config)
}

pub fn reference(config: SessionConfig) -> SessionHandle {
    session(Reference::new, config)
}

pub fn floats(tensor: &HostTensor) -> Vec<f32> {
    tensor.bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn read(worker: &SessionHandle, id: u64) -> Vec<f32> {
    floats(&worker.read(TensorId(id), &never).unwrap_or_else(|e| panic!("%{id}: {e}")))
}

pub fn failure(result: Result<HostTensor, ReadError>) -> Arc<Failure> {
    match result {
        Err(ReadError::Failed(failure)) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// Opens once, for all who wait.
#[derive(Default)]
pub struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.open.lock() = true;
        self.changed.notify_all();
    }
    pub fn pass(&self) {
        let mut open = self.open.lock();
        while !*open {
            self.changed.wait(&mut open);
        }
    }
}

/// The reference engine, which publishes the first value of each run, then waits at the gate, and panics at runs that
/// the test chose.
pub struct Gated {
    pub inner: Reference,
    pub gate: Arc<Gate>,
    pub panic_at: Option<usize>,
    pub runs: usize,
}

impl Gated {
    /// An engine that never panics, and its gate.
    pub fn new() -> (Gated, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (Gated { inner: Reference::new(), gate: gate.clone(), panic_at: None, runs: 0 }, gate)
    }
}

struct GateSink {
    inner: Arc<dyn Sink<ReferenceBuffer>>,
    gate: Arc<Gate>,
    published: Mutex<usize>,
    panics: bool,
}

impl Sink<ReferenceBuffer> for GateSink {
    fn publish(&self, slot: Slot, value: Value<ReferenceBuffer>) {
        let mut published = self.published.lock();
        if *published > 0 {
            assert!(!self.panics, "the chosen run");
            self.gate.pass();
        }
        *published += 1;
        self.inner.publish(slot, value);
    }
    fn settled(&self, slot: Slot) {
        self.inner.settled(slot);
    }
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        self.inner.place(failure)
    }
    fn write_skipped(&self, instr: u32, failure: Arc<Failure>) {
        self.inner.write_skipped(instr, failure);
    }
}

impl Engine for Gated {
    type Buffer = ReferenceBuffer;
    type Program = <Reference as Engine>::Program;

    fn name(&self) -> &'static str {
        "gated"
    }
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        self.inner.prepare(plan)
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        let panics = self.panic_at == Some(self.runs);
        self.runs += 1;
        let sink = Arc::new(GateSink { inner: run.sink, gate: self.gate.clone(), published: Mutex::new(0), panics });
        self.inner.submit(program, Run { sink, ..run }).wait();
        Box::new(Done)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        self.inner.memory()
    }
    fn trim(&mut self) {
        self.inner.trim();
    }
}
