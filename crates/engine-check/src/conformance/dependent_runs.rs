//! Runs whose inputs are the results of runs that may still execute: what a session's windows are.

use std::sync::Arc;

use gt_ir::ops::{Binary, Put, PutMode, Side, Take, Write};
use gt_ir::rows::BinaryKind;
use gt_ir::{DType, HostTensor, TensorType};
use gt_plan::Slot;

use super::plans::{Built, Collector, Grouping, PlanBuilder, prepared, start, upload};
use crate::numbers;
use gt_engine::{Buffer, Engine, Ticket, Value};

/// More than an engine keeps in flight.
const RUNS: usize = 20;

/// Submits runs that depend on each other, and waits for none before all are submitted.
pub fn dependent_runs<E: Engine>(make: impl Fn() -> E) {
    a_chain_of_runs(&mut make());
    failures_reach_runs_submitted_before_them(&mut make());
    writes_keep_the_last_good_value(&mut make());
    dropped_values_do_not_matter(&mut make());
}

fn floats(values: &[f64]) -> HostTensor {
    numbers::from_floats(TensorType::new(DType::F32, &[values.len()]), values)
}

/// `x * 2 + 1`.
fn double_and_one(ty: TensorType) -> (Built, Slot) {
    let mut b = PlanBuilder::new(&[ty]);
    let doubled = b.one(Binary { kind: BinaryKind::Mul, scalar: Side::Right }, &[0], &[2.into()]);
    let out = b.one(Binary { kind: BinaryKind::Add, scalar: Side::Right }, &[doubled], &[1.into()]);
    (b.finish(&[out], Grouping::Fused), out)
}

type Submitted<E> = Vec<(Box<dyn Ticket>, Arc<Collector<<E as Engine>::Buffer>>)>;

/// Submits `built` again and again, each run with the result of the one before.
fn chain<E: Engine>(engine: &mut E, built: &Built, out: Slot, first: Value<E::Buffer>) -> Submitted<E> {
    let program = prepared(engine, &built.plan);
    let mut input = first;
    (0..RUNS)
        .map(|_| {
            let (ticket, collector) = start(engine, &program, &built.immediates, vec![input.clone()]);
            input = collector.published(out);
            (ticket, collector)
        })
        .collect()
}

fn a_chain_of_runs<E: Engine>(engine: &mut E) {
    let input = floats(&[1.0, -1.0]);
    let (built, out) = double_and_one(input.ty);
    let first = upload(engine, std::slice::from_ref(&input)).remove(0);
    let mut expected = [1.0f64, -1.0];
    for (ticket, collector) in chain(engine, &built, out, Ok(first)) {
        ticket.wait();
        expected = expected.map(|x| x * 2.0 + 1.0);
        assert_eq!(numbers::floats(&collector.finish(&built.plan).read(out)), expected);
    }
}

/// A plan that takes row `index` of its first input.
fn take_one(ty: TensorType, index: TensorType) -> (Built, Slot) {
    let mut b = PlanBuilder::new(&[ty, index]);
    let out = b.one(Take { axis: 0, wrap: false }, &[0, 1], &[]);
    (b.finish(&[out], Grouping::Fused), out)
}

fn failures_reach_runs_submitted_before_them<E: Engine>(engine: &mut E) {
    let (table, index) = (floats(&[1.0, 2.0]), numbers::from_ints(TensorType::new(DType::I64, &[2]), &[0, 7]));
    let (taking, taken) = take_one(table.ty, index.ty);
    let inputs = upload(engine, &[table.clone(), index]).into_iter().map(Ok).collect();
    let program = prepared(engine, &taking.plan);
    let (ticket, collector) = start(engine, &program, &taking.immediates, inputs);
    let (built, out) = double_and_one(table.ty);
    let dependents = chain(engine, &built, out, collector.published(taken));
    ticket.wait();
    let root = collector.finish(&taking.plan).failure(taken);
    for (ticket, collector) in dependents {
        ticket.wait();
        let failure = collector.finish(&built.plan).failure(out);
        assert!(Arc::ptr_eq(&failure, &root), "a dependent carries the failure of its cause: {failure}");
    }
}

/// A plan that writes `cell <- put(cell, index, value)`, where the index may be out of range.
fn write_put(cell: TensorType, index: TensorType) -> (Built, Slot) {
    let value = TensorType { shape: index.shape, ..cell };
    let mut b = PlanBuilder::new(&[cell, index, value]);
    let new = b.one(Put { axis: 0, mode: PutMode::Set, wrap: false }, &[0, 1, 2], &[]);
    let out = b.one(Write {}, &[0, new], &[]);
    (b.finish(&[out], Grouping::Fused), out)
}

fn writes_keep_the_last_good_value<E: Engine>(engine: &mut E) {
    let cell = floats(&[0.0, 0.0]);
    let index = |at: i64| numbers::from_ints(TensorType::new(DType::I64, &[1]), &[at]);
    let (built, out) = write_put(cell.ty, index(0).ty);
    let program = prepared(engine, &built.plan);
    let mut value: Value<E::Buffer> = Ok(upload(engine, std::slice::from_ref(&cell)).remove(0));
    let mut runs = Vec::new();
    // Every second index is out of range: that write is skipped, and the next one starts from what was there before.
    for at in [0, 9, 1, 9] {
        let others = upload(engine, &[index(at), floats(&[at as f64 + 5.0])]);
        let inputs = std::iter::once(value.clone()).chain(others.into_iter().map(Ok)).collect();
        let (ticket, collector) = start(engine, &program, &built.immediates, inputs);
        value = collector.published(out);
        runs.push((at, ticket, collector));
    }
    let mut expected = [0.0, 0.0];
    for (at, ticket, collector) in runs {
        ticket.wait();
        let outcome = collector.finish(&built.plan);
        assert_eq!(outcome.skipped.len(), usize::from(at == 9));
        if let Some(cell) = expected.get_mut(at as usize) {
            *cell = at as f64 + 5.0;
        }
        assert_eq!(numbers::floats(&outcome.read(out)), expected);
    }
}

fn dropped_values_do_not_matter<E: Engine>(engine: &mut E) {
    let before = engine.memory().live_bytes;
    let input = floats(&[1.0; 64]);
    let (built, out) = double_and_one(input.ty);
    let first = upload(engine, std::slice::from_ref(&input)).remove(0);
    // The tickets and all values but the last are dropped while the runs execute.
    let kept = chain(engine, &built, out, Ok(first)).pop().expect("there are runs").1.published(out);
    engine.synchronize();
    let read = kept.expect("it is not poisoned").read().expect("it can be read");
    assert_eq!(numbers::floats(&read)[0], 2f64.powi(RUNS as i32 + 1) - 1.0);
    assert_eq!(engine.memory().live_bytes, before, "nothing keeps the values of runs that nobody looks at");
}
