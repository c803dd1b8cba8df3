//! Sessions that end in the middle of their work, by themselves or because something panicked: nobody else notices.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use gt_engine::{Buffer, Engine, Memory, Run, Sink, Ticket, Value};
use gt_engine_check::{Reference, ReferenceBuffer};
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::{Failure, FailureKind, HostTensor, TensorId, TensorType};
use gt_plan::{EngineLimits, Plan, Slot};
use gt_stream::Occurrence;
use gt_worker::{ReadError, SessionConfig, WorkerConfig, WorkerHandle};
use support::*;

/// A buffer whose next copy panics, if that is wanted.
struct Fragile(ReferenceBuffer, Arc<AtomicBool>);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!self.1.swap(false, SeqCst), "this buffer cannot be copied");
        Fragile(self.0.clone(), self.1.clone())
    }
}

impl Buffer for Fragile {
    fn ty(&self) -> TensorType {
        self.0.ty()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn storage(&self) -> usize {
        self.0.storage()
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        self.0.read()
    }
}

/// The reference engine with such buffers.
struct FragileEngine(Reference, Arc<AtomicBool>);

struct FragileSink(Arc<dyn Sink<Fragile>>, Arc<AtomicBool>);

impl Sink<ReferenceBuffer> for FragileSink {
    fn publish(&self, slot: Slot, value: Value<ReferenceBuffer>) {
        self.0.publish(slot, value.map(|buffer| Fragile(buffer, self.1.clone())));
    }
    fn settled(&self, slot: Slot) {
        self.0.settled(slot);
    }
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        self.0.place(failure)
    }
    fn write_skipped(&self, instr: u32, failure: Arc<Failure>) {
        self.0.write_skipped(instr, failure);
    }
}

impl Engine for FragileEngine {
    type Buffer = Fragile;
    type Program = <Reference as Engine>::Program;

    fn name(&self) -> &'static str {
        "fragile"
    }
    fn limits(&self) -> EngineLimits {
        self.0.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        self.0.prepare(plan)
    }
    fn submit(&mut self, program: &Arc<Self::Program>, run: Run<Fragile>) -> Box<dyn Ticket> {
        let Run { inputs, immediates, sink, quota, cancel, flush_denormal } = run;
        let inputs = inputs.into_iter().map(|input| input.map(|buffer| buffer.0)).collect();
        let sink = Arc::new(FragileSink(sink, self.1.clone()));
        self.0.submit(program, Run { inputs, immediates, sink, quota, cancel, flush_denormal })
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        self.0.memory()
    }
    fn trim(&mut self) {}
}

/// The `turn`-th window of a loop that reads `%1` each time.
fn turn(turn: u64) -> Occurrence {
    window(&[&format!("%{} = binary(%1) kind=add scalar=right $ {:?}", 10 + turn, turn as f64)], &[], &[])
}

#[test]
fn a_panic_while_a_window_was_bound_to_its_values_ended_the_worker() {
    within_time(|| {
        let armed = Arc::new(AtomicBool::new(false));
        let of_engine = armed.clone();
        let worker = WorkerHandle::spawn(move || FragileEngine(Reference::new(), of_engine), WorkerConfig::default());
        let (session, other) = (worker.open(SessionConfig::default()), worker.open(SessionConfig::default()));
        session.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 3.0"], &[], &[]), &never).unwrap();
        for number in 0..4 {
            session.synchronize(&never).unwrap();
            armed.store(number == 2, SeqCst);
            session.send(turn(number), &never).unwrap();
        }
        let broken = failure(session.read(TensorId(12), &never));
        assert_eq!(broken.kind, FailureKind::Internal);
        assert!(broken.message.contains("this buffer cannot be copied"), "{broken}");
        assert_eq!((read(&session, 11), read(&session, 13)), (vec![4.0; 2], vec![6.0; 2]));
        other.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 5.0"], &[], &[]), &never).unwrap();
        other.send(turn(1), &never).unwrap();
        assert_eq!(read(&other, 11), [6.0; 2]);
    });
}

#[test]
fn a_closed_session_ran_on_to_the_end_of_its_window() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let worker = WorkerHandle::spawn(move || engine, WorkerConfig::default());
        let session = worker.open(SessionConfig::default());
        let lines = [
            "%1 = fill() dtype=f32 shape=[2] $ 3.0",
            "%2 = reshape(%1) shape=[2, 1]",
            "%3 = fill() dtype=f32 shape=[1000000] $ 1.0",
        ];
        session.send(window(&lines, &[], &[]), &never).unwrap();
        assert_eq!(read(&session, 1), [3.0, 3.0]);
        // It waits at the gate with the second value.
        session.close();
        gate.open();
        wait_until(|| worker.stats().sessions == 0);
        let memory = worker.memory();
        assert!(memory.peak_bytes < 1_000_000, "the third value was computed for nobody: {memory:?}");
    });
}

#[test]
fn the_fast_engine_ran_on_for_a_session_that_was_closed() {
    within(std::time::Duration::from_secs(60), || {
        let config = Config { threads: 1, memory_limit_bytes: 1 << 30 };
        let worker = WorkerHandle::spawn(move || CpuEngine::new(config), WorkerConfig::default());
        let session = worker.open(SessionConfig::default());
        // Products that take minutes together, on the fastest cores too.
        const LAST: u64 = 20_000;
        let mut lines = vec!["%1 = fill() dtype=f32 shape=[1024, 1024] $ 0.0".to_string()];
        lines.extend((2..LAST).map(|id| format!("%{id} = matmul(%{}, %{}) turn_a=false turn_b=false", id - 1, id - 1)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let frees: Vec<u64> = (3..LAST - 1).collect();
        session.send(window(&lines, &frees, &[]), &never).unwrap();
        assert_eq!(session.read(TensorId(2), &never).unwrap().bytes.len(), 4 << 20);
        drop(session);
        let other = worker.open(SessionConfig::default());
        other.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 5.0"], &[], &[]), &never).unwrap();
        assert_eq!(read(&other, 1), [5.0; 2]);
        assert!(matches!(other.read(TensorId(9), &never), Err(ReadError::Failed(_))));
    });
}

/// An expanded tensor takes no memory, so nothing limited what was computed of it.
#[test]
fn one_instruction_of_a_closed_session_kept_the_engine_for_as_long_as_it_took() {
    within(std::time::Duration::from_secs(60), || {
        let config = Config { threads: 2, memory_limit_bytes: 1 << 30 };
        let worker = WorkerHandle::spawn(move || CpuEngine::new(config), WorkerConfig::default());
        for of in
            ["%3 = reduce(%2) kind=sum axes=[0] keepdim=false", "%3 = reduce(%2) kind=prod axes=[0] keepdim=false"]
        {
            let session = worker.open(SessionConfig::default());
            let lines = [
                "%1 = fill() dtype=f32 shape=[1] $ 1.0",
                // Twenty minutes.
                "%2 = broadcast(%1) shape=[1099511627776]",
                of,
            ];
            session.send(window(&lines, &[], &[]), &never).unwrap();
            assert_eq!(read(&session, 1), [1.0]);
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(session);
            let other = worker.open(SessionConfig::default());
            other.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 5.0"], &[], &[]), &never).unwrap();
            assert_eq!(read(&other, 1), [5.0; 2]);
        }
    });
}

#[test]
fn a_product_of_a_closed_session_kept_the_others_waiting() {
    within(std::time::Duration::from_secs(90), || {
        let config = Config { threads: 2, memory_limit_bytes: 1 << 30 };
        let worker = WorkerHandle::spawn(move || CpuEngine::new(config), WorkerConfig::default());
        let kinds = ["f32", "f64", "bf16", "i64"].map(|dtype| {
            let one = format!("%1 = fill() dtype={dtype} shape=[1, 1] $ {}", if dtype == "i64" { "1" } else { "1.0" });
            // Many minutes, of one element.
            let wide = "%2 = broadcast(%1) shape=[16, 68719476736]".to_string();
            let high = "%3 = broadcast(%1) shape=[68719476736, 16]".to_string();
            [one, wide, high, "%4 = matmul(%2, %3) turn_a=false turn_b=false".to_string()]
        });
        let queries = [
            "%1 = fill() dtype=f32 shape=[1, 1, 1, 1] $ 1.0",
            "%2 = broadcast(%1) shape=[1, 1, 64, 16]",
            "%3 = broadcast(%1) shape=[1, 1, 34359738368, 16]",
            "%4, %5 = attention(%2, %3, %3) causal=false masked=false $ 1.0",
        ];
        for lines in kinds.into_iter().chain([queries.map(String::from)]) {
            let session = worker.open(SessionConfig::default());
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            session.send(window(&lines, &[], &[]), &never).unwrap();
            session.read(TensorId(1), &never).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(session);
            let begun = std::time::Instant::now();
            let other = worker.open(SessionConfig::default());
            other.send(window(&["%1 = fill() dtype=f32 shape=[2] $ 5.0"], &[], &[]), &never).unwrap();
            assert_eq!(read(&other, 1), [5.0; 2]);
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{lines:?}: {:?}", begun.elapsed());
        }
    });
}

#[test]
fn an_instruction_that_would_take_hours_fails_at_once() {
    within(std::time::Duration::from_secs(20), || {
        let config = Config { threads: 2, memory_limit_bytes: 1 << 30 };
        let worker = WorkerHandle::spawn(move || CpuEngine::new(config), WorkerConfig::default());
        let session = worker.open(SessionConfig::default());
        let lines = [
            "%1 = fill() dtype=f32 shape=[1, 1] $ 1.0",
            "%2 = broadcast(%1) shape=[1, 288230376151711744]",
            "%3 = reduce(%2) kind=sum axes=[1] keepdim=false",
            "%4 = broadcast(%1) shape=[288230376151711744, 1]",
            "%5 = matmul(%2, %4) turn_a=false turn_b=false",
            // Days on slow kernels.
            "%6 = broadcast(%1) shape=[1, 4503599627370496]",
            "%7 = broadcast(%1) shape=[4503599627370496, 1]",
            "%8 = matmul(%6, %7) turn_a=false turn_b=false",
        ];
        session.send(window(&lines, &[], &[]), &never).unwrap();
        for id in [3, 5, 8] {
            let Err(ReadError::Failed(failure)) = session.read(TensorId(id), &never) else {
                panic!("%{id} has a value")
            };
            assert!(failure.message.contains("would take hours"), "{failure}");
        }
        assert_eq!(read(&session, 1), [1.0]);
    });
}
