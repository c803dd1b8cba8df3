//! Occurrences give back the windows they were made of, and take no nonsense.

use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_ir::{Bytes, Instr, Payload, Scalar, ScopeId, SiteId, TensorId, Window};
use gt_stream::{Bindings, Checker, Expectations, Occurrence, Recording, StreamError, Template};
use proptest::prelude::*;

fn id(n: u64) -> TensorId {
    TensorId::new(2, n)
}

fn window(lines: &[&str], frees: &[u64]) -> Window {
    Window {
        instrs: lines.iter().map(|line| line.parse().unwrap_or_else(|e| panic!("{line}: {e}"))).collect(),
        frees: frees.iter().map(|&n| TensorId(n)).collect(),
        ..Window::default()
    }
}

fn of(window: &Window) -> Occurrence {
    Occurrence::of(window.clone()).expect("an occurrence")
}

fn number(window: &Window) -> u64 {
    of(window).recipe().number()
}

/// A loop's body as it is recorded in its `turn`-th turn: weights stay, the rest moves on.
fn body(turn: u64) -> Window {
    let at = 1000 + 10 * turn;
    let text = [
        format!("%2.{at} = upload() dtype=f32 shape=[4]"),
        format!("%2.{} = binary(%2.{at}, %2.7) kind=mul scalar=none", at + 1),
        format!("%2.{} = binary(%2.{}) kind=add scalar=right $ {:?}", at + 2, at + 1, turn as f64 * 0.5),
        format!("%2.{} = reduce(%2.{}) kind=sum axes=[0] keepdim=false", at + 3, at + 2),
        format!("%2.{} = binary(%2.7, %2.{}) kind=sub scalar=none", at + 4, at + 3),
    ];
    let instrs: Vec<Instr> = text.iter().map(|line| line.parse().unwrap_or_else(|e| panic!("{line}: {e}"))).collect();
    let payload = Payload { instr: 0, bytes: Bytes::from(vec![turn as u8; 16]) };
    let mut frees = vec![id(at), id(at + 1), id(at + 2), id(at - 7), id(3)];
    // The collector has no order of its own.
    frees.rotate_left(turn as usize % 5);
    Window { instrs, uploads: vec![payload], frees, joined: turn.is_multiple_of(2), ..Window::default() }
}

fn sorted(mut window: Window) -> Window {
    window.frees.sort();
    window
}

/// As it is on the other side of a connection.
fn sent(occurrence: &Occurrence) -> Occurrence {
    let (mut template, mut bindings) = (Vec::new(), Vec::new());
    occurrence.template().encode(&mut template);
    occurrence.bindings().encode(usize::MAX, &mut bindings);
    assert!(bindings.len() < 80, "{} bytes for a turn", bindings.len());
    let template = Template::decode(&mut Reader::new(&template)).unwrap();
    let bindings = Bindings::decode(&mut Reader::new(&bindings)).unwrap();
    Checker::default().bind(template, bindings).unwrap()
}

#[test]
fn a_loop_has_one_recipe() {
    let first = of(&body(1));
    for turn in 2..9 {
        let occurrence = of(&body(turn));
        assert!(Arc::ptr_eq(occurrence.recipe(), first.recipe()));
        let sent = sent(&occurrence);
        assert!(Arc::ptr_eq(sent.recipe(), first.recipe()));
        assert_eq!(sorted(sent.window()), sorted(body(turn)));
        assert_eq!(sorted(occurrence.window()), sorted(body(turn)));
        let mut whole = Vec::new();
        occurrence.encode(usize::MAX, &mut whole);
        let whole = Checker::default().decode(&mut Reader::new(&whole)).unwrap();
        assert_eq!(sorted(whole.window()), sorted(body(turn)));
    }
}

#[test]
fn a_recording_gives_the_same_whatever_was_expected() {
    let record = |window: &Window, recording: &mut Recording| {
        let Window { instrs, uploads, frees, joined, .. } = window.clone();
        for Instr { op, outs, ins, scalars, scope, site } in instrs {
            recording.push(op, &ins, outs[0], outs.len(), &scalars, scope, site);
        }
        uploads.into_iter().for_each(|payload| recording.add_payload(payload));
        recording.free_all(frees);
        recording.take(false, joined).unwrap()
    };
    let mut changed = Vec::new();
    for at in 0..5 {
        let mut window = body(3);
        window.instrs[at].site = SiteId(77);
        changed.push(window);
        let mut window = body(3);
        window.instrs[at].scope = ScopeId(5);
        changed.push(window);
        let mut window = body(3);
        window.instrs.truncate(at + 1);
        window.frees.retain(|id| id.n() < 1031 + at as u64);
        changed.push(window);
        let mut window = body(3);
        window.frees.remove(at);
        changed.push(window);
    }
    changed.push(body(3));
    changed.push(body(4));
    for window in changed {
        let expected = of(&body(2));
        let mut recording = Recording::default();
        recording.expect(Some(expected.template().clone()));
        let (followed, plain) = (record(&window, &mut recording), of(&window));
        assert_eq!(followed.recipe().number(), plain.recipe().number());
        assert_eq!(sorted(followed.window()), sorted(window.clone()));
        assert_eq!(followed.bindings(), plain.bindings());
        // The recording can be used again.
        let again = record(&window, &mut recording);
        assert_eq!(again.window(), plain.window());
    }
}

#[test]
fn the_windows_of_a_loop_are_expected_after_one_turn() {
    let mut expectations = Expectations::default();
    let steps =
        [body(1), window(&["%3.10 = unary(%1) kind=exp"], &[]), body(1), window(&["%3.10 = unary(%1) kind=tanh"], &[])];
    for _ in 0..3 {
        steps.iter().for_each(|step| expectations.recorded(&of(step)));
    }
    for step in steps.iter().chain(&steps) {
        let step = of(step);
        assert!(expectations.next().expect("an expectation").is(step.template()));
        expectations.recorded(&step);
    }
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
    // Recipes live as long as somebody holds them.
    let held = of(&base);
    assert_eq!(held.recipe().number(), number(&other));
}

#[test]
fn everything_else_is_seen() {
    let mut seen = vec![of(&window(&BASE, &[10, 11]))];
    let mut differs = |w: &Window| {
        let occurrence = of(w);
        assert!(seen.iter().all(|s| s.recipe().number() != occurrence.recipe().number()), "{w:?}");
        seen.push(occurrence);
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
fn inputs_are_in_order_of_first_use() {
    let lines = ["%10 = binary(%5, %2) kind=add scalar=none", "%11 = binary(%2, %1) kind=mul scalar=none"];
    let occurrence = of(&window(&lines, &[2, 3, 11]));
    assert_eq!(occurrence.bindings().inputs, [5, 2, 1].map(TensorId));
    assert_eq!(occurrence.recipe().dying(), [false, true, false]);
    assert_eq!(occurrence.recipe().dead(), [false, true]);
    assert_eq!(occurrence.bindings().older_frees, [TensorId(3)]);
    assert_eq!(occurrence.frees().collect::<Vec<_>>(), [2, 11, 3].map(TensorId));
    assert_eq!(occurrence.recipe().first_reader(2), 1);
}

#[test]
fn many_operands_are_counted() {
    let wide = |n: usize| {
        let ins = (0..n).map(|i| format!("%{}", i % 7)).collect::<Vec<_>>().join(", ");
        of(&window(&[&format!("%10 = concat({ins}) axis=0")], &[]))
    };
    let held = wide(300);
    assert_ne!(held.recipe().number(), wide(301).recipe().number());
    assert_eq!(held.recipe().number(), wide(300).recipe().number());
}

#[test]
fn broken_windows_are_refused() {
    let refusal = |window: &Window| Occurrence::of(window.clone()).expect_err("a refusal");
    let id = TensorId;
    assert_eq!(
        refusal(&window(&["%10 = unary(%1) kind=exp", "%12 = unary(%1) kind=exp"], &[])),
        StreamError::NotConsecutive { instr: 1, found: id(12), expected: id(11) }
    );
    assert_eq!(
        refusal(&window(&["%10 = unary(%1) kind=exp", "%3.11 = unary(%1) kind=exp"], &[])),
        StreamError::NotConsecutive { instr: 1, found: TensorId::new(3, 11), expected: id(11) }
    );
    assert_eq!(
        refusal(&window(&["%10 = unary(%11) kind=exp", "%11 = unary(%1) kind=exp"], &[])),
        StreamError::NotYetDefined { instr: 0, id: id(11) }
    );
    assert_eq!(refusal(&window(&["%10 = unary(%1) kind=exp"], &[11])), StreamError::FreedUndefined { id: id(11) });
    let mut without = window(&["%10 = unary(%1) kind=exp"], &[]);
    without.instrs[0].outs.clear();
    assert!(matches!(refusal(&without), StreamError::NoOuts { instr: 0, .. }));
}

#[test]
fn payloads_must_be_those_of_the_uploads() {
    let mut w = window(&["%10 = upload() dtype=f32 shape=[2]"], &[]);
    let waiting = of(&w);
    assert_eq!(waiting.missing().map(|(place, id)| (place.len_bytes, id)).collect::<Vec<_>>(), [(8, TensorId(10))]);
    w.uploads.push(Payload { instr: 0, bytes: vec![0; 7].into() });
    assert!(matches!(Occurrence::of(w.clone()), Err(StreamError::Payload { instr: 0, .. })));
    w.uploads[0].bytes = vec![0; 8].into();
    assert_eq!(of(&w).missing().count(), 0);
    let mut supplied = waiting.clone();
    supplied.add_payload(Payload { instr: 0, bytes: vec![0; 7].into() }).expect_err("seven bytes are too few");
    supplied.add_payload(Payload { instr: 1, bytes: vec![0; 8].into() }).expect_err("there is no second upload");
    assert_eq!(supplied.missing().count(), 1, "a payload that does not fit is left out");
    supplied.add_payload(w.uploads[0].clone()).unwrap();
    assert_eq!(supplied.window(), w);
    w.uploads.push(Payload { instr: 0, bytes: vec![0; 8].into() });
    assert!(matches!(Occurrence::of(w), Err(StreamError::Payload { instr: 0, .. })));
}

#[test]
fn bindings_of_another_recipe_are_refused() {
    // Two inputs, so that they can be one.
    let mut window = body(1);
    window.instrs[4].ins[0] = id(8);
    let occurrence = of(&window);
    let bind = |bindings| Checker::default().bind(occurrence.template().clone(), bindings);
    let refuse = |change: &dyn Fn(&mut Bindings)| {
        let mut wrong = occurrence.bindings().clone();
        change(&mut wrong);
        assert!(bind(wrong.clone()).is_err(), "{wrong:?}");
    };
    refuse(&|b| b.inputs.clear());
    refuse(&|b| b.inputs.truncate(1));
    refuse(&|b| b.inputs[1] = b.inputs[0]);
    refuse(&|b| b.inputs[1] = TensorId(b.first.0 + 1));
    refuse(&|b| b.inputs[1] = TensorId(b.first.0 + 50));
    refuse(&|b| b.scalars.push(Scalar::I64(1)));
    refuse(&|b| b.first = TensorId::new(2, TensorId::MOST - 3));
    refuse(&|b| b.older_frees.push(b.inputs[0]));
    refuse(&|b| b.older_frees.push(b.first));
    refuse(&|b| b.uploads[0].instr = 1);
    refuse(&|b| b.uploads[0].bytes = vec![0; 15].into());
    refuse(&|b| b.uploads.push(b.uploads[0].clone()));
    assert!(bind(occurrence.bindings().clone()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_from_outside_make_an_error_or_a_sound_occurrence(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let occurrence = of(&body(1));
        let (mut bytes, mut bound) = (Vec::new(), Vec::new());
        occurrence.template().encode(&mut bytes);
        occurrence.bindings().encode(usize::MAX, &mut bound);
        for (at, value) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *value;
            let at = at % bound.len();
            bound[at] = *value;
        }
        let _ = Template::decode(&mut Reader::new(&bytes[..cut.index(bytes.len())]));
        let bindings = Bindings::decode(&mut Reader::new(&bound)).unwrap_or_else(|_| occurrence.bindings().clone());
        if let Ok(template) = Template::decode(&mut Reader::new(&bytes))
            && let Ok(occurrence) = Checker::default().bind(template, bindings)
        {
            let again = Occurrence::of(occurrence.window()).expect("it keeps WINDOW-1");
            prop_assert_eq!(again.recipe().number(), occurrence.recipe().number());
        }
    }
}
