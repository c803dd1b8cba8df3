//! Any engine, made late: what a device does that works on its own. Values are pending when `submit` returns, and later runs are
//! submitted with pending inputs.
//!
//! Two threads. The *executor* takes runs in the order they were submitted and computes them with the inner engine. The
//! *deliverer* settles their values after small pseudo-random pauses, in a shuffled order. So a run may be executing, or done, while
//! the values of the one before are still pending for everybody else.
//!
//! LATE-1: runs are executed in the order they were submitted, so an input's value is computed before its run begins.
//! LATE-2: a run's skipped writes are reported before any of its values is settled.
//! LATE-3: the pauses and the order depend only on the seed and the number of runs so far.
//! LATE-4: every value is settled (PUBLISH-2): where the inner engine panics or leaves it out, with a failure.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gt_ir::{Bytes, Failure, FailureKind, HostBuffer, HostTensor, TensorType};
use gt_plan::{EngineLimits, Plan, Slot};

use crate::conformance::SplitMix;
use gt_engine::Quota;
use gt_engine::{Buffer, Engine, Memory, Run, Sink, Ticket, Value, ValueState};
use gt_engine::{HostMemory, Transfer};

/// Wraps an engine so that it finishes late; see the module's page for what stays true.
pub struct Late<E: Engine> {
    inner: Arc<Mutex<E>>,
    jobs: Option<Sender<Job<E>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A plan, and what the inner engine made of it.
pub struct LateProgram<P> {
    inner: Arc<P>,
    plan: Arc<Plan>,
}

/// A value that is computed later.
#[derive(Clone)]
pub struct LateBuffer<B>(Arc<Cell<B>>);

struct Cell<B> {
    ty: TensorType,
    /// Set by the executor.
    computed: OnceLock<Value<B>>,
    /// Set by the deliverer: until then nobody but the executor looks at the value.
    settled: AtomicBool,
}

impl<B: Buffer> LateBuffer<B> {
    fn pending(ty: TensorType) -> Self {
        LateBuffer(Arc::new(Cell { ty, computed: OnceLock::new(), settled: AtomicBool::new(false) }))
    }

    fn ready(buffer: B) -> Self {
        let (ty, computed) = (buffer.ty(), OnceLock::from(Ok(buffer)));
        LateBuffer(Arc::new(Cell { ty, computed, settled: AtomicBool::new(true) }))
    }

    /// The value, once it is settled.
    fn settled(&self) -> Option<&Value<B>> {
        if self.0.settled.load(Ordering::Acquire) { self.0.computed.get() } else { None }
    }

    fn settled_buffer(&self) -> Option<&B> {
        self.settled().and_then(|value| value.as_ref().ok())
    }

    /// The value for a later run (LATE-1).
    fn into_computed(self) -> Value<B> {
        match Arc::try_unwrap(self.0) {
            Ok(cell) => cell.computed.into_inner().expect("LATE-1"),
            Err(shared) => shared.computed.get().expect("LATE-1").clone(),
        }
    }
}

impl<B: Buffer> Buffer for LateBuffer<B> {
    fn ty(&self) -> TensorType {
        self.0.ty
    }
    fn bytes(&self) -> usize {
        // A value that is not computed keeps nothing alive yet.
        self.0.computed.get().and_then(|value| value.as_ref().ok()).map_or(0, Buffer::bytes)
    }
    fn storage(&self) -> usize {
        self.settled_buffer().map_or(Arc::as_ptr(&self.0).addr(), Buffer::storage)
    }
    fn state(&self) -> ValueState {
        match self.settled() {
            None => ValueState::Pending,
            Some(Ok(_)) => ValueState::Ready,
            Some(Err(failure)) => ValueState::Failed(failure.clone()),
        }
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        match self.0.computed.wait() {
            Ok(buffer) => buffer.read(),
            Err(failure) => Err((**failure).clone()),
        }
    }
    fn packed(&self) -> Option<&[u8]> {
        self.settled_buffer().and_then(Buffer::packed)
    }
}

enum Job<E: Engine> {
    Run(Box<LateRun<E>>),
    Barrier(Sender<()>),
}

struct LateRun<E: Engine> {
    program: Arc<LateProgram<E::Program>>,
    run: Run<LateBuffer<E::Buffer>>,
    outs: Vec<(Slot, LateBuffer<E::Buffer>)>,
    done: Sender<()>,
}

/// What the executor hands to the deliverer.
enum Delivery<B> {
    Values { outs: Vec<(Slot, LateBuffer<B>)>, sink: Arc<dyn Sink<LateBuffer<B>>>, done: Sender<()> },
    Barrier(Sender<()>),
}

/// Receives what the inner engine publishes.
struct Collect<B> {
    outs: Vec<(Slot, LateBuffer<B>)>,
    sink: Arc<dyn Sink<LateBuffer<B>>>,
}

impl<B: Buffer> Sink<B> for Collect<B> {
    fn publish(&self, slot: Slot, value: Value<B>) {
        // PUBLISH-3.
        let value = value.map_err(|failure| self.sink.place(failure));
        let out = self.outs.iter().find(|(out, _)| *out == slot).expect("a live-out of the plan");
        let set = out.1.0.computed.set(value);
        assert!(set.is_ok(), "slot {slot} was published twice");
    }
    fn settled(&self, _: Slot) {
        unreachable!("the inner engine is done when `submit` returns");
    }
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        self.sink.place(failure)
    }
    fn write_skipped(&self, instr: u32, failure: Arc<Failure>) {
        self.sink.write_skipped(instr, failure);
    }
}

/// A panic elsewhere must not hide behind a poisoned lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Engine> Late<E> {
    /// Wraps `inner`, which must be done when its `submit` returns. The seed decides the pauses.
    pub fn new(inner: E, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        // Most pauses are none: a value that is settled at once has to be survived too.
        Self::with_pauses(inner, seed, move || {
            if random.below(6) == 0 {
                std::thread::sleep(Duration::from_micros(random.below(300)));
            }
        })
    }

    /// Wraps `inner`; `pause` is called before each value is settled, and may wait for a test to let it go on.
    pub fn with_pauses(inner: E, seed: u64, pause: impl FnMut() + Send + 'static) -> Self {
        let inner = Arc::new(Mutex::new(inner));
        let (jobs, queue) = channel::<Job<E>>();
        let (deliveries, outbox) = channel::<Delivery<E::Buffer>>();
        let engine = inner.clone();
        let executor = std::thread::Builder::new()
            .name("late-executor".into())
            .spawn(move || execute(&engine, queue, deliveries))
            .expect("a thread can be started");
        let deliverer = std::thread::Builder::new()
            .name("late-deliverer".into())
            .spawn(move || deliver(outbox, SplitMix::new(seed), pause))
            .expect("a thread can be started");
        Late { inner, jobs: Some(jobs), threads: vec![executor, deliverer] }
    }

    fn send(&self, job: Job<E>) {
        let jobs = self.jobs.as_ref().expect("the queue is open until drop");
        jobs.send(job).expect("the executor lives as long as the engine");
    }
}

fn execute<E: Engine>(engine: &Mutex<E>, queue: Receiver<Job<E>>, deliveries: Sender<Delivery<E::Buffer>>) {
    for job in queue {
        let delivery = match job {
            Job::Barrier(done) => Delivery::Barrier(done),
            Job::Run(late) => {
                let LateRun { program, run, outs, done } = *late;
                let sink = run.sink.clone();
                let computed = catch_unwind(AssertUnwindSafe(|| compute(engine, &program.inner, run, &outs)));
                let failure = match computed {
                    Ok(()) => Failure::new(FailureKind::Internal, "the engine did not publish this value"),
                    Err(panic) => {
                        Failure::new(FailureKind::Internal, format!("the engine panicked: {}", panic_text(&*panic)))
                    }
                };
                // LATE-4.
                let rest = OnceLock::new();
                for (_, out) in &outs {
                    out.0
                        .computed
                        .get_or_init(|| Err(rest.get_or_init(|| sink.place(Arc::new(failure.clone()))).clone()));
                }
                Delivery::Values { outs, sink, done }
            }
        };
        if deliveries.send(delivery).is_err() {
            return;
        }
    }
}

fn compute<E: Engine>(
    engine: &Mutex<E>,
    program: &Arc<E::Program>,
    run: Run<LateBuffer<E::Buffer>>,
    outs: &[(Slot, LateBuffer<E::Buffer>)],
) {
    let Run { inputs, immediates, sink, quota, cancel, flush_denormal } = run;
    let inputs = inputs.into_iter().map(|input| input.and_then(LateBuffer::into_computed)).collect();
    let sink = Arc::new(Collect { outs: outs.to_vec(), sink });
    let ticket = lock(engine).submit(program, Run { inputs, immediates, sink, quota, cancel, flush_denormal });
    ticket.wait();
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn deliver<B: Buffer>(outbox: Receiver<Delivery<B>>, mut random: SplitMix, mut pause: impl FnMut()) {
    for delivery in outbox {
        let done = match delivery {
            Delivery::Barrier(done) => done,
            Delivery::Values { mut outs, sink, done } => {
                for i in (1..outs.len()).rev() {
                    outs.swap(i, random.below(i as u64 + 1) as usize);
                }
                for (slot, out) in outs {
                    pause();
                    out.0.settled.store(true, Ordering::Release);
                    sink.settled(slot);
                }
                done
            }
        };
        // Nobody hears it if the ticket was dropped.
        let _ = done.send(());
    }
}

struct LateTicket(Receiver<()>);

impl Ticket for LateTicket {
    fn wait(self: Box<Self>) {
        self.0.recv().expect("a late engine's threads outlive its runs");
    }
}

/// Uploads of the inner engine, whose values are ready at once.
struct LateTransfer<B>(Arc<dyn Transfer<B>>);

impl<B: Buffer> HostMemory for LateTransfer<B> {
    fn charge(&self, len_bytes: u64) -> Result<(), Failure> {
        self.0.charge(len_bytes)
    }
    fn give_back(&self, len_bytes: u64) {
        self.0.give_back(len_bytes);
    }
    fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes()
    }
    fn allocate(&self, len_bytes: usize) -> Result<HostBuffer, Failure> {
        self.0.allocate(len_bytes)
    }
}

impl<B: Buffer> Transfer<LateBuffer<B>> for LateTransfer<B> {
    fn upload(&self, ty: TensorType, payload: &Bytes, quota: Option<&Arc<Quota>>) -> Option<LateBuffer<B>> {
        self.0.upload(ty, payload, quota).map(LateBuffer::ready)
    }
    fn memory(&self) -> Option<Memory> {
        self.0.memory()
    }
}

impl<E: Engine> Engine for Late<E> {
    type Buffer = LateBuffer<E::Buffer>;
    type Program = LateProgram<E::Program>;

    fn name(&self) -> &'static str {
        "late"
    }
    fn limits(&self) -> EngineLimits {
        lock(&self.inner).limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        let inner = Arc::new(lock(&self.inner).prepare(plan)?);
        Ok(LateProgram { inner, plan: plan.clone() })
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<Self::Buffer>) -> Box<dyn Ticket> {
        let plan = &program.plan;
        let out = |&slot: &Slot| (slot, LateBuffer::pending(plan.types[slot as usize]));
        let outs: Vec<_> = plan.live_outs.iter().map(out).collect();
        outs.iter().for_each(|(slot, out)| run.sink.publish(*slot, Ok(out.clone())));
        let (done, ticket) = channel();
        self.send(Job::Run(Box::new(LateRun { program: program.clone(), run, outs, done })));
        Box::new(LateTicket(ticket))
    }
    fn synchronize(&mut self) {
        let (done, reached) = channel();
        self.send(Job::Barrier(done));
        reached.recv().expect("a late engine's threads outlive its runs");
        lock(&self.inner).synchronize();
    }
    fn memory(&self) -> Memory {
        lock(&self.inner).memory()
    }
    fn trim(&mut self) {
        lock(&self.inner).trim();
    }
    fn transfer(&self) -> Arc<dyn Transfer<Self::Buffer>> {
        Arc::new(LateTransfer(lock(&self.inner).transfer()))
    }
}

impl<E: Engine> Drop for Late<E> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Whoever waited on a ticket has seen a panic there.
            let _ = thread.join();
        }
    }
}
