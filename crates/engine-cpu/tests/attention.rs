//! Attention and its gradients against the formulas in double precision, and their bits against each other.

use gt_engine_cpu::Layout;
use gt_engine_cpu::kernels::{Attention, AttentionGrads, Dst, Src, attention, attention_grad};
use gt_engine_cpu::pool::Pool;
use gt_ir::{DType, Shape, Steps, TensorType};

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Placed {
    Packed,
    /// `[batch, row, head, column]`, as projections leave it.
    Heads,
    /// First axis innermost.
    Turned,
    /// Backwards.
    Flipped,
    /// Two foreign elements behind each.
    Spaced,
}

const PLACED: [Placed; 5] = [Placed::Packed, Placed::Heads, Placed::Turned, Placed::Flipped, Placed::Spaced];

/// What lies between the elements.
const FOREIGN: f32 = 9e9;

#[derive(Clone)]
struct Tensor {
    memory: Vec<f32>,
    layout: Layout,
}

impl Tensor {
    fn new(shape: &[usize], placed: Placed, values: &[f32]) -> Tensor {
        let packed = Layout::packed(TensorType::new(DType::F32, shape));
        assert_eq!(packed.shape.numel(), values.len());
        let rank = shape.len();
        let permuted = |order: &[usize]| {
            let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
            let back: Vec<i64> = (0..rank).map(|axis| order.iter().position(|&o| o == axis).unwrap() as i64).collect();
            Layout::packed(TensorType::new(DType::F32, &stored)).permute(&Steps::new(&back))
        };
        let layout = match placed {
            Placed::Packed => packed,
            Placed::Heads if rank == 4 => permuted(&[0, 2, 1, 3]),
            Placed::Heads | Placed::Turned => permuted(&(0..rank).rev().collect::<Vec<_>>()),
            Placed::Flipped => {
                Layout { strides: packed.strides.map(|s| -s), offset: values.len().saturating_sub(1), ..packed }
            }
            Placed::Spaced => Layout { strides: packed.strides.map(|s| 3 * s), ..packed },
        };
        let room = if placed == Placed::Spaced { 3 * values.len() } else { values.len() };
        let mut out = Tensor { memory: vec![FOREIGN; room], layout };
        for (i, &value) in values.iter().enumerate() {
            let at = out.place(i);
            out.memory[at] = value;
        }
        out
    }

    /// Where element `i`, row-major, lies.
    fn place(&self, mut i: usize) -> usize {
        let mut at = self.layout.offset as i64;
        for axis in (0..self.layout.shape.rank()).rev() {
            at += (i % self.layout.shape[axis]) as i64 * self.layout.strides[axis];
            i /= self.layout.shape[axis];
        }
        at as usize
    }

    fn values(&self) -> Vec<f32> {
        (0..self.layout.shape.numel()).map(|i| self.memory[self.place(i)]).collect()
    }

    fn src(&self) -> Src {
        Src { ptr: self.memory.as_ptr().cast(), layout: self.layout }
    }

    fn dst(&mut self) -> Dst {
        Dst { ptr: self.memory.as_mut_ptr().cast(), layout: self.layout }
    }
}

/// Numbers from -1 to 1 that look random but are the same each time.
fn values(count: usize, seed: u64) -> Vec<f32> {
    (0..count).map(|i| gt_ir::philox::unit_f32(gt_ir::philox::word32(seed, 0, i as u64)) * 2.0 - 1.0).collect()
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    d: usize,
    e: usize,
    causal: bool,
    scale: f32,
}

/// What attention reads, row-major; the mask with its shape.
#[derive(Clone)]
struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    grad: Vec<f32>,
    mask: Option<(Vec<usize>, Vec<f32>)>,
}

impl Case {
    fn q(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.d]
    }
    fn k(&self) -> [usize; 4] {
        [self.batch, self.key_heads, self.keys, self.d]
    }
    fn v(&self) -> [usize; 4] {
        [self.batch, self.key_heads, self.keys, self.e]
    }
    fn out(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.e]
    }
    fn lse(&self) -> [usize; 3] {
        [self.batch, self.heads, self.queries]
    }

    fn inputs(&self) -> Inputs {
        let draw = |shape: [usize; 4], seed| values(shape.iter().product(), seed);
        Inputs {
            q: draw(self.q(), 1),
            k: draw(self.k(), 2),
            v: draw(self.v(), 3),
            grad: draw(self.out(), 4),
            mask: None,
        }
    }
}

/// Out, log-sum-exp, and the gradients of q, k and v.
type Results<T> = [Vec<T>; 5];

/// Runs both kernels; everything is placed in memory as `placed` says.
fn run(case: &Case, x: &Inputs, placed: Placed, threads: usize) -> Results<f32> {
    let mask = x.mask.as_ref().map(|(shape, values)| Tensor::new(shape, placed, values));
    run_masked(case, x, mask.as_ref(), placed, threads)
}

fn run_masked(case: &Case, x: &Inputs, mask: Option<&Tensor>, placed: Placed, threads: usize) -> Results<f32> {
    let pool = Pool::new(threads);
    let (q, k, v) = (
        Tensor::new(&case.q(), placed, &x.q),
        Tensor::new(&case.k(), placed, &x.k),
        Tensor::new(&case.v(), placed, &x.v),
    );
    let grad = Tensor::new(&case.out(), placed, &x.grad);
    let blank = |shape: &[usize]| Tensor::new(shape, placed, &vec![7.0; shape.iter().product()]);
    let (mut out, mut lse) = (blank(&case.out()), blank(&case.lse()));
    let (mut dq, mut dk, mut dv) = (blank(&case.q()), blank(&case.k()), blank(&case.v()));
    let problem = Attention {
        q: q.src(),
        k: k.src(),
        v: v.src(),
        mask: mask.map(Tensor::src),
        scale: case.scale,
        causal: case.causal,
    };
    attention(&pool, &problem, out.dst(), lse.dst()).unwrap();
    let to = AttentionGrads { q: dq.dst(), k: dk.dst(), v: dv.dst() };
    attention_grad(&pool, &problem, out.src(), lse.src(), grad.src(), to).unwrap();
    let results = [out, lse, dq, dk, dv];
    if placed == Placed::Spaced {
        for x in &results {
            let foreign = x.memory.iter().enumerate().filter(|(at, _)| at % 3 != 0);
            assert!(foreign.into_iter().all(|(_, &x)| x == FOREIGN), "wrote between the elements: {case:?}");
        }
    }
    results.map(|x| x.values())
}

/// The mask, broadcast, in double precision.
fn spread(case: &Case, mask: &Option<(Vec<usize>, Vec<f32>)>) -> Vec<f64> {
    let full = [case.batch, case.heads, case.queries, case.keys];
    let Some((shape, values)) = mask else { return vec![0.0; full.iter().product()] };
    let mut tensor = Tensor::new(shape, Placed::Packed, values);
    tensor.layout = tensor.layout.broadcast(&Shape::new(&full));
    tensor.values().iter().map(|&x| x as f64).collect()
}

/// The formulas, spelled out.
fn reference(case: &Case, x: &Inputs) -> Results<f64> {
    let c = case;
    let mask = spread(case, &x.mask);
    let zeros = |shape: &[usize]| vec![0f64; shape.iter().product()];
    let (mut out, mut lse) = (zeros(&c.out()), zeros(&c.lse()));
    let (mut dq, mut dk, mut dv) = (zeros(&c.q()), zeros(&c.k()), zeros(&c.v()));
    for bh in 0..c.batch * c.heads {
        let g = bh / c.heads * c.key_heads + bh % c.heads / (c.heads / c.key_heads);
        for i in 0..c.queries {
            let row = bh * c.queries + i;
            let q = |p: usize| x.q[row * c.d + p] as f64;
            let k = |j: usize, p: usize| x.k[(g * c.keys + j) * c.d + p] as f64;
            let v = |j: usize, p: usize| x.v[(g * c.keys + j) * c.e + p] as f64;
            let grad = |p: usize| x.grad[row * c.e + p] as f64;
            let seen = if c.causal { c.keys.min(i + 1) } else { c.keys };
            let scores: Vec<f64> = (0..seen)
                .map(|j| (0..c.d).map(|p| q(p) * k(j, p)).sum::<f64>() * c.scale as f64 + mask[row * c.keys + j])
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if max == f64::NEG_INFINITY {
                lse[row] = max;
                continue;
            }
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            lse[row] = max + total.ln();
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp() / total).collect();
            let slopes: Vec<f64> = (0..seen).map(|j| (0..c.e).map(|p| grad(p) * v(j, p)).sum()).collect();
            let mean: f64 = weights.iter().zip(&slopes).map(|(w, s)| w * s).sum();
            for j in 0..seen {
                let slope = weights[j] * (slopes[j] - mean) * c.scale as f64;
                for p in 0..c.e {
                    out[row * c.e + p] += weights[j] * v(j, p);
                    dv[(g * c.keys + j) * c.e + p] += weights[j] * grad(p);
                }
                for p in 0..c.d {
                    dq[row * c.d + p] += slope * k(j, p);
                    dk[(g * c.keys + j) * c.d + p] += slope * q(p);
                }
            }
        }
    }
    [out, lse, dq, dk, dv]
}

const NAMES: [&str; 5] = ["out", "lse", "dq", "dk", "dv"];

fn assert_close(case: &Case, got: &Results<f32>, wanted: &Results<f64>, tolerance: f64) {
    for ((name, got), wanted) in NAMES.iter().zip(got).zip(wanted) {
        let size = wanted.iter().filter(|x| x.is_finite()).fold(1.0, |a: f64, x| a.max(x.abs()));
        for (i, (&g, &w)) in got.iter().zip(wanted).enumerate() {
            let near = (g as f64 - w).abs() <= tolerance * size || g as f64 == w;
            assert!(near, "{name}[{i}] is {g}, not {w}: {case:?}");
        }
    }
}

fn bits(results: &Results<f32>) -> Vec<Vec<u32>> {
    results.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Lengths around blocks, groups and lanes; widths even and odd; heads alone and shared.
fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    let lengths =
        [(1, 1), (7, 7), (64, 64), (65, 65), (130, 130), (1, 70), (5, 3), (66, 130), (130, 66), (70, 10), (17, 200)];
    for (queries, keys) in lengths {
        for (heads, key_heads, d, e) in [(1, 1, 16, 16), (4, 2, 7, 33), (3, 3, 33, 1), (2, 1, 64, 40), (2, 2, 1, 5)] {
            for causal in [false, true] {
                let scale = if d == 33 { -0.7 } else { (d as f32).powf(-0.5) * 3.0 };
                out.push(Case { batch: 2, heads, key_heads, queries, keys, d, e, causal, scale });
            }
        }
    }
    out.push(Case {
        batch: 1,
        heads: 2,
        key_heads: 1,
        queries: 70,
        keys: 70,
        d: 300,
        e: 130,
        causal: true,
        scale: 0.1,
    });
    out
}

#[test]
fn follows_the_formulas_in_every_layout() {
    for (i, case) in cases().iter().enumerate() {
        let x = case.inputs();
        let wanted = reference(case, &x);
        let got = run(case, &x, Placed::Packed, 1);
        assert_close(case, &got, &wanted, 2e-6);
        let placed = PLACED[1 + i % 4];
        assert!(bits(&got) == bits(&run(case, &x, placed, 2)), "{placed:?} {case:?}");
    }
}

#[test]
fn threads_and_strides_do_not_change_bits() {
    for causal in [false, true] {
        let case = Case { batch: 3, heads: 4, key_heads: 2, queries: 150, keys: 150, d: 24, e: 24, causal, scale: 0.3 };
        let mut x = case.inputs();
        for masked in [false, true] {
            if masked {
                x.mask = Some((vec![4, 150, 150], values(4 * 150 * 150, 5)));
            }
            let wanted = bits(&run(&case, &x, Placed::Packed, 1));
            for placed in PLACED {
                for threads in [1, 2, 4] {
                    assert!(wanted == bits(&run(&case, &x, placed, threads)), "{placed:?} {threads} {case:?}");
                }
            }
        }
    }
}

/// Numbers and, for about a third, -∞.
fn holes(count: usize, seed: u64) -> Vec<f32> {
    values(count, seed).iter().map(|&x| if x < -0.3 { f32::NEG_INFINITY } else { 2.0 * x }).collect()
}

#[test]
fn masks_broadcast_along_any_axis() {
    let (batch, heads) = (2, 4);
    for (queries, keys, causal) in [(70, 70, false), (70, 70, true), (9, 133, false), (131, 40, true)] {
        let case = Case { batch, heads, key_heads: 2, queries, keys, d: 8, e: 8, causal, scale: 0.5 };
        let shapes: [&[usize]; 7] = [
            &[queries, keys],
            &[batch, 1, 1, keys],
            &[batch, heads, queries, keys],
            &[heads, 1, keys],
            &[queries, 1],
            &[1],
            &[1, heads, queries, 1],
        ];
        for (seed, shape) in shapes.into_iter().enumerate() {
            let mut x = case.inputs();
            x.mask = Some((shape.to_vec(), holes(shape.iter().product(), 10 + seed as u64)));
            let wanted = reference(&case, &x);
            for placed in [Placed::Packed, Placed::Flipped, Placed::Turned] {
                assert_close(&case, &run(&case, &x, placed, 1), &wanted, 2e-6);
            }
        }
    }
}

#[test]
fn a_mask_may_come_already_broadcast() {
    let case = Case { batch: 2, heads: 2, key_heads: 1, queries: 20, keys: 90, d: 8, e: 8, causal: false, scale: 1.0 };
    let mut x = case.inputs();
    x.mask = Some((vec![90], values(90, 6)));
    let mut mask = Tensor::new(&[90], Placed::Flipped, &x.mask.as_ref().unwrap().1);
    mask.layout = mask.layout.broadcast(&Shape::new(&[2, 2, 20, 90]));
    assert!(bits(&run(&case, &x, Placed::Packed, 1)) == bits(&run_masked(&case, &x, Some(&mask), Placed::Packed, 1)));
}

#[test]
fn a_mask_of_a_triangle_is_causal() {
    let case =
        Case { batch: 1, heads: 2, key_heads: 2, queries: 100, keys: 100, d: 16, e: 16, causal: true, scale: 1.0 };
    let mut x = case.inputs();
    let wanted = run(&case, &x, Placed::Packed, 1);
    let triangle = (0..100 * 100).map(|i| if i % 100 > i / 100 { f32::NEG_INFINITY } else { 0.0 }).collect();
    x.mask = Some((vec![100, 100], triangle));
    let got = run(&Case { causal: false, ..case }, &x, Placed::Packed, 1);
    assert_close(&case, &got, &wanted.map(|x| x.iter().map(|&x| x as f64).collect()), 1e-6);
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    let case = Case { batch: 1, heads: 2, key_heads: 1, queries: 70, keys: 80, d: 8, e: 9, causal: false, scale: 1.0 };
    let mut x = case.inputs();
    // Query 3 sees nothing; query 68 nothing in the first block.
    let sees = |i: usize, j: usize| i != 3 && (i != 68 || j >= 64);
    let mask = (0..70 * 80).map(|at| if sees(at / 80, at % 80) { 0.0 } else { f32::NEG_INFINITY }).collect();
    x.mask = Some((vec![70, 80], mask));
    let got = run(&case, &x, Placed::Heads, 1);
    assert_close(&case, &got, &reference(&case, &x), 2e-6);
    for head in 0..2 {
        let row = head * 70 + 3;
        assert!(got[0][row * 9..(row + 1) * 9].iter().all(|&x| x == 0.0));
        assert_eq!(got[1][row], f32::NEG_INFINITY);
        assert!(got[2][row * 8..(row + 1) * 8].iter().all(|&x| x == 0.0));
    }
    // Zeros even where a value is infinite.
    x.v[0] = f32::INFINITY;
    let got = run(&case, &x, Placed::Packed, 1);
    assert!(got[0][27..36].iter().all(|&x| x == 0.0));
}

#[test]
fn empty_extents() {
    let case = Case { batch: 2, heads: 2, key_heads: 1, queries: 5, keys: 6, d: 4, e: 3, causal: false, scale: 1.0 };
    let empty = [
        Case { keys: 0, ..case },
        Case { queries: 0, ..case },
        Case { batch: 0, ..case },
        Case { d: 0, ..case },
        Case { e: 0, ..case },
        Case { keys: 0, causal: true, ..case },
        Case { heads: 0, key_heads: 0, ..case },
    ];
    for case in empty {
        let x = case.inputs();
        assert_close(&case, &run(&case, &x, Placed::Packed, 2), &reference(&case, &x), 1e-6);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    for causal in [false, true] {
        let case = Case { batch: 1, heads: 1, key_heads: 1, queries: 100, keys: 100, d: 4, e: 4, causal, scale: 1.0 };
        let mut x = case.inputs();
        // Products of these are whole numbers up to 4·50·50 = 1e4, exact in single precision.
        x.q.iter_mut().chain(&mut x.k).for_each(|x| *x = (*x * 50.0).round());
        assert_close(&case, &run(&case, &x, Placed::Packed, 1), &reference(&case, &x), 1e-3);
        // All the same, up to the sign.
        x.q.fill(50.0);
        x.k.fill(50.0);
        assert_close(&case, &run(&case, &x, Placed::Packed, 1), &reference(&case, &x), 1e-3);
        x.k.fill(-50.0);
        assert_close(&case, &run(&case, &x, Placed::Packed, 1), &reference(&case, &x), 1e-3);
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let case = Case { batch: 1, heads: 2, key_heads: 2, queries: 80, keys: 80, d: 8, e: 8, causal: true, scale: 1.0 };
    let clean = run(&case, &case.inputs(), Placed::Packed, 1);
    for bad in [f32::NAN, f32::INFINITY] {
        // A query: its own row, and nothing else of the result.
        let mut x = case.inputs();
        x.q[70 * 8] = bad;
        let got = run(&case, &x, Placed::Packed, 1);
        for (i, (&got, &clean)) in got[0].iter().zip(&clean[0]).enumerate() {
            assert!(if i / 8 == 70 { got.is_nan() } else { got == clean }, "{bad} {i} {got}");
        }
        assert!(got[1][70].is_nan());
        assert!(got[2][70 * 8..71 * 8].iter().all(|x| x.is_nan()));
        assert!(got[3][..71 * 8].iter().all(|x| x.is_nan()) && got[4][..71 * 8].iter().all(|x| x.is_nan()));
        assert!(got[3][80 * 8..] == clean[3][80 * 8..] && got[4][80 * 8..] == clean[4][80 * 8..], "another head");
        // A key: every query that sees it, none that stands before it.
        let mut x = case.inputs();
        x.k[30 * 8..31 * 8].fill(f32::NAN);
        let got = run(&case, &x, Placed::Packed, 1);
        assert!(got[0][..30 * 8] == clean[0][..30 * 8] && got[0][80 * 8..] == clean[0][80 * 8..]);
        assert!(got[0][30 * 8..80 * 8].iter().all(|x| x.is_nan()));
        // A value: its column of every query that sees it.
        let mut x = case.inputs();
        x.v[70 * 8 + 2] = bad;
        let got = run(&case, &x, Placed::Packed, 1);
        assert!((70..80).all(|i| !got[0][i * 8 + 2].is_finite() && got[0][i * 8 + 1] == clean[0][i * 8 + 1]));
        assert!(got[0][..64 * 8] == clean[0][..64 * 8]);
    }
}

/// The reference itself, against differences.
#[test]
fn gradients_are_slopes() {
    let case = Case { batch: 1, heads: 2, key_heads: 1, queries: 5, keys: 6, d: 3, e: 2, causal: true, scale: 0.8 };
    let mut x = case.inputs();
    x.mask = Some((vec![5, 6], values(30, 9)));
    let results = reference(&case, &x);
    let loss = |x: &Inputs| -> f64 { reference(&case, x)[0].iter().zip(&x.grad).map(|(o, &g)| o * g as f64).sum() };
    let step = 1.0 / 1024.0;
    let fields: [fn(&mut Inputs) -> &mut Vec<f32>; 3] = [|x| &mut x.q, |x| &mut x.k, |x| &mut x.v];
    for (field, wanted) in fields.iter().zip(&results[2..]) {
        for (i, wanted) in wanted.iter().enumerate() {
            let (mut above, mut below) = (x.clone(), x.clone());
            field(&mut above)[i] += step;
            field(&mut below)[i] -= step;
            let run = (field(&mut above)[i] - field(&mut below)[i]) as f64;
            let slope = (loss(&above) - loss(&below)) / run;
            assert!((slope - wanted).abs() < 1e-5, "{slope} {wanted}");
        }
    }
}

#[test]
fn repeated_calls_of_other_shapes_do_not_disturb_each_other() {
    let small = Case { batch: 1, heads: 1, key_heads: 1, queries: 9, keys: 9, d: 5, e: 5, causal: true, scale: 1.0 };
    let large = Case { queries: 130, keys: 130, d: 40, e: 24, ..small };
    let first = bits(&run(&small, &small.inputs(), Placed::Turned, 1));
    run(&large, &large.inputs(), Placed::Turned, 1);
    assert!(first == bits(&run(&small, &small.inputs(), Placed::Turned, 1)));
}
