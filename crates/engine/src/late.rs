//! Any engine, finishing late and out of step: it shows who relies on a run being done when `submit` returns.
//!
//! Two threads. The *executor* owns the inner engine's turn: it takes runs in the order they were submitted and
//! collects what each publishes. The *deliverer* hands the results on after small pseudo-random pauses, so that a
//! run's values appear while later runs are already being executed.
//!
//! LATE-1: runs are executed in the order they were submitted.
//! LATE-2: a run's skipped writes are reported before its values; its values come in a shuffled order.
//! LATE-3: the pauses and the order depend only on the seed and the number of runs so far.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gt_ir::Failure;
use gt_plan::{Plan, Slot};

use crate::adopt::Adopt;
use crate::conformance::SplitMix;
use crate::engine::{Engine, Memory, Run, Sink, Ticket, Value};
use crate::host_memory::HostMemory;

/// Wraps an engine so that it finishes late; see the module's page for what stays true.
pub struct Late<E: Engine> {
    inner: Arc<Mutex<E>>,
    runs: Option<Sender<Job<E>>>,
    threads: Vec<JoinHandle<()>>,
}

enum Job<E: Engine> {
    Run(Arc<E::Program>, Run<E::Buffer>, Sender<()>),
    Barrier(Sender<()>),
}

/// What the executor hands to the deliverer.
enum Delivery<B> {
    Results { skipped: Vec<Arc<Failure>>, values: Vec<(Slot, Value<B>)>, sink: Arc<dyn Sink<B>>, done: Sender<()> },
    Barrier(Sender<()>),
}

struct Collect<B>(Mutex<Collected<B>>);

struct Collected<B> {
    values: Vec<(Slot, Value<B>)>,
    skipped: Vec<Arc<Failure>>,
}

impl<B: Send + Sync> Sink<B> for Collect<B> {
    fn publish(&self, slot: Slot, value: Value<B>) {
        lock(&self.0).values.push((slot, value));
    }
    fn write_skipped(&self, failure: Arc<Failure>) {
        lock(&self.0).skipped.push(failure);
    }
}

/// A panic elsewhere must not hide behind a poisoned lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E: Engine> Late<E> {
    /// Wraps `inner`; the seed decides the pauses.
    pub fn new(inner: E, seed: u64) -> Self {
        let inner = Arc::new(Mutex::new(inner));
        let (runs, queue) = channel::<Job<E>>();
        let (deliveries, outbox) = channel::<Delivery<E::Buffer>>();
        let engine = inner.clone();
        let executor = std::thread::Builder::new()
            .name("late-executor".into())
            .spawn(move || execute(&engine, queue, deliveries))
            .expect("a thread can be started");
        let deliverer = std::thread::Builder::new()
            .name("late-deliverer".into())
            .spawn(move || deliver(outbox, SplitMix::new(seed)))
            .expect("a thread can be started");
        Late { inner, runs: Some(runs), threads: vec![executor, deliverer] }
    }

    fn send(&self, job: Job<E>) {
        let runs = self.runs.as_ref().expect("the queue is open until drop");
        runs.send(job).expect("the executor lives as long as the engine");
    }
}

fn execute<E: Engine>(engine: &Mutex<E>, queue: Receiver<Job<E>>, deliveries: Sender<Delivery<E::Buffer>>) {
    for job in queue {
        let delivery = match job {
            Job::Barrier(done) => Delivery::Barrier(done),
            Job::Run(program, run, done) => {
                let collect = Arc::new(Collect(Mutex::new(Collected { values: Vec::new(), skipped: Vec::new() })));
                let Run { inputs, immediates, sink, quota } = run;
                let inner_run = Run { inputs, immediates, sink: collect.clone(), quota };
                let ticket = lock(engine).submit(&program, inner_run);
                ticket.wait();
                let mut collected = lock(&collect.0);
                Delivery::Results {
                    skipped: std::mem::take(&mut collected.skipped),
                    values: std::mem::take(&mut collected.values),
                    sink,
                    done,
                }
            }
        };
        if deliveries.send(delivery).is_err() {
            return;
        }
    }
}

fn deliver<B: Send + Sync>(outbox: Receiver<Delivery<B>>, mut random: SplitMix) {
    // Most pauses are none at all: both a result that is there at once and one that is not must be survived.
    let pause = |random: &mut SplitMix| {
        if random.below(6) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
    };
    for delivery in outbox {
        let done = match delivery {
            Delivery::Barrier(done) => done,
            Delivery::Results { skipped, mut values, sink, done } => {
                for i in (1..values.len()).rev() {
                    values.swap(i, random.below(i as u64 + 1) as usize);
                }
                pause(&mut random);
                skipped.into_iter().for_each(|failure| sink.write_skipped(failure));
                for (slot, value) in values {
                    pause(&mut random);
                    sink.publish(slot, value);
                }
                done
            }
        };
        // Nobody needs to hear it if the ticket was dropped.
        let _ = done.send(());
    }
}

struct LateTicket(Receiver<()>);

impl Ticket for LateTicket {
    fn wait(self: Box<Self>) {
        self.0.recv().expect("a late engine's threads outlive its runs");
    }
}

impl<E: Engine> Engine for Late<E> {
    type Buffer = E::Buffer;
    type Program = E::Program;

    fn name(&self) -> &'static str {
        "late"
    }
    fn prepare(&mut self, plan: Arc<Plan>) -> E::Program {
        lock(&self.inner).prepare(plan)
    }
    fn submit(&mut self, program: &Arc<E::Program>, run: Run<E::Buffer>) -> Box<dyn Ticket> {
        let (done, ticket) = channel();
        self.send(Job::Run(program.clone(), run, done));
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
    fn host_memory(&self) -> Arc<dyn HostMemory> {
        lock(&self.inner).host_memory()
    }
    fn adopter(&self) -> Option<Arc<dyn Adopt<E::Buffer>>> {
        lock(&self.inner).adopter()
    }
}

impl<E: Engine> Drop for Late<E> {
    fn drop(&mut self) {
        self.runs = None;
        for thread in self.threads.drain(..) {
            // A panic there has been seen by whoever waited on a ticket.
            let _ = thread.join();
        }
    }
}
