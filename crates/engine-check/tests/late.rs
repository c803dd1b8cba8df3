//! The suite on an engine that finishes late and out of step, and the promises of that engine.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gt_engine::{Buffer, Engine, Memory, Run, Ticket, ValueState};
use gt_engine_check::conformance::{self, Built, Grouping, PlanBuilder, prepared, start, within};
use gt_engine_check::{Late, LateBuffer, Reference, ReferenceBuffer};
use gt_ir::{DType, Failure, FailureKind, HostTensor, TensorType};
use gt_plan::{EngineLimits, Plan, Slot};

const LIMIT: Duration = Duration::from_secs(180);

fn late() -> Late<Reference> {
    Late::new(Reference::new(), 11)
}

/// A late engine that settles one value for each message that is sent.
fn gated() -> (Late<Reference>, Sender<()>) {
    let (open, opened) = channel();
    let opened = Mutex::new(opened);
    let pause = move || opened.lock().expect("one thread pauses").recv().expect("the gate is opened");
    (Late::with_pauses(Reference::new(), 11, pause), open)
}

fn seven() -> HostTensor {
    HostTensor { ty: TensorType::new(DType::U8, &[1]), bytes: vec![7] }
}

fn upload_of_seven() -> (Built, Slot) {
    let mut builder = PlanBuilder::new(&[]);
    let slot = builder.upload(&seven());
    (builder.finish(&[slot], Grouping::Fused), slot)
}

#[test]
fn whole_suite() {
    within(LIMIT, || conformance::run_all(late));
}

#[test]
fn values_are_pending_when_submit_returns() {
    within(LIMIT, || {
        let (mut engine, open) = gated();
        let (built, slot) = upload_of_seven();
        let program = prepared(&mut engine, &built.plan);
        let (first, collector) = start(&mut engine, &program, &built.immediates, Vec::new());
        let state = || collector.published(slot).expect("it is not poisoned").state();
        assert!(matches!(state(), ValueState::Pending));
        let (second, later) = start(&mut engine, &program, &built.immediates, Vec::new());
        open.send(()).expect("the run waits at the gate");
        first.wait();
        assert!(matches!(state(), ValueState::Ready));
        open.send(()).expect("the run waits at the gate");
        second.wait();
        for collector in [collector, later] {
            assert_eq!(collector.finish(&built.plan).read(slot), seven());
        }
    });
}

#[test]
fn dropping_the_engine_finishes_what_was_submitted() {
    within(LIMIT, || {
        let mut engine = late();
        let (built, slot) = upload_of_seven();
        let program = prepared(&mut engine, &built.plan);
        let (_, collector) = start(&mut engine, &program, &built.immediates, Vec::new());
        drop(engine);
        assert_eq!(collector.finish(&built.plan).read(slot), seven());
    });
}

/// The reference engine, which panics at every run.
struct Panicking(Reference);

impl Engine for Panicking {
    type Buffer = ReferenceBuffer;
    type Program = <Reference as Engine>::Program;

    fn name(&self) -> &'static str {
        "panicking"
    }
    fn limits(&self) -> EngineLimits {
        self.0.limits()
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<Self::Program, Failure> {
        self.0.prepare(plan)
    }
    fn submit(&mut self, _: &Arc<Self::Program>, _: Run<ReferenceBuffer>) -> Box<dyn Ticket> {
        panic!("as the test wants")
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        self.0.memory()
    }
    fn trim(&mut self) {}
}

#[test]
fn a_panic_fails_the_pending_values() {
    within(LIMIT, || {
        let mut engine = Late::new(Panicking(Reference::new()), 11);
        let (built, slot) = upload_of_seven();
        let program = prepared(&mut engine, &built.plan);
        let (ticket, collector) = start(&mut engine, &program, &built.immediates, Vec::new());
        ticket.wait();
        let pending: LateBuffer<_> = collector.published(slot).expect("it was published before the panic");
        assert!(matches!(pending.state(), ValueState::Failed(_)) && pending.read().is_err());
        let failure = collector.finish(&built.plan).failure(slot);
        assert_eq!(failure.kind, FailureKind::Internal);
        assert_eq!(failure.message, "the engine panicked: as the test wants");
    });
}
