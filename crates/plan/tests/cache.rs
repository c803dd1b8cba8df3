//! The plan cache: hits, misses, reuse of structure, eviction.

use std::sync::Arc;

use gt_ir::{DType, TensorId, TensorType, Window};
use gt_plan::{Canonicalizer, PlanCache, PlanOptions};

fn chain(length: usize) -> Window {
    let line = |i: usize| format!("%{} = unary(%{}) kind=exp", 10 + i, if i == 0 { 1 } else { 9 + i });
    Window { instrs: (0..length).map(|i| line(i).parse().unwrap()).collect(), ..Window::default() }
}

fn visit(cache: &mut PlanCache<usize>, window: &Window, extent: usize) -> bool {
    let mut canonicalizer = Canonicalizer::default();
    let canonical = canonicalizer.run(window, |_| Some(TensorType::new(DType::F32, &[extent]))).unwrap();
    if cache.get(0, window.instrs.len(), canonical).is_some() {
        return true;
    }
    let plan = cache.plan(window, canonical, PlanOptions::default()).unwrap();
    cache.insert(0, Arc::new(plan), Arc::new(0), PlanOptions::default());
    false
}

#[test]
fn the_same_window_hits_and_another_extent_reuses_the_grouping() {
    let mut cache = PlanCache::new(8);
    assert!(!visit(&mut cache, &chain(5), 100));
    assert!(visit(&mut cache, &chain(5), 100));
    assert!(!visit(&mut cache, &chain(5), 200));
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.structure_hits), (1, 2, 1));
    assert_eq!(cache.len(), 2);
}

#[test]
fn the_plan_unused_for_longest_goes_first() {
    let mut cache = PlanCache::new(3);
    for length in 1..=3 {
        visit(&mut cache, &chain(length), 4);
    }
    assert!(visit(&mut cache, &chain(1), 4));
    visit(&mut cache, &chain(4), 4);
    assert_eq!(cache.len(), 3);
    assert!(visit(&mut cache, &chain(1), 4));
    assert!(visit(&mut cache, &chain(3), 4));
    assert!(!visit(&mut cache, &chain(2), 4));
}

#[test]
fn variants_share_the_room_and_nothing_else() {
    let mut cache: PlanCache<usize> = PlanCache::new(2);
    let window = chain(3);
    let mut canonicalizer = Canonicalizer::default();
    let canonical = canonicalizer.run(&window, |_| Some(TensorType::new(DType::F32, &[4]))).unwrap();
    for variant in [1, 2] {
        assert!(cache.get(variant, window.instrs.len(), canonical).is_none());
        let plan = cache.plan(&window, canonical, PlanOptions::default()).unwrap();
        cache.insert(variant, Arc::new(plan), Arc::new(variant as usize), PlanOptions::default());
    }
    for variant in [1, 2] {
        assert_eq!(
            cache.get(variant, window.instrs.len(), canonical).map(|cached| *cached.program),
            Some(variant as usize)
        );
    }
    let plan = cache.plan(&window, canonical, PlanOptions::default()).unwrap();
    cache.insert(3, Arc::new(plan), Arc::new(3), PlanOptions::default());
    assert_eq!(cache.len(), 2);
    assert!(cache.get(1, window.instrs.len(), canonical).is_none());
}

#[test]
fn plans_of_wide_instructions_outlived_their_session_without_a_limit() {
    let mut cache = PlanCache::within(512, 64 << 20);
    let ty = TensorType::new(DType::F32, &[0]);
    for length in 0..40 {
        let line = "%1 = concat(%0, %0) axis=0";
        let mut window = Window { instrs: vec![line.parse().unwrap()], ..Window::default() };
        window.instrs[0].ins = std::iter::repeat_n(TensorId(0), 200_000 + length).collect();
        let mut canonicalizer = Canonicalizer::default();
        let canonical = canonicalizer.run(&window, |_| Some(ty)).unwrap();
        assert!(cache.get(0, 1, canonical).is_none());
        let plan = cache.plan(&window, canonical, PlanOptions::default()).unwrap();
        cache.insert(0, Arc::new(plan), Arc::new(0), PlanOptions::default());
    }
    assert!(cache.len() < 12, "{} plans of more than six megabytes each", cache.len());
}
