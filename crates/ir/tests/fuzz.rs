//! CODEC-1 and its kin: nothing that comes from outside panics, whatever its bytes, letters or extents.

mod common;

use std::sync::OnceLock;

use common::{TypesOnly, sample_instrs};
use gt_ir::codec::Reader;
use gt_ir::{DType, GradCx, Instr, Shape, TensorType, Window};
use proptest::prelude::*;

/// The samples, made once.
fn samples() -> &'static [(Instr, Vec<TensorType>)] {
    static SAMPLES: OnceLock<Vec<(Instr, Vec<TensorType>)>> = OnceLock::new();
    SAMPLES.get_or_init(sample_instrs)
}

fn any_sample() -> impl Strategy<Value = &'static (Instr, Vec<TensorType>)> {
    any::<prop::sample::Index>().prop_map(|i| i.get(samples()))
}

/// An edit: where, what with, and whether it replaces, inserts, removes or cuts off.
fn any_edit() -> impl Strategy<Value = (prop::sample::Index, u8, u8)> {
    (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), 0u8..12, Just(0x7f), Just(0x80), Just(0xff)], 0u8..8)
}

fn edited<T: Clone>(mut items: Vec<T>, edits: &[(prop::sample::Index, u8, u8)], make: impl Fn(u8) -> T) -> Vec<T> {
    for (at, value, how) in edits {
        if items.is_empty() {
            return items;
        }
        let at = at.index(items.len());
        match how {
            0..=4 => items[at] = make(*value),
            5 => items.insert(at, make(*value)),
            6 => drop(items.remove(at)),
            _ => items.truncate(at),
        }
    }
    items
}

/// Types that can exist, with extents from everyday to absurd.
fn any_type() -> impl Strategy<Value = TensorType> {
    let extent = prop_oneof![
        8 => 0usize..6,
        1 => Just(1usize << 31),
        1 => Just(1usize << 40),
        1 => Just(usize::MAX),
        1 => Just(isize::MAX as usize / 8),
    ];
    let dtype = prop::sample::select(DType::ALL.to_vec());
    (dtype, prop::collection::vec(extent, 0..=gt_ir::MAX_RANK))
        .prop_filter_map("too large to exist", |(dtype, dims)| {
            Shape::try_new(&dims).ok().map(|shape| TensorType { dtype, shape })
        })
}

/// SHAPE-1, counted in numbers that cannot overflow.
fn expect_exists(instr: &Instr, ins: &[TensorType], ty: &TensorType) {
    let elements = ty.shape.iter().fold(1u128, |n, &d| n.saturating_mul(d.max(1) as u128));
    let exists = elements <= 1 << 59 && elements * ty.dtype.size() as u128 <= 1 << 62;
    assert!(exists, "{instr} on {ins:?} gives {ty}, which cannot exist");
    let _ = (ty.bytes(), ty.shape.contiguous_strides());
}

/// Everything the op says about itself on these inputs; what it accepts must be able to exist.
fn question(instr: &Instr, ins: &[TensorType]) {
    let Ok(outs) = instr.infer(ins) else { return };
    for ty in &outs {
        expect_exists(instr, ins, ty);
    }
    let primitive = instr.op.primitive();
    let _ = primitive.cost(ins, &outs);
    let needs = u64::MAX >> (64 - ins.len().clamp(1, 63));
    let saves = primitive.saves(needs);
    let mut types = TypesOnly::default();
    let mut keep = |tys: &[TensorType], mask: u64| -> Vec<Option<gt_ir::Val>> {
        tys.iter().enumerate().map(|(i, &t)| (mask >> i.min(63) & 1 != 0).then(|| types.put(t))).collect()
    };
    let (saved_ins, saved_outs) = (keep(ins, saves.ins), keep(&outs, saves.outs));
    let grads: Vec<_> = outs.iter().map(|t| t.dtype.is_float().then(|| types.put(*t))).collect();
    let cx = GradCx {
        ins,
        outs: &outs,
        scalars: &instr.scalars,
        grads: &grads,
        saved_ins: &saved_ins,
        saved_outs: &saved_outs,
        needs,
    };
    // A rule may refuse (a rank or a size that its detour cannot have), it may not panic.
    if let Ok(found) = primitive.grad(&cx, &mut types) {
        assert_eq!(found.len(), ins.len(), "{instr}: one gradient per input");
    }
}

/// What was decoded is an instruction like any other.
fn expect_round_trips(instr: &Instr) {
    let mut bytes = Vec::new();
    instr.encode(&mut bytes);
    assert_eq!(Instr::decode(&mut Reader::new(&bytes)).as_ref(), Ok(instr));
    assert_eq!(instr.to_string().parse::<Instr>().as_ref(), Ok(instr));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Window::decode(&mut Reader::new(&bytes));
        if let Ok(instr) = Instr::decode(&mut Reader::new(&bytes)) {
            expect_round_trips(&instr);
        }
    }

    #[test]
    fn edited_instructions_do_not_panic(
        (instr, ins) in any_sample(),
        edits in prop::collection::vec(any_edit(), 1..5),
        types in prop::collection::vec(any_type(), 0..5),
    ) {
        let mut bytes = Vec::new();
        instr.encode(&mut bytes);
        let bytes = edited(bytes, &edits, |b| b);
        if let Ok(instr) = Instr::decode(&mut Reader::new(&bytes)) {
            expect_round_trips(&instr);
            question(&instr, ins);
            question(&instr, &types);
        }
    }

    #[test]
    fn edited_windows_do_not_panic(
        picked in prop::collection::vec(any_sample(), 0..6),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        edits in prop::collection::vec(any_edit(), 1..5),
    ) {
        let window = Window {
            instrs: picked.iter().map(|(instr, _)| instr.clone()).collect(),
            uploads: vec![gt_ir::Payload { instr: 0, bytes: payload.into() }],
            frees: vec![gt_ir::TensorId(1), gt_ir::TensorId(u64::MAX)],
            ..Window::default()
        };
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        if let Ok(window) = Window::decode(&mut Reader::new(&edited(bytes, &edits, |b| b))) {
            let mut again = Vec::new();
            window.encode(&mut again);
            prop_assert_eq!(Window::decode(&mut Reader::new(&again)), Ok(window));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(line in any::<String>()) {
        let _ = line.parse::<Instr>();
    }

    #[test]
    fn text_of_the_right_letters_does_not_panic(
        letters in prop::collection::vec(prop::sample::select("%,=()[] $@#.-+0123456789abcdefiklnorstuxyé\u{a0}".chars().collect::<Vec<_>>()), 0..80),
    ) {
        let _ = letters.into_iter().collect::<String>().parse::<Instr>();
    }

    #[test]
    fn edited_text_does_not_panic((instr, ins) in any_sample(), edits in prop::collection::vec(any_edit(), 1..5)) {
        let letters: Vec<char> = instr.to_string().chars().collect();
        let line: String = edited(letters, &edits, |b| b as char).into_iter().collect();
        if let Ok(instr) = line.parse::<Instr>() {
            expect_round_trips(&instr);
            question(&instr, ins);
        }
    }

    #[test]
    fn ops_answer_on_any_types((instr, ins) in any_sample(), types in prop::collection::vec(any_type(), 0..5), one in any_type()) {
        question(instr, &types);
        // Types that fit each other more often.
        let same: Vec<TensorType> = ins.iter().map(|t| one.with_dtype(t.dtype)).collect();
        question(instr, &same);
    }

    #[test]
    fn attributes_fitted_to_absurd_types_do_not_panic(one in any_type(), mask in any::<u16>(), keepdim in any::<bool>(), axis in 0u8..17) {
        use gt_ir::ops::*;
        use gt_ir::{AxisSet, Counts, Steps};
        let rank = one.shape.rank();
        let index = TensorType { dtype: DType::I64, shape: one.shape };
        let unit = Steps::splat(rank, 1);
        let none = Counts::splat(rank, 0);
        let cases: Vec<(gt_ir::Op, Vec<TensorType>, usize)> = vec![
            (Reduce { kind: ReduceKind::ALL[mask as usize % 4], axes: AxisSet(mask), keepdim }.into(), vec![one], 0),
            (ArgReduce { kind: ArgKind::Max, axis, keepdim }.into(), vec![one], 0),
            (Scan { kind: ScanKind::Prod, axis, reverse: keepdim }.into(), vec![one], 0),
            (Sort { axis, descending: keepdim }.into(), vec![one], 0),
            (Slice { sizes: one.shape, steps: unit, drop: AxisSet::default() }.into(), vec![one], rank),
            (UpdateSlice { steps: unit, drop: AxisSet::default() }.into(), vec![one, one], rank),
            (Pad { low: none, high: *one.shape }.into(), vec![one], 1),
            (Concat { axis }.into(), vec![one, one, one], 0),
            (Take { axis, wrap: false }.into(), vec![one, index], 0),
            (Gather { axis }.into(), vec![one, index], 0),
            (Scatter { axis, mode: PutMode::Set }.into(), vec![one, index, one], 0),
            (Matmul::PLAIN.into(), vec![one, one], 0),
            (Permute { perm: (0..rank as i64).rev().collect() }.into(), vec![one], 0),
            (Write {}.into(), vec![one, one], 0),
        ];
        for (op, ins, scalars) in cases {
            let outs = if let gt_ir::Op::Sort(_) = op { 2 } else { 1 };
            let instr = Instr {
                op,
                outs: (0..outs).map(gt_ir::TensorId).collect(),
                ins: (0..ins.len() as u64).map(gt_ir::TensorId).collect(),
                scalars: vec![gt_ir::Scalar::I64(0); scalars].into_iter().collect(),
                scope: Default::default(),
                site: Default::default(),
            };
            question(&instr, &ins);
        }
    }
}
