//! Random programs under random signals on up to five workers give what one worker gives.

use std::collections::HashMap;
use std::ops::Range;

use gt_ir::ops::*;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::shard::Split;
use gt_ir::{
    AxisSet, DType, ExternalValue, HostTensor, Instr, Op, Payload, Scalar, ScopeId, Shape, SiteId, Steps, TensorId,
    TensorType, Window,
};
use gt_shard::{Layout, Mesh, Phase, PlacedStep, Placer};

use super::{Fleet, SplitMix};
use crate::evaluate;
use gt_engine::Engine;

/// A program as it is recorded, and what each value is.
pub(super) struct Program {
    pub(super) random: SplitMix,
    pub(super) instrs: Vec<Instr>,
    pub(super) uploads: Vec<Payload>,
    values: Vec<(TensorId, HostTensor)>,
    next: u64,
    scopes: u64,
}

impl Program {
    fn record(&mut self, op: impl Into<Op>, ins: &[TensorId], scalars: &[Scalar], payload: Option<Vec<u8>>) -> bool {
        let op = op.into();
        let values: HashMap<TensorId, &HostTensor> = self.values.iter().map(|(id, v)| (*id, v)).collect();
        let args: Vec<&HostTensor> = ins.iter().map(|id| values[id]).collect();
        let types: Vec<TensorType> = args.iter().map(|v| v.ty).collect();
        let Ok(made) = op.primitive().infer(&types) else { return false };
        if made.iter().any(|ty| ty.numel() > 4000) {
            return false;
        }
        let payload = payload.map(gt_ir::Bytes::from);
        let Ok(outs) = evaluate(&op, &args, scalars, payload.as_ref()) else { return false };
        if let Some(bytes) = payload {
            self.uploads.push(Payload { instr: self.instrs.len() as u32, bytes });
        }
        let ids: Vec<TensorId> = outs.iter().map(|_| self.id()).collect();
        self.values.extend(ids.iter().copied().zip(outs));
        self.instrs.push(Instr {
            op,
            outs: ids.into_iter().collect(),
            ins: ins.iter().copied().collect(),
            scalars: scalars.iter().copied().collect(),
            scope: ScopeId(self.random.below(self.scopes) as u32),
            site: SiteId(0),
        });
        true
    }

    fn id(&mut self) -> TensorId {
        self.next += 1;
        TensorId(self.next)
    }

    fn pick(&mut self) -> (TensorId, TensorType) {
        // Late values more often, so that programs are deep.
        let n = self.values.len() as u64;
        let back = self.random.below(n).min(self.random.below(n));
        let (id, value) = &self.values[(n - 1 - back) as usize];
        (*id, value.ty)
    }

    fn float(&mut self) -> (TensorId, TensorType) {
        loop {
            let picked = self.pick();
            if picked.1.dtype == DType::F32 {
                return picked;
            }
        }
    }

    fn extents(&mut self) -> Shape {
        let rank = self.random.below(4) as usize;
        Shape::try_collect((0..rank).map(|_| *self.random.pick(&[1usize, 2, 3, 4, 5, 6, 8]))).expect("a small shape")
    }

    fn step(&mut self) -> bool {
        let axis_of = |random: &mut SplitMix, ty: &TensorType| random.below(ty.shape.rank().max(1) as u64) as usize;
        match self.random.below(22) {
            0 => {
                let shape = self.extents();
                let ty = TensorType { dtype: DType::F32, shape };
                let bytes =
                    (0..ty.numel()).flat_map(|_| (self.random.between(-2.0, 2.0) as f32).to_le_bytes()).collect();
                self.record(Upload { dtype: ty.dtype, shape }, &[], &[], Some(bytes))
            }
            1 => {
                let shape = self.extents();
                self.record(Fill { dtype: DType::F32, shape }, &[], &[Scalar::F64(0.5)], None)
            }
            2 => {
                let shape = self.extents();
                let seed = [Scalar::I64(7), Scalar::I64(self.next as i64)];
                self.record(Random { kind: RandomKind::Normal, dtype: DType::F32, shape }, &[], &seed, None)
            }
            3 | 4 => {
                let (a, b) = (self.float(), self.float());
                let kind = *self.random.pick(&[BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Max]);
                self.record(Binary { kind, scalar: Side::None }, &[a.0, b.0], &[], None)
            }
            5 => {
                let a = self.float();
                let kind = *self.random.pick(&[BinaryKind::Add, BinaryKind::Mul, BinaryKind::Div]);
                self.record(Binary { kind, scalar: Side::Right }, &[a.0], &[Scalar::F64(1.5)], None)
            }
            6 => {
                let a = self.float();
                let kind = *self.random.pick(&[UnaryKind::Neg, UnaryKind::Tanh, UnaryKind::Abs, UnaryKind::Sigmoid]);
                self.record(Unary { kind }, &[a.0], &[], None)
            }
            7 | 8 => {
                let (a, b) = (self.float(), self.float());
                let op = Matmul { turn_a: self.random.below(2) == 0, turn_b: self.random.below(2) == 0 };
                self.record(op, &[a.0, b.0], &[], None)
            }
            9 => {
                let a = self.float();
                let axes = AxisSet(self.random.below(1 << a.1.shape.rank()) as u16);
                let kind = *self.random.pick(&[ReduceKind::Sum, ReduceKind::Sum, ReduceKind::Max]);
                let keepdim = self.random.below(2) == 0;
                self.record(Reduce { kind, axes, keepdim }, &[a.0], &[], None)
            }
            10 => {
                let a = self.pick();
                let mut dims: Vec<usize> = a.1.shape.to_vec();
                if dims.len() >= 2 && self.random.below(2) == 0 {
                    let at = self.random.below(dims.len() as u64 - 1) as usize;
                    let joined = dims.remove(at);
                    dims[at] *= joined;
                } else if let Some(at) = dims.iter().position(|&d| d % 2 == 0 && d > 0) {
                    dims[at] /= 2;
                    dims.insert(at + self.random.below(2) as usize, 2);
                }
                dims.len() <= 5 && self.record(Reshape { shape: Shape::new(&dims) }, &[a.0], &[], None)
            }
            11 => {
                let a = self.pick();
                let mut perm: Vec<i64> = (0..a.1.shape.rank() as i64).collect();
                perm.reverse();
                self.record(Permute { perm: Steps::new(&perm) }, &[a.0], &[], None)
            }
            12 => {
                let a = self.pick();
                let shape = a.1.shape.with_unit_axis(0).with_extent(0, 2).expect("a small shape");
                self.record(Broadcast { shape }, &[a.0], &[], None)
            }
            13 => {
                let a = self.pick();
                if a.1.shape.rank() == 0 {
                    return false;
                }
                let axis = axis_of(&mut self.random, &a.1);
                let start = self.random.below(a.1.shape[axis].max(1) as u64);
                let sizes = a.1.shape.shrunk(axis, a.1.shape[axis].saturating_sub(start as usize));
                let starts: Vec<Scalar> =
                    (0..sizes.rank()).map(|k| Scalar::I64(if k == axis { start as i64 } else { 0 })).collect();
                let op = Slice { sizes, steps: Steps::splat(sizes.rank(), 1), drop: AxisSet::default() };
                self.record(op, &[a.0], &starts, None)
            }
            14 => {
                let a = self.float();
                if a.1.shape.rank() == 0 {
                    return false;
                }
                let axis = axis_of(&mut self.random, &a.1) as u8;
                self.record(Concat { axis }, &[a.0, a.0], &[], None)
            }
            15 => {
                let (a, b) = (self.float(), self.float());
                let op = Compare { kind: CompareKind::Lt, scalar: Side::None };
                if !self.record(op, &[a.0, b.0], &[], None) {
                    return false;
                }
                let cond = self.values[self.values.len() - 1].0;
                let op = Select { a_scalar: false, b_scalar: true, dtype: DType::F32 };
                self.record(op, &[cond, a.0], &[Scalar::F64(0.0)], None)
            }
            17 | 18 => {
                // A slice with steps, and a write into one: also along all of an axis.
                let a = self.float();
                let rank = a.1.shape.rank();
                if rank == 0 || a.1.numel() == 0 {
                    return false;
                }
                let axis = axis_of(&mut self.random, &a.1);
                let extent = a.1.shape[axis];
                let step = *self.random.pick(&[1i64, 2, -1]);
                let size = if step == 2 { extent.div_ceil(2) } else { extent };
                let start = if step == -1 { extent as i64 - 1 } else { 0 };
                let (sizes, mut steps) = (a.1.shape.shrunk(axis, size), Steps::splat(rank, 1));
                steps[axis] = step;
                let starts: Vec<Scalar> = (0..rank).map(|k| Scalar::I64(if k == axis { start } else { 0 })).collect();
                if !self.record(Slice { sizes, steps, drop: AxisSet::default() }, &[a.0], &starts, None) {
                    return false;
                }
                let cut = self.values[self.values.len() - 1].0;
                let b = self.float();
                if b.1 == a.1 {
                    return self.record(UpdateSlice { steps, drop: AxisSet::default() }, &[b.0, cut], &starts, None);
                }
                self.record(UpdateSlice { steps, drop: AxisSet::default() }, &[a.0, cut], &starts, None)
            }
            19 => {
                let a = self.float();
                if a.1.shape.rank() == 0 {
                    return false;
                }
                let axis = axis_of(&mut self.random, &a.1) as u8;
                self.record(Scan { kind: ScanKind::Sum, axis, reverse: false }, &[a.0], &[], None)
            }
            20 => {
                // What the gradient of a look-up does: rows, some of them twice, added to zeros.
                let a = self.float();
                if a.1.shape.rank() != 2 || a.1.numel() == 0 {
                    return false;
                }
                let rows = 2 + self.random.below(4) as usize;
                let count = a.1.shape[0];
                let index: Vec<u8> =
                    (0..count).flat_map(|_| (self.random.below(rows as u64) as i64).to_le_bytes()).collect();
                self.record(Upload { dtype: DType::I64, shape: Shape::new(&[count]) }, &[], &[], Some(index));
                let index = self.values[self.values.len() - 1].0;
                let shape = Shape::new(&[rows, a.1.shape[1]]);
                self.record(Fill { dtype: DType::F32, shape }, &[], &[Scalar::F64(0.0)], None);
                let zeros = self.values[self.values.len() - 1].0;
                self.record(Put { axis: 0, mode: PutMode::Add, wrap: false }, &[zeros, index, a.0], &[], None)
            }
            _ => {
                let a = self.float();
                if a.1.shape.rank() == 0 || a.1.numel() == 0 {
                    return false;
                }
                let axis = axis_of(&mut self.random, &a.1);
                let index: Vec<u8> =
                    (0..3).flat_map(|_| (self.random.below(a.1.shape[axis] as u64) as i64).to_le_bytes()).collect();
                self.record(Upload { dtype: DType::I64, shape: Shape::new(&[3]) }, &[], &[], Some(index));
                let index = self.values[self.values.len() - 1].0;
                self.record(Take { axis: axis as u8, wrap: false }, &[a.0, index], &[], None)
            }
        }
    }
}

fn layouts(random: &mut SplitMix, workers: u32) -> Vec<Option<Layout>> {
    let split = |random: &mut SplitMix| match random.below(4) {
        0 => Split::Replicate,
        axis => Split::shard(axis as usize - 1),
    };
    let mut all = vec![None];
    for _ in 0..3 {
        let mut order: Vec<u32> = (0..workers).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let count = 1 + random.below(workers as u64) as usize;
        let mesh = match count {
            4 if random.below(2) == 0 => Mesh::grid(&order[..4], &[2, 2]).unwrap(),
            n => Mesh::row(&order[..n]),
        };
        let splits = mesh.extents().iter().map(|_| split(random)).collect();
        all.push(Some(Layout { mesh, splits }));
    }
    all
}

pub(super) fn close(have: &HostTensor, want: &HostTensor) -> bool {
    if have.ty != want.ty {
        return false;
    }
    if want.ty.dtype != DType::F32 {
        return have.bytes == want.bytes;
    }
    let floats =
        |t: &HostTensor| t.bytes.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>();
    let scale = floats(want).iter().fold(1.0f32, |m, x| m.max(x.abs()));
    floats(have)
        .iter()
        .zip(floats(want))
        .all(|(a, b)| (a - b).abs() <= 1e-5 * scale || a == &b || a.is_nan() && b.is_nan())
}

/// A random program, what its scopes mean, and the number of workers.
pub(super) fn program(seed: u64, length: usize) -> (Program, Vec<Option<Layout>>, u32) {
    let mut random = SplitMix::new(seed);
    let workers = 1 + random.below(5) as u32;
    let layouts = layouts(&mut random, workers);
    let mut program =
        Program { random, instrs: vec![], uploads: vec![], values: vec![], next: 0, scopes: layouts.len() as u64 };
    program.record(Fill { dtype: DType::F32, shape: Shape::new(&[4, 6]) }, &[], &[Scalar::F64(1.0)], None);
    while program.instrs.len() < length {
        program.step();
    }
    (program, layouts, workers)
}

fn check<E: Engine>(make: &impl Fn() -> E, seed: u64, length: usize) {
    let (mut program, layouts, workers) = program(seed, length);
    let home = program.random.below(workers as u64) as u32;
    let (mut fleet, mut placer) = (Fleet::new(workers, make), Placer::new(home));
    let (fusion, compiled) = *program.random.pick(&[(true, true), (true, false), (false, false)]);
    fleet.plan_with(fusion, compiled);
    // Cut somewhere, so that values are met again.
    let cut = program.random.below(length as u64) as usize;
    let (mut first, mut second) = (Window::default(), Window::default());
    for (at, instr) in program.instrs.iter().enumerate() {
        let window = if at < cut { &mut first } else { &mut second };
        if let Some(payload) = program.uploads.iter().find(|p| p.instr as usize == at) {
            window.uploads.push(Payload { instr: window.instrs.len() as u32, bytes: payload.bytes.clone() });
        }
        window.instrs.push(instr.clone());
    }
    let types: HashMap<TensorId, TensorType> = program.values.iter().map(|(id, v)| (*id, v.ty)).collect();
    second.met = types
        .iter()
        .map(|(&id, &ty)| ExternalValue { id, ty, is_state: false })
        .filter(|m| m.id.0 as usize <= cut)
        .collect();
    second.met.retain(|m| first.instrs.iter().any(|i| i.outs.contains(&m.id)));
    let of = |scope: ScopeId| layouts[scope.0 as usize].clone();
    for window in [&first, &second] {
        fleet.run(&placer.window(window, &of).unwrap_or_else(|e| panic!("seed {seed}: {e}")));
    }
    for (id, want) in &program.values {
        let plan = placer.read(*id);
        if let Some(before) = &plan.before {
            fleet.run(before);
        }
        let have = fleet.value(plan.worker, plan.id);
        if !close(&have, want) {
            let text: Vec<String> = program.instrs.iter().map(|i| format!("{i} @{}", i.scope.0)).collect();
            panic!(
                "seed {seed}, {workers} workers, home {home}: {id} is {have:?}, not {want:?}\n{layouts:#?}\n{}",
                text.join("\n")
            );
        }
    }
    let counted: u64 = placer.traffic().sent_bytes.values().sum();
    assert_eq!(
        counted,
        fleet.sent_bytes.iter().sum::<usize>() as u64,
        "seed {seed}: what was counted is what travelled"
    );
    let frees = Window { frees: program.values.iter().map(|(id, _)| *id).collect(), ..Window::default() };
    fleet.run(&placer.window(&frees, &of).unwrap());
    assert_eq!(fleet.held(), 0, "seed {seed}: something is left over");
}

/// Random programs, one for each seed.
///
/// # Panics
/// When a group gives something else than one worker, with the program.
pub fn sharded_programs<E: Engine>(make: &impl Fn() -> E, seeds: Range<u64>) {
    for seed in seeds {
        check(make, seed, 4 + seed as usize % 20);
    }
}

/// Three gradients of data in parts, and the step that takes them: their sums begin before the last of them is there.
///
/// # Panics
/// When they do not, or change what comes out.
pub fn gradients_travel_while_others_are_computed<E: Engine>(make: &impl Fn() -> E) {
    let line = |text: &str| -> Instr { text.parse().unwrap_or_else(|e| panic!("{text}: {e}")) };
    let scoped = |text: &str| Instr { scope: ScopeId(1), ..line(text) };
    let wide = 300_000;
    let mut window = Window::default();
    for k in 0..3u64 {
        let (data, param) = (TensorId::new(1, k), TensorId::new(2, k));
        window.met.push(ExternalValue { id: data, ty: TensorType::new(DType::F32, &[4, wide]), is_state: false });
        window.met.push(ExternalValue { id: param, ty: TensorType::new(DType::F32, &[wide]), is_state: true });
        window.instrs.push(scoped(&format!("%{k} = reduce(%1.{k}) kind=sum axes=[0] keepdim=false")));
    }
    window.instrs.push(scoped(
        "%3, %4, %5 = update(%2.0, %2.1, %2.2, %0, %1, %2) kind=sgd states=0 centered=false maximize=false $ 0.1 0.0 0.0 1.0",
    ));
    let mut create = Window::default();
    for k in 0..3u64 {
        for (lane, shape) in [(1, vec![4, wide]), (2, vec![wide])] {
            let shape = format!("{shape:?}").replace(' ', "");
            create.instrs.push(line(&format!("%{lane}.{k} = random() kind=uniform dtype=f32 shape={shape} $ 7 {k}")));
        }
    }
    let mesh = Mesh::row(&[0, 1, 2]);
    let layout = Layout { mesh, splits: smallvec::smallvec![Split::shard(0)] };
    let results: Vec<(Vec<HostTensor>, usize)> = [(None, false), (Some(layout.clone()), false), (Some(layout), true)]
        .into_iter()
        .map(|(layout, is_cut)| {
            let (mut fleet, mut placer) = (Fleet::new(3, make), Placer::new(0));
            let of = |scope: ScopeId| layout.clone().filter(|_| scope.0 == 1);
            fleet.run(&placer.window(&create, &of).unwrap());
            let mut window = window.clone();
            if is_cut {
                // The step in a window of its own: there is nothing to hide the sums behind, and they are right all the same.
                let step = window.instrs.pop().unwrap();
                fleet.run(&placer.window(&window, &of).unwrap());
                let met = |&id: &TensorId| ExternalValue {
                    id,
                    ty: TensorType::new(DType::F32, &[wide]),
                    is_state: id.lane() == 2,
                };
                window = Window { met: step.ins.iter().map(met).collect(), instrs: vec![step], ..Window::default() };
            }
            let placed = placer.window(&window, &of).unwrap();
            let begun = placed.steps.iter().position(|s| matches!(s, PlacedStep::Reduce { phase: Phase::Begin, .. }));
            let apart = begun.map_or(0, |at| {
                let runs = &placed.steps[at..];
                runs.iter().filter(|s| matches!(s, PlacedStep::Run { .. })).count()
            });
            fleet.run(&placed);
            let read = |id| {
                let plan = placer.read(TensorId(id));
                fleet.value(plan.worker, plan.id)
            };
            ((3..6).map(read).collect(), apart)
        })
        .collect();
    for (values, _) in &results[1..] {
        assert!(results[0].0.iter().zip(values).all(|(one, many)| close(many, one)));
    }
    let behind: Vec<usize> = results.iter().map(|(_, count)| *count).collect();
    assert_eq!(behind, [0, 5, 3], "two reductions and three parts of the update follow the first addends");
}
