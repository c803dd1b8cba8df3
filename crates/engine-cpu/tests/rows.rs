//! Steps that read the results of their own reductions (FUSED-5): the bits of one instruction at a time, on any number of
//! threads, wherever inputs lie, whatever takes over storage, whatever is poisoned.

mod recorded;
mod row_programs;

use gt_engine::{Engine, Value};
use gt_engine_check::conformance::{SplitMix, make_values, upload};
use gt_engine_check::{evaluate, numbers};
use gt_engine_cpu::CpuBuffer;
use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, HostTensor, Instr, Op, Shape, Steps, TensorId, TensorType};
use gt_plan::{Plan, Role, role, text};
use recorded::program::{Program, check, check_interpreted};
use recorded::{FUSED, Placed, Recorded, SEPARATE, difference, engine, place};
use row_programs::Generator;

/// Whether a step reads its own reduction, and whether it publishes row values besides.
fn reads_own(plan: &Plan, step: &gt_plan::Step) -> bool {
    let instrs = || step.instrs.iter().map(|&i| &plan.instrs[i as usize]);
    let folded = |id: &TensorId| instrs().any(|i: &Instr| matches!(i.op, Op::Reduce(_)) && i.outs[0] == *id);
    instrs().any(|i| i.ins.iter().any(folded))
}

#[derive(Default)]
struct Seen {
    whole_rows: usize,
    published_rows: usize,
    row_arithmetic: usize,
    takes: usize,
    write_takes: usize,
}

impl Seen {
    fn look(&mut self, plan: &Plan) {
        for step in &plan.steps {
            let Some(space) = step.space() else { continue };
            if !reads_own(plan, step) {
                continue;
            }
            let rank = space.rank();
            assert!(space[rank - 1] <= 1024 && space[rank - 1] * space[rank - 2] != 1025, "{}", text::print(plan));
            let over_rows = |s: &u32| plan.types[*s as usize].shape != space;
            self.whole_rows += 1;
            self.published_rows += step.publish.iter().any(over_rows) as usize;
            let arithmetic = |i: &Instr| role(&i.op) == Role::Elementwise && over_rows(&(i.outs[0].0 as u32));
            self.row_arithmetic += step.instrs.iter().any(|&i| arithmetic(&plan.instrs[i as usize])) as usize;
            self.takes += !step.takes.is_empty() as usize;
            self.write_takes += step.takes.iter().any(|s| !step.drops.contains(s)) as usize;
        }
    }
}

/// Seeds of one test, so that they run beside each other.
fn random_programs(seeds: std::ops::Range<u64>) {
    let (mut one, mut two) = (engine(1), engine(2));
    let mut seen = Seen::default();
    for seed in seeds {
        let program = Generator::new(seed).program();
        seen.look(program.recorded.plan(FUSED).plan());
        check(&mut one, &mut two, &program, seed);
    }
    assert!(seen.whole_rows > 60 && seen.published_rows > 20 && seen.row_arithmetic > 20, "too few rows");
    assert!(seen.takes > 15 && seen.write_takes > 3, "too little is taken over");
}

#[test]
fn random_programs_a() {
    random_programs(0..400);
}

#[test]
fn random_programs_b() {
    random_programs(400..800);
}

/// What engines compile of folds, row values and spreads is what the instructions mean.
#[test]
fn the_reference_interprets_random_programs() {
    let small = |program: &Program| program.inputs.iter().all(|(tensor, _)| tensor.ty.numel() < 10_000);
    let programs = (0..300).map(|seed| (Generator::new(seed).program(), seed)).filter(|(program, _)| small(program));
    let checked = programs.map(|(program, seed)| check_interpreted(&program, seed)).count();
    assert!(checked > 150, "too few small programs: {checked}");
}

const SUM: Binary = binary(BinaryKind::Add);
const LESS: Binary = binary(BinaryKind::Sub);
const TIMES: Binary = binary(BinaryKind::Mul);
const OVER: Binary = binary(BinaryKind::Div);

const fn binary(kind: BinaryKind) -> Binary {
    Binary { kind, scalar: Side::None }
}

fn unary(kind: UnaryKind) -> Unary {
    Unary { kind }
}

fn last(kind: ReduceKind, rank: usize) -> Reduce {
    Reduce { kind, axes: AxisSet::of(&[rank - 1]), keepdim: true }
}

fn softmax(r: &mut Recorded, x: TensorId) -> TensorId {
    let rank = r.ty(x).shape.rank();
    let top = r.one(last(ReduceKind::Max, rank), &[x], &[]);
    let shifted = r.one(LESS, &[x, top], &[]);
    let powers = r.one(unary(UnaryKind::Exp), &[shifted], &[]);
    let total = r.one(last(ReduceKind::Sum, rank), &[powers], &[]);
    r.one(OVER, &[powers, total], &[])
}

/// Values of a dtype as doubles, row by row.
fn rows_of(tensor: &HostTensor, len: usize) -> Vec<Vec<f64>> {
    numbers::floats(tensor).chunks(len).map(|row| row.to_vec()).collect()
}

fn near(have: f64, want: f64, epsilon: f64) -> bool {
    (have - want).abs() <= epsilon * (1.0 + want.abs())
}

/// Not only the same bits as one by one, but the right numbers.
#[test]
fn a_softmax_in_one_pass_is_a_softmax() {
    let mut random = SplitMix::new(3);
    for (dtype, epsilon) in [(DType::F32, 1e-6), (DType::F64, 1e-14), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
        for (rows, len) in [(1, 2), (7, 3), (130, 17), (40, 1000), (300, 1024)] {
            let x = make_values(TensorType::new(dtype, &[rows, len]), Domain::Any, &mut random);
            let mut r = Recorded::default();
            let id = r.input(x.ty);
            let out = softmax(&mut r, id);
            r.keep(&[out]);
            let planned = r.plan(FUSED);
            assert_eq!(planned.plan().steps.len(), 1);
            let have = planned.run_on(&mut engine(2), std::slice::from_ref(&x)).read(out);
            for (row, have) in rows_of(&x, len).iter().zip(rows_of(&have, len)) {
                let powers: Vec<f64> = row.iter().map(|v| v.exp()).collect();
                let total: f64 = powers.iter().sum();
                for (p, have) in powers.iter().zip(have) {
                    assert!(near(have, p / total, epsilon), "{have} instead of {} in {dtype}", p / total);
                }
            }
        }
    }
}

/// The most bytes a run held at once beyond its inputs.
fn extra_bytes(r: &Recorded, inputs: &[HostTensor]) -> u64 {
    let mut engine = engine(2);
    let planned = r.plan(FUSED);
    let buffers: Vec<Value<CpuBuffer>> = upload(&mut engine, inputs).into_iter().map(Ok).collect();
    let before = engine.memory().live_bytes;
    let ran = planned.run(&mut engine, buffers);
    let peak = engine.memory().peak_bytes;
    drop(ran);
    assert_eq!(engine.memory().live_bytes, 0);
    peak - before
}

#[test]
fn a_pass_over_rows_writes_where_its_input_lay() {
    let mut random = SplitMix::new(4);
    let ty = TensorType::new(DType::F32, &[1024, 256]);
    let x = make_values(ty, Domain::Any, &mut random);
    // The input is read after the first result that could lie there: by way of a tile.
    let mut r = Recorded::default();
    let id = r.input(ty);
    let out = softmax(&mut r, id);
    let out = r.one(SUM, &[out, id], &[]);
    r.keep(&[out]);
    assert_eq!(extra_bytes(&r, std::slice::from_ref(&x)), 0);
    let want = r.plan(SEPARATE).run_on(&mut engine(1), std::slice::from_ref(&x)).read(out);
    let have = r.plan(FUSED).run_on(&mut engine(2), std::slice::from_ref(&x)).read(out);
    assert_eq!(difference(&have, &want), None);
    // Rows take over rows: the old scale becomes the new one.
    let row = TensorType::new(DType::F32, &[1024, 1]);
    let scale = make_values(row, Domain::Positive, &mut random);
    let mut r = Recorded::default();
    let (id, old) = (r.input(ty), r.input(row));
    let top = r.one(last(ReduceKind::Max, 2), &[id], &[]);
    let new = r.one(SUM, &[top, old], &[]);
    let scaled = r.one(TIMES, &[id, new], &[]);
    r.keep(&[scaled, new]);
    assert_eq!(r.plan(FUSED).plan().steps.len(), 1);
    assert_eq!(extra_bytes(&r, &[x.clone(), scale.clone()]), 0);
    for threads in [1, 2] {
        let want = r.plan(SEPARATE).run_on(&mut engine(1), &[x.clone(), scale.clone()]);
        let have = r.plan(FUSED).run_on(&mut engine(threads), &[x.clone(), scale.clone()]);
        assert_eq!(difference(&have.read(scaled), &want.read(scaled)), None);
        assert_eq!(difference(&have.read(new), &want.read(new)), None);
    }
}

/// What is read both as rows and as positions is not written over, though it dies.
#[test]
fn an_input_of_both_levels_is_read_to_the_end() {
    let mut random = SplitMix::new(5);
    for dtype in [DType::F32, DType::BF16] {
        let (ty, row) = (TensorType::new(dtype, &[600, 64]), TensorType::new(dtype, &[600, 1]));
        let inputs = [make_values(ty, Domain::Any, &mut random), make_values(row, Domain::Positive, &mut random)];
        let mut r = Recorded::default();
        let (x, scale) = (r.input(ty), r.input(row));
        // First over positions, then over rows, then over positions again.
        let scaled = r.one(TIMES, &[x, scale], &[]);
        let total = r.one(last(ReduceKind::Sum, 2), &[scaled], &[]);
        let mean = r.one(OVER, &[total, scale], &[]);
        let less = r.one(LESS, &[scaled, mean], &[]);
        let out = r.one(SUM, &[less, scale], &[]);
        r.keep(&[mean, out]);
        let planned = r.plan(FUSED);
        assert_eq!(planned.plan().steps.len(), 1);
        assert!(planned.plan().steps[0].takes.contains(&1));
        let want = r.plan(SEPARATE).run_on(&mut engine(1), &inputs);
        for threads in [1, 2] {
            let have = planned.run_on(&mut engine(threads), &inputs);
            assert_eq!(difference(&have.read(out), &want.read(out)), None);
            assert_eq!(difference(&have.read(mean), &want.read(mean)), None);
        }
    }
}

/// A fill has no place in memory; reductions of it read one tile again and again, whatever their extents.
#[test]
fn reductions_of_fills_count_every_element() {
    let shapes: [&[usize]; 10] =
        [&[2], &[1024], &[1025], &[2048], &[5000], &[100_000], &[3, 4096], &[4096, 3], &[7, 300, 11], &[2100, 40]];
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8] {
        for dims in shapes {
            for mask in 1..1u16 << dims.len() {
                let shape = Shape::new(dims);
                let mut r = Recorded::default();
                let ones = r.one(Fill { dtype, shape }, &[], &[1.into()]);
                let axes = AxisSet(mask);
                let sum = r.one(Reduce { kind: ReduceKind::Sum, axes, keepdim: false }, &[ones], &[]);
                let top = r.one(Reduce { kind: ReduceKind::Max, axes, keepdim: true }, &[ones], &[]);
                r.keep(&[sum, top]);
                let count: usize = axes.iter().map(|a| dims[a]).product();
                for threads in [1, 2] {
                    let ran = r.plan(FUSED).run_on(&mut engine(threads), &[]);
                    let (sum_ty, top_ty) = (r.ty(sum), r.ty(top));
                    let want =
                        numbers::from_numbers(sum_ty.with_dtype(DType::I64), &vec![count as f64; sum_ty.numel()]);
                    let wrapped: Vec<i64> = numbers::ints(&want);
                    let want = if dtype.is_float() {
                        numbers::from_floats(sum_ty, &vec![count as f64; sum_ty.numel()])
                    } else {
                        numbers::from_ints(sum_ty, &wrapped)
                    };
                    assert_eq!(difference(&ran.read(sum), &want), None, "{dtype}{shape} over {axes:?}");
                    let want = numbers::from_numbers(top_ty, &vec![1.0; top_ty.numel()]);
                    assert_eq!(difference(&ran.read(top), &want), None, "{dtype}{shape} over {axes:?}");
                }
            }
        }
    }
}

/// A product that is only read with its axes swapped is stored so, and its operands may be read with theirs swapped: the
/// bits are the same, whoever reads it.
#[test]
fn turned_products_are_the_same_products() {
    let cases: [(&[usize], &[usize]); 9] = [
        (&[1, 1], &[1, 1]),
        (&[3, 5], &[5, 2]),
        (&[33, 129], &[129, 65]),
        (&[200, 300], &[300, 170]),
        (&[1, 500], &[500, 90]),
        (&[90, 500], &[500, 1]),
        (&[4, 0], &[0, 6]),
        (&[5, 17, 40], &[5, 40, 31]),
        (&[3, 1, 20, 40], &[2, 40, 30]),
    ];
    let mut random = SplitMix::new(6);
    let places = [Placed::Packed, Placed::Reversed, Placed::Spaced, Placed::Flipped];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64] {
        for (a, b) in cases {
            let inputs = [a, b].map(|s| make_values(TensorType::new(dtype, s), Domain::Any, &mut random));
            let mut want: Option<[HostTensor; 3]> = None;
            for (turn_a, turn_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let op = Matmul { turn_a, turn_b };
                for (k, placed) in places.into_iter().enumerate() {
                    // With the product itself kept it lies the usual way round.
                    for kept in [true, false] {
                        let title = || format!("{dtype} {a:?} {b:?} {placed:?} {op:?}, product kept: {kept}");
                        let have = product_read_turned(&op, &inputs, placed, kept, 1 + k % 2);
                        let want = want.get_or_insert_with(|| have.clone());
                        for (have, want) in have.iter().zip(want) {
                            assert_eq!(difference(have, want), None, "{}", title());
                        }
                    }
                }
            }
        }
    }
}

fn swapped(rank: usize) -> Permute {
    let mut perm: Steps = (0..rank as i64).collect();
    perm.swap(rank - 1, rank - 2);
    Permute { perm }
}

/// A product of values given as they are to be multiplied, read by three that swap its axes.
fn product_read_turned(
    op: &Matmul,
    inputs: &[HostTensor; 2],
    placed: Placed,
    kept: bool,
    threads: usize,
) -> [HostTensor; 3] {
    let mut engine = engine(threads);
    let mut r = Recorded::default();
    let mut buffers = Vec::new();
    let mut operand = |r: &mut Recorded, tensor: &HostTensor, turn: bool| {
        let swap = swapped(tensor.ty.shape.rank());
        let given = match turn {
            true => evaluate(&swap.into(), &[tensor], &[], None).expect("a permutation").remove(0),
            false => tensor.clone(),
        };
        buffers.push(Ok(place(&mut engine, &given, placed)));
        r.input(given.ty)
    };
    let (x, y) = (operand(&mut r, &inputs[0], op.turn_a), operand(&mut r, &inputs[1], op.turn_b));
    let product = r.one(op.clone(), &[x, y], &[]);
    let swap = swapped(r.ty(product).shape.rank());
    let turned = r.one(swap.clone(), &[product], &[]);
    let again = r.one(swap.clone(), &[product], &[]);
    let doubled = r.one(SUM, &[turned, again], &[]);
    let back = r.one(swap, &[again], &[]);
    let flat = r.one(Reshape { shape: Shape::new(&[r.ty(back).numel()]) }, &[back], &[]);
    let mut outs = vec![turned, doubled, flat];
    if kept {
        outs.push(product);
    }
    r.keep(&outs);
    let ran = r.plan(FUSED).run(&mut engine, buffers);
    [turned, doubled, flat].map(|id| ran.read(id))
}
