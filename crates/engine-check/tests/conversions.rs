//! From every placement to every other one, and back to one worker: nothing is lost, nothing is counted twice.

use gt_engine_check::Reference;
use gt_engine_check::conformance::Fleet;
use gt_ir::ops::{ReduceKind, Upload};
use gt_ir::shard::Split;
use gt_ir::{DType, HostTensor, Instr, Payload, ScopeId, SiteId, TensorId, TensorType};
use gt_shard::{Conversion, Mesh, PlacedStep, PlacedWindow, Placement};
use smallvec::{SmallVec, smallvec};

/// Different whole numbers, so that sums in any order are exact.
fn counted(shape: &[usize]) -> HostTensor {
    let ty = TensorType::new(DType::F32, shape);
    let bytes = (0..ty.numel()).flat_map(|i| (1.0 + i as f32).to_le_bytes()).collect();
    HostTensor { ty, bytes }
}

fn meshes() -> Vec<Mesh> {
    let grid = |w: &[u32], e: &[u32]| Mesh::grid(w, e).unwrap();
    vec![
        Mesh::row(&[0]),
        Mesh::row(&[3]),
        Mesh::row(&[0, 1]),
        Mesh::row(&[2, 3]),
        Mesh::row(&[2, 0, 1]),
        Mesh::row(&[0, 1, 2, 3]),
        grid(&[0, 1, 2, 3], &[2, 2]),
        grid(&[3, 1, 2, 0, 4, 5], &[2, 3]),
    ]
}

/// Every way to lie on a mesh, except for those that have to be reduced.
fn whole_placements(mesh: &Mesh, rank: usize) -> Vec<Placement> {
    let mut each = vec![Split::Replicate];
    for axis in 0..rank {
        each.push(Split::shard(axis));
        each.push(Split::Shard { axis: axis as u8, unit: 2 });
    }
    let mut all: Vec<SmallVec<[Split; 2]>> = vec![SmallVec::new()];
    for _ in mesh.extents() {
        all = all.iter().flat_map(|s| each.iter().map(move |e| s.iter().copied().chain([*e]).collect())).collect();
    }
    all.into_iter().map(|splits| Placement { mesh: mesh.clone(), splits }).collect()
}

struct Steps {
    window: PlacedWindow,
    next: u64,
}

impl Steps {
    fn upload(values: &[HostTensor]) -> Steps {
        let mut window = PlacedWindow { placements: vec![Placement::on(0)], ..PlacedWindow::default() };
        for (at, value) in values.iter().enumerate() {
            let upload = Upload { dtype: value.ty.dtype, shape: value.ty.shape };
            let instr = Instr {
                op: upload.into(),
                outs: smallvec![TensorId(at as u64)],
                ins: smallvec![],
                scalars: smallvec![],
                scope: ScopeId(0),
                site: SiteId(0),
            };
            window.uploads.push(Payload { instr: at as u32, bytes: value.bytes.clone().into() });
            window.steps.push(PlacedStep::Run { instr, ins: smallvec![], outs: smallvec![0] });
        }
        Steps { window, next: 1000 }
    }

    fn convert(&mut self, ids: &[TensorId], values: &[HostTensor], lies: u32, to: &Placement) -> (Vec<TensorId>, u32) {
        self.window.placements.push(to.clone());
        let wanted = self.window.placements.len() as u32 - 1;
        let mut made = Vec::new();
        let conversions = ids.iter().zip(values).map(|(&from, value)| {
            self.next += 1;
            made.push(TensorId(self.next));
            Conversion { from, to: TensorId(self.next), ty: value.ty, lies, wanted }
        });
        let values = conversions.collect();
        self.next += 1000;
        self.window.steps.push(PlacedStep::Convert { values, first: TensorId(self.next), site: SiteId(0) });
        self.next += 1000;
        (made, wanted)
    }
}

fn check(values: &[HostTensor], through: &[&Placement]) {
    let mut steps = Steps::upload(values);
    let mut ids: Vec<TensorId> = (0..values.len() as u64).map(TensorId).collect();
    let mut lies = 0;
    let mut all = vec![(ids.clone(), lies)];
    for placement in through.iter().copied().chain([&Placement::on(0)]) {
        (ids, lies) = steps.convert(&ids, values, lies, placement);
        all.push((ids.clone(), lies));
    }
    let mut fleet = Fleet::new(6, &Reference::new);
    fleet.run(&steps.window);
    for (placement, (ids, _)) in through.iter().zip(&all[1..]) {
        for (rank, &worker) in placement.mesh.workers().iter().enumerate() {
            for (id, value) in ids.iter().zip(values) {
                assert_eq!(fleet.value(worker, *id).ty, placement.local(&value.ty, rank), "{placement:?}");
            }
        }
    }
    for (id, value) in ids.iter().zip(values) {
        assert_eq!(&fleet.value(0, *id), value, "through {through:?}");
    }
    // Everything that was made can be freed, once.
    let frees = all.into_iter().flat_map(|(ids, lies)| ids.into_iter().map(move |id| (id, lies)));
    let window =
        PlacedWindow { frees: frees.collect(), placements: steps.window.placements.clone(), ..PlacedWindow::default() };
    fleet.run(&window);
    assert_eq!(fleet.held(), 0);
}

#[test]
fn every_placement_becomes_every_other() {
    let shapes: [&[usize]; 3] = [&[5, 4], &[1, 7], &[0, 3]];
    let values: Vec<HostTensor> = shapes.iter().map(|s| counted(s)).collect();
    let all: Vec<Placement> = meshes().iter().flat_map(|m| whole_placements(m, 2)).collect();
    for (i, a) in all.iter().enumerate() {
        // Every pair would be thousands; each placement meets every seventh.
        for b in all.iter().skip(i % 7).step_by(7) {
            check(&values, &[a, b]);
        }
    }
}

#[test]
fn sums_are_counted_once_however_they_are_split() {
    let small = [counted(&[5, 4]), counted(&[3])];
    // Above the size at which a sum is made in two rounds, and not divisible.
    let large = [counted(&[71, 97]), counted(&[1013])];
    let sum = Split::Partial(ReduceKind::Sum);
    for values in [&small, &large] {
        for mesh in meshes() {
            let axes = mesh.extents().len();
            for partial in 0..axes {
                let whole = Placement::replicated(mesh.clone());
                let mut splits = whole.splits.clone();
                splits[partial] = sum;
                let addends = Placement { mesh: mesh.clone(), splits };
                check(values, &[&whole, &addends]);
                check(values, &[&whole, &addends, &whole]);
                for target in whole_placements(&mesh, 1) {
                    check(values, &[&whole, &addends, &target]);
                }
            }
            let every = Placement { mesh: mesh.clone(), splits: mesh.extents().iter().map(|_| sum).collect() };
            check(values, &[&Placement::replicated(mesh.clone()), &every, &Placement::on(3)]);
        }
    }
}

#[test]
fn a_sum_for_all_moves_what_a_ring_moves() {
    for count in [2u32, 3, 4, 6] {
        let mesh = Mesh::row(&(0..count).collect::<Vec<_>>());
        let value = counted(&[1 << 12, 3]);
        let whole = Placement::replicated(mesh.clone());
        let addends = Placement { mesh: mesh.clone(), splits: smallvec![Split::SUM] };
        let mut steps = Steps::upload(std::slice::from_ref(&value));
        let (ids, lies) = steps.convert(&[TensorId(0)], std::slice::from_ref(&value), 0, &whole);
        let (ids, lies) = steps.convert(&ids, std::slice::from_ref(&value), lies, &addends);
        let mut before = Fleet::new(count, &Reference::new);
        before.run(&steps.window);
        let (ids, _) = steps.convert(&ids, std::slice::from_ref(&value), lies, &whole);
        let mut fleet = Fleet::new(count, &Reference::new);
        fleet.run(&steps.window);
        let each = 2 * (count as usize - 1) * value.bytes.len() / count as usize;
        for worker in 0..count as usize {
            assert_eq!(fleet.value(worker as u32, ids[0]), value);
            let sent = fleet.sent_bytes[worker] - before.sent_bytes[worker];
            assert!(sent.abs_diff(each) <= 8 * count as usize, "{sent} bytes left worker {worker}, {each} should");
            assert_eq!(fleet.messages[worker] - before.messages[worker], 2 * (count as usize - 1), "two rounds");
        }
    }
}
