//! How long the canonical form and a plan take, per instruction.

use std::hint::black_box;
use std::time::Instant;

use gt_ir::{DType, TensorId, TensorType, Window};
use gt_plan::{Canonicalizer, Immediates, PlanOptions, build};

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
    let ty = |id: TensorId| {
        Some(if (200..300).contains(&id.0) {
            TensorType::new(DType::F32, &[64])
        } else {
            TensorType::new(DType::F32, &[64, 64])
        })
    };
    let n = window.instrs.len();
    let mut canonicalizer = Canonicalizer::default();
    let rounds = 2000;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(canonicalizer.run(black_box(&window), ty).expect("a canonical form"));
    }
    let canonical_ns = start.elapsed().as_nanos() as f64 / (rounds * n) as f64;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(Immediates::of(black_box(&window)));
    }
    let immediates_ns = start.elapsed().as_nanos() as f64 / (rounds * n) as f64;
    let canonical = canonicalizer.run(&window, ty).expect("a canonical form");
    let rounds = 100;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(build(&window, canonical, PlanOptions::default()).expect("a plan"));
    }
    let build_ns = start.elapsed().as_nanos() as f64 / (rounds * n) as f64;
    println!(
        "{n} instructions; ns each: canonical {canonical_ns:.1}, immediates {immediates_ns:.1}, build {build_ns:.0}"
    );
}
