//! Random windows of elementwise instructions over a space and over its rows, and reductions between the two; their inputs
//! lie anyhow.

use gt_engine_check::conformance::{SplitMix, make_values, special_values};
use gt_engine_check::numbers;
use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, HostTensor, Scalar, Shape, Steps, TensorId, TensorType};

use crate::recorded::program::Program;
use crate::recorded::{Placed, Recorded};

const LENGTHS: [usize; 10] = [2, 3, 16, 17, 64, 100, 1000, 1024, 1025, 2048];
/// The same, or near it, as the product of two axes.
const PAIRS: [(usize, usize); 9] = [(2, 1), (1, 3), (4, 4), (17, 1), (8, 8), (40, 25), (32, 32), (25, 41), (64, 32)];
const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64];

pub struct Generator {
    random: SplitMix,
    program: Program,
    space: Shape,
    rows: Shape,
    axes: AxisSet,
    /// Values of the space's extents, of the rows', and others that broadcast to them.
    full: Vec<TensorId>,
    by_row: Vec<TensorId>,
    to_full: Vec<TensorId>,
    to_rows: Vec<TensorId>,
}

/// Integers of every size, so that arithmetic wraps; floats with a few infinities and zeros among them.
fn spiced(mut tensor: HostTensor, random: &mut SplitMix) -> HostTensor {
    let ty = tensor.ty;
    if ty.dtype == DType::I64 && random.below(2) == 0 {
        let wide: Vec<i64> = numbers::ints(&tensor).iter().map(|v| v.wrapping_mul(0x3_1415_9265)).collect();
        return numbers::from_ints(ty, &wide);
    }
    if ty.dtype.is_float() && random.below(3) == 0 {
        let (special, size) = (special_values(ty.dtype), ty.dtype.size());
        for _ in 0..1 + ty.numel() / 300 {
            let to = random.below(ty.numel().max(1) as u64) as usize * size;
            let from = random.below(special.ty.numel() as u64) as usize * size;
            if to < tensor.bytes.len() {
                tensor.bytes[to..to + size].copy_from_slice(&special.bytes[from..from + size]);
            }
        }
    }
    tensor
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let mut random = SplitMix::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17));
        // Few rows, or as many as are shared between threads.
        let count = |random: &mut SplitMix, len: usize| {
            let most = if random.below(4) == 0 { 150_000 } else { 6_000 };
            let rows = *random.pick(&[1, 2, 3, 5, 9, 33, 70, 400]);
            rows.min((most / len).max(1))
        };
        let (space, folded) = match random.below(4) {
            0 | 1 => {
                let n = *random.pick(&LENGTHS);
                (Shape::new(&[count(&mut random, n), n]), 1)
            }
            2 => {
                let n = *random.pick(&LENGTHS);
                let a = count(&mut random, n).div_ceil(3);
                (Shape::new(&[a, 3, n]), 1)
            }
            _ => {
                let (n, m) = *random.pick(&PAIRS);
                (Shape::new(&[count(&mut random, n * m), n, m]), 2)
            }
        };
        let axes = AxisSet::of(&(space.rank() - folded..space.rank()).collect::<Vec<_>>());
        let rows = axes.flatten_in(&space);
        let program = Program { recorded: Recorded::default(), inputs: Vec::new(), writes: Vec::new() };
        Generator {
            random,
            program,
            space,
            rows,
            axes,
            full: Vec::new(),
            by_row: Vec::new(),
            to_full: Vec::new(),
            to_rows: Vec::new(),
        }
    }

    fn input(&mut self, dtype: DType, shape: Shape) -> TensorId {
        let ty = TensorType { dtype, shape };
        let domain = *self.random.pick(&[Domain::Any, Domain::Positive, Domain::NonZero]);
        let values = make_values(ty, domain, &mut self.random);
        let values = spiced(values, &mut self.random);
        let placed = if self.random.below(3) == 0 { Placed::Packed } else { *self.random.pick(&Placed::ALL) };
        self.program.inputs.push((values, placed));
        self.program.recorded.input(ty)
    }

    fn dtype(&self, id: TensorId) -> DType {
        self.program.recorded.ty(id).dtype
    }

    /// Mostly a recent one.
    fn pick(&mut self, from: &[TensorId]) -> TensorId {
        let recent = from.len() - 1 - self.random.below(from.len().min(5) as u64) as usize;
        if self.random.below(3) > 0 { from[recent] } else { *self.random.pick(from) }
    }

    fn inputs(&mut self) {
        let dtype = *self.random.pick(&DTYPES);
        let (space, rows, rank) = (self.space, self.rows, self.space.rank());
        for _ in 0..2 {
            let id = self.input(dtype, space);
            self.full.push(id);
        }
        let row = self.input(dtype, rows);
        self.by_row.push(row);
        let line = self.input(dtype, Shape::new(&space[rank - self.axes.len()..]));
        let number = self.input(dtype, Shape::default());
        let first = self.input(dtype, Shape::ones(rank));
        self.to_full.extend([row, line, number, first]);
        self.to_rows.extend([number, first]);
        let recorded = &mut self.program.recorded;
        // Views made in the window: broadcasts of what is smaller, axes swapped twice.
        let spread = recorded.one(Broadcast { shape: space }, &[row], &[]);
        let repeated = recorded.one(Broadcast { shape: rows }, &[first], &[]);
        self.full.push(spread);
        self.by_row.push(repeated);
        let stored = Shape::try_collect(space.iter().rev().copied()).expect("the same elements");
        let turned = self.input(dtype, stored);
        let reversed: Steps = (0..rank as i64).rev().collect();
        let turned = self.program.recorded.one(Permute { perm: reversed }, &[turned], &[]);
        self.full.push(turned);
        let longer = Shape::try_collect(rows.iter().map(|d| d + 1)).expect("a small shape");
        let larger = self.input(dtype, longer);
        let cut = Slice { sizes: rows, steps: Steps::splat(rank, 1), drop: AxisSet::default() };
        let starts = vec![Scalar::I64(1); rank];
        let cut = self.program.recorded.one(cut, &[larger], &starts);
        self.by_row.push(cut);
    }

    /// An elementwise instruction on `own` extents, with `others` that broadcast to them.
    fn elementwise(&mut self, over_rows: bool) {
        let (own, others) =
            if over_rows { (self.by_row.clone(), &self.to_rows) } else { (self.full.clone(), &self.to_full) };
        let others: Vec<TensorId> = if over_rows { others.clone() } else { [&others[..], &self.by_row].concat() };
        let x = self.pick(&own);
        let dtype = self.dtype(x);
        let random = &mut self.random;
        let recorded = &mut self.program.recorded;
        let small = Scalar::I64(1 + random.below(3) as i64);
        let out = match random.below(8) {
            0 => {
                let kind = *random.pick(UnaryKind::ALL);
                if !kind.row().accepts.takes(dtype) {
                    return;
                }
                recorded.one(Unary { kind }, &[x], &[])
            }
            1..=4 => {
                let kinds = [
                    BinaryKind::Add,
                    BinaryKind::Sub,
                    BinaryKind::Mul,
                    BinaryKind::Div,
                    BinaryKind::Max,
                    *random.pick(BinaryKind::ALL),
                ];
                let kind = *random.pick(&kinds);
                if !kind.row().accepts.takes(dtype) {
                    return;
                }
                let from = if random.below(2) == 0 { &others } else { &own };
                let alike: Vec<TensorId> = from.iter().copied().filter(|y| recorded.ty(*y).dtype == dtype).collect();
                if alike.is_empty() || random.below(6) == 0 {
                    let scalar = *random.pick(&[Side::Left, Side::Right]);
                    recorded.one(Binary { kind, scalar }, &[x], &[small])
                } else {
                    let y = alike[alike.len() - 1 - random.below(alike.len().min(4) as u64) as usize];
                    let ins = if random.below(2) == 0 { [x, y] } else { [y, x] };
                    recorded.one(Binary { kind, scalar: Side::None }, &ins, &[])
                }
            }
            5 => {
                let alike: Vec<TensorId> = others.iter().copied().filter(|y| recorded.ty(*y).dtype == dtype).collect();
                let kind = *random.pick(CompareKind::ALL);
                let condition = match alike.last() {
                    Some(&y) => recorded.one(Compare { kind, scalar: Side::None }, &[x, y], &[]),
                    None => recorded.one(Compare { kind, scalar: Side::Right }, &[x], &[small]),
                };
                match (random.below(3), alike.first()) {
                    (0, Some(&y)) => {
                        recorded.one(Select { a_scalar: false, b_scalar: false, dtype }, &[condition, y, x], &[])
                    }
                    (1, _) => {
                        recorded.one(Select { a_scalar: false, b_scalar: true, dtype }, &[condition, x], &[small])
                    }
                    _ => condition,
                }
            }
            6 => {
                let to = *random.pick(&[DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::Bool]);
                recorded.one(Cast { dtype: to }, &[x], &[])
            }
            _ => {
                let shape = if over_rows { self.rows } else { self.space };
                recorded.one(Fill { dtype, shape }, &[], &[small])
            }
        };
        if over_rows { self.by_row.push(out) } else { self.full.push(out) }
    }

    fn reduction(&mut self) {
        let full = self.full.clone();
        let x = self.pick(&full);
        let kinds: &[ReduceKind] =
            if self.dtype(x) == DType::Bool { &[ReduceKind::Max, ReduceKind::Min] } else { ReduceKind::ALL };
        let kind = *self.random.pick(kinds);
        let keepdim = self.random.below(8) > 0;
        // Rarely over other axes, which ends the rows.
        let axes = if self.random.below(16) == 0 { AxisSet::of(&[0]) } else { self.axes };
        let out = self.program.recorded.one(Reduce { kind, axes, keepdim }, &[x], &[]);
        if keepdim && axes == self.axes {
            self.by_row.push(out);
        } else if keepdim {
            self.to_full.push(out);
        }
    }

    /// Some inputs take new values at the end.
    fn write(&mut self) {
        let recorded = &mut self.program.recorded;
        let (mut olds, mut news) = (Vec::new(), Vec::new());
        for old in recorded.inputs.clone() {
            let ty = recorded.ty(old);
            let alike = recorded.types.iter().filter(|(id, t)| **t == ty && !recorded.inputs.contains(id));
            let alike: Vec<TensorId> = alike.map(|(id, _)| *id).collect();
            if !alike.is_empty() && self.random.below(2) == 0 {
                olds.push(old);
                news.push(alike[alike.len() - 1 - self.random.below(alike.len().min(3) as u64) as usize]);
            }
        }
        if !olds.is_empty() {
            let outs = recorded.op(Write {}, &[&olds[..], &news].concat(), &[]);
            self.program.writes.push((olds, news, outs));
        }
    }

    pub fn program(mut self) -> Program {
        self.inputs();
        for _ in 0..4 + self.random.below(22) {
            match self.random.below(10) {
                0..=2 => self.reduction(),
                3..=5 => self.elementwise(true),
                _ => self.elementwise(false),
            }
        }
        if self.random.below(2) == 0 {
            self.write();
        }
        let mut program = self.program;
        let written: Vec<TensorId> = program.writes.iter().flat_map(|w| w.2.clone()).collect();
        let recorded = &mut program.recorded;
        let dies = |id: &TensorId| !written.contains(id) && self.random.below(10) < 7;
        recorded.window.frees = recorded.types.keys().copied().filter(dies).collect();
        program
    }
}
