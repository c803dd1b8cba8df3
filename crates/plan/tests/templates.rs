//! Templates give back the windows they were made of, and take no nonsense.

use std::sync::Arc;

use gt_ir::codec::Reader;
use gt_ir::{Bytes, DType, Instr, Payload, Scalar, SiteId, TensorId, TensorType, Window};
use gt_plan::{Bindings, Canonicalizer, Template, TemplateHasher};
use proptest::prelude::*;

fn id(n: u64) -> TensorId {
    TensorId::new(2, n)
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
    Window { instrs, uploads: vec![payload], frees, eager: false, joined: turn.is_multiple_of(2), ..Window::default() }
}

fn sorted(mut window: Window) -> Window {
    window.frees.sort();
    window
}

fn round_trip(template: &Template) -> Arc<Template> {
    let mut bytes = Vec::new();
    template.encode(&mut bytes);
    Arc::new(Template::decode(&mut Reader::new(&bytes)).unwrap())
}

#[test]
fn a_loop_has_one_template() {
    let mut hasher = TemplateHasher::default();
    let (digest, _) = hasher.run(&body(1), usize::MAX);
    let template = round_trip(&hasher.template(&body(1)));
    for turn in 2..9 {
        let window = body(turn);
        let (same, bindings) = hasher.run(&window, usize::MAX);
        assert_eq!(same, digest);
        let mut bytes = Vec::new();
        bindings.encode(&mut bytes);
        let bindings = Bindings::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(sorted(template.bind(bindings).unwrap().window()), sorted(window));
        assert!(bytes.len() < 80, "{} bytes for a turn", bytes.len());
    }
}

#[test]
fn large_payloads_travel_apart() {
    let mut hasher = TemplateHasher::default();
    let (_, bindings) = hasher.run(&body(1), 15);
    assert!(bindings.uploads.is_empty());
    let (_, bindings) = hasher.run(&body(1), 16);
    assert_eq!(bindings.uploads.len(), 1);
}

#[test]
fn what_differs_has_another_digest() {
    let mut hasher = TemplateHasher::default();
    let (digest, _) = hasher.run(&body(1), 0);
    let changes: [fn(&mut Window); 6] = [
        |w| w.instrs[1].site = SiteId(5),
        |w| w.instrs.truncate(4),
        |w| w.instrs[1].ins.swap(0, 1),
        |w| w.instrs[4].ins[0] = TensorId::new(2, 8),
        |w| w.frees.retain(|id| id.n() != 1010),
        |w| w.frees.push(TensorId::new(2, 7)),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut window = body(1);
        change(&mut window);
        assert_ne!(hasher.run(&window, 0).0, digest, "change {i}");
    }
}

#[test]
fn bindings_of_another_template_are_refused() {
    let mut hasher = TemplateHasher::default();
    let bindings = hasher.run(&body(1), 0).1.clone();
    let template = Arc::new(hasher.template(&body(1)));
    let refuse = |change: &dyn Fn(&mut Bindings)| {
        let mut wrong = bindings.clone();
        change(&mut wrong);
        assert!(template.bind(wrong).is_err());
    };
    refuse(&|b| b.inputs.clear());
    refuse(&|b| b.scalars.push(Scalar::I64(1)));
    refuse(&|b| b.first = TensorId::new(2, TensorId::MOST - 3));
}

fn vector(len: usize) -> TensorType {
    TensorType::new(DType::F32, &[len])
}

#[test]
fn the_form_of_one_occurrence_is_that_of_the_next() {
    let (mut hasher, mut canonicalizer) = (TemplateHasher::default(), Canonicalizer::default());
    hasher.run(&body(1), usize::MAX);
    let template = Arc::new(hasher.template(&body(1)));
    let mut known = canonicalizer.run(&body(1), |_| Some(vector(4))).unwrap().clone();
    for turn in 2..9 {
        let bindings = hasher.run(&body(turn), usize::MAX).1.clone();
        assert!(canonicalizer.rebind(&mut known, &bindings, |_| Some(vector(4))));
        let window = template.bind(bindings).unwrap().window();
        let whole = canonicalizer.run(&window, |_| Some(vector(4))).unwrap();
        assert_eq!(format!("{known:?}"), format!("{whole:?}"), "turn {turn}");
    }
}

#[test]
fn what_is_not_of_a_known_form_is_not_bound_to_it() {
    let (mut hasher, mut canonicalizer) = (TemplateHasher::default(), Canonicalizer::default());
    // Two inputs, so that they can be one.
    let mut window = body(1);
    window.instrs[4].ins[0] = id(8);
    let bindings = hasher.run(&window, usize::MAX).1.clone();
    let mut known = canonicalizer.run(&window, |_| Some(vector(4))).unwrap().clone();
    let before = format!("{known:?}");
    let mut refuse = |change: &dyn Fn(&mut Bindings), len: usize| {
        let mut wrong = bindings.clone();
        change(&mut wrong);
        assert!(!canonicalizer.rebind(&mut known, &wrong, |id| (id.n() != 99).then(|| vector(len))));
        assert_eq!(format!("{known:?}"), before);
    };
    refuse(&|_| (), 5);
    refuse(&|b| b.inputs[1] = id(99), 4);
    refuse(&|b| b.inputs[1] = b.inputs[0], 4);
    refuse(&|b| b.inputs[1] = TensorId(b.first.0 + 1), 4);
    refuse(&|b| b.inputs[1] = TensorId(b.first.0 + 50), 4);
    refuse(&|b| b.inputs.truncate(1), 4);
    refuse(&|b| b.older_frees.push(b.inputs[0]), 4);
    refuse(&|b| b.older_frees.push(b.first), 4);
    assert!(canonicalizer.rebind(&mut known, &bindings, |_| Some(vector(4))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_from_outside_make_an_error_or_a_sound_template(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut hasher = TemplateHasher::default();
        let bindings = hasher.run(&body(1), usize::MAX).1.clone();
        let (mut bytes, mut bound) = (Vec::new(), Vec::new());
        hasher.template(&body(1)).encode(&mut bytes);
        bindings.encode(&mut bound);
        for (at, value) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *value;
            let at = at % bound.len();
            bound[at] = *value;
        }
        let _ = Template::decode(&mut Reader::new(&bytes[..cut.index(bytes.len())]));
        let bindings = Bindings::decode(&mut Reader::new(&bound)).unwrap_or(bindings);
        if let Ok(template) = Template::decode(&mut Reader::new(&bytes)) {
            let _ = Arc::new(template).bind(bindings).map(|occurrence| occurrence.window());
        }
    }
}
