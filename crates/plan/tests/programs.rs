//! Tile programs: what they say, and that `verify` finds broken ones.

mod case;

use case::{Case, groups};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{AxisSet, DType};
use gt_plan::tile::{Level, Spot, TileFn, TileOp, TileProgram};
use gt_plan::{Plan, PlanOptions, Step, StepKind, verify};

/// The program of a plan's only step.
fn only(plan: &Plan) -> String {
    assert_eq!(groups(plan).len(), 1);
    plan.steps[0].program().expect("a fused step").to_string()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Halves are widened, rounded where they are read again, and narrowed where they leave the step.
#[test]
fn a_softmax_of_halves() {
    let softmax = [
        "%10 = reduce(%1) kind=amax axes=[1] keepdim=true",
        "%11 = binary(%1, %10) kind=sub scalar=none",
        "%12 = unary(%11) kind=exp",
        "%13 = reduce(%12) kind=sum axes=[1] keepdim=true",
        "%14 = binary(%12, %13) kind=div scalar=none",
    ];
    let plan = Case::new(&["bf16[4, 8]"], &softmax, &[14]).fused();
    let expected = "
        in0 = %0 full bf16
        r0 = widen in0 full f32
        r1 = fold[amax] r0 row bf16
        r2 = widen r1 row f32
        r3 = spread r2 full f32
        r4 = sub r0 r3 full f32
        r5 = round[bf16] r4 full f32
        r6 = exp r5 full f32
        r7 = round[bf16] r6 full f32
        r8 = fold[sum] r7 row bf16
        r9 = widen r8 row f32
        r10 = spread r9 full f32
        r11 = div r7 r10 full f32
        o0 = narrow r11 full bf16 -> %5";
    assert_eq!(lines(&only(&plan)), lines(expected));
}

/// Operands of arithmetic keep their precision, elements are rounded; a comparison keeps the order of its operands.
#[test]
fn numbers_that_a_run_brings() {
    let program = [
        "%10 = fill() dtype=f16 shape=[4] $ 3.0",
        "%11 = binary(%1) kind=sub scalar=left $ 1.5",
        "%12 = compare(%11) kind=lt scalar=left $ 0.5",
        "%13 = select(%12, %11) a_scalar=false b_scalar=true dtype=f16 $ 7.0",
        "%14 = binary(%13, %10) kind=mul scalar=none",
    ];
    let plan = Case::new(&["f16[4]"], &program, &[14]).fused();
    let expected = "
        in0 = %0 full f16
        c0 = scalar 0 of 0 f16 rounded
        c1 = scalar 0 of 1 f16
        c2 = scalar 0 of 2 f16
        c3 = scalar 0 of 3 f16 rounded
        r0 = widen in0 full f32
        r1 = sub c1 r0 full f32
        r2 = round[f16] r1 full f32
        r3 = lt c2 r2 full bool
        r4 = select r3 r2 c3 full f32
        r5 = mul r4 c0 full f32
        o0 = narrow r5 full f16 -> %5";
    assert_eq!(lines(&only(&plan)), lines(expected));
}

#[test]
fn parts_of_a_concatenation_and_folds() {
    let rotary =
        ["%10 = unary(%1) kind=neg", "%11 = concat(%10, %2) axis=1", "%12 = binary(%11, %3) kind=mul scalar=none"];
    let plan = Case::new(&["f32[3, 2]", "f32[3, 5]", "f32[3, 7]"], &rotary, &[12]).fused();
    let expected = "
        in0 = %0 part0 f32
        in1 = %1 part1 f32
        in2 = %2 full f32
        r0 = neg in0 part0 f32
        r1 = place[0] r0 full f32
        r1 = place[1] in1 full f32
        o0 = mul r1 in2 full f32 -> %5";
    assert_eq!(lines(&only(&plan)), lines(expected));

    let folds = ["%10 = unary(%1) kind=exp", "%11 = reduce(%10) kind=sum axes=[0] keepdim=false"];
    let plan = Case::new(&["f32[3, 2]"], &folds, &[10, 11]).fused();
    let expected = "
        in0 = %0 full f32
        o0 = exp in0 full f32 -> %1
        %2 = sum o0 axes=[0] f32[2]";
    assert_eq!(lines(&only(&plan)), lines(expected));
}

/// Steps of one instruction have programs too.
#[test]
fn without_fusion_each_step_has_a_program() {
    let program = ["%10 = unary(%1) kind=exp", "%11 = reduce(%10) kind=sum axes=[0] keepdim=false"];
    let plan =
        Case::new(&["f32[3, 2]"], &program, &[10, 11]).plan(PlanOptions { fusion: false, ..PlanOptions::DEFAULT });
    assert!(plan.steps.iter().all(|step| step.program().is_some()));
}

/// What a step that makes two values looks like when its program is broken.
#[test]
fn broken_programs_are_found() {
    let norm = [
        "%10 = unary(%1) kind=square",
        "%11 = reduce(%10) kind=sum axes=[1] keepdim=true",
        "%12 = binary(%1, %11) kind=div scalar=none",
        "%13 = binary(%12) kind=add scalar=right $ 1.0",
    ];
    let plan = Case::new(&["f32[4, 8]"], &norm, &[12, 13]).fused();
    assert_eq!(verify(&plan), Ok(()));
    let check = |change: &dyn Fn(&mut TileProgram), expected: &str| {
        let mut plan = plan.clone();
        let StepKind::Fused { program } = &mut plan.steps[0].kind else { panic!("a fused step") };
        change(program);
        let message = verify(&plan).expect_err("a broken program");
        assert!(message.contains(expected), "{message}, expected {expected}");
    };
    fn first(program: &mut TileProgram, wanted: fn(&TileFn) -> bool) -> &mut TileOp {
        program.ops.iter_mut().find(|op| wanted(&op.f)).expect("an operation")
    }
    let is_fold = |f: &TileFn| matches!(f, TileFn::Fold(_));
    let is_div = |f: &TileFn| *f == TileFn::Binary(BinaryKind::Div);
    // Order, and each register once.
    check(&|p| p.ops.swap(0, 1), "PROGRAM-1");
    check(&|p| p.ops.insert(1, p.ops[0].clone()), "PROGRAM-1");
    check(&|p| p.ops[0].dst = Spot::In(0), "PROGRAM-1");
    check(&|p| p.ops[0].args[0] = Spot::Reg(900), "PROGRAM-1");
    check(&|p| p.ops[0].args[0] = Spot::Const(900), "no Const");
    // Types.
    check(&|p| p.registers[0] = DType::F64, "PROGRAM-2");
    check(&|p| p.ops[0].f = TileFn::Unary(UnaryKind::IsNan), "PROGRAM-2");
    check(&|p| p.ops[0].f = TileFn::Widen, "PROGRAM-2");
    check(&|p| p.consts[0].dtype = DType::I64, "PROGRAM-2");
    check(&|p| first(p, is_div).args.truncate(1), "PROGRAM-2");
    // Levels.
    check(&|p| first(p, is_fold).level = Level::Full, "PROGRAM-3");
    check(&|p| p.ops[0].level = Level::Row, "PROGRAM-3");
    check(&|p| p.ops[0].level = Level::Part(0), "no level");
    check(&|p| p.row_axes = Some(AxisSet::of(&[0])), "no level");
    check(&|p| p.row_axes = None, "no level");
    // What the step reads and makes.
    check(&|p| p.ins[0].dtype = DType::F64, "PROGRAM-4");
    check(&|p| p.ins[0].slot = 1, "PROGRAM-4");
    check(&|p| p.outs[0].slot = 2, "PROGRAM-4");
    check(&|p| p.outs[0].level = Level::Row, "PROGRAM-4");
    check(&|p| p.outs.truncate(1), "PROGRAM-4");
    check(&|p| p.ops.truncate(p.ops.len() - 1), "PROGRAM-4");
}

/// The planner makes no such step yet, but a program can say it: columns are folded beside rows, which are longer than a block.
#[test]
fn a_program_can_fold_rows_and_columns() {
    let norm = [
        "%10 = reduce(%1) kind=sum axes=[1] keepdim=true",
        "%11 = binary(%1, %10) kind=mul scalar=none",
        "%12 = reduce(%11) kind=sum axes=[0] keepdim=false",
    ];
    let mut plan = Case::new(&["f32[4, 2000]"], &norm, &[11, 12]).fused();
    let (instrs, outs) = (vec![0, 1, 2], vec![2, 3]);
    let program = TileProgram::of(&plan.instrs, &plan.types, &instrs, &outs, plan.types[0].shape);
    let kind = StepKind::Fused { program: Box::new(program.clone()) };
    plan.steps = vec![Step { kind, instrs, ins: vec![0], outs, ..plan.steps[0].clone() }];
    assert_eq!(program.verify(&plan, &plan.steps[0]), Ok(()));
    let expected = "
        in0 = %0 full f32
        r0 = fold[sum] in0 row f32
        r1 = spread r0 full f32
        o0 = mul in0 r1 full f32 -> %2
        %3 = sum o0 axes=[0] f32[2000]";
    assert_eq!(lines(&program.to_string()), lines(expected));
}
