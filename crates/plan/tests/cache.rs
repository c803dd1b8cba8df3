//! The plan cache: hits, misses, eviction.

use std::sync::Arc;

use gt_ir::{DType, TensorId, TensorType, Window};
use gt_plan::{PlanCache, PlanOptions, build};
use gt_stream::{Occurrence, Recipe};

fn recipe(window: Window) -> Arc<Recipe> {
    Occurrence::of(window).expect("an occurrence").recipe().clone()
}

fn chain(length: usize) -> Arc<Recipe> {
    let line = |i: usize| format!("%{} = unary(%{}) kind=exp", 10 + i, if i == 0 { 1 } else { 9 + i });
    recipe(Window { instrs: (0..length).map(|i| line(i).parse().unwrap()).collect(), ..Window::default() })
}

fn vector(extent: usize) -> [TensorType; 1] {
    [TensorType::new(DType::F32, &[extent])]
}

/// Whether the plan was there. If not, it is now.
fn visit_as(cache: &mut PlanCache<usize>, variant: u128, recipe: &Arc<Recipe>, types: &[TensorType]) -> bool {
    if let Some(cached) = cache.get(variant, recipe, types) {
        assert_eq!((*cached.program, &cached.plan.types[..types.len()]), (variant as usize, types));
        return true;
    }
    let plan = build(recipe, types, PlanOptions::default()).unwrap();
    cache.insert(variant, recipe, Arc::new(plan), Arc::new(variant as usize), PlanOptions::default());
    false
}

fn visit(cache: &mut PlanCache<usize>, recipe: &Arc<Recipe>, extent: usize) -> bool {
    visit_as(cache, 0, recipe, &vector(extent))
}

#[test]
fn a_recipe_has_a_plan_for_each_type_of_its_inputs() {
    let mut cache = PlanCache::new(8);
    assert!(!visit(&mut cache, &chain(5), 100));
    assert!(visit(&mut cache, &chain(5), 100));
    assert!(!visit(&mut cache, &chain(5), 200));
    assert!(visit(&mut cache, &chain(5), 100));
    assert!(visit(&mut cache, &chain(5), 200));
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses), (3, 2));
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
    let chain = chain(3);
    for variant in [1, 2] {
        assert!(!visit_as(&mut cache, variant, &chain, &vector(4)));
    }
    for variant in [1, 2] {
        assert!(visit_as(&mut cache, variant, &chain, &vector(4)));
    }
    assert!(!visit_as(&mut cache, 3, &chain, &vector(4)));
    assert_eq!(cache.len(), 2);
    assert!(cache.get(1, &chain, &vector(4)).is_none());
}

#[test]
fn plans_of_wide_instructions_outlived_their_session_without_a_limit() {
    let mut cache = PlanCache::within(512, 64 << 20);
    for length in 0..40 {
        let line = "%1 = concat(%0, %0) axis=0";
        let mut window = Window { instrs: vec![line.parse().unwrap()], ..Window::default() };
        window.instrs[0].ins = std::iter::repeat_n(TensorId(0), 200_000 + length).collect();
        assert!(!visit(&mut cache, &recipe(window), 0));
    }
    assert!(cache.len() < 12, "{} plans of more than six megabytes each", cache.len());
}
