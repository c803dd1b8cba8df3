//! Memory: the limit, the cache, and results that take over what dies.

use gt_engine::{Buffer, Engine};
use gt_engine_check::conformance::{Grouping, PlanBuilder, prepared, run_plan, start, upload};
use gt_engine_check::numbers;
use gt_engine_cpu::{Config, CpuBuffer, CpuEngine};
use gt_ir::ops::{Binary, Concat, Matmul, Put, PutMode, Reduce, ReduceKind, Side, Unary, UpdateSlice, Write};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, FailureKind, HostTensor, Shape, SiteId, Steps, TensorType};

const MIB: usize = 1 << 20;
const ADD: Binary = Binary { kind: BinaryKind::Add, scalar: Side::None };
const MUL_BY: Binary = Binary { kind: BinaryKind::Mul, scalar: Side::Right };
const EXP: Unary = Unary { kind: UnaryKind::Exp };

fn engine(limit_bytes: usize) -> CpuEngine {
    CpuEngine::new(Config { threads: 2, memory_limit_bytes: limit_bytes as u64 })
}

fn floats(count: usize) -> HostTensor {
    let values: Vec<f64> = (0..count).map(|i| (i % 97) as f64 / 32.0).collect();
    numbers::from_floats(TensorType::new(DType::F32, &[count]), &values)
}

/// A megabyte of f32.
fn megabyte() -> HostTensor {
    floats(MIB / 4)
}

#[test]
fn over_the_limit_is_a_failure_that_says_where_and_how_much() {
    let mut engine = engine(3 * MIB);
    let x = megabyte();
    let mut b = PlanBuilder::new(&[x.ty]);
    let small = b.one(Reduce { kind: ReduceKind::Sum, axes: AxisSet::of(&[0]), keepdim: false }, &[0], &[]);
    let one = b.one(EXP, &[0], &[]);
    let four = b.one(Concat { axis: 0 }, &[0, one, one], &[]);
    let after = b.one(EXP, &[four], &[]);
    let built = b.finish(&[small, one, four, after], Grouping::Fused);
    let buffers = upload(&mut engine, std::slice::from_ref(&x)).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, buffers);
    assert!(outcome.values[&small].is_ok() && outcome.values[&one].is_ok());
    let failure = outcome.failure(four);
    assert_eq!(failure.kind, FailureKind::Memory);
    assert_eq!((failure.op.as_str(), failure.ins.len(), failure.site), ("concat", 3, SiteId(102)));
    // What was asked for, what is live (two large blocks and a small one), the limit.
    for number in [3 * MIB, 2 * MIB + 64] {
        assert!(failure.message.contains(&number.to_string()), "{} names {number}", failure.message);
    }
    assert_eq!(failure.holders[0], (MIB as u64, SiteId(101)), "the largest value of the run comes first");
    assert_eq!(outcome.failure(after), failure);
    // The failure cost nothing: there is room again once the values are gone.
    drop(outcome);
    assert_eq!(engine.memory().live_bytes, 0);
}

#[test]
fn a_fused_step_without_room_changes_nothing() {
    let mut engine = engine(3 * MIB);
    let x = megabyte();
    let mut b = PlanBuilder::new(&[x.ty]);
    b.begin_fused(x.ty.shape);
    let first = b.one(EXP, &[0], &[]);
    let second = b.one(MUL_BY, &[first], &[2.into()]);
    let third = b.one(ADD, &[first, second], &[]);
    b.end_fused();
    let built = b.finish(&[first, second, third], Grouping::Fused);
    let held = upload(&mut engine, std::slice::from_ref(&x)).remove(0);
    let outcome = run_plan(&mut engine, &built, vec![Ok(held.clone())]);
    for slot in [first, second, third] {
        assert_eq!(outcome.failure(slot).kind, FailureKind::Memory);
    }
    assert!(held.read().unwrap() == x);
}

/// Runs a plan on its own uploads, which die in it, and gives the engine's peak.
fn peak(build: impl Fn(&mut PlanBuilder) -> u32, inputs: &[HostTensor]) -> (u64, HostTensor) {
    let mut engine = engine(64 * MIB);
    let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
    let mut b = PlanBuilder::new(&types);
    let out = build(&mut b);
    let built = b.finish(&[out], Grouping::Fused);
    let buffers = upload(&mut engine, inputs).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, buffers);
    let tensor = outcome.read(out);
    drop(outcome);
    assert_eq!(engine.memory().live_bytes, 0);
    (engine.memory().peak_bytes / MIB as u64, tensor)
}

#[test]
fn results_take_over_operands_that_die() {
    let x = megabyte();
    let doubled: Vec<f64> = numbers::floats(&x).iter().map(|v| v * 2.0).collect();
    let doubled = numbers::from_floats(x.ty, &doubled);
    // The loop that writes is the last reader.
    let (mib, out) = peak(|b| b.one(MUL_BY, &[0], &[2.into()]), std::slice::from_ref(&x));
    assert_eq!((mib, out == doubled), (1, true));
    // The operand is read after the result is written.
    let (mib, out) = peak(
        |b| {
            b.begin_fused(b.ty(0).shape);
            let twice = b.one(MUL_BY, &[0], &[2.into()]);
            let fourfold = b.one(ADD, &[twice, twice], &[]);
            let sum = b.one(ADD, &[fourfold, 0], &[]);
            let less = b.one(Binary { kind: BinaryKind::Sub, scalar: Side::None }, &[sum, fourfold], &[]);
            let out = b.one(ADD, &[less, 0], &[]);
            b.end_fused();
            out
        },
        std::slice::from_ref(&x),
    );
    assert_eq!((mib, out == doubled), (1, true));
    // Twice the same operand.
    let (mib, out) = peak(|b| b.one(ADD, &[0, 0], &[]), std::slice::from_ref(&x));
    assert_eq!((mib, out == doubled), (1, true));
}

#[test]
fn updates_write_in_place_only_where_nobody_looks() {
    let (x, part) = (megabyte(), floats(10));
    let index = numbers::from_ints(TensorType::new(DType::I64, &[10]), &[5; 10]);
    let slice = |b: &mut PlanBuilder| {
        b.one(UpdateSlice { steps: Steps::new(&[1]), drop: gt_ir::AxisSet::default() }, &[0, 1], &[100.into()])
    };
    let (mib, _) = peak(slice, &[x.clone(), part.clone()]);
    assert_eq!(mib, 1);
    let put = |b: &mut PlanBuilder| b.one(Put { axis: 0, mode: PutMode::Add, wrap: false }, &[0, 2, 1], &[]);
    let (mib, _) = peak(put, &[x.clone(), part.clone(), index]);
    assert_eq!(mib, 1);

    // Somebody holds the old value.
    let mut engine = engine(64 * MIB);
    let mut b = PlanBuilder::new(&[x.ty, part.ty]);
    let out = slice(&mut b);
    let buffers = upload(&mut engine, &[x.clone(), part]);
    let held = buffers[0].clone();
    let outcome = run_plan(&mut engine, &b.finish(&[out], Grouping::Fused), buffers.into_iter().map(Ok).collect());
    assert!(held.read().unwrap() == x && outcome.read(out) != x);
}

/// Rows of a dying value added to the value itself: it must not change while it is read.
#[test]
fn what_is_added_to_itself_is_read_before_it_is_written() {
    let mut engine = engine(16 * MIB);
    let x = numbers::from_floats(TensorType::new(DType::F32, &[3, 2]), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let places = numbers::from_ints(TensorType::new(DType::I64, &[3]), &[2; 3]);
    let mut b = PlanBuilder::new(&[x.ty, places.ty]);
    let out = b.one(Put { axis: 0, mode: PutMode::Add, wrap: false }, &[0, 1, 0], &[]);
    let built = b.finish(&[out], Grouping::Fused);
    let inputs = upload(&mut engine, &[x, places]).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &built, inputs);
    assert_eq!(numbers::floats(&outcome.read(out)), [1.0, 2.0, 3.0, 4.0, 14.0, 18.0]);
}

/// The repeated shape of training: a product, and a write of the parameter it used.
#[test]
fn a_loop_of_writes_settles_in_memory() {
    let mut engine = engine(256 * MIB);
    let ty = TensorType::new(DType::F32, &[512, 512]);
    let weight = HostTensor { ty, ..megabyte() };
    let mut b = PlanBuilder::new(&[ty, ty]);
    let product = b.one(Matmul::PLAIN, &[0, 1], &[]);
    let step = b.one(MUL_BY, &[product], &[1e-3.into()]);
    let new = b.one(ADD, &[0, step], &[]);
    let written = b.one(Write {}, &[0, new], &[]);
    let built = b.finish(&[written], Grouping::Fused);
    let program = prepared(&mut engine, &built.plan);
    let mut buffers: Vec<CpuBuffer> = upload(&mut engine, &[weight.clone(), weight]);
    let other = buffers.pop().unwrap();
    let mut current = buffers.pop().unwrap();
    let mut settled = None;
    for _ in 0..6 {
        let (ticket, collector) = start(&mut engine, &program, &built.immediates, vec![Ok(current), Ok(other.clone())]);
        ticket.wait();
        current = collector.finish(&built.plan).buffer(written);
        let memory = engine.memory();
        let total = memory.live_bytes + memory.cached_bytes;
        assert_eq!(memory.live_bytes, 2 * MIB as u64);
        assert!(settled.is_none_or(|settled| total == settled), "the second round allocates nothing new");
        settled = Some(total);
    }
    engine.trim();
    assert_eq!(engine.memory().cached_bytes, 0);
}

#[test]
fn buffers_can_be_dropped_and_read_on_other_threads() {
    let mut engine = engine(64 * MIB);
    let x = megabyte();
    let buffers = upload(&mut engine, &[x.clone(), x.clone(), x.clone()]);
    std::thread::scope(|scope| {
        for buffer in buffers {
            scope.spawn(|| {
                let buffer = buffer;
                assert!(buffer.read().unwrap().bytes.len() == MIB);
            });
        }
    });
    assert_eq!(engine.memory().live_bytes, 0);
    let outside: CpuBuffer = upload(&mut engine, std::slice::from_ref(&x)).remove(0);
    drop(engine);
    // A buffer outlives its engine.
    assert!(outside.read().unwrap() == x);
    assert_eq!(outside.ty(), TensorType { dtype: DType::F32, shape: Shape::new(&[MIB / 4]) });
}
