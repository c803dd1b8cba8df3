//! Speeds of the kernels, for a benchmark to print.

#![allow(clippy::disallowed_macros, reason = "a benchmark's own sizes")]

use std::time::Instant;

use gt_ir::ops::{ArgKind, PutMode, RandomKind, ScanKind};
use gt_ir::{DType, Scalar, Steps, TensorType};

use super::{Dst, Src};
use crate::layout::Layout;
use crate::pool::Pool;

/// Seconds one call takes: the fastest of some repeats.
pub fn seconds(mut f: impl FnMut()) -> f64 {
    f();
    let start = Instant::now();
    f();
    let once = start.elapsed().as_secs_f64().max(1e-7);
    let calls = ((2e-3 / once) as usize).clamp(1, 10_000);
    let mut best = f64::INFINITY;
    for _ in 0..25 {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        best = best.min(start.elapsed().as_secs_f64() / calls as f64);
    }
    best
}

/// The products that training small models is made of: batch, m, k, n, and which operands are given transposed.
pub const PRODUCTS: &[(usize, usize, usize, usize, [bool; 2])] = &[
    (1, 256, 256, 256, [false, false]),
    (1, 512, 512, 512, [false, false]),
    (1, 1024, 1024, 1024, [false, false]),
    (1, 1024, 1024, 1024, [true, false]),
    (1, 1024, 1024, 1024, [false, true]),
    (1, 8, 64, 64, [false, false]),
    (1, 128, 64, 64, [false, false]),
    (1, 128, 64, 64, [false, true]),
    (1, 64, 128, 64, [true, false]),
    (1, 128, 64, 1000, [false, true]),
    (1, 128, 1000, 64, [false, false]),
    (1, 1000, 128, 64, [true, false]),
    (1, 512, 256, 768, [false, true]),
    (1, 512, 768, 256, [false, false]),
    (1, 768, 512, 256, [true, false]),
    (8, 64, 16, 64, [false, true]),
    (8, 64, 64, 16, [false, false]),
    (8, 64, 64, 16, [true, false]),
    (1, 1, 1024, 1024, [false, false]),
    (1, 1, 1024, 1024, [false, true]),
    (1, 1024, 1024, 1, [false, false]),
];

/// GFLOP/s of a product `[batch, m, k] @ [batch, k, n]` of `f32`.
pub fn matmul_gflops(pool: &Pool, (batch, m, k, n, transposed): (usize, usize, usize, usize, [bool; 2])) -> f64 {
    let values = |count: usize| (0..count).map(|i| (i % 17) as f32 * 0.25 - 2.0).collect::<Vec<f32>>();
    let (a, b, mut c) = (values(batch * m * k), values(batch * k * n), vec![0f32; batch * m * n]);
    let layout = |r: usize, s: usize, transposed: bool| {
        if transposed {
            Layout::packed(TensorType::new(DType::F32, &[batch, s, r])).permute(&Steps::new(&[0, 2, 1]))
        } else {
            Layout::packed(TensorType::new(DType::F32, &[batch, r, s]))
        }
    };
    let a = Src { ptr: a.as_ptr().cast(), layout: layout(m, k, transposed[0]) };
    let b = Src { ptr: b.as_ptr().cast(), layout: layout(k, n, transposed[1]) };
    let c = Dst { ptr: c.as_mut_ptr().cast(), layout: layout(m, n, false) };
    let time = seconds(|| super::matmul(pool, a, b, c).expect("there is memory"));
    2.0 * (batch * m * n * k) as f64 / time / 1e9
}

/// Milliseconds of kernels that move, index, order and draw: a name and a time for each.
pub fn other_kernels(pool: &Pool) -> Vec<(&'static str, f64)> {
    const N: usize = 1 << 20;
    let mut out = Vec::new();
    let mut words = vec![0u64; N];
    let mut more = vec![0u64; N];
    let dst = |words: &mut Vec<u64>, dtype, shape: &[usize]| Dst {
        ptr: words.as_mut_ptr().cast(),
        layout: Layout::packed(TensorType::new(dtype, shape)),
    };
    let mut time = |name, f: &mut dyn FnMut()| out.push((name, seconds(f) * 1e3));
    let x = dst(&mut words, DType::F32, &[1024, 1024]);
    let y = dst(&mut more, DType::F32, &[1024, 1024]);
    let seed = [Scalar::I64(1), Scalar::I64(2), Scalar::I64(0), Scalar::I64(1000)];
    let draw = |to: Dst, kind| super::random(pool, to, kind, &seed).expect("bounds are in order");
    time("uniform f32, 1M", &mut || draw(x, RandomKind::Uniform));
    time("normal f32, 1M", &mut || draw(x, RandomKind::Normal));
    time("copy 1024x1024 f32", &mut || super::copy(pool, x.as_src(), y));
    let turned = Src { ptr: x.ptr, layout: x.layout.permute(&Steps::new(&[1, 0])) };
    time("transpose 1024x1024 f32", &mut || super::copy(pool, turned, y));
    let heads = Src {
        layout: Layout::packed(TensorType::new(DType::F32, &[16, 64, 16, 64])).permute(&Steps::new(&[0, 2, 1, 3])),
        ..turned
    };
    let heads_out = Dst { layout: Layout::packed(heads.layout.ty()), ..y };
    time("copy heads 16x64x16x64 f32", &mut || super::copy(pool, heads, heads_out));
    time("argmax last of 1024x1024", &mut || {
        super::arg_reduce(pool, x.as_src(), dst(&mut more, DType::I64, &[1024]), 1, ArgKind::Max)
    });
    time("argmax first of 1024x1024", &mut || {
        super::arg_reduce(pool, x.as_src(), dst(&mut more, DType::I64, &[1024]), 0, ArgKind::Max)
    });
    time("cumsum last of 1024x1024", &mut || super::scan(pool, x.as_src(), y, 1, ScanKind::Sum, false));
    time("cumsum first of 1024x1024", &mut || super::scan(pool, x.as_src(), y, 0, ScanKind::Sum, false));
    let mut order = vec![0u64; N];
    let (flat, flat_out) = (dst(&mut words, DType::F32, &[N]), dst(&mut more, DType::F32, &[N]));
    let places = dst(&mut order, DType::I64, &[N]);
    time("sort 1M f32", &mut || super::sort(pool, flat.as_src(), flat_out, places, 0, false).expect("there is memory"));
    let rows = dst(&mut order, DType::I64, &[1024, 1024]);
    time("sort rows of 1024x1024 f32", &mut || {
        super::sort(pool, x.as_src(), y, rows, 1, false).expect("there is memory")
    });
    let bytes = |d: Dst| Dst { layout: Layout::packed(TensorType::new(DType::U8, &[N])), ..d };
    time("sort 1M u8", &mut || {
        super::sort(pool, bytes(flat).as_src(), bytes(flat_out), places, 0, false).expect("there is memory")
    });
    draw(dst(&mut order, DType::I64, &[4096]), RandomKind::Int);
    let index = dst(&mut order, DType::I64, &[4096]).as_src();
    let (table, taken) = (dst(&mut words, DType::F32, &[1000, 256]), dst(&mut more, DType::F32, &[4096, 256]));
    time("take 4096 of 1000x256", &mut || super::take(pool, table.as_src(), index, taken, 0, false).expect("in range"));
    time("put-add 4096 to 1000x256", &mut || {
        super::put(pool, index, taken.as_src(), table, 0, PutMode::Add, false).expect("in range")
    });
    let few = dst(&mut order, DType::I64, &[128]).as_src();
    let (table, taken) = (dst(&mut words, DType::F32, &[1000, 64]), dst(&mut more, DType::F32, &[128, 64]));
    time("take 128 of 1000x64", &mut || super::take(pool, table.as_src(), few, taken, 0, false).expect("in range"));
    time("put-add 128 to 1000x64", &mut || {
        super::put(pool, few, taken.as_src(), table, 0, PutMode::Add, false).expect("in range")
    });
    out
}
