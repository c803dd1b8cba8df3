//! Concatenations inside fused steps (FUSED-6): the bits of one instruction at a time and of the reference engine, for every
//! dtype, wherever parts lie, on any number of threads, whatever is poisoned.

mod recorded;

use gt_engine_check::conformance::{SplitMix, make_values};
use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, HostTensor, Op, Scalar, Shape, Steps, TensorId, TensorType};
use gt_plan::{Plan, StepKind, parts_of, text};
use recorded::program::{Program, check, check_interpreted, evaluated};
use recorded::{FUSED, Placed, Recorded, SEPARATE, difference, engine};

const TIMES: Binary = binary(BinaryKind::Mul);
const PLUS: Binary = binary(BinaryKind::Add);

const fn binary(kind: BinaryKind) -> Binary {
    Binary { kind, scalar: Side::None }
}

/// How many steps hold a concatenation, and how many compute something for a part of it.
#[derive(Debug, Default, PartialEq)]
struct Held {
    concats: usize,
    chains: usize,
}

fn held(plan: &Plan) -> Held {
    let mut held = Held::default();
    for step in plan.steps.iter().filter(|s| s.kind != StepKind::Single) {
        let parts = parts_of(&plan.instrs, &plan.types, &step.instrs).expect("a valid plan");
        held.concats += !parts.parts.is_empty() as usize;
        held.chains += (0..step.instrs.len()).any(|nth| parts.of(nth).is_some()) as usize;
    }
    held
}

/// Random windows of concatenations, what leads to them and what reads them.
struct Generator {
    random: SplitMix,
    program: Program,
    dtype: DType,
    kept: Vec<TensorId>,
}

const DTYPES: [DType; 9] =
    [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I8, DType::U8, DType::Bool];

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut random = SplitMix::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(5));
        let program = Program { recorded: Recorded::default(), inputs: Vec::new(), writes: Vec::new() };
        let dtype = *random.pick(&DTYPES);
        Generator { random, program, dtype, kept: Vec::new() }
    }

    fn input(&mut self, shape: Shape) -> TensorId {
        let ty = TensorType { dtype: self.dtype, shape };
        let tensor = make_values(ty, Domain::Any, &mut self.random);
        let placed = *self.random.pick(&Placed::ALL);
        self.program.inputs.push((tensor, placed));
        self.program.recorded.input(ty)
    }

    fn one(&mut self, op: impl Into<Op>, ins: &[TensorId], scalars: &[Scalar]) -> TensorId {
        let out = self.program.recorded.one(op, ins, scalars);
        if self.random.below(12) == 0 {
            self.kept.push(out);
        }
        out
    }

    /// One more instruction on a value, its extents unchanged.
    fn extend(&mut self, x: TensorId) -> TensorId {
        let shape = self.program.recorded.ty(x).shape;
        let kind = *self.random.pick(if self.dtype == DType::Bool {
            &[BinaryKind::And, BinaryKind::Or]
        } else {
            &[BinaryKind::Add, BinaryKind::Mul]
        });
        match self.random.below(5) {
            0 | 1 if self.dtype != DType::Bool && self.dtype != DType::U8 => {
                self.one(Unary { kind: UnaryKind::Neg }, &[x], &[])
            }
            0 => self.one(binary(kind), &[x, x], &[]),
            1 if self.dtype != DType::Bool => self.one(Binary { kind, scalar: Side::Right }, &[x], &[Scalar::I64(3)]),
            2 => {
                // Something that is broadcast to it.
                let axes = (0..shape.rank())
                    .filter(|_| self.random.below(2) == 0)
                    .fold(AxisSet::default(), |set, axis| AxisSet(set.0 | 1 << axis));
                let narrow = axes.flatten_in(&shape);
                let other = self.input(narrow);
                self.one(binary(kind), &[x, other], &[])
            }
            3 => {
                let fill = self.one(Fill { dtype: self.dtype, shape }, &[], &[Scalar::I64(1)]);
                self.one(binary(kind), &[fill, x], &[])
            }
            _ => {
                let other = self.input(shape);
                self.one(binary(kind), &[other, x], &[])
            }
        }
    }

    /// An operand of a concatenation.
    fn part(&mut self, shape: Shape, deep: bool) -> TensorId {
        let mut x = match self.random.below(8) {
            0 => self.one(Fill { dtype: self.dtype, shape }, &[], &[Scalar::I64(1)]),
            1 if deep && shape.numel() > 0 => {
                let axis = self.random.below(shape.rank() as u64) as usize;
                self.concat(shape, axis, false)
            }
            2 | 3 => {
                // A slice of something larger.
                let large = Shape::try_collect(shape.iter().map(|d| d + 2)).expect("a small shape");
                let large = self.input(large);
                let slice = Slice { sizes: shape, steps: Steps::splat(shape.rank(), 1), drop: AxisSet::default() };
                let starts: Vec<Scalar> = shape.iter().map(|_| Scalar::I64(1)).collect();
                self.one(slice, &[large], &starts)
            }
            _ => self.input(shape),
        };
        for _ in 0..self.random.below(3) {
            x = self.extend(x);
        }
        x
    }

    /// A concatenation of these extents.
    fn concat(&mut self, shape: Shape, axis: usize, deep: bool) -> TensorId {
        let mut cuts = vec![0, shape[axis]];
        for _ in 0..1 + self.random.below(3) {
            cuts.push(self.random.below(shape[axis] as u64 + 1) as usize);
        }
        // Empty parts come of equal cuts; mostly there are none.
        cuts.sort_unstable();
        if self.random.below(6) > 0 {
            cuts.dedup();
        }
        let mut parts: Vec<TensorId> = Vec::new();
        for pair in cuts.windows(2) {
            let own = shape.shrunk(axis, pair[1] - pair[0]);
            let again = parts.last().copied().filter(|&id| self.program.recorded.ty(id).shape == own);
            let part = match again {
                Some(part) if self.random.below(3) == 0 => part,
                _ => self.part(own, deep),
            };
            parts.push(part);
        }
        self.one(Concat { axis: axis as u8 }, &parts, &[])
    }

    fn program(mut self) -> Program {
        let shape = match self.random.below(5) {
            0 => Shape::new(&[1 + self.random.below(3000) as usize]),
            1 => Shape::new(&[1 + self.random.below(40) as usize, 1 + self.random.below(70) as usize]),
            2 => Shape::new(&[3, 1 + self.random.below(5) as usize, 1 + self.random.below(1500) as usize]),
            3 => Shape::new(&[2, 5, 1 + self.random.below(40) as usize, 16]),
            _ => Shape::new(&[60, 1 + self.random.below(40) as usize, 32]),
        };
        let mut values = vec![self.input(shape)];
        for _ in 0..1 + self.random.below(3) {
            if self.random.below(4) > 0 {
                let axis = self.random.below(shape.rank() as u64) as usize;
                let concat = self.concat(shape, axis, true);
                values.push(concat);
            }
            let kind = if self.dtype == DType::Bool { BinaryKind::Xor } else { BinaryKind::Mul };
            let (a, b) = (values[values.len() - 1], *self.random.pick(&values));
            let joined = self.one(binary(kind), &[a, b], &[]);
            let extended = self.extend(joined);
            values.push(extended);
        }
        let last = *values.last().expect("an input at least");
        self.kept.push(last);
        // Of integers: which of two zeros is the larger is left to engines.
        if self.random.below(3) == 0 && self.dtype.is_int() {
            let axes = AxisSet::of(&[self.random.below(shape.rank() as u64) as usize]);
            let top = Reduce { kind: ReduceKind::Max, axes, keepdim: false };
            let top = self.one(top, &[last], &[]);
            self.kept.push(top);
        }
        // Inputs live on or die.
        for k in 0..self.program.inputs.len() {
            if self.random.below(3) == 0 {
                self.kept.push(self.program.recorded.inputs[k]);
            }
        }
        self.program.recorded.keep(&self.kept);
        self.program
    }
}

fn random_programs(seeds: std::ops::Range<u64>) {
    let (mut one, mut two) = (engine(1), engine(2));
    let mut seen = Held::default();
    for seed in seeds {
        let program = Generator::new(seed).program();
        let plan = program.recorded.plan(FUSED);
        let Held { concats, chains } = held(plan.plan());
        seen = Held { concats: seen.concats + concats, chains: seen.chains + chains };
        let have = check(&mut one, &mut two, &program, seed);
        let want = evaluated(&program);
        for (id, have) in &have {
            assert_eq!(difference(have, &want[id]), None, "{id} of program {seed}\n{}", text::print(plan.plan()));
        }
    }
    assert!(seen.concats > 150 && seen.chains > 75, "too few concatenations inside steps: {seen:?}");
}

#[test]
fn random_programs_a() {
    random_programs(0..300);
}

#[test]
fn random_programs_b() {
    random_programs(300..600);
}

/// What engines compile of parts and placements is what the instructions mean.
#[test]
fn the_reference_interprets_random_programs() {
    for seed in 0..150 {
        check_interpreted(&Generator::new(seed).program(), seed);
    }
}

/// The rotation of a head by its position, as a user writes it: gives the result, and what it reads.
fn rotary(r: &mut Recorded, heads: &[usize]) -> (TensorId, [TensorId; 3]) {
    let rank = heads.len();
    let (half, width) = (heads[rank - 1] / 2, heads[rank - 1]);
    let x = r.input(TensorType::new(DType::F32, heads));
    let table = TensorType::new(DType::F32, &[heads[rank - 2], width]);
    let (cos, sin) = (r.input(table), r.input(table));
    let sizes = Shape::new(heads).shrunk(rank - 1, half);
    let slice = Slice { sizes, steps: Steps::splat(rank, 1), drop: AxisSet::default() };
    let starts = |first: usize| -> Vec<Scalar> {
        (0..rank).map(|axis| Scalar::I64(if axis + 1 == rank { first as i64 } else { 0 })).collect()
    };
    let high = r.one(slice.clone(), &[x], &starts(half));
    let turned = r.one(Unary { kind: UnaryKind::Neg }, &[high], &[]);
    let low = r.one(slice, &[x], &starts(0));
    let rotated = r.one(Concat { axis: rank as u8 - 1 }, &[turned, low], &[]);
    let straight = r.one(TIMES, &[x, cos], &[]);
    let across = r.one(TIMES, &[rotated, sin], &[]);
    (r.one(PLUS, &[straight, across], &[]), [x, cos, sin])
}

#[test]
fn a_rotation_is_one_pass() {
    let mut random = SplitMix::new(11);
    for heads in [&[2, 4, 64, 16][..], &[1, 3, 7, 6], &[2, 200, 128], &[5, 2048]] {
        let mut r = Recorded::default();
        let (out, ids) = rotary(&mut r, heads);
        r.keep(&[out]);
        let planned = r.plan(FUSED);
        let fused = planned.plan().steps.iter().filter(|s| s.kind != StepKind::Single).count();
        assert_eq!((fused, held(planned.plan())), (1, Held { concats: 1, chains: 1 }));
        let inputs: Vec<HostTensor> = ids.iter().map(|id| make_values(r.ty(*id), Domain::Any, &mut random)).collect();
        let want = r.plan(SEPARATE).run_on(&mut engine(1), &inputs).read(out);
        for threads in [1, 2] {
            let have = planned.run_on(&mut engine(threads), &inputs).read(out);
            assert_eq!(difference(&have, &want), None, "{heads:?}");
        }
    }
}

/// Slices keep their source from being written over, though it dies with the step.
#[test]
fn a_rotation_does_not_write_over_what_it_reads() {
    let mut random = SplitMix::new(12);
    let mut r = Recorded::default();
    let (out, ids) = rotary(&mut r, &[40, 256, 64]);
    r.keep(&[out]);
    assert!(r.plan(FUSED).plan().steps.iter().any(|s| s.takes.contains(&0) && s.kind != StepKind::Single));
    let inputs: Vec<HostTensor> = ids.iter().map(|id| make_values(r.ty(*id), Domain::Any, &mut random)).collect();
    let want = r.plan(SEPARATE).run_on(&mut engine(1), &inputs).read(out);
    let have = r.plan(FUSED).run_on(&mut engine(2), &inputs).read(out);
    assert_eq!(difference(&have, &want), None);
}
