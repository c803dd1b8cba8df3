//! How long recording a recipe and planning it take, per instruction.

use std::hint::black_box;
use std::time::Instant;

use gt_ir::{DType, TensorId, TensorType, Window};
use gt_plan::{PlanOptions, build};
use gt_stream::{Expectations, Occurrence, Recording};

fn main() {
    let mut window = Window::default();
    let mut next = 1000u64;
    for layer in 0..64u64 {
        let last = if layer == 0 { 0 } else { next - 1 };
        let lines = [
            format!("%{next} = matmul(%{last}, %{}) turn_a=false turn_b=false", 100 + layer),
            format!("%{} = binary(%{next}, %{}) kind=add scalar=none", next + 1, 200 + layer),
            format!("%{} = unary(%{}) kind=tanh", next + 2, next + 1),
            format!("%{} = binary(%{}) kind=mul scalar=right $ 0.5", next + 3, next + 2),
            format!("%{} = binary(%{}, %{last}) kind=add scalar=none", next + 4, next + 3),
            format!("%{} = permute(%{}) perm=[1, 0]", next + 5, next + 4),
            format!("%{} = reduce(%{}) kind=sum axes=[1] keepdim=true", next + 6, next + 4),
            format!("%{} = binary(%{}, %{}) kind=div scalar=none", next + 7, next + 4, next + 6),
        ];
        window.instrs.extend(lines.iter().map(|l| l.parse().expect("an instruction")));
        window.frees.extend((next..next + 7).map(TensorId));
        next += 8;
    }
    let n = window.instrs.len();
    let record = |recording: &mut Recording| {
        for instr in &window.instrs {
            let (outs, scalars) = (instr.outs.len(), &instr.scalars);
            recording.push(instr.op.clone(), &instr.ins, instr.outs[0], outs, scalars, instr.scope, instr.site);
        }
        recording.free_all(window.frees.iter().copied());
        recording.take(false, false).expect("an occurrence")
    };
    let per_instr = |start: Instant, rounds: usize| start.elapsed().as_nanos() as f64 / (rounds * n) as f64;
    let rounds = 2000;
    let mut recording = Recording::default();
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(record(&mut recording));
    }
    let unexpected_ns = per_instr(start, rounds);
    let mut expectations = Expectations::default();
    let start = Instant::now();
    for _ in 0..rounds {
        recording.expect(expectations.next());
        expectations.recorded(&record(&mut recording));
    }
    let expected_ns = per_instr(start, rounds);
    let occurrence = Occurrence::of(window.clone()).expect("an occurrence");
    let ty = |id: &TensorId| match id.0 {
        200..300 => TensorType::new(DType::F32, &[64]),
        _ => TensorType::new(DType::F32, &[64, 64]),
    };
    let types: Vec<TensorType> = occurrence.bindings().inputs.iter().map(ty).collect();
    let rounds = 100;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(build(occurrence.recipe(), &types, PlanOptions::default()).expect("a plan"));
    }
    let build_ns = per_instr(start, rounds);
    println!(
        "{n} instructions; ns each: recorded {unexpected_ns:.1}, as expected {expected_ns:.1}, planned {build_ns:.0}"
    );
}
