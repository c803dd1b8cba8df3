//! Concatenations inside fused steps (FUSE-5, PARTS-1, PARTS-2).

mod case;

use case::{Case, groups};
use gt_ir::{Op, Shape};
use gt_plan::{Part, Plan, parts_of, verify};

/// `cat((exp(%1), %2)) * %3` along the last axis.
const LINES: [&str; 3] =
    ["%10 = unary(%1) kind=exp", "%11 = concat(%10, %2) axis=1", "%12 = binary(%11, %3) kind=mul scalar=none"];

#[test]
fn a_part_knows_its_positions() {
    let part = Part { shape: Shape::new(&[3, 2]), period: 7, start: 4, len: 2 };
    let is_own = |at: usize| (4..6).contains(&(at % 7));
    for at in 0..=21 {
        assert_eq!(part.before(at), (0..at).filter(|&p| is_own(p)).count(), "{at}");
    }
}

#[test]
fn what_leads_to_one_part_joins_its_reader() {
    let plan = Case::new(&["f32[3, 2]", "f32[3, 5]", "f32[3, 7]"], &LINES, &[12]).fused();
    assert_eq!(groups(&plan), [[0, 1, 2]]);
    assert_eq!(plan.steps[0].space(), Some(Shape::new(&[3, 7])));
    let parts = parts_of(&plan.instrs, &plan.types, &plan.steps[0].instrs).unwrap();
    let spans: Vec<_> = parts.parts.iter().map(|p| (p.period, p.start, p.len)).collect();
    assert_eq!(spans, [(7, 0, 2), (7, 2, 5)]);
    assert_eq!([parts.of(0), parts.of(1), parts.of(2)], [Some(0), None, None]);
    assert_eq!([parts.read_for(1, 0), parts.read_for(1, 1), parts.read_for(2, 0)], [Some(0), Some(1), None]);
    // Along an outer axis a part is one run of each period.
    let lines = LINES.map(|l| l.replace("axis=1", "axis=0"));
    let plan = Case::new(&["f32[2, 7]", "f32[1, 7]", "f32[3, 7]"], &lines.each_ref().map(|l| &**l), &[12]).fused();
    let parts = parts_of(&plan.instrs, &plan.types, &plan.steps[0].instrs).unwrap();
    assert_eq!(parts.parts.iter().map(|p| (p.period, p.start, p.len)).collect::<Vec<_>>(), [(21, 0, 14), (21, 14, 7)]);
}

#[test]
fn what_others_read_stays_outside() {
    let inputs = ["f32[3, 2]", "f32[3, 2]", "f32[3, 4]"];
    // Kept, or read by something else.
    assert_eq!(groups(&Case::new(&inputs, &LINES, &[10, 12]).fused()), [vec![0], vec![1, 2]]);
    let lines = [&LINES[..], &["%13 = permute(%10) perm=[1, 0]"]].concat();
    assert_eq!(groups(&Case::new(&inputs, &lines, &[12, 13]).fused()), [vec![0], vec![1, 2], vec![3]]);
    // One value as two parts.
    let lines = LINES.map(|l| l.replace("(%10, %2)", "(%10, %10)"));
    let lines = lines.each_ref().map(|l| &**l);
    assert_eq!(groups(&Case::new(&["f32[3, 2]", "f32[1]", "f32[3, 4]"], &lines, &[12]).fused()), [vec![0], vec![1, 2]]);
}

/// What verify has to find: each change breaks a valid plan.
#[test]
fn broken_parts_are_found() {
    let plan = Case::new(&["f32[3, 2]", "f32[3, 5]", "f32[3, 7]"], &LINES, &[12]).fused();
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        verify(&plan).expect_err("a broken plan")
    };
    let slot = |plan: &Plan, at: usize| plan.instrs[at].outs[0].0 as u32;
    // What is computed for a part is to be materialised.
    let materialised = |plan: &mut Plan| {
        let out = slot(plan, 0);
        plan.steps[0].outs.insert(0, out);
    };
    assert!(broken(&materialised).contains("FUSE-2"));
    // It has other extents than its part, or is read for all positions too.
    let other_extents = |plan: &mut Plan| {
        let out = slot(plan, 0);
        plan.types[out as usize].shape = Shape::new(&[3, 1]);
    };
    assert!(!broken(&other_extents).is_empty());
    let read_twice = |plan: &mut Plan| {
        let exp = plan.instrs[0].outs[0];
        let read = plan.instrs[2].ins[1];
        plan.instrs[2].ins[1] = exp;
        plan.steps[0].ins.retain(|&s| s as u64 != read.0);
    };
    assert!(broken(&read_twice).contains("PARTS-2"));
    // An empty part, and a single one.
    let empty = |plan: &mut Plan| {
        let id = plan.instrs[1].ins[1];
        plan.types[id.0 as usize].shape = Shape::new(&[3, 0]);
    };
    assert!(broken(&empty).contains("PARTS-1"));
    let single = |plan: &mut Plan| {
        let Op::Concat(_) = plan.instrs[1].op else { panic!("no concatenation") };
        let read = plan.instrs[1].ins.pop().unwrap();
        plan.steps[0].ins.retain(|&s| s as u64 != read.0);
    };
    assert!(broken(&single).contains("PARTS-1"));
}
