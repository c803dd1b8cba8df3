//! Operands whose extents say more than there is memory for: repeated without a copy, so that they cost nothing until a kernel works
//! with them. A kernel that needs memory sized by them fails, and the process goes on.

use gt_engine::{Buffer, Engine};
use gt_engine_check::conformance::{Grouping, PlanBuilder, run_plan, upload};
use gt_engine_check::numbers;
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::ops::{Attention, Broadcast, Matmul, Put, PutMode, Scatter, Sort, Take};
use gt_ir::{DType, FailureKind, HostTensor, Op, Scalar, Shape, TensorType};

const MIB: usize = 1 << 20;
/// More elements than any machine has bytes.
const HUGE: usize = 1 << 44;

fn engine() -> CpuEngine {
    CpuEngine::new(Config { threads: 2, memory_limit_bytes: 64 * MIB as u64 })
}

fn value(dtype: DType, shape: &[usize]) -> HostTensor {
    let ty = TensorType::new(dtype, shape);
    numbers::from_numbers(ty, &vec![0.0; ty.numel()])
}

/// The failure of `op` on these inputs, each repeated to its shape.
fn failure_of(op: impl Into<Op>, ins: &[(HostTensor, &[usize])], scalars: &[Scalar]) -> gt_ir::Failure {
    let mut engine = engine();
    let values: Vec<HostTensor> = ins.iter().map(|(value, _)| value.clone()).collect();
    let mut b = PlanBuilder::new(&values.iter().map(|value| value.ty).collect::<Vec<_>>());
    let repeated: Vec<_> = ins
        .iter()
        .enumerate()
        .map(|(i, (_, shape))| b.one(Broadcast { shape: Shape::new(shape) }, &[i as u32], &[]))
        .collect();
    let outs = b.op(op, &repeated, scalars);
    let built = b.finish(&outs, Grouping::OneByOne);
    let buffers = upload(&mut engine, &values).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, buffers);
    let failure = (*outcome.failure(outs[0])).clone();
    drop(outcome);
    assert_eq!(engine.memory().live_bytes, 0, "a failed step keeps nothing");
    failure
}

fn assert_no_memory(name: &str, failure: &gt_ir::Failure) {
    assert_eq!(failure.kind, FailureKind::Memory, "{name}: {failure}");
    assert!(failure.message.contains("out of memory"), "{name}: {failure}");
}

#[test]
fn reading_an_expanded_tensor_fails_and_copies_nothing() {
    let mut engine = engine();
    let x = value(DType::F32, &[1]);
    let mut b = PlanBuilder::new(&[x.ty]);
    let repeated = b.one(Broadcast { shape: Shape::new(&[HUGE]) }, &[0], &[]);
    let built = b.finish(&[repeated], Grouping::OneByOne);
    let buffers = upload(&mut engine, &[x]).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, buffers);
    let buffer = outcome.values[&repeated].as_ref().unwrap();
    assert_eq!(buffer.ty().shape[0], HUGE);
    assert_no_memory("read", &buffer.read().unwrap_err());
}

#[test]
fn indices_that_are_expanded_need_memory_for_all_of_them() {
    let index = || value(DType::I64, &[1]);
    // The results have no elements, or are small: it is the list of indices that is too long.
    let take = Take { axis: 0, wrap: false };
    let rows = (value(DType::F32, &[4, 0]), &[4, 0][..]);
    assert_no_memory("take", &failure_of(take, &[rows.clone(), (index(), &[HUGE])], &[]));
    let one = || (value(DType::F32, &[1]), &[HUGE][..]);
    let small = || (value(DType::F32, &[4]), &[4][..]);
    for mode in [PutMode::Set, PutMode::Add] {
        let put = Put { axis: 0, mode, wrap: false };
        assert_no_memory("put", &failure_of(put, &[small(), (index(), &[HUGE]), one()], &[]));
        let scatter = Scatter { axis: 0, mode };
        assert_no_memory("scatter", &failure_of(scatter, &[small(), (index(), &[HUGE]), one()], &[]));
    }
}

#[test]
fn values_that_are_expanded_are_copied_under_the_limit() {
    // Slices of a value that is put are copied first, where they do not lie one after the other.
    let put = Put { axis: 0, mode: PutMode::Set, wrap: false };
    let target = (value(DType::U8, &[1, 1 << 20]), &[1, 1 << 20][..]);
    let ins = [target, (value(DType::I64, &[200]), &[200][..]), (value(DType::U8, &[1, 1]), &[200, 1 << 20][..])];
    assert_no_memory("put", &failure_of(put, &ins, &[]));
}

#[test]
fn attention_of_expanded_queries_needs_memory_for_their_width() {
    let op = Attention { causal: false, masked: false };
    let wide = || (value(DType::F32, &[1, 1, 1, 1]), &[1, 1, 1, HUGE][..]);
    let ins = [wide(), wide(), (value(DType::F32, &[1, 1, 1, 4]), &[1, 1, 1, 4][..])];
    assert_no_memory("attention", &failure_of(op, &ins, &[Scalar::F64(1.0)]));
}

#[test]
fn products_and_sorts_of_expanded_operands_fail() {
    let op = Matmul { turn_a: false, turn_b: false };
    let ins = [(value(DType::I32, &[1, 1]), &[1, HUGE][..]), (value(DType::I32, &[1, 1]), &[HUGE, 2][..])];
    assert_no_memory("matmul", &failure_of(op, &ins, &[]));
    let op = Sort { axis: 0, descending: false };
    assert_no_memory("sort", &failure_of(op, &[(value(DType::F32, &[1]), &[HUGE])], &[]));
}

#[test]
fn halves_that_are_expanded_are_widened_once() {
    // Rows and columns that repeat are not spelled out: a whole copy of either operand would be over the limit.
    let mut engine = engine();
    let (m, k, n) = (3, 1 << 24, 2);
    let ones = |shape: &[usize]| numbers::from_numbers(TensorType::new(DType::BF16, shape), &[0.5]);
    let values = [ones(&[1, 1]), ones(&[1, 1])];
    let mut b = PlanBuilder::new(&[values[0].ty, values[1].ty]);
    let left = b.one(Broadcast { shape: Shape::new(&[m, k]) }, &[0], &[]);
    let right = b.one(Broadcast { shape: Shape::new(&[k, n]) }, &[1], &[]);
    let product = b.one(Matmul { turn_a: false, turn_b: false }, &[left, right], &[]);
    let built = b.finish(&[product], Grouping::OneByOne);
    let buffers = upload(&mut engine, &values).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, buffers);
    let found = outcome.values[&product].as_ref().unwrap().read().unwrap();
    assert_eq!(numbers::floats(&found), vec![k as f64 / 4.0; m * n]);
}
