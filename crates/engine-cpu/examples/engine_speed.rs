//! Times of the engine's steps: `cargo run -p gt-engine-cpu --example engine_speed [part of a name]`.

use std::sync::Arc;
use std::time::Instant;

use gt_engine::Engine;
use gt_engine_check::conformance::{Built, Collector, Grouping, PlanBuilder, prepared, start, upload};
use gt_engine_check::numbers;
use gt_engine_cpu::{Config, CpuBuffer, CpuEngine};
use gt_ir::ops::{Binary, Cast, Permute, Reduce, ReduceKind, Side, Unary};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, HostTensor, Shape, Steps, TensorType};
use gt_plan::Slot;

const ADD: Binary = Binary { kind: BinaryKind::Add, scalar: Side::None };
const MUL: Binary = Binary { kind: BinaryKind::Mul, scalar: Side::None };
const SUB: Binary = Binary { kind: BinaryKind::Sub, scalar: Side::None };
const MUL_BY: Binary = Binary { kind: BinaryKind::Mul, scalar: Side::Right };

fn engine(threads: usize) -> CpuEngine {
    CpuEngine::new(Config { threads, memory_limit_bytes: 4 << 30 })
}

fn values(shape: &[usize]) -> HostTensor {
    let ty = TensorType::new(DType::F32, shape);
    let values: Vec<f64> = (0..ty.numel()).map(|i| ((i * 7919 % 1000) as f64 - 500.0) / 400.0).collect();
    numbers::from_floats(ty, &values)
}

/// Nanoseconds of one run: the best of several rounds.
fn time(engine: &mut CpuEngine, built: &Built, inputs: &[CpuBuffer]) -> f64 {
    let program = prepared(engine, &built.plan);
    let mut run = || {
        let inputs = inputs.iter().cloned().map(Ok).collect();
        let (ticket, collector): (_, Arc<Collector<CpuBuffer>>) = start(engine, &program, &built.immediates, inputs);
        ticket.wait();
        drop(collector);
    };
    let begin = Instant::now();
    run();
    let repeat = (0.02 / begin.elapsed().as_secs_f64()).clamp(1.0, 20_000.0) as usize;
    (0..15)
        .map(|_| {
            let begin = Instant::now();
            (0..repeat).for_each(|_| run());
            begin.elapsed().as_secs_f64() * 1e9 / repeat as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Whether the command line asks for this line.
fn wanted(name: &str) -> bool {
    std::env::args().nth(1).is_none_or(|part| name.contains(&part))
}

fn report(name: &str, shapes: &[&[usize]], build: impl Fn(&mut PlanBuilder) -> Slot) {
    if !wanted(name) {
        return;
    }
    let tensors: Vec<HostTensor> = shapes.iter().map(|s| values(s)).collect();
    let types: Vec<TensorType> = tensors.iter().map(|t| t.ty).collect();
    let mut b = PlanBuilder::new(&types);
    let out = build(&mut b);
    let built = b.finish(&[out], Grouping::Fused);
    let mut line = format!("{name:<44}");
    for threads in [1, 2] {
        let mut engine = engine(threads);
        let inputs = upload(&mut engine, &tensors);
        line += &format!("{:>12.2} µs", time(&mut engine, &built, &inputs) / 1000.0);
    }
    println!("{line}");
}

fn fused(b: &mut PlanBuilder, shape: &[usize], body: impl Fn(&mut PlanBuilder) -> Slot) -> Slot {
    b.begin_fused(Shape::new(shape));
    let out = body(b);
    b.end_fused();
    out
}

fn unary(kind: UnaryKind) -> Unary {
    Unary { kind }
}

fn sum(axes: &[usize]) -> Reduce {
    Reduce { kind: ReduceKind::Sum, axes: AxisSet::of(axes), keepdim: false }
}

fn tiny_steps() {
    const STEPS: usize = 400;
    if !wanted("a step of one 4x4 add") {
        return;
    }
    let mut engine = engine(1);
    let tensors = [values(&[4, 4]), values(&[4, 4])];
    let mut line = format!("{:<44}", "a step of one 4x4 add");
    for steps in [STEPS, 2 * STEPS] {
        let mut b = PlanBuilder::new(&[tensors[0].ty, tensors[1].ty]);
        let mut x = 0;
        (0..steps).for_each(|_| x = b.one(ADD, &[x, 1], &[]));
        let built = b.finish(&[x], Grouping::OneByOne);
        let inputs = upload(&mut engine, &tensors);
        line += &format!("{:>12.1} ns", time(&mut engine, &built, &inputs) / steps as f64);
    }
    println!("{line}");
}

fn prepare() {
    const STEPS: usize = 400;
    if !wanted("preparing a step") {
        return;
    }
    let mut engine = engine(1);
    let ty = values(&[4, 4]).ty;
    let mut b = PlanBuilder::new(&[ty, ty]);
    let mut x = 0;
    (0..STEPS).for_each(|_| x = b.one(ADD, &[x, 1], &[]));
    let built = b.finish(&[x], Grouping::OneByOne);
    let begin = Instant::now();
    (0..50).for_each(|_| drop(engine.prepare(&built.plan)));
    println!("{:<44}{:>12.1} ns", "preparing a step", begin.elapsed().as_secs_f64() * 1e9 / (50 * STEPS) as f64);
}

fn main() {
    const M: usize = 1 << 20;
    println!("{:<44}{:>15}{:>15}", "", "1 thread", "2 threads");
    tiny_steps();
    prepare();
    report("((x*y+x).tanh()*0.5+y).exp().sum(), 1M f32", &[&[M], &[M]], |b| {
        fused(b, &[M], |b| {
            let xy = b.one(MUL, &[0, 1], &[]);
            let a = b.one(ADD, &[xy, 0], &[]);
            let t = b.one(unary(UnaryKind::Tanh), &[a], &[]);
            let h = b.one(MUL_BY, &[t], &[0.5.into()]);
            let z = b.one(ADD, &[h, 1], &[]);
            let e = b.one(unary(UnaryKind::Exp), &[z], &[]);
            b.one(sum(&[0]), &[e], &[])
        })
    });
    report("x + y, 1M", &[&[M], &[M]], |b| b.one(ADD, &[0, 1], &[]));
    report("x + y, 64k", &[&[1 << 16], &[1 << 16]], |b| b.one(ADD, &[0, 1], &[]));
    report("x + y, 1k", &[&[1 << 10], &[1 << 10]], |b| b.one(ADD, &[0, 1], &[]));
    report("exp, 1M", &[&[M]], |b| b.one(unary(UnaryKind::Exp), &[0], &[]));
    report("tanh, 1M", &[&[M]], |b| b.one(unary(UnaryKind::Tanh), &[0], &[]));
    report("gelu, 1M", &[&[M]], |b| b.one(unary(UnaryKind::Gelu), &[0], &[]));
    report("silu, 1M", &[&[M]], |b| b.one(unary(UnaryKind::Silu), &[0], &[]));
    report("sum of all, 1M", &[&[M]], |b| b.one(sum(&[0]), &[0], &[]));
    report("sum of rows, [1024, 1024]", &[&[1024, 1024]], |b| b.one(sum(&[1]), &[0], &[]));
    report("sum of rows, [16384, 64]", &[&[16384, 64]], |b| b.one(sum(&[1]), &[0], &[]));
    report("sum of columns, [1024, 1024]", &[&[1024, 1024]], |b| b.one(sum(&[0]), &[0], &[]));
    report("sum of columns, [16384, 64]", &[&[16384, 64]], |b| b.one(sum(&[0]), &[0], &[]));
    report("sum of middle, [64, 256, 64]", &[&[64, 256, 64]], |b| b.one(sum(&[1]), &[0], &[]));
    report("sum of ends, [64, 256, 64]", &[&[64, 256, 64]], |b| b.one(sum(&[0, 2]), &[0], &[]));
    report("x + bias, [1024, 1024] + [1024]", &[&[1024, 1024], &[1024]], |b| b.one(ADD, &[0, 1], &[]));
    report("x + bias, [16384, 64] + [64]", &[&[16384, 64], &[64]], |b| b.one(ADD, &[0, 1], &[]));
    report("x - column, [1024, 1024] - [1024, 1]", &[&[1024, 1024], &[1024, 1]], |b| b.one(SUB, &[0, 1], &[]));
    report("x.T + y, [1024, 1024]", &[&[1024, 1024], &[1024, 1024]], |b| {
        let t = b.one(Permute { perm: Steps::new(&[1, 0]) }, &[0], &[]);
        b.one(ADD, &[t, 1], &[])
    });
    report("x.T + y.T, [1024, 1024]", &[&[1024, 1024], &[1024, 1024]], |b| {
        let s = b.one(Permute { perm: Steps::new(&[1, 0]) }, &[0], &[]);
        let t = b.one(Permute { perm: Steps::new(&[1, 0]) }, &[1], &[]);
        b.one(ADD, &[s, t], &[])
    });
    report("heads [2, 64, 4, 16] turned, times [64, 16]", &[&[2, 64, 4, 16], &[64, 16]], |b| {
        let t = b.one(Permute { perm: Steps::new(&[0, 2, 1, 3]) }, &[0], &[]);
        b.one(MUL, &[t, 1], &[])
    });
    report("exp(x - max), then its sum, [1024, 1024]", &[&[1024, 1024], &[1024, 1]], |b| {
        fused(b, &[1024, 1024], |b| {
            let d = b.one(SUB, &[0, 1], &[]);
            let e = b.one(unary(UnaryKind::Exp), &[d], &[]);
            b.one(sum(&[1]), &[e], &[])
        })
    });
    report("bf16: x * y + x, 1M", &[&[M], &[M]], |b| {
        let x = b.one(Cast { dtype: DType::BF16 }, &[0], &[]);
        let y = b.one(Cast { dtype: DType::BF16 }, &[1], &[]);
        fused(b, &[M], |b| {
            let xy = b.one(MUL, &[x, y], &[]);
            b.one(ADD, &[xy, x], &[])
        })
    });
}
