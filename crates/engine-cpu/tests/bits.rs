//! An op's bits depend on its operands' values and shapes only: not on fusion, threads, strides or instruction set.

use gt_engine_check::conformance::{Grouping, PlanBuilder, SplitMix, run_plan, upload};
use gt_engine_check::numbers;
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::ops::{Binary, Cast, Matmul, Permute, Reduce, ReduceKind, Side, Unary};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, HostTensor, Shape, Steps, TensorType};
use gt_plan::Slot;

fn engine(threads: usize) -> CpuEngine {
    CpuEngine::new(Config { threads, memory_limit_bytes: 1 << 30 })
}

fn values(ty: TensorType, seed: u64) -> HostTensor {
    let mut random = SplitMix::new(seed);
    let values: Vec<f64> = (0..ty.numel()).map(|_| (random.bits() % 2001) as f64 / 500.0 - 2.0).collect();
    numbers::from_numbers(ty, &values)
}

/// The tensor with its axes reversed in memory.
fn reversed(tensor: &HostTensor) -> HostTensor {
    let mut engine = engine(1);
    let rank = tensor.ty.shape.rank();
    let mut b = PlanBuilder::new(&[tensor.ty]);
    let out = b.one(Permute { perm: (0..rank as i64).rev().collect() }, &[0], &[]);
    let inputs = upload(&mut engine, std::slice::from_ref(tensor)).into_iter().map(Ok).collect();
    run_plan(&mut engine, &b.finish(&[out], Grouping::Fused), inputs).read(out)
}

/// A chain over two operands with elementwise and reduced results; `turned` operands arrive with their axes reversed
/// and are turned back by a view.
fn program(ty: TensorType, axes: &[usize], turned: bool) -> (PlanBuilder, Vec<Slot>) {
    let reversed: Steps = (0..ty.shape.rank() as i64).rev().collect();
    let given = if turned { ty.with_shape(ty.shape.permuted(&reversed).expect("every axis once")) } else { ty };
    let mut b = PlanBuilder::new(&[given, given]);
    let (mut x, mut y) = (0, 1);
    if turned {
        x = b.one(Permute { perm: reversed }, &[x], &[]);
        y = b.one(Permute { perm: reversed }, &[y], &[]);
    }
    let binary = |kind| Binary { kind, scalar: Side::None };
    let reduce = |kind| Reduce { kind, axes: AxisSet::of(axes), keepdim: false };
    b.begin_fused(ty.shape);
    let product = b.one(binary(BinaryKind::Mul), &[x, y], &[]);
    let sum = b.one(binary(BinaryKind::Add), &[product, x], &[]);
    let scaled = b.one(Binary { kind: BinaryKind::Mul, scalar: Side::Right }, &[sum], &[3.into()]);
    let curved = if ty.dtype.is_float() { b.one(Unary { kind: UnaryKind::Tanh }, &[scaled], &[]) } else { scaled };
    let total = b.one(reduce(ReduceKind::Sum), &[curved], &[]);
    let largest = b.one(reduce(ReduceKind::Max), &[sum], &[]);
    let raw = b.one(reduce(ReduceKind::Sum), &[y], &[]);
    b.end_fused();
    (b, vec![sum, curved, total, largest, raw])
}

#[test]
fn fusion_threads_and_strides_do_not_matter() {
    let cases: &[(&[usize], &[&[usize]])] = &[
        (&[300, 700], &[&[0], &[1], &[0, 1]]),
        (&[2100, 37], &[&[0], &[1], &[0, 1]]),
        (&[3, 5000], &[&[0], &[1]]),
        (&[40, 33, 129], &[&[0], &[1], &[2], &[0, 2], &[1, 2], &[0, 1]]),
        (&[700, 6, 5], &[&[0], &[1], &[0, 1]]),
        (&[5, 2050, 3], &[&[1], &[0, 2]]),
    ];
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::U8] {
        for (shape, axes) in cases {
            let ty = TensorType::new(dtype, shape);
            let packed = [values(ty, 1), values(ty, 2)];
            let turned = [reversed(&packed[0]), reversed(&packed[1])];
            for axes in *axes {
                let mut expected: Option<Vec<Vec<u8>>> = None;
                for (threads, grouping, is_turned) in [
                    (1, Grouping::Fused, false),
                    (1, Grouping::OneByOne, false),
                    (2, Grouping::Fused, false),
                    (4, Grouping::Fused, true),
                    (4, Grouping::OneByOne, true),
                ] {
                    let mut engine = engine(threads);
                    let (b, outs) = program(ty, axes, is_turned);
                    let inputs = upload(&mut engine, if is_turned { &turned } else { &packed });
                    let outcome =
                        run_plan(&mut engine, &b.finish(&outs, grouping), inputs.into_iter().map(Ok).collect());
                    let got: Vec<Vec<u8>> = outs.iter().map(|&slot| outcome.read(slot).bytes).collect();
                    let expected = expected.get_or_insert_with(|| got.clone());
                    for (i, (got, expected)) in got.iter().zip(&*expected).enumerate() {
                        assert!(
                            got == expected,
                            "result {i} of {ty} over {axes:?}: {threads} threads, {grouping:?}, turned {is_turned}"
                        );
                    }
                }
            }
        }
    }
}

/// Large enough that every way of sharing work is taken.
#[test]
fn large_reductions_are_the_same_on_any_number_of_threads() {
    for (shape, axes) in [
        (&[1 << 20][..], &[0][..]),
        (&[7, 150_001], &[1]),
        (&[150_001, 7], &[0]),
        (&[20_000, 64], &[0]),
        (&[1500, 800], &[0]),
        (&[1024, 512], &[0]),
        (&[1003, 500], &[0]),
        (&[2, 333, 401], &[1]),
        (&[600, 3, 700], &[1]),
        (&[60_000, 3, 8], &[1]),
    ] {
        let ty = TensorType::new(DType::F32, shape);
        let inputs = [values(ty, 3), values(ty, 4)];
        let run = |threads: usize| {
            let mut engine = engine(threads);
            let (b, outs) = program(ty, axes, false);
            let buffers = upload(&mut engine, &inputs).into_iter().map(Ok).collect();
            let outcome = run_plan(&mut engine, &b.finish(&outs, Grouping::Fused), buffers);
            outs.iter().map(|&slot| outcome.read(slot).bytes).collect::<Vec<_>>()
        };
        let expected = run(1);
        for threads in [2, 3, 4, 7] {
            assert!(run(threads) == expected, "{ty} over {axes:?} on {threads} threads");
        }
    }
}

/// A product is the same from permuted operands and on any number of threads.
#[test]
fn products_do_not_depend_on_strides_or_threads() {
    let (a, b) =
        (values(TensorType::new(DType::F32, &[130, 257]), 5), values(TensorType::new(DType::F32, &[257, 190]), 6));
    let (at, bt) = (reversed(&a), reversed(&b));
    let run = |threads: usize, turned: bool| {
        let mut engine = engine(threads);
        let given = if turned { [at.clone(), bt.clone()] } else { [a.clone(), b.clone()] };
        let mut plan = PlanBuilder::new(&[given[0].ty, given[1].ty]);
        let turn = |plan: &mut PlanBuilder, slot| match turned {
            true => plan.one(Permute { perm: Steps::new(&[1, 0]) }, &[slot], &[]),
            false => slot,
        };
        let (x, y) = (turn(&mut plan, 0), turn(&mut plan, 1));
        let out = plan.one(Matmul::PLAIN, &[x, y], &[]);
        let buffers = upload(&mut engine, &given).into_iter().map(Ok).collect();
        run_plan(&mut engine, &plan.finish(&[out], Grouping::Fused), buffers).read(out).bytes
    };
    let expected = run(1, false);
    for (threads, turned) in [(1, true), (2, false), (4, true)] {
        assert!(run(threads, turned) == expected, "{threads} threads, turned {turned}");
    }
}

/// Elementwise results keep the order of permuted operands; what follows must not notice.
#[test]
fn results_in_memory_order_are_read_back_in_theirs() {
    let ty = TensorType::new(DType::F32, &[6, 50, 70]);
    let x = values(ty, 9);
    let mut engine = engine(2);
    let mut b = PlanBuilder::new(&[ty]);
    let turned = b.one(Permute { perm: Steps::new(&[2, 0, 1]) }, &[0], &[]);
    let doubled = b.one(Binary { kind: BinaryKind::Add, scalar: Side::None }, &[turned, turned], &[]);
    let halved = b.one(Binary { kind: BinaryKind::Mul, scalar: Side::Right }, &[doubled], &[0.5.into()]);
    let back = b.one(Permute { perm: Steps::new(&[1, 2, 0]) }, &[halved], &[]);
    let flat = b.one(gt_ir::ops::Reshape { shape: Shape::new(&[70, 300]) }, &[halved], &[]);
    let wide = b.one(Cast { dtype: DType::F64 }, &[flat], &[]);
    let buffers = upload(&mut engine, std::slice::from_ref(&x)).into_iter().map(Ok).collect();
    let outcome = run_plan(&mut engine, &b.finish(&[halved, back, wide], Grouping::Fused), buffers);
    assert_eq!(outcome.read(back), x);
    let narrow: Vec<f64> = numbers::floats(&outcome.read(halved));
    assert_eq!(numbers::floats(&outcome.read(wide)), narrow);
}
