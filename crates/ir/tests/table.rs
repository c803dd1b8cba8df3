//! Table tests: every op × sample × dtype, and every choice an attribute can take.

mod common;

use std::collections::BTreeSet;

use common::{TypesOnly, sample_instrs};
use gt_ir::codec::Reader;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{
    Bytes, DType, GradCx, Instr, Op, OpKind, Payload, Scalar, Scalars, StreamHasher, TensorId, TensorType, Window,
};

/// CODEC-2 for one instruction.
fn expect_binary_round_trip(instr: &Instr) {
    let mut bytes = Vec::new();
    instr.encode(&mut bytes);
    assert_eq!(bytes.len(), instr.encoded_len(), "{instr}");
    let mut reader = Reader::new(&bytes);
    let back = Instr::decode(&mut reader).unwrap_or_else(|e| panic!("{instr}: {e}"));
    assert_eq!(back, *instr);
    assert_eq!(reader.left(), 0, "{instr}: all bytes are read");
    for len in 0..bytes.len() {
        assert!(Instr::decode(&mut Reader::new(&bytes[..len])).is_err(), "{instr}: {len} of its bytes are not enough");
    }
}

fn expect_text_round_trip(instr: &Instr) {
    let line = instr.to_string();
    let back: Instr = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(back, *instr, "{line}");
}

#[test]
fn every_sample_survives_both_forms() {
    for (instr, _) in sample_instrs() {
        expect_binary_round_trip(&instr);
        expect_text_round_trip(&instr);
    }
}

#[test]
fn scalars_of_every_kind_survive_both_forms() {
    let (mut instr, _) = sample_instrs().remove(0);
    let numbers =
        [0.0, -0.0, 1.5, -1e-300, 5e-324, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 3.0];
    let odd_nan = f64::from_bits(0x7ff0_0000_0000_0001);
    let mut scalars: Scalars = numbers.iter().chain([&odd_nan]).map(|&f| Scalar::F64(f)).collect();
    scalars.extend([i64::MIN, -1, 0, 1, i64::MAX].map(Scalar::I64));
    scalars.extend([true, false].map(Scalar::Bool));
    instr.scalars = scalars;
    expect_binary_round_trip(&instr);
    expect_text_round_trip(&instr);
}

#[test]
fn windows_survive_the_binary_form() {
    let instrs: Vec<Instr> = sample_instrs().into_iter().map(|(instr, _)| instr).collect();
    for (n, eager) in [(0, false), (1, true), (instrs.len(), false)] {
        let window = Window {
            instrs: instrs[..n].to_vec(),
            uploads: (0..n as u32)
                .step_by(100)
                .map(|instr| Payload { instr, bytes: Bytes::from(vec![instr as u8; instr as usize]) })
                .collect(),
            frees: (0..n as u64).map(|i| TensorId(i * i * 1_000_003)).collect(),
            eager,
            joined: !eager,
            met: Vec::new(),
        };
        let mut bytes = Vec::new();
        window.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Window::decode(&mut reader).expect("what was encoded decodes"), window);
        assert_eq!(reader.left(), 0);
    }
}

#[test]
fn every_sample_is_well_formed() {
    for (instr, ins) in sample_instrs() {
        instr.infer(&ins).unwrap_or_else(|e| panic!("{instr} on {ins:?}: {e}"));
    }
}

#[test]
fn every_op_has_samples_in_every_dtype_it_takes() {
    for &kind in OpKind::ALL {
        if kind == OpKind::Upload {
            continue;
        }
        let taken = DType::ALL.into_iter().filter(|&d| !kind.samples(d).is_empty()).count();
        let composite = kind.samples(DType::F32).iter().any(|s| s.op.composite().is_some());
        // Composites are of floats.
        assert!(taken >= if composite { 4 } else { 8 }, "{} has samples in {taken} dtypes only", kind.name());
    }
}

#[test]
fn every_row_has_samples() {
    let mut seen = BTreeSet::new();
    for (instr, ins) in sample_instrs() {
        match &instr.op {
            Op::Unary(op) => seen.insert((op.kind.name(), ins[0].dtype)),
            Op::Binary(op) => seen.insert((op.kind.name(), ins[0].dtype)),
            Op::Compare(op) => seen.insert((op.kind.name(), ins[0].dtype)),
            _ => false,
        };
    }
    for dtype in DType::ALL {
        for &kind in UnaryKind::ALL {
            assert_eq!(
                seen.contains(&(kind.name(), dtype)),
                kind.row().accepts.takes(dtype),
                "{} in {dtype}",
                kind.name()
            );
            let row = kind.row();
            assert!(
                row.i64.is_some() || !row.accepts.takes(DType::I64),
                "{} takes integers but has no function of them",
                kind.name()
            );
        }
        for &kind in BinaryKind::ALL {
            assert_eq!(
                seen.contains(&(kind.name(), dtype)),
                kind.row().accepts.takes(dtype),
                "{} in {dtype}",
                kind.name()
            );
        }
        for &kind in CompareKind::ALL {
            assert!(seen.contains(&(kind.name(), dtype)), "{} in {dtype}", kind.name());
        }
    }
}

#[test]
fn rows_give_their_exact_values() {
    for &kind in UnaryKind::ALL {
        let row = kind.row();
        for &(x, exact) in row.points {
            let have = (row.f64)(x);
            let same = have == exact || (have.is_nan() && exact.is_nan());
            let near = (have - exact).abs() <= 1e-14 * exact.abs().max(1e-2);
            assert!(same || near, "{}({x}) is {have:e} instead of {exact:e}", kind.name());
        }
    }
    // Orders 1, 2, 3 and 7 at points on both sides of the poles.
    let polygamma = BinaryKind::Polygamma.row().f64;
    for (n, x, exact) in [
        (1.0, 0.1, 101.43329915079275),
        (1.0, 1.0, 1.6449340668482264),
        (1.0, 30.0, 0.033895060357739946),
        (1.0, -0.5, 8.934802200544679),
        (1.0, -7.75, 19.61814433435229),
        (2.0, 2.5, -0.2362040516417274),
        (2.0, -1.25, 123.72136678366236),
        (2.0, -7.75, -124.03974558822776),
        (3.0, 0.1, 60004.51287679026),
        (3.0, -1.25, 1558.2209125348506),
        (7.0, 2.5, 3.565236352523131),
        (7.0, -1.25, 330352687.7181861),
    ] {
        let have = polygamma(n, x);
        assert!((have / exact - 1.0).abs() < 2e-14, "polygamma({n}, {x}) is {have:e} instead of {exact:e}");
    }
    assert_eq!(polygamma(1.0, -2.0), f64::INFINITY);
}

/// A name is that of one row, and what has a name says what it does.
#[test]
fn names_of_users_are_unique() {
    let rows = UnaryKind::ALL.iter().map(|kind| kind.names());
    let rows = rows.chain(BinaryKind::ALL.iter().map(|kind| kind.names()));
    let rows: Vec<_> = rows.chain(CompareKind::ALL.iter().map(|kind| kind.names())).collect();
    let mut seen = BTreeSet::new();
    for row in &rows {
        for (name, in_place) in row.names {
            assert!(seen.insert(*name), "two rows are called {name}");
            assert!(in_place.is_empty() || *in_place == format!("{name}_"), "{name} and {in_place}");
            assert!(!row.says.is_empty() && !row.says.ends_with('.'), "{name}: {}", row.says);
        }
    }
}

#[test]
fn names_and_wire_codes_are_unique() {
    let names: BTreeSet<&str> = OpKind::ALL.iter().map(|k| k.name()).collect();
    let codes: BTreeSet<u8> = OpKind::ALL.iter().map(|&k| k as u8).collect();
    assert_eq!((names.len(), codes.len()), (OpKind::ALL.len(), OpKind::ALL.len()));
    for &kind in OpKind::ALL {
        assert_eq!(OpKind::from_name(kind.name()), Some(kind));
        assert_eq!(OpKind::from_code(kind as u8), Some(kind));
    }
    for dtype in DType::ALL {
        assert_eq!(DType::from_code(dtype as u8), Some(dtype));
        assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        assert_eq!(DType::from_name(dtype.long_name()), Some(dtype));
    }
}

/// What users see must tell ops apart.
#[test]
fn display_names_tell_ops_apart() {
    let mut seen: std::collections::BTreeMap<&str, OpKind> = Default::default();
    for (instr, _) in sample_instrs() {
        let kind = instr.op.kind();
        let first = *seen.entry(instr.op.display_name()).or_insert(kind);
        assert_eq!(first, kind, "two ops are called {}", instr.op.display_name());
    }
}

/// Ops with different attributes hash differently, and the hash does not change between runs.
#[test]
fn hashes_of_ops_differ_exactly_when_the_ops_do() {
    let digest = |op: &Op| {
        let mut h = StreamHasher::default();
        op.feed(&mut h);
        h.finish()
    };
    let mut seen: Vec<(Op, gt_ir::Digest)> = Vec::new();
    for (instr, _) in sample_instrs() {
        let hash = digest(&instr.op);
        assert_eq!(hash, digest(&instr.op.clone()));
        for (op, other) in &seen {
            assert_eq!(op == &instr.op, *other == hash, "{op:?} and {:?}", instr.op);
        }
        if !seen.iter().any(|(op, _)| *op == instr.op) {
            seen.push((instr.op, hash));
        }
    }
}

/// Gradients of every sample, as types: emitted instructions are well formed for every float dtype and every set of
/// inputs that want one.
#[test]
fn gradients_have_the_types_of_their_inputs() {
    for (instr, ins) in sample_instrs() {
        if instr.op.composite().is_some_and(|c| !c.has_grad()) {
            // Differentiated through its expansion.
            continue;
        }
        let outs = instr.infer(&ins).expect("samples are well formed");
        let floats = ins.iter().enumerate().filter(|(_, t)| t.dtype.is_float()).fold(0u64, |m, (i, _)| m | 1 << i);
        for needs in (1..=floats).filter(|n| n & !floats == 0) {
            for found in gradient_types(&instr, &ins, &outs, needs).unwrap_or_else(|e| panic!("{instr}: {e}")) {
                let (i, ty) = found;
                assert_eq!(ty, ins[i], "{instr}: the gradient of input {i}");
            }
        }
    }
}

fn gradient_types(
    instr: &Instr,
    ins: &[TensorType],
    outs: &[TensorType],
    needs: u64,
) -> Result<Vec<(usize, TensorType)>, gt_ir::OpError> {
    let mut types = TypesOnly::default();
    let saves = instr.op.primitive().saves(needs);
    let mut keep = |tys: &[TensorType], mask: u64| -> Vec<Option<gt_ir::Val>> {
        tys.iter().enumerate().map(|(i, &t)| (mask >> i & 1 != 0).then(|| types.put(t))).collect()
    };
    let (saved_ins, saved_outs) = (keep(ins, saves.ins), keep(outs, saves.outs));
    let grads: Vec<_> = outs.iter().map(|t| t.dtype.is_float().then(|| types.put(*t))).collect();
    let cx = GradCx {
        ins,
        outs,
        scalars: &instr.scalars,
        grads: &grads,
        saved_ins: &saved_ins,
        saved_outs: &saved_outs,
        needs,
    };
    let found = instr.op.primitive().grad(&cx, &mut types)?;
    assert_eq!(found.len(), ins.len(), "{instr}: one gradient per input");
    Ok(found.iter().enumerate().filter_map(|(i, v)| v.map(|v| (i, gt_ir::Emit::ty(&types, v)))).collect())
}

/// CODEC and hashes see composites as any op; what they are must have the types they promise.
#[test]
fn expansions_have_the_types_that_infer_promises() {
    for (instr, ins) in sample_instrs() {
        let Some(composite) = instr.op.composite() else { continue };
        let mut types = TypesOnly::default();
        let vals: Vec<gt_ir::Val> = ins.iter().map(|&ty| types.put(ty)).collect();
        let outs = composite.expand(&vals, &instr.scalars, &mut types).unwrap_or_else(|e| panic!("{instr}: {e}"));
        let found: Vec<TensorType> = outs.iter().map(|&v| gt_ir::Emit::ty(&types, v)).collect();
        assert_eq!(found[..], instr.infer(&ins).expect("samples are well formed")[..], "{instr}");
    }
}

#[test]
fn axes_beyond_the_eighth_round_trip() {
    let lines = [
        "%1 = reduce(%0) kind=sum axes=[0, 7, 8, 15] keepdim=false",
        "%1 = permute(%0) perm=[15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]",
        "%1 = reshape(%0) shape=[2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]",
    ];
    for line in lines {
        let instr: Instr = line.parse().unwrap();
        let mut bytes = Vec::new();
        instr.encode(&mut bytes);
        assert_eq!(Instr::decode(&mut gt_ir::codec::Reader::new(&bytes)).as_ref(), Ok(&instr));
        assert_eq!(instr.to_string().parse::<Instr>().as_ref(), Ok(&instr));
        let outs =
            instr.infer(&[TensorType::new(gt_ir::DType::F32, &[2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])]);
        assert_eq!(outs.unwrap()[0].shape.rank(), if line.contains("reduce") { 12 } else { 16 });
    }
}
