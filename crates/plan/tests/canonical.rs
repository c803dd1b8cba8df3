//! What the canonical form sees, what it does not, and what it refuses.

use gt_ir::{DType, Payload, Scalar, ScopeId, SiteId, TensorId, TensorType, Window, WindowHash};
use gt_plan::{Canonicalizer, PlanError};

fn window(lines: &[&str], frees: &[u64]) -> Window {
    Window {
        instrs: lines.iter().map(|l| l.parse().unwrap_or_else(|e| panic!("{l}: {e}"))).collect(),
        frees: frees.iter().map(|&n| TensorId(n)).collect(),
        ..Window::default()
    }
}

fn hash_with(window: &Window, ty: TensorType) -> WindowHash {
    Canonicalizer::default().run(window, |_| Some(ty)).expect("a canonical form").hash
}

fn hash(window: &Window) -> WindowHash {
    hash_with(window, TensorType::new(DType::F32, &[4, 8]))
}

fn refusal(window: &Window) -> PlanError {
    let known = |id: TensorId| (id.n() < 10).then(|| TensorType::new(DType::F32, &[4, 8]));
    Canonicalizer::default().run(window, known).map(|c| c.hash).expect_err("a refusal")
}

const BASE: [&str; 3] = [
    "%10 = binary(%1, %2) kind=add scalar=none",
    "%11 = binary(%10) kind=mul scalar=right $ 0.5",
    "%12 = unary(%11) kind=exp",
];

#[test]
fn ids_scalars_sites_and_the_order_of_frees_are_not_seen() {
    let base = window(&BASE, &[10, 11, 1]);
    let mut other = window(
        &[
            "%7.90 = binary(%3.4, %80) kind=add scalar=none",
            "%7.91 = binary(%7.90) kind=mul scalar=right $ 3",
            "%7.92 = unary(%7.91) kind=exp",
        ],
        &[],
    );
    other.frees = vec![TensorId::new(3, 4), TensorId::new(7, 91), TensorId::new(7, 90)];
    other.instrs[1].site = SiteId(40);
    assert_eq!(hash(&base), hash(&other));
}

#[test]
fn everything_else_is_seen() {
    let base = hash(&window(&BASE, &[10, 11]));
    let mut seen = vec![base];
    let mut differs = |w: &Window| {
        let h = hash(w);
        assert!(seen.iter().all(|s| s.exact != h.exact && s.structure != h.structure), "{w:?}");
        seen.push(h);
    };
    differs(&window(&BASE, &[10]));
    differs(&window(&BASE, &[10, 11, 1]));
    differs(&window(&BASE, &[10, 11, 2]));
    differs(&window(&BASE, &[10, 11, 12]));
    differs(&window(&["%10 = binary(%1, %1) kind=add scalar=none", BASE[1], BASE[2]], &[10, 11]));
    differs(&window(&["%10 = binary(%1, %2) kind=sub scalar=none", BASE[1], BASE[2]], &[10, 11]));
    differs(&window(&[BASE[0], BASE[1], "%12 = unary(%10) kind=exp"], &[10, 11]));
    differs(&window(&[BASE[0], BASE[1]], &[10, 11]));
    let mut scoped = window(&BASE, &[10, 11]);
    scoped.instrs[2].scope = ScopeId(1);
    differs(&scoped);
    let mut longer = window(&BASE, &[10, 11]);
    longer.instrs[1].scalars.push(Scalar::I64(1));
    differs(&longer);
}

#[test]
fn structure_sees_which_extents_are_equal_but_not_what_they_are() {
    let w = window(&BASE, &[10, 11]);
    let (a, b) = (TensorType::new(DType::F32, &[4, 8]), TensorType::new(DType::F32, &[5, 7]));
    let square = TensorType::new(DType::F32, &[6, 6]);
    assert_eq!(hash_with(&w, a).structure, hash_with(&w, b).structure);
    assert_ne!(hash_with(&w, a).exact, hash_with(&w, b).exact);
    assert_ne!(hash_with(&w, a).structure, hash_with(&w, square).structure);
}

#[test]
fn bindings_are_in_order_of_first_use() {
    let w = window(
        &["%10 = binary(%5, %2) kind=add scalar=none", "%11 = binary(%2, %1) kind=mul scalar=none"],
        &[2, 3, 11],
    );
    let mut canonicalizer = Canonicalizer::default();
    let ty = TensorType::new(DType::F32, &[4]);
    for _ in 0..2 {
        let c = canonicalizer.run(&w, |_| Some(ty)).unwrap();
        assert_eq!(c.inputs, [5, 2, 1].map(TensorId));
        assert_eq!(c.dying, [false, true, false]);
        assert_eq!(c.dead, [false, true]);
        assert_eq!(c.older_frees, [TensorId(3)]);
        assert_eq!([c.id(1), c.id(3), c.id(4)], [2, 10, 11].map(TensorId));
    }
}

#[test]
fn many_operands_are_counted() {
    let wide = |n: usize| {
        let ins = (0..n).map(|i| format!("%{}", i % 7)).collect::<Vec<_>>().join(", ");
        window(&[&format!("%10 = concat({ins}) axis=0")], &[])
    };
    assert_ne!(hash(&wide(300)), hash(&wide(301)));
    assert_eq!(hash(&wide(300)), hash(&wide(300)));
}

#[test]
fn broken_windows_are_refused() {
    let id = TensorId;
    assert_eq!(
        refusal(&window(&["%10 = unary(%1) kind=exp", "%12 = unary(%1) kind=exp"], &[])),
        PlanError::NotConsecutive { instr: 1, found: id(12), expected: id(11) }
    );
    assert_eq!(
        refusal(&window(&["%10 = unary(%1) kind=exp", "%3.11 = unary(%1) kind=exp"], &[])),
        PlanError::NotConsecutive { instr: 1, found: TensorId::new(3, 11), expected: id(11) }
    );
    assert_eq!(
        refusal(&window(&["%10 = unary(%11) kind=exp", "%11 = unary(%1) kind=exp"], &[])),
        PlanError::NotYetDefined { instr: 0, id: id(11) }
    );
    assert_eq!(refusal(&window(&["%20 = unary(%15) kind=exp"], &[])), PlanError::UnknownInput { instr: 0, id: id(15) });
    assert_eq!(refusal(&window(&["%10 = unary(%1) kind=exp"], &[11])), PlanError::FreedUndefined { id: id(11) });
}

#[test]
fn payloads_must_be_those_of_the_uploads() {
    let mut w = window(&["%10 = upload() dtype=f32 shape=[2]"], &[]);
    assert!(matches!(refusal(&w), PlanError::Payload { instr: 0, .. }));
    w.uploads.push(Payload { instr: 0, bytes: vec![0; 7].into() });
    assert!(matches!(refusal(&w), PlanError::Payload { instr: 0, .. }));
    w.uploads[0].bytes = vec![0; 8].into();
    hash(&w);
    w.uploads.push(Payload { instr: 0, bytes: vec![0; 8].into() });
    assert!(matches!(refusal(&w), PlanError::Payload { instr: 0, .. }));
}
