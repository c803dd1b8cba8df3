//! The suite on an engine that finishes late and out of step.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gt_engine::conformance::{self, Collector, within};
use gt_engine::{Engine, Late, Reference, ReferenceBuffer, Run, Sink, Value};
use gt_ir::{DType, Failure, HostTensor, TensorType};
use gt_plan::Slot;

const LIMIT: Duration = Duration::from_secs(180);

fn late() -> Late<Reference> {
    Late::new(Reference::new(), 11)
}

fn seven() -> HostTensor {
    HostTensor { ty: TensorType::new(DType::U8, &[1]), bytes: vec![7] }
}

#[test]
fn whole_suite() {
    within(LIMIT, || conformance::run_all(late));
}

/// Lets nothing through before it is opened.
struct Gate {
    opened: Mutex<Receiver<()>>,
    behind: Arc<Collector<ReferenceBuffer>>,
}

impl Sink<ReferenceBuffer> for Gate {
    fn publish(&self, slot: Slot, value: Value<ReferenceBuffer>) {
        self.opened.lock().expect("nobody panics here").recv().expect("the gate is opened");
        self.behind.publish(slot, value);
    }
    fn write_skipped(&self, failure: Arc<Failure>) {
        self.behind.write_skipped(failure);
    }
}

#[test]
fn submit_returns_before_the_run_is_published() {
    within(LIMIT, || {
        let mut engine = late();
        let mut builder = conformance::PlanBuilder::new(&[]);
        let slot = builder.upload(&seven());
        let built = builder.finish(&[slot], conformance::Grouping::Fused);
        let program = Arc::new(engine.prepare(built.plan.clone()));
        let (open, opened) = channel();
        let behind = Arc::new(Collector::default());
        let sink = Arc::new(Gate { opened: Mutex::new(opened), behind: behind.clone() });
        let run = Run { inputs: Vec::new(), immediates: built.immediates.clone(), sink, quota: None };
        // Were the run done inside `submit`, it would wait for a gate that is opened only afterwards.
        let first = engine.submit(&program, run);
        let (second, later) = conformance::start(&mut engine, &program, &built.immediates, Vec::new());
        open.send(()).expect("the run waits at the gate");
        first.wait();
        second.wait();
        assert_eq!(behind.finish(&built.plan).read(slot), seven());
        assert_eq!(later.finish(&built.plan).read(slot), seven());
    });
}

#[test]
fn dropping_the_engine_finishes_what_was_submitted() {
    within(LIMIT, || {
        let mut engine = late();
        let mut builder = conformance::PlanBuilder::new(&[]);
        let slot = builder.upload(&seven());
        let built = builder.finish(&[slot], conformance::Grouping::Fused);
        let program = Arc::new(engine.prepare(built.plan.clone()));
        let (_, collector) = conformance::start(&mut engine, &program, &built.immediates, Vec::new());
        drop(engine);
        assert_eq!(collector.finish(&built.plan).read(slot), seven());
    });
}
