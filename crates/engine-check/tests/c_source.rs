//! Tile programs printed as C, compiled by the system's C compiler, and held to the reference engine: what a device's
//! compiler reads is tested where there is no device. (A Rust tool chain links with `cc`, so there is one.)

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gt_engine_check::conformance::compare::{Allowance, allowance, difference};
use gt_engine_check::conformance::{
    self, Built, Grouping, PlanBuilder, SplitMix, make_values, random_program, run_plan, special_values, upload, within,
};
use gt_engine_check::{Reference, evaluate, numbers};
use gt_ir::ops::{Binary, Broadcast, Cast, Compare, Concat, Reduce, ReduceKind, Select, Side, Unary};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use gt_ir::{AxisSet, DType, Domain, HostTensor, Op, Scalar, Shape, TensorType};
use gt_plan::Slot;
use gt_plan::tile::TileProgram;
use gt_plan::tile::c_source::CSource;

const LIMIT: Duration = Duration::from_secs(150);

/// A program, what it is run on, and what it has to give.
struct Case {
    title: String,
    program: TileProgram,
    /// Packed over the extents of their levels.
    ins: Vec<HostTensor>,
    consts: Vec<u64>,
    want: Vec<HostTensor>,
    allowed: Vec<Allowance>,
}

impl Case {
    /// The only step of a plan.
    fn new(title: String, built: &Built, inputs: &[HostTensor], allowed: impl Fn(&HostTensor) -> Allowance) -> Case {
        let plan = &built.plan;
        assert_eq!(plan.steps.len(), 1, "{title}");
        let program = plan.steps[0].program().expect("a fused step").clone();
        let mut engine = Reference::new().one_by_one();
        let buffers = upload(&mut engine, inputs).into_iter().map(Ok).collect();
        let outcome = run_plan(&mut engine, built, buffers);
        let spread = |slot: Slot, shape: Shape| match &inputs[slot as usize] {
            tensor if tensor.ty.shape == shape => tensor.clone(),
            tensor => evaluate(&Broadcast { shape }.into(), &[tensor], &[], None).expect("it broadcasts").remove(0),
        };
        let ins = program.ins.iter().map(|input| spread(input.slot, program.extents(input.level))).collect();
        let consts = program.consts.iter().map(|constant| {
            let scalar = plan.scalars(constant.instr, &built.immediates)[usize::from(constant.nth)];
            let mut bits = [0; 8];
            let element = numbers::register_element(scalar, constant).bytes;
            bits[..element.len()].copy_from_slice(&element);
            u64::from_le_bytes(bits)
        });
        let consts = consts.collect();
        let slots = program.outs.iter().map(|out| out.slot).chain(program.folds.iter().map(|fold| fold.slot));
        let want: Vec<HostTensor> = slots.map(|slot| outcome.read(slot)).collect();
        let allowed = want.iter().map(allowed).collect();
        Case { title, program, ins, consts, want, allowed }
    }
}

/// One instruction on these inputs, as exact as the reference asks engines to be.
fn single(cases: &mut Vec<Case>, op: impl Into<Op>, ins: &[&HostTensor], scalars: &[Scalar]) {
    let op = op.into();
    let types: Vec<TensorType> = ins.iter().map(|t| t.ty).collect();
    let built = conformance::single_plan(&op, &types, scalars);
    let title = format!("{} of {types:?} and {scalars:?}", op.display_name());
    let owned: Vec<HostTensor> = ins.iter().map(|&t| t.clone()).collect();
    cases.push(Case::new(title, &built, &owned, |_| allowance(&op, ins, scalars)));
}

/// Compiles the programs, runs them, and compares.
fn check(name: &str, cases: &[Case]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = |ending: &str| folder.join(format!("{name}_{}{ending}", std::process::id()));
    let (source, binary, input, output) = (file(".c"), file(""), file(".in"), file(".out"));
    let mut c = CSource::default();
    let (mut main, mut bytes) = (String::new(), Vec::new());
    for (n, case) in cases.iter().enumerate() {
        c.add(&case.program, &format!("program{n}"));
        let takes =
            |lens: &mut dyn Iterator<Item = usize>| lens.map(|len| format!("take({len}), ")).collect::<String>();
        let rooms: String = case.want.iter().map(|want| format!("room({}), ", want.bytes.len())).collect();
        let _ = writeln!(main, "    {{");
        let _ = writeln!(
            main,
            "        const void *ins[] = {{ {}0 }};",
            takes(&mut case.ins.iter().map(|t| t.bytes.len()))
        );
        let _ = writeln!(main, "        const void *consts = take({});", 8 * case.consts.len());
        let _ = writeln!(main, "        void *outs[] = {{ {rooms}0 }};");
        let _ = writeln!(main, "        program{n}(ins, consts, outs);");
        for (o, want) in case.want.iter().enumerate() {
            let _ = writeln!(main, "        fwrite(outs[{o}], 1, {}, stdout);", want.bytes.len());
        }
        let _ = writeln!(main, "    }}");
        case.ins.iter().for_each(|tensor| bytes.extend(&tensor.bytes));
        case.consts.iter().for_each(|bits| bytes.extend(bits.to_le_bytes()));
    }
    let text = format!(
        "{}\n#include <stdio.h>\n\
         static void *room(size_t n) {{ void *p = malloc(n + 1); if (!p) exit(2); return p; }}\n\
         static void *take(size_t n) {{ void *p = room(n); if (fread(p, 1, n, stdin) != n) exit(3); return p; }}\n\
         int main(void)\n{{\n{main}    return 0;\n}}\n",
        c.finish()
    );
    std::fs::write(&source, text).expect("a folder for the test's files");
    std::fs::write(&input, bytes).expect("a folder for the test's files");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let compiled = Command::new(&compiler)
        .args(["-std=c11", "-O1", "-ffp-contract=off", "-Werror=implicit-function-declaration", "-o"])
        .args([&binary, &source])
        .arg("-lm")
        .output()
        .unwrap_or_else(|e| panic!("this test needs a C compiler, and `{compiler}` does not start: {e}"));
    assert!(compiled.status.success(), "{}:\n{}", source.display(), String::from_utf8_lossy(&compiled.stderr));
    let status = Command::new(&binary)
        .stdin(Stdio::from(File::open(&input).expect("just written")))
        .stdout(Stdio::from(File::create(&output).expect("a folder for the test's files")))
        .status()
        .expect("just compiled");
    assert!(status.success(), "{}: {status}", binary.display());
    let have = std::fs::read(&output).expect("just written");
    let mut have = have.as_slice();
    let mut wrong = Vec::new();
    for case in cases {
        for (o, (want, allowed)) in case.want.iter().zip(&case.allowed).enumerate() {
            let (bytes, rest) = have.split_at(want.bytes.len());
            have = rest;
            let result = HostTensor { ty: want.ty, bytes: bytes.to_vec() };
            if let Some(what) = difference(&result, want, allowed) {
                wrong.push(format!("{}, result {o}: {what}\n{}", case.title, case.program));
            }
        }
    }
    assert!(have.is_empty());
    assert!(wrong.is_empty(), "{} of {} in {}:\n{}", wrong.len(), cases.len(), source.display(), wrong.join("\n"));
    [source, binary, input, output].iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// The values whose size is less, or is no number's.
fn below(x: &HostTensor, most: f64) -> HostTensor {
    let kept: Vec<f64> = numbers::floats(x).into_iter().filter(|v| !v.is_finite() || v.abs() < most).collect();
    numbers::from_floats(TensorType::new(x.ty.dtype, &[kept.len()]), &kept)
}

#[test]
fn every_row_on_special_values() {
    within(LIMIT, || {
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            let x = special_values(dtype);
            let n = x.ty.numel();
            let column = HostTensor { ty: TensorType::new(dtype, &[n, 1]), bytes: x.bytes.clone() };
            for &kind in UnaryKind::ALL.iter().filter(|kind| kind.row().accepts.takes(dtype)) {
                // The reference's own functions overflow for the largest doubles; those of C do not.
                let overflows = matches!(kind, UnaryKind::Asinh | UnaryKind::Acosh) && dtype == DType::F64;
                let x = if overflows { below(&x, 1e300) } else { x.clone() };
                single(&mut cases, Unary { kind }, &[&x], &[]);
            }
            for &kind in BinaryKind::ALL.iter().filter(|kind| kind.row().accepts.takes(dtype)) {
                single(&mut cases, Binary { kind, scalar: Side::None }, &[&column, &x], &[]);
                single(&mut cases, Binary { kind, scalar: Side::Left }, &[&x], &[Scalar::I64(3)]);
                single(&mut cases, Binary { kind, scalar: Side::Right }, &[&x], &[Scalar::I64(3)]);
            }
            for &kind in CompareKind::ALL {
                single(&mut cases, Compare { kind, scalar: Side::None }, &[&column, &x], &[]);
                single(&mut cases, Compare { kind, scalar: Side::Left }, &[&x], &[Scalar::I64(1)]);
            }
            for to in DType::ALL {
                single(&mut cases, Cast { dtype: to }, &[&x], &[]);
            }
            let odd: Vec<i64> = (0..n as i64).map(|i| i % 2).collect();
            let odd = numbers::from_ints(TensorType::new(DType::Bool, &[n, 1]), &odd);
            let select = Select { a_scalar: false, b_scalar: true, dtype };
            single(&mut cases, select, &[&odd, &x], &[Scalar::F64(0.1)]);
            for &kind in ReduceKind::ALL {
                if dtype != DType::Bool || matches!(kind, ReduceKind::Max | ReduceKind::Min) {
                    single(&mut cases, Reduce { kind, axes: AxisSet::of(&[0]), keepdim: false }, &[&x], &[]);
                }
            }
        }
        check("rows", &cases);
    });
}

/// Whether every engine has to give the same numbers for an instruction.
fn is_exact(built: &Built) -> bool {
    built.plan.instrs.iter().all(|instr| {
        let zeros = |id: &gt_ir::TensorId| {
            let ty = built.plan.types[id.0 as usize];
            HostTensor { ty, bytes: vec![0; ty.bytes()] }
        };
        let ins: Vec<HostTensor> = instr.ins.iter().map(zeros).collect();
        let scalars = vec![Scalar::I64(1); instr.scalars.len()];
        matches!(allowance(&instr.op, &ins.iter().collect::<Vec<_>>(), &scalars), Allowance::Numbers)
    })
}

#[test]
fn random_programs_of_exact_functions() {
    within(LIMIT, || {
        let mut cases = Vec::new();
        for seed in 0..1500 {
            let (builder, live, inputs) = random_program(seed);
            let built = builder.finish(&live, Grouping::Fused);
            if is_exact(&built) && cases.len() < 150 {
                cases.push(Case::new(format!("program {seed}"), &built, &inputs, |_| Allowance::Numbers));
            }
        }
        assert!(cases.len() > 100, "too few programs of exact functions: {}", cases.len());
        check("random", &cases);
    });
}

const fn binary(kind: BinaryKind) -> Binary {
    Binary { kind, scalar: Side::None }
}

/// Whole rows, also longer than a block of a sum; folds of columns beside them; halves between.
#[test]
fn whole_rows_and_columns() {
    within(LIMIT, || {
        let (mut cases, mut random) = (Vec::new(), SplitMix::new(4));
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for space in [&[3, 7][..], &[5, 1024], &[4, 2500], &[2, 3, 65]] {
                let space = Shape::new(space);
                let (last, rank) = (AxisSet::of(&[space.rank() - 1]), space.rank());
                let width = space.filtered(|axis| axis + 1 == rank);
                let inputs: Vec<HostTensor> = [space, width]
                    .into_iter()
                    .map(|shape| make_values(TensorType { dtype, shape }, Domain::Any, &mut random))
                    .collect();
                let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
                let fold = |kind, axes, keepdim| Reduce { kind, axes, keepdim };

                let mut builder = PlanBuilder::new(&types);
                builder.begin_fused(space);
                let top = builder.one(fold(ReduceKind::Max, last, true), &[0], &[]);
                let shifted = builder.one(binary(BinaryKind::Sub), &[0, top], &[]);
                let powers = builder.one(Unary { kind: UnaryKind::Exp }, &[shifted], &[]);
                let total = builder.one(fold(ReduceKind::Sum, last, true), &[powers], &[]);
                let softmax = builder.one(binary(BinaryKind::Div), &[powers, total], &[]);
                let scaled = builder.one(binary(BinaryKind::Mul), &[softmax, 1], &[]);
                // Over other axes than the rows': complete at the end only.
                let others = AxisSet::all(rank - 1);
                let columns = builder.one(fold(ReduceKind::Sum, others, false), &[scaled], &[]);
                builder.end_fused();
                let built = builder.finish(&[top, softmax, scaled, columns], Grouping::Fused);
                assert!(built.plan.steps[0].program().is_some_and(|p| p.row_axes == Some(last) && p.folds.len() == 1));
                let near = |want: &HostTensor| Allowance::Near {
                    ulps: 16.0,
                    absolute: 64.0,
                    slack: vec![8.0 * conformance::compare::epsilon(dtype); want.ty.numel()],
                };
                cases.push(Case::new(format!("softmax of {space} in {dtype}"), &built, &inputs, near));
            }
        }
        check("whole_rows", &cases);
    });
}

#[test]
fn parts_of_concatenations() {
    within(LIMIT, || {
        let (mut cases, mut random) = (Vec::new(), SplitMix::new(9));
        for dtype in DType::ALL {
            for (a, b, axis) in [(&[3, 2][..], &[3, 5][..], 1), (&[2, 4], &[3, 4], 0), (&[2, 1, 3], &[2, 6, 3], 1)] {
                let (a, b) = (Shape::new(a), Shape::new(b));
                let whole = a.with_extent(axis, a[axis] + b[axis]).expect("a small shape");
                let inputs: Vec<HostTensor> = [a, b, whole]
                    .into_iter()
                    .map(|shape| make_values(TensorType { dtype, shape }, Domain::Any, &mut random))
                    .collect();
                let types: Vec<TensorType> = inputs.iter().map(|t| t.ty).collect();
                let mut builder = PlanBuilder::new(&types);
                builder.begin_fused(whole);
                let turned = builder.one(binary(BinaryKind::Mul), &[0, 0], &[]);
                let joined = builder.one(Concat { axis: axis as u8 }, &[turned, 1], &[]);
                let product = builder.one(binary(BinaryKind::Mul), &[joined, 2], &[]);
                builder.end_fused();
                let built = builder.finish(&[joined, product], Grouping::Fused);
                cases.push(Case::new(format!("{a} beside {b} in {dtype}"), &built, &inputs, |_| Allowance::Numbers));
            }
        }
        check("parts", &cases);
    });
}
