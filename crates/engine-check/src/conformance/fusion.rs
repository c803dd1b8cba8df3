//! Fused steps: the same bits as one instruction at a time, wherever their inputs lie.

use gt_ir::ops::{Binary, Broadcast, Cast, Compare, Fill, Permute, Reduce, ReduceKind, Select, Side, Slice, Unary};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, HostTensor, Scalar, Shape, Steps, TensorType};
use gt_plan::Slot;

use super::compare::{Allowance, difference};
use super::plans::{Built, Grouping, PlanBuilder, run_plan, upload};
use super::values::{SplitMix, make_values};
use crate::numbers;
use crate::reference::{Reference, evaluate};
use gt_engine::Engine;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Runs a plan with these inputs and reads its live-outs, ascending.
fn results<E: Engine>(engine: &mut E, built: &Built, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let buffers = upload(engine, inputs).into_iter().map(Ok).collect();
    let outcome = run_plan(engine, built, buffers);
    built.plan.live_outs.iter().map(|&s| outcome.read(s)).collect()
}

fn expect_same(have: &[HostTensor], want: &[HostTensor], allowed: &Allowance, title: &str) {
    for (i, (have, want)) in have.iter().zip(want).enumerate() {
        if let Some(what) = difference(have, want, allowed) {
            panic!("{title}: live-out {i} ({}): {what}", want.ty);
        }
    }
}

fn binary(kind: BinaryKind) -> Binary {
    Binary { kind, scalar: Side::None }
}

/// The inputs of a chain over `space`: full, a row, a column, and a number.
fn chain_inputs(space: &Shape, dtype: DType, random: &mut SplitMix) -> Vec<HostTensor> {
    let rank = space.rank();
    let row = Shape::new(&space[rank.saturating_sub(1)..]);
    let column = if rank > 0 { space.shrunk(rank - 1, 1) } else { *space };
    [*space, row, column, Shape::default()]
        .into_iter()
        .map(|shape| make_values(TensorType { dtype, shape }, Domain::Any, random))
        .collect()
}

/// Elementwise instructions that use everything a fused step may hold; gives back what lives on.
fn chain(builder: &mut PlanBuilder, space: Shape, dtype: DType, ins: [Slot; 4]) -> Vec<Slot> {
    let [x, row, column, number] = ins;
    builder.begin_fused(space);
    let scaled = builder.one(binary(BinaryKind::Mul), &[x, row], &[]);
    let shifted = builder.one(binary(BinaryKind::Add), &[scaled, column], &[]);
    let curved = builder.one(Unary { kind: UnaryKind::Sigmoid }, &[shifted], &[]);
    let weighted = builder.one(binary(BinaryKind::Mul), &[curved, number], &[]);
    let positive =
        builder.one(Compare { kind: CompareKind::Gt, scalar: Side::Right }, &[shifted], &[Scalar::F64(0.25)]);
    let chosen = builder.one(Select { a_scalar: false, b_scalar: false, dtype }, &[positive, weighted, scaled], &[]);
    let squared = builder.one(binary(BinaryKind::Mul), &[chosen, chosen], &[]);
    let ones = builder.one(Fill { dtype, shape: space }, &[], &[Scalar::F64(1.0)]);
    let above = builder.one(binary(BinaryKind::Add), &[squared, ones], &[]);
    let root = builder.one(Unary { kind: UnaryKind::Sqrt }, &[above], &[]);
    let wide = builder.one(Cast { dtype: DType::F64 }, &[root], &[]);
    let halved = builder.one(Binary { kind: BinaryKind::Div, scalar: Side::Right }, &[root], &[Scalar::F64(3.0)]);
    let rest = builder.one(Binary { kind: BinaryKind::Sub, scalar: Side::Left }, &[halved], &[Scalar::I64(1)]);
    builder.end_fused();
    vec![shifted, positive, chosen, wide, rest]
}

/// Chains with broadcast operands and several live-outs, on packed inputs and on views.
///
/// # Panics
/// On the first disagreement.
pub fn fused_chains<E: Engine>(engine: &mut E) {
    let spaces: [&[usize]; 10] =
        [&[], &[1], &[7], &[3, 5], &[4, 1, 6], &[2, 3, 4, 5], &[1037], &[65, 33], &[0, 4], &[3, 2050]];
    let mut random = SplitMix::new(5);
    for dtype in FLOATS {
        for dims in spaces {
            let space = Shape::new(dims);
            let title = format!("a fused chain over {space} in {dtype} on {}", engine.name());
            let inputs = chain_inputs(&space, dtype, &mut random);
            let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
            let mut builder = PlanBuilder::new(&types);
            let live = chain(&mut builder, space, dtype, [0, 1, 2, 3]);
            let fused = results(engine, &builder.finish(&live, Grouping::Fused), &inputs);
            let single = results(engine, &builder.finish(&live, Grouping::OneByOne), &inputs);
            expect_same(&fused, &single, &Allowance::Exact, &format!("{title}, against one by one"));
            let want = results(&mut Reference::new().one_by_one(), &builder.finish(&live, Grouping::OneByOne), &inputs);
            // A unit in the last place early on may grow a little, and in the narrow dtypes is all there is.
            let near = Allowance::Near {
                ulps: 16.0,
                absolute: 0.0,
                slack: vec![super::compare::epsilon(dtype) * 8.0; space.numel()],
            };
            // The comparison and the choice may fall the other way on such a unit: they are held to the one-by-one run.
            expect_same(&fused[..1], &want[..1], &near, &title);

            let (stored, viewed, live) = chain_on_views(space, dtype, &inputs);
            let on_views = results(engine, &viewed.finish(&live, Grouping::Fused), &stored);
            expect_same(&on_views, &fused, &Allowance::Exact, &format!("{title}, on views"));
        }
    }
}

/// The same chain with its inputs permuted, stepped, repeated and cut out of larger values.
fn chain_on_views(space: Shape, dtype: DType, inputs: &[HostTensor]) -> (Vec<HostTensor>, PlanBuilder, Vec<Slot>) {
    let reference = |op: gt_ir::Op, x: &HostTensor, scalars: &[Scalar]| {
        evaluate(&op, &[x], scalars, None).expect("the suite moves elements within bounds").remove(0)
    };
    let reversed = Permute { perm: (0..space.rank() as i64).rev().collect() };
    let transposed = reference(reversed.clone().into(), &inputs[0], &[]);
    // Every row element twice, read two apart.
    let row = &inputs[1];
    let doubled_ty = row.ty.with_shape(Shape::try_collect(row.ty.shape.iter().map(|d| 2 * d)).expect("a small shape"));
    let size = dtype.size();
    let doubled = HostTensor {
        ty: doubled_ty,
        bytes: if row.ty.shape.rank() == 0 {
            row.bytes.clone()
        } else {
            row.bytes.chunks(size).flat_map(|c| [c, c].concat()).collect()
        },
    };
    let line = reference(gt_ir::ops::Reshape { shape: Shape::new(&[1]) }.into(), &inputs[3], &[]);
    let stored = vec![transposed, doubled, inputs[2].clone(), line];
    let types: Vec<TensorType> = stored.iter().map(|t| t.ty).collect();
    let mut builder = PlanBuilder::new(&types);
    let x = builder.one(reversed, &[0], &[]);
    let rank = row.ty.shape.rank();
    let row = builder.one(
        Slice { sizes: row.ty.shape, steps: Steps::splat(rank, 2), drop: gt_ir::AxisSet::default() },
        &[1],
        &vec![Scalar::I64(0); rank],
    );
    let column = builder.one(Broadcast { shape: space }, &[2], &[]);
    let number = builder.one(gt_ir::ops::Reshape { shape: Shape::default() }, &[3], &[]);
    let live = chain(&mut builder, space, dtype, [x, row, column, number]);
    (stored, builder, live)
}

/// Chains that end in reductions over every set of axes, with and without other live-outs.
///
/// # Panics
/// On the first disagreement.
pub fn fused_reductions<E: Engine>(engine: &mut E) {
    let spaces: [&[usize]; 11] = [
        &[5],
        &[3, 5],
        &[5, 3],
        &[2, 3, 4],
        &[70, 130],
        &[130, 70],
        &[2, 2100],
        &[2100, 3],
        &[3, 1, 7],
        &[4, 33, 65],
        &[1, 1],
    ];
    let mut random = SplitMix::new(6);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8] {
        for dims in spaces {
            for mask in 1..1u16 << dims.len() {
                let axes = AxisSet(mask);
                let space = Shape::new(dims);
                let title = format!(
                    "fused reductions of {space} over {:?} in {dtype} on {}",
                    axes.iter().collect::<Vec<_>>(),
                    engine.name()
                );
                let inputs = chain_inputs(&space, dtype, &mut random);
                let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
                let mut builder = PlanBuilder::new(&types);
                builder.begin_fused(space);
                let scaled = builder.one(binary(BinaryKind::Mul), &[0, 1], &[]);
                let shifted = builder.one(binary(BinaryKind::Add), &[scaled, 2], &[]);
                let squared = builder.one(Unary { kind: UnaryKind::Square }, &[shifted], &[]);
                let mut reduced = Vec::new();
                for (kind, of, keepdim) in [
                    (ReduceKind::Sum, squared, false),
                    (ReduceKind::Sum, shifted, true),
                    (ReduceKind::Max, shifted, false),
                    (ReduceKind::Min, squared, true),
                ] {
                    reduced.push(builder.one(Reduce { kind, axes, keepdim }, &[of], &[]));
                }
                builder.end_fused();
                let with_values: Vec<Slot> = reduced.iter().copied().chain([shifted]).collect();
                let want =
                    results(&mut Reference::new().one_by_one(), &builder.finish(&reduced, Grouping::OneByOne), &inputs);
                let single = results(engine, &builder.finish(&reduced, Grouping::OneByOne), &inputs);
                let fused = results(engine, &builder.finish(&reduced, Grouping::Fused), &inputs);
                expect_same(&fused, &single, &Allowance::Exact, &format!("{title}, against one by one"));
                let more = results(engine, &builder.finish(&with_values, Grouping::Fused), &inputs);
                // The kept value has the lowest slot.
                expect_same(&more[1..], &fused, &Allowance::Exact, &format!("{title}, with the value kept"));
                expect_same(&fused, &want, &reduction_allowance(dtype, &space, axes), &title);
            }
        }
    }
}

fn reduction_allowance(dtype: DType, space: &Shape, axes: AxisSet) -> Allowance {
    if !dtype.is_float() {
        return Allowance::Numbers;
    }
    // Elements are at most 6 in size; the op table holds single sums to tighter bounds.
    let count: usize = axes.iter().map(|a| space[a]).product();
    Allowance::Near {
        ulps: 8.0,
        absolute: 6.0 * 4.0 * count as f64,
        slack: vec![super::compare::epsilon(dtype) * 8.0; space.numel()],
    }
}

/// Programs of random elementwise instructions and reductions: fused and one by one must agree in every bit,
/// whatever the values become on the way.
///
/// # Panics
/// On the first disagreement, with the program.
pub fn fused_random_programs<E: Engine>(engine: &mut E, count: u64) {
    for seed in 0..count {
        let (builder, live, inputs) = random_program(seed);
        let fused_plan = builder.finish(&live, Grouping::Fused);
        let fused = results(engine, &fused_plan, &inputs);
        let single = results(engine, &builder.finish(&live, Grouping::OneByOne), &inputs);
        let lines: Vec<String> = fused_plan.plan.instrs.iter().map(|i| i.to_string()).collect();
        let title = format!("random program {seed} on {}:\n{}\n", engine.name(), lines.join("\n"));
        expect_same(&fused, &single, &Allowance::Exact, &title);
    }
}

/// A plan with a fused step of random elementwise instructions and reductions, which of its values live on, and its inputs.
pub fn random_program(seed: u64) -> (PlanBuilder, Vec<Slot>, Vec<HostTensor>) {
    let mut random = SplitMix::new(seed.wrapping_mul(0x5851_f42d).wrapping_add(3));
    let spaces: [&[usize]; 8] = [&[6], &[3, 5], &[2, 3, 4], &[1030], &[33, 17], &[2, 1100], &[9, 1, 4], &[64, 64]];
    let space = Shape::new(spaces[random.below(8) as usize]);
    let dtype = *random.pick(&DType::ALL);
    let mut inputs = chain_inputs(&space, dtype, &mut random);
    inputs.push(make_values(TensorType { dtype, shape: space }, Domain::NonZero, &mut random));
    let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
    let mut builder = PlanBuilder::new(&types);
    let mut full: Vec<Slot> = vec![0, 4];
    let any: Vec<Slot> = vec![0, 1, 2, 3, 4];
    builder.begin_fused(space);
    let length = 3 + random.below(10);
    let mut made: Vec<Slot> = Vec::new();
    while (made.len() as u64) < length {
        let x = *random.pick(&full);
        let dtype = builder.ty(x).dtype;
        let slot = match random.below(6) {
            0 | 1 => {
                let kind = *random.pick(UnaryKind::ALL);
                if !kind.row().accepts.takes(dtype) {
                    continue;
                }
                builder.one(Unary { kind }, &[x], &[])
            }
            2 | 3 => {
                let kind = *random.pick(BinaryKind::ALL);
                let y = if random.below(2) == 0 { *random.pick(&any) } else { *random.pick(&full) };
                if !kind.row().accepts.takes(dtype) {
                    continue;
                }
                if builder.ty(y).dtype == dtype {
                    let ins = if random.below(2) == 0 { [x, y] } else { [y, x] };
                    builder.one(binary(kind), &ins, &[])
                } else {
                    let scalar = *random.pick(&[Side::Left, Side::Right]);
                    builder.one(Binary { kind, scalar }, &[x], &[Scalar::I64(1 + random.below(3) as i64)])
                }
            }
            4 => {
                let kind = *random.pick(CompareKind::ALL);
                let condition = builder.one(Compare { kind, scalar: Side::Right }, &[x], &[Scalar::I64(1)]);
                made.push(condition);
                builder.one(Select { a_scalar: false, b_scalar: true, dtype }, &[condition, x], &[Scalar::I64(2)])
            }
            _ => builder.one(Cast { dtype: *random.pick(&DType::ALL) }, &[x], &[]),
        };
        full.push(slot);
        made.push(slot);
    }
    let mut live: Vec<Slot> = made.iter().copied().filter(|_| random.below(4) == 0).collect();
    live.push(*made.last().expect("programs are not empty"));
    let axes = AxisSet(1 + random.below((1 << space.rank()) - 1) as u16);
    for _ in 0..random.below(3) {
        let x = *random.pick(&full);
        let kinds: &[ReduceKind] =
            if builder.ty(x).dtype == DType::Bool { &[ReduceKind::Max, ReduceKind::Min] } else { ReduceKind::ALL };
        let kind = *random.pick(kinds);
        let keepdim = random.below(2) == 0;
        live.push(builder.one(Reduce { kind, axes, keepdim }, &[x], &[]));
    }
    builder.end_fused();
    let inputs = inputs.into_iter().map(|t| if t.ty.dtype.is_float() { t } else { wrapped(t) }).collect();
    (builder, live, inputs)
}

/// Integers of every size, so that arithmetic wraps.
fn wrapped(t: HostTensor) -> HostTensor {
    if t.ty.dtype == DType::Bool {
        return t;
    }
    let spread: Vec<i64> = numbers::ints(&t).iter().map(|v| v.wrapping_mul(0x3_1415_9265)).collect();
    numbers::from_ints(t.ty, &spread)
}
