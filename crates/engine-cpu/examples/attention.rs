//! Times of attention against products of the same size: `cargo run -p gt-engine-cpu --example attention`.

use gt_engine_cpu::Layout;
use gt_engine_cpu::kernels::bench::{matmul_gflops, seconds};
use gt_engine_cpu::kernels::{Attention, AttentionGrads, Dst, Src, attention, attention_grad};
use gt_engine_cpu::pool::Pool;
use gt_ir::{DType, Steps, TensorType};

/// A name, batch, heads, key heads, length and width of a head; causal.
const SHAPES: &[(&str, [usize; 5], bool)] = &[
    ("tiny", [2, 4, 2, 64, 16], true),
    ("nano", [4, 8, 4, 128, 32], true),
    ("small", [4, 8, 4, 256, 64], true),
    ("heads", [1, 32, 16, 256, 64], true),
    ("long", [1, 4, 4, 2048, 64], true),
    ("square", [4, 8, 4, 256, 64], false),
    ("wide", [1, 8, 8, 512, 128], false),
];

/// Memory `[batch, length, heads, width]`, as attention sees it.
struct Tensor(Vec<f32>, Layout);

impl Tensor {
    fn new([batch, heads, length, width]: [usize; 4]) -> Tensor {
        let values = (0..batch * heads * length * width).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
        let packed = Layout::packed(TensorType::new(DType::F32, &[batch, length, heads, width]));
        Tensor(values, packed.permute(&Steps::new(&[0, 2, 1, 3])))
    }

    fn src(&self) -> Src {
        Src { ptr: self.0.as_ptr().cast(), layout: self.1 }
    }

    fn dst(&mut self) -> Dst {
        Dst { ptr: self.0.as_mut_ptr().cast(), layout: self.1 }
    }
}

fn main() {
    println!(
        "{:8} {:>7} {:>11} {:>7} {:>11} {:>7}  of the speed of products",
        "", "threads", "forward µs", "", "backward µs", ""
    );
    for &(name, [b, h, g, t, d], causal) in SHAPES {
        for threads in [1, 2] {
            let pool = Pool::new(threads);
            let (q, k, v) = (Tensor::new([b, h, t, d]), Tensor::new([b, g, t, d]), Tensor::new([b, g, t, d]));
            let (mut out, grad) = (Tensor::new([b, h, t, d]), Tensor::new([b, h, t, d]));
            let mut lse = vec![0f32; b * h * t];
            let layout = Layout::packed(TensorType::new(DType::F32, &[b, h, t]));
            let lse = Dst { ptr: lse.as_mut_ptr().cast(), layout };
            let (mut dq, mut dk, mut dv) =
                (Tensor::new([b, h, t, d]), Tensor::new([b, g, t, d]), Tensor::new([b, g, t, d]));
            let x = Attention { q: q.src(), k: k.src(), v: v.src(), mask: None, scale: (d as f32).powf(-0.5), causal };
            let forward = seconds(|| attention(&pool, &x, out.dst(), lse).expect("there is memory"));
            let saved = (out.src(), Src { ptr: lse.ptr, layout });
            let to = AttentionGrads { q: dq.dst(), k: dk.dst(), v: dv.dst() };
            let backward =
                seconds(|| attention_grad(&pool, &x, saved.0, saved.1, grad.src(), to).expect("there is memory"));
            // Half of the square and the other half of the blocks on the diagonal.
            let scores = if causal { t * (t + t.min(64)) / 2 } else { t * t };
            let flops = 2.0 * (b * h * scores * d) as f64;
            let products = matmul_gflops(&pool, (b * h, t, d, t, [false, true]));
            let turned = matmul_gflops(&pool, (b * h, t, t, d, [false, false]));
            let peak = 2.0 / (1.0 / products + 1.0 / turned);
            let share = |products: f64, seconds: f64| 100.0 * products * flops / seconds / 1e9 / peak;
            println!(
                "{name:8} {threads:7} {:11.1} {:6.0}% {:11.1} {:6.0}%  {peak:.0} GFLOP/s",
                forward * 1e6,
                share(2.0, forward),
                backward * 1e6,
                share(5.0, backward)
            );
        }
    }
}
