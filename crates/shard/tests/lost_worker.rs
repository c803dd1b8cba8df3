//! A worker is gone: what others have whole stays, and what is left of the rest is freed.

use gt_ir::shard::Split;
use gt_ir::{Instr, ScopeId, TensorId, Window};
use gt_shard::{Layout, Mesh, Placement, Placer};

#[test]
fn parts_of_lost_values_stayed_with_the_workers_that_were_left() {
    let layout = Layout { mesh: Mesh::row(&[0, 1, 2]), splits: [Split::shard(0)].into_iter().collect() };
    let of = |scope: ScopeId| Some(layout.clone()).filter(|_| scope.0 == 1);
    let instrs: Vec<Instr> = [
        "%0 = random() kind=uniform dtype=f32 shape=[6,2] $ 7 0 @1",
        // Fewer rows than workers: whole on each.
        "%1 = random() kind=uniform dtype=f32 shape=[2] $ 7 1 @1",
        "%2 = random() kind=uniform dtype=f32 shape=[6] $ 7 2",
    ]
    .iter()
    .map(|line| line.parse().unwrap_or_else(|e| panic!("{line}: {e}")))
    .collect();
    let mut placer = Placer::new(0);
    placer.window(&Window { instrs, ..Window::default() }, &of).unwrap();
    let (gone, orphans) = placer.lose(2);
    assert_eq!(gone, [TensorId(0)]);
    assert!(placer.is_lost(TensorId(0)) && placer.knows(TensorId(1)) && placer.knows(TensorId(2)));
    assert_eq!(orphans.frees, [(TensorId(0), 0), (TensorId(1), 1)]);
    assert_eq!(orphans.placements, [Placement::replicated(Mesh::row(&[0, 1])), Placement::on(1)]);
    assert!(orphans.steps.is_empty());
}

#[test]
fn copies_that_a_lost_worker_had_updated_in_part_were_taken_for_the_same() {
    let layout = Layout { mesh: Mesh::row(&[0, 1, 2]), splits: [Split::shard(0)].into_iter().collect() };
    let of = |scope: ScopeId| Some(layout.clone()).filter(|_| scope.0 == 1);
    let instrs = vec!["%1 = random() kind=uniform dtype=f32 shape=[2] $ 7 1 @1".parse::<Instr>().unwrap()];
    for (home, lost, keeper) in [(0, 2, 0), (1, 2, 1), (0, 0, 1), (3, 1, 0)] {
        let mut placer = Placer::new(home);
        placer.window(&Window { instrs: instrs.clone(), ..Window::default() }, &of).unwrap();
        let (gone, orphans) = placer.lose(lost);
        assert!(gone.is_empty());
        let rest: Vec<u32> = (0..3).filter(|&worker| worker != lost && worker != keeper).collect();
        assert_eq!(orphans.placements, [Placement::replicated(Mesh::row(&rest))]);
        assert_eq!(placer.read(TensorId(1)).worker, keeper);
    }
}
