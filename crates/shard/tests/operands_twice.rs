//! Instructions that take one tensor twice are split as they are with two tensors.

use gt_ir::shard::Split;
use gt_ir::{Instr, OpKind, ScopeId, Window};
use gt_shard::{Layout, Mesh, PlacedStep, PlacedWindow, Placer};

/// Places the lines on three workers that split what is made inside scope 1 along this axis.
fn placed(axis: usize, lines: &[&str]) -> PlacedWindow {
    let layout = Layout { mesh: Mesh::row(&[0, 1, 2]), splits: [Split::shard(axis)].into_iter().collect() };
    let of = |scope: ScopeId| Some(layout.clone()).filter(|_| scope.0 == 1);
    let parse = |line: &&str| line.parse::<Instr>().unwrap_or_else(|e| panic!("{line}: {e}"));
    let instrs = lines.iter().map(parse).collect();
    Placer::new(0).window(&Window { instrs, ..Window::default() }, &of).unwrap()
}

/// Whether the result of the last instruction of this kind is split.
fn is_split(window: &PlacedWindow, kind: OpKind) -> bool {
    let mut runs = window.steps.iter().filter_map(|step| match step {
        PlacedStep::Run { instr, outs, .. } if instr.op.kind() == kind => Some(outs[0]),
        _ => None,
    });
    let place = runs.next_back().unwrap_or_else(|| panic!("{kind:?} is not there: {:?}", window.steps));
    !window.placements[place as usize].is_replicated()
}

const X: &str = "%0 = random() kind=uniform dtype=f32 shape=[96,96] $ 7 0 @1";

#[test]
fn x_times_x_was_computed_whole_by_every_worker() {
    for axis in [0, 1] {
        for line in [
            "%1 = matmul(%0, %0) turn_a=false turn_b=false @1",
            "%1 = matmul(%0, %0) turn_a=true turn_b=false @1",
            "%1 = matmul(%0, %0) turn_a=false turn_b=true @1",
        ] {
            let window = placed(axis, &[X, line]);
            assert!(is_split(&window, OpKind::Matmul), "axis {axis}: {line}: {:?}", window.steps);
        }
    }
}

#[test]
fn x_times_x_was_computed_whole_once_x_had_been_whole() {
    let lines = [
        X,
        "%1 = matmul(%0, %0) turn_a=false turn_b=false @1",
        "%2 = unary(%0) kind=exp @1",
        "%3 = matmul(%0, %0) turn_a=false turn_b=false @1",
    ];
    assert!(is_split(&placed(0, &lines), OpKind::Matmul));
}

#[test]
fn other_instructions_with_one_operand_twice_are_split() {
    let x4 = "%0 = random() kind=uniform dtype=f32 shape=[6,6,96,16] $ 7 0 @1";
    for (kind, lines) in [
        (OpKind::Binary, [X, "%1 = binary(%0, %0) kind=mul scalar=none @1"]),
        (OpKind::Concat, [X, "%1 = concat(%0, %0) axis=1 @1"]),
        (OpKind::Attention, [x4, "%1, %2 = attention(%0, %0, %0) causal=false masked=false $ 0.25 @1"]),
    ] {
        assert!(is_split(&placed(0, &lines), kind), "{kind:?}: {:?}", placed(0, &lines).steps);
    }
}

#[test]
fn products_of_a_tensor_that_had_been_whole_were_computed_whole() {
    const X: &str = "%0 = random() kind=uniform dtype=f32 shape=[512,512] $ 7 0 @1";
    const SQUARE: &str = "%1 = matmul(%0, %0) turn_a=false turn_b=false @1";
    const TURNED: &str = "%2 = permute(%0) perm=[1, 0] @1";
    for axis in [0, 1] {
        for (other, product) in [
            (TURNED, "%3 = matmul(%2, %0) turn_a=false turn_b=false @1"),
            (TURNED, "%3 = matmul(%0, %2) turn_a=false turn_b=false @1"),
            (TURNED, "%3 = matmul(%2, %2) turn_a=false turn_b=false @1"),
            ("%2 = unary(%0) kind=exp @1", "%3 = matmul(%0, %2) turn_a=false turn_b=false @1"),
            ("%2 = unary(%0) kind=exp @1", "%3 = matmul(%1, %2) turn_a=true turn_b=false @1"),
        ] {
            let window = placed(axis, &[X, SQUARE, other, product]);
            assert!(is_split(&window, OpKind::Matmul), "axis {axis}: {product}: {:?}", window.steps);
        }
    }
}
