//! Steps that read the results of their own reductions (FUSE-4), reading past broadcasts, and what writes let steps overwrite.

mod case;

use case::{Case, groups};
use gt_ir::{AxisSet, Op, Shape, TensorType};
use gt_plan::{EngineLimits, Plan, PlanOptions, StepKind, rows_of, text, verify};

const LIMITS: EngineLimits = EngineLimits::MODERATE;

const SOFTMAX: [&str; 5] = [
    "%10 = reduce(%1) kind=amax axes=[1] keepdim=true",
    "%11 = binary(%1, %10) kind=sub scalar=none",
    "%12 = unary(%11) kind=exp",
    "%13 = reduce(%12) kind=sum axes=[1] keepdim=true",
    "%14 = binary(%12, %13) kind=div scalar=none",
];

#[test]
fn rows_are_whole_up_to_a_block() {
    for (extents, one_pass) in [
        ("f32[4, 2]", true),
        ("f32[1, 2]", true),
        ("f32[0, 8]", true),
        ("bf16[4, 1023]", true),
        ("f32[4, 1024]", true),
        ("f32[4, 1025]", false),
        ("f32[4, 100000]", false),
        // A row of one element has the extents of the space: its reduction is not told from it.
        ("f32[4, 1]", false),
    ] {
        let plan = Case::new(&[extents], &SOFTMAX, &[14]).fused();
        assert_eq!(plan.steps.len() == 1, one_pass, "{extents}:\n{}", text::print(&plan));
    }
}

#[test]
fn only_last_axes_that_are_kept_are_rows() {
    let shape = Shape::new(&[3, 4, 8]);
    let rows = |axes: &[usize], keepdim| rows_of(&shape, AxisSet::of(axes), keepdim, &LIMITS);
    assert_eq!(rows(&[2], true), Some(Shape::new(&[3, 4, 1])));
    assert_eq!(rows(&[1, 2], true), Some(Shape::new(&[3, 1, 1])));
    assert_eq!(rows(&[0, 1, 2], true), Some(Shape::new(&[1, 1, 1])));
    for axes in [&[][..], &[0], &[1], &[0, 1], &[0, 2]] {
        assert_eq!(rows(axes, true), None, "{axes:?}");
    }
    assert_eq!(rows(&[2], false), None);
    assert_eq!(rows_of(&Shape::new(&[]), AxisSet::default(), true, &LIMITS), None);
    assert_eq!(rows_of(&Shape::new(&[3, 0]), AxisSet::of(&[1]), true, &LIMITS), None);
    let wide = |d: usize| rows_of(&Shape::new(&[2, LIMITS.max_row_len / 16, d]), AxisSet::of(&[1, 2]), true, &LIMITS);
    assert_eq!(wide(16), Some(Shape::new(&[2, 1, 1])));
    assert_eq!(wide(17), None);

    for axes in ["[0]", "[1]", "[0, 2]", "[0, 1]"] {
        let sum = format!("%10 = reduce(%1) kind=sum axes={axes} keepdim=true");
        let plan = Case::new(&["f32[3, 4, 8]"], &[&sum, "%11 = binary(%1, %10) kind=sub scalar=none"], &[11]).fused();
        assert_eq!(groups(&plan), [[0], [1]], "{axes}");
    }
    // Without its axes a result could only be read by way of a reshape.
    let lines = [
        "%10 = reduce(%1) kind=sum axes=[1] keepdim=false",
        "%11 = reshape(%10) shape=[4, 1]",
        "%12 = binary(%1, %11) kind=sub scalar=none",
    ];
    assert_eq!(groups(&Case::new(&["f32[4, 8]"], &lines, &[12]).fused()), [[0], [1], [2]]);
}

/// `[4, 4]`: a column and a row of it have as many elements, but not the same extents.
#[test]
fn squares_do_not_confuse_rows_with_columns() {
    let lines = [
        "%10 = unary(%1) kind=exp",
        "%11 = reduce(%10) kind=sum axes=[0] keepdim=true",
        "%12 = reduce(%10) kind=sum axes=[1] keepdim=true",
        "%13 = binary(%10, %11) kind=sub scalar=none",
        "%14 = binary(%10, %12) kind=sub scalar=none",
    ];
    let plan = Case::new(&["f32[4, 4]"], &lines, &[13, 14]).fused();
    let step_of = |i: u32| plan.steps.iter().position(|s| s.instrs.contains(&i)).unwrap();
    assert_ne!(step_of(1), step_of(2));
    assert_ne!(step_of(1), step_of(3));
    // The rows' sum has the next pass to itself and its reader.
    assert_eq!(step_of(2), step_of(4));
}

/// A result without its axes ends what the step may read, but not what it has read already.
#[test]
fn a_reduction_that_drops_its_axes_joins_but_is_not_read() {
    let lines = [
        "%10 = unary(%1) kind=exp",
        "%11 = reduce(%10) kind=amax axes=[1] keepdim=true",
        "%12 = binary(%10, %11) kind=sub scalar=none",
        "%13 = reduce(%12) kind=sum axes=[1] keepdim=false",
        "%14 = reduce(%12) kind=sum axes=[1] keepdim=true",
        "%15 = binary(%12, %14) kind=div scalar=none",
        "%16 = binary(%12, %11) kind=div scalar=none",
    ];
    let plan = Case::new(&["f32[4, 8]"], &lines, &[13, 15, 16]).fused();
    assert!(plan.steps[0].instrs.starts_with(&[0, 1, 2, 3]), "{}", text::print(&plan));
}

/// A fill waits for its first reader; it may not come before the reduction that gives the step its extents.
#[test]
fn fills_of_rows_stay_out_of_the_step() {
    let fill = "%10 = fill() dtype=f32 shape=[4, 1] $ 2.0";
    let rest = [
        "%11 = reduce(%1) kind=amax axes=[1] keepdim=true",
        "%12 = binary(%11, %10) kind=add scalar=none",
        "%13 = binary(%1, %12) kind=sub scalar=none",
        "%14 = binary(%10, %12) kind=mul scalar=none",
    ];
    let plan = Case::new(&["f32[4, 8]"], &[&[fill][..], &rest].concat(), &[13, 14]).fused();
    for step in &plan.steps {
        let fill_inside = step.instrs.contains(&0);
        assert!(!fill_inside || step.space() == Some(Shape::new(&[4, 1])), "{}", text::print(&plan));
    }
}

#[test]
fn rows_that_are_too_long_are_not_held() {
    for (extents, steps) in [("f32[4, 1024]", 1), ("f32[4, 1025]", 3)] {
        assert_eq!(Case::new(&[extents], &SOFTMAX, &[14]).fused().steps.len(), steps, "{extents}");
    }
    let mut lines = vec!["%9 = concat(%1, %1) axis=1".to_string()];
    lines.extend(SOFTMAX.iter().map(|l| l.replace("%1)", "%9)").replace("%1,", "%9,")));
    let lines: Vec<&str> = lines.iter().map(|l| l.as_str()).collect();
    for (n, steps) in [(512, 2), (513, 4)] {
        assert_eq!(Case::new(&[&format!("f32[4, {n}]")], &lines, &[14]).fused().steps.len(), steps, "{n}");
    }
}

/// What verify has to find: each change breaks a valid plan.
#[test]
fn broken_rows_are_found() {
    let plan = Case::new(&["f32[4, 8]"], &SOFTMAX, &[14]).fused();
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        verify(&plan).expect_err("a broken plan")
    };
    // Longer rows than a loop holds.
    let longer = |plan: &mut Plan| {
        for ty in plan.types.iter_mut().filter(|t| t.shape[1] == 8) {
            ty.shape = ty.shape.with_extent(1, 1025).expect("a small shape");
        }
        let StepKind::Fused { program } = &mut plan.steps[0].kind else { panic!("a fused step") };
        program.space = Shape::new(&[4, 1025]);
    };
    assert!(broken(&longer).contains("FUSE-2"));
    // Other axes, one reduction without its axes, one over other axes than the rest.
    let reduce = |plan: &mut Plan, at: usize, axes: &[usize], keepdim: bool| {
        let Op::Reduce(op) = &mut plan.instrs[at].op else { panic!("{at} is no reduction") };
        (op.axes, op.keepdim) = (AxisSet::of(axes), keepdim);
    };
    for (at, axes, keepdim) in [(0, &[0][..], true), (0, &[1], false), (3, &[1], false), (3, &[0, 1], true)] {
        assert!(broken(&|plan| reduce(plan, at, axes, keepdim)).contains("FUSE-2"), "{at} {axes:?}");
    }
    // An elementwise result of neither extents.
    let column = |plan: &mut Plan| plan.types[2].shape = Shape::new(&[1, 8]);
    assert!(broken(&column).contains("FUSE-2"));
}

#[test]
fn operands_are_read_past_broadcasts() {
    let reads = |plan: &Plan, at: usize| plan.instrs[at].ins.iter().map(|id| id.0).collect::<Vec<_>>();
    // Through several; also where the other operand comes first; also in a choice.
    let lines = [
        "%10 = broadcast(%2) shape=[4, 1]",
        "%11 = broadcast(%10) shape=[4, 8]",
        "%12 = binary(%1, %11) kind=add scalar=none",
        "%13 = binary(%11, %1) kind=pow scalar=none",
        "%14 = compare(%1) kind=lt scalar=right $ 0",
        "%15 = select(%14, %11, %1) a_scalar=false b_scalar=false dtype=f32",
        "%16 = compare(%11, %1) kind=lt scalar=none",
    ];
    let case = Case::new(&["f32[4, 8]", "f32[1, 1]"], &lines, &[12, 13, 15, 16]);
    let plan = case.fused();
    // Inputs in order of first use: %0 is the number, %1 the matrix.
    assert_eq!([reads(&plan, 2), reads(&plan, 3), reads(&plan, 6)], [vec![1, 0], vec![0, 1], vec![0, 1]]);
    assert_eq!(reads(&plan, 5)[1..], [0, 1]);
    let separate = case.plan(PlanOptions { fusion: false, ..PlanOptions::DEFAULT });
    assert_eq!(reads(&separate, 2), [1, 3]);
    let compiled = case.plan(PlanOptions { compiled: true, ..PlanOptions::DEFAULT });
    assert_eq!(compiled.steps.len(), 1, "{}", text::print(&compiled));
}

#[test]
fn broadcasts_that_give_the_extents_stay() {
    let reads = |plan: &Plan, at: usize| plan.instrs[at].ins.iter().map(|id| id.0).collect::<Vec<_>>();
    // Of two that are broadcast one remains; of one with itself, with a number, or with something smaller, too.
    let lines = [
        "%10 = broadcast(%1) shape=[4, 8]",
        "%11 = broadcast(%2) shape=[4, 8]",
        "%12 = binary(%10, %11) kind=add scalar=none",
        "%13 = binary(%10, %10) kind=add scalar=none",
        "%14 = binary(%10) kind=add scalar=right $ 1",
        "%15 = binary(%10, %2) kind=add scalar=none",
        "%16 = unary(%10) kind=exp",
        "%17 = select(%3, %10, %11) a_scalar=false b_scalar=false dtype=f32",
        "%18 = reduce(%10) kind=sum axes=[0] keepdim=false",
    ];
    let case = Case::new(&["f32[8]", "f32[4, 1]", "bool[8]"], &lines, &[10, 12, 13, 14, 15, 16, 17, 18]);
    let plan = case.fused();
    let separate = case.plan(PlanOptions { fusion: false, ..PlanOptions::DEFAULT });
    assert_eq!(plan.types, separate.types);
    for (at, instr) in plan.instrs.iter().enumerate() {
        let types: Vec<TensorType> = instr.ins.iter().map(|id| plan.types[id.0 as usize]).collect();
        let outs: Vec<TensorType> = instr.outs.iter().map(|id| plan.types[id.0 as usize]).collect();
        assert_eq!(instr.infer(&types).unwrap().to_vec(), outs, "{instr}");
        assert_eq!(instr.ins.len(), separate.instrs[at].ins.len());
    }
    let full =
        |at: usize| reads(&plan, at).iter().filter(|&&s| plan.types[s as usize].shape == Shape::new(&[4, 8])).count();
    assert_eq!([full(2), full(3), full(4), full(5), full(6), full(7)], [1, 1, 1, 1, 1, 1]);
    assert_eq!(reads(&plan, 8), reads(&separate, 8));
    // It outlives the window, so it is published all the same.
    assert!(plan.steps.iter().any(|s| s.instrs == [0] && !s.publish.is_empty()));
}

/// The slots a step may overwrite, and those of them that it drops.
fn takes(plan: &Plan, step: usize) -> (Vec<u32>, Vec<u32>) {
    let step = &plan.steps[step];
    (step.takes.clone(), step.takes.iter().copied().filter(|s| step.drops.contains(s)).collect())
}

#[test]
fn writes_of_many_pairs_let_their_step_overwrite_every_old_value() {
    let sub = |n: u64, old: u64| format!("%{n} = binary(%{old}, %4) kind=sub scalar=none");
    let lines = [sub(10, 1), sub(11, 2), sub(12, 3)];
    let case = |write: &str| {
        let mut lines: Vec<&str> = lines.iter().map(|l| l.as_str()).collect();
        lines.push(write);
        Case::new(&["f32[8]"; 4], &lines, &[13, 14, 15]).fused()
    };
    // Inputs in order of first use: %0 and %2, %3 are the old values, %1 the gradient.
    let plan = case("%13, %14, %15 = write(%1, %2, %3, %10, %11, %12)");
    assert_eq!(takes(&plan, 0), (vec![0, 1, 2, 3], vec![1]));
    // An old value that comes twice, or is also a new one, stays; so do all when one new value is no new one.
    let plan = case("%13, %14, %15 = write(%1, %2, %2, %10, %11, %12)");
    assert_eq!(takes(&plan, 0).0, [0, 1, 3]);
    let plan = case("%13, %14, %15 = write(%1, %2, %3, %10, %11, %3)");
    assert_eq!(takes(&plan, 0).0, [1]);
    // The new values may come in any order, and twice.
    let plan = case("%13, %14, %15 = write(%3, %1, %2, %11, %11, %10)");
    assert_eq!(takes(&plan, 0).0, [0, 1, 2, 3]);
}

#[test]
fn old_values_stay_where_the_new_ones_come_from_several_steps() {
    // The second new value is a product: a step of its own, which may fail after the first has succeeded.
    let lines = [
        "%10 = binary(%1, %3) kind=sub scalar=none",
        "%11 = matmul(%2, %3) turn_a=false turn_b=false",
        "%12, %13 = write(%1, %2, %10, %11)",
    ];
    let plan = Case::new(&["f32[8, 8]"; 3], &lines, &[12, 13]).fused();
    assert_eq!(takes(&plan, 0), (vec![], vec![]));
    assert!(takes(&plan, 1).0.iter().all(|&s| plan.steps[1].drops.contains(&s)));
    let mut broken = plan.clone();
    broken.steps[0].takes.push(0);
    assert!(verify(&broken).unwrap_err().contains("PLAN-3"));
    // Kept by name: nothing is overwritten.
    let lines = ["%10 = binary(%1, %2) kind=sub scalar=none", "%11 = write(%1, %10)"];
    let plan = Case::new(&["f32[8]"; 2], &lines, &[1, 11]).fused();
    assert_eq!(takes(&plan, 0).0, [1]);
}

/// Steps are as large as the engine allows, and no larger.
#[test]
fn an_engine_says_how_large_steps_may_be() {
    let with = |inputs: &[&str], lines: &[&str], kept: &[u64], limits: EngineLimits| {
        Case::new(inputs, lines, kept).plan(PlanOptions { limits, ..PlanOptions::DEFAULT })
    };
    let softmax = |limits| with(&["f32[4, 3000]"], &SOFTMAX, &[14], limits).steps.len();
    assert_eq!(softmax(EngineLimits { max_row_len: 3000, ..LIMITS }), 1);
    assert!(softmax(EngineLimits { max_row_len: 2999, ..LIMITS }) > 1);

    let chain = ["%10 = unary(%1) kind=exp", "%11 = unary(%10) kind=exp", "%12 = unary(%11) kind=exp"];
    let long = |max_step_instrs| with(&["f32[4]"], &chain, &[12], EngineLimits { max_step_instrs, ..LIMITS });
    assert_eq!(groups(&long(3)), [vec![0, 1, 2]]);
    assert_eq!(groups(&long(2)), [vec![0, 1], vec![2]]);
    let kept = |max_step_outs| with(&["f32[4]"], &chain, &[10, 11, 12], EngineLimits { max_step_outs, ..LIMITS });
    assert_eq!(groups(&kept(3)), [vec![0, 1, 2]]);
    assert_eq!(groups(&kept(2)), [vec![0, 1], vec![2]]);

    let apart = ["%10 = unary(%1) kind=exp", "%11 = unary(%2) kind=exp"];
    let beside = |elements| {
        let limits = EngineLimits { side_by_side_elements: elements, ..LIMITS };
        groups(&with(&["f32[8]", "f32[8]"], &apart, &[10, 11], limits)).len()
    };
    assert_eq!((beside(8), beside(7)), (1, 2));

    let concat = ["%10 = concat(%1, %2) axis=0", "%11 = unary(%10) kind=exp"];
    let parts = |max_parts| {
        let limits = EngineLimits { max_parts, ..LIMITS };
        groups(&with(&["f32[8]", "f32[8]"], &concat, &[11], limits)).len()
    };
    assert_eq!((parts(2), parts(1)), (1, 2));
}
