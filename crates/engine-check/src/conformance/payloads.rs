//! Payloads in memory that the engine gave: uploaded like any other, never changed under those who have them, and given back.

use std::sync::Arc;

use gt_ir::ops::{Binary, Side, Write};
use gt_ir::rows::BinaryKind;
use gt_ir::{Bytes, DType, FailureKind, HostTensor, TensorType};
use gt_plan::Slot;

use super::plans::{Built, Collector, Grouping, Outcome, PlanBuilder, prepared, run_plan};
use crate::numbers;
use gt_engine::Cancel;
use gt_engine::Quota;
use gt_engine::{Buffer, Engine, Run};

const DOUBLE: Binary = Binary { kind: BinaryKind::Mul, scalar: Side::Right };

/// Elements in memory of the engine's. What lay there before is not what they are.
fn payload<E: Engine>(engine: &E, tensor: &HostTensor) -> Bytes {
    let mut memory = engine.transfer().allocate(tensor.bytes.len()).expect("there is room");
    assert_eq!(memory.bytes_mut().len(), tensor.bytes.len());
    memory.bytes_mut().fill(0xA5);
    memory.bytes_mut().copy_from_slice(&tensor.bytes);
    memory.freeze()
}

fn floats(count: usize, first: f64) -> HostTensor {
    let values: Vec<f64> = (0..count).map(|i| first + (i % 50) as f64).collect();
    numbers::from_floats(TensorType::new(DType::F32, &[count]), &values)
}

/// Runs every check, each on a fresh engine.
///
/// # Panics
/// On the first that fails, with what was expected.
pub fn payloads<E: Engine>(make: &impl Fn() -> E) {
    bytes_stay_as_they_are_whatever_becomes_of_the_value(&mut make());
    a_value_outlives_its_payload(&mut make());
    flags_are_none_or_one(&mut make());
    memory_counts_once_it_is_a_value(&mut make());
    a_payload_without_room_fails_as_any_upload(&mut make());
}

fn bytes_stay_as_they_are_whatever_becomes_of_the_value<E: Engine>(engine: &mut E) {
    for count in [0, 1, 1000, 100_000] {
        let (old, new) = (floats(count, 1.0), floats(count, 2.0));
        let mut b = PlanBuilder::new(&[]);
        let (x, y) = (b.upload(&old), b.upload(&new));
        // Both die in a step that could write where they lie.
        let doubled = b.one(DOUBLE, &[x], &[2.into()]);
        let written = b.one(Write {}, &[doubled, y], &[]);
        let again = b.one(DOUBLE, &[written], &[3.into()]);
        for grouping in [Grouping::Fused, Grouping::OneByOne] {
            let mut built = b.finish(&[again], grouping);
            let given = [payload(engine, &old), payload(engine, &new)];
            built.immediates.uploads.clone_from_slice(&given);
            let outcome = run_plan(engine, &built, Vec::new());
            let expected: Vec<f64> = numbers::floats(&new).iter().map(|v| 3.0 * v).collect();
            assert_eq!(numbers::floats(&outcome.read(again)), expected);
            assert!(given[0][..] == old.bytes[..] && given[1][..] == new.bytes[..], "a payload of {count} changed");
        }
    }
}

fn a_value_outlives_its_payload<E: Engine>(engine: &mut E) {
    let tensor = floats(10_000, 3.0);
    let mut b = PlanBuilder::new(&[]);
    let x = b.upload(&tensor);
    let mut built = b.finish(&[x], Grouping::Fused);
    built.immediates.uploads[0] = payload(engine, &tensor);
    let value = run_plan(engine, &built, Vec::new()).buffer(x);
    drop(built);
    // Whoever gets memory now does not get that of the value.
    let other = payload(engine, &floats(10_000, 9.0));
    assert!(value.read().expect("it can be read") == tensor);
    // Alone with its memory, the value may be written where it lies.
    let mut b = PlanBuilder::new(&[tensor.ty]);
    let doubled = b.one(DOUBLE, &[0], &[2.into()]);
    let outcome = run_plan(engine, &b.finish(&[doubled], Grouping::Fused), vec![Ok(value)]);
    let expected: Vec<f64> = numbers::floats(&tensor).iter().map(|v| 2.0 * v).collect();
    assert_eq!(numbers::floats(&outcome.read(doubled)), expected);
    assert!(other[..] == floats(10_000, 9.0).bytes[..]);
}

fn flags_are_none_or_one<E: Engine>(engine: &mut E) {
    let flags = HostTensor { ty: TensorType::new(DType::Bool, &[4]), bytes: vec![0, 2, 255, 1] };
    let proper = HostTensor { bytes: vec![0, 1, 1, 1], ..flags.clone() };
    let mut b = PlanBuilder::new(&[]);
    let (odd, even) = (b.upload(&flags), b.upload(&proper));
    let mut built = b.finish(&[odd, even], Grouping::Fused);
    built.immediates.uploads = vec![payload(engine, &flags), payload(engine, &proper)];
    let outcome = run_plan(engine, &built, Vec::new());
    assert!(outcome.read(odd) == proper && outcome.read(even) == proper);
    assert_eq!(built.immediates.uploads[0][..], flags.bytes[..]);
}

/// A plan of one upload, whose payload lies in memory of the engine's.
fn built<E: Engine>(engine: &E, tensor: &HostTensor) -> (Built, Slot) {
    let mut b = PlanBuilder::new(&[]);
    let x = b.upload(tensor);
    let mut built = b.finish(&[x], Grouping::Fused);
    built.immediates.uploads[0] = payload(engine, tensor);
    (built, x)
}

fn run_under<E: Engine>(engine: &mut E, built: &Built, quota: &Arc<Quota>) -> Outcome<E::Buffer> {
    let program = prepared(engine, &built.plan);
    let (sink, immediates) = (Arc::new(Collector::default()), built.immediates.clone());
    let run = Run {
        inputs: Vec::new(),
        immediates,
        sink: sink.clone(),
        quota: Some(quota.clone()),
        cancel: Cancel::default(),
        flush_denormal: false,
    };
    engine.submit(&program, run).wait();
    sink.finish(&built.plan)
}

fn memory_counts_once_it_is_a_value<E: Engine>(engine: &mut E) {
    let before = engine.memory().live_bytes;
    let tensor = floats(10_000, 1.0);
    let (built, x) = built(engine, &tensor);
    assert_eq!(engine.memory().live_bytes, before, "until then others answer for it");
    let quota = Quota::new(1 << 20);
    for _ in 0..3 {
        let outcome = run_under(engine, &built, &quota);
        assert!(outcome.read(x) == tensor);
        assert!(engine.memory().live_bytes >= before + 40_000 && quota.memory().live_bytes >= 40_000);
    }
    drop(built);
    engine.synchronize();
    assert_eq!((engine.memory().live_bytes, quota.memory().live_bytes), (before, 0));
}

fn a_payload_without_room_fails_as_any_upload<E: Engine>(engine: &mut E) {
    let tensor = floats(10_000, 1.0);
    let (built, x) = built(engine, &tensor);
    let quota = Quota::new(1000);
    assert_eq!(run_under(engine, &built, &quota).failure(x).kind, FailureKind::Memory);
    assert_eq!(quota.memory().live_bytes, 0);
    assert!(built.immediates.uploads[0][..] == tensor.bytes[..]);
}
