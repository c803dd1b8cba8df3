//! Matrix products of tensors: batches, dtypes and the split among threads.

use gt_ir::{DType, Failure, Steps};

use super::gemm::{Extents, Gemm, Matrix, gemm};
use super::microkernel::Kernels;
use super::{Axes, Axis, Dst, Element, Shared, Src, offsets, split};
use crate::alloc::Room;
use crate::pool::Pool;

/// Multiplications below which a product stays on the calling thread: on two cores the helper shares one with the thread
/// that records, and half of a few microseconds' work is worth less than that thread's time.
const PARALLEL: usize = 400_000;
/// Products of more multiplications are long enough to be cut among all threads. Of shorter ones, two run side by side.
pub const LONGEST_PAIRED_PRODUCT: usize = 4 << 20;

/// Multiplications a thread does in a nanosecond, about.
const PER_NANO: usize = 50;

/// Rows that are not cut apart. Less than a tile has: equal halves are worth more than tiles that are all full.
const ROW_UNIT: usize = 4;

/// `[…, m, k] @ […, k, n]` into the packed `c`, batch axes broadcast, operands with any strides.
///
/// Floats follow GEMM-1, halves in `f32` with one rounding at the end; integers wrap.
pub fn matmul(pool: &Pool, a: Src, b: Src, c: Dst) -> Result<(), Failure> {
    if c.layout.shape.numel() == 0 {
        return Ok(());
    }
    let product = Product::new(&a, &b, &c);
    match c.layout.dtype {
        DType::F32 => {
            floats::<f32>(pool, &product, a.start(), b.start(), c.start(), f32::kernels());
            Ok(())
        }
        DType::F64 => {
            floats::<f64>(pool, &product, a.start(), b.start(), c.start(), f64::kernels());
            Ok(())
        }
        DType::F16 => halves::<half::f16>(pool, &product, a.start(), b.start(), c.start()),
        DType::BF16 => halves::<half::bf16>(pool, &product, a.start(), b.start(), c.start()),
        DType::Bool | DType::U8 => integers::<u8>(pool, &product, a.start(), b.start(), c.start()),
        DType::I8 => integers::<i8>(pool, &product, a.start(), b.start(), c.start()),
        DType::I32 => integers::<i32>(pool, &product, a.start(), b.start(), c.start()),
        DType::I64 => integers::<i64>(pool, &product, a.start(), b.start(), c.start()),
    }
}

/// What a product reads and where it goes.
#[derive(Clone, Copy)]
pub struct Operands {
    /// The left factor.
    pub a: Src,
    /// The right factor.
    pub b: Src,
    /// The packed result.
    pub c: Dst,
}

/// Two products neither of which reads the other. Each is done by half of the threads: where both are short that is one
/// meeting of all instead of two, and fewer rows and columns that several threads need.
pub fn two_matmuls(pool: &Pool, operands: [Operands; 2]) -> Result<(), Failure> {
    let products = operands.map(|o| Product::new(&o.a, &o.b, &o.c));
    let works = products.each_ref().map(|p| p.e.m * p.e.n * p.e.k * p.batches);
    let worth_it = |work: &usize| (PARALLEL..=LONGEST_PAIRED_PRODUCT).contains(work);
    let is_f32 = operands.iter().all(|o| o.c.layout.dtype == DType::F32);
    if pool.threads() == 1 || !is_f32 || !works.iter().all(worth_it) {
        return operands.iter().try_for_each(|o| matmul(pool, o.a, o.b, o.c));
    }
    let cut = |i: usize| {
        let o = &operands[i];
        Cut::new(pool, &products[i], o.a.start(), o.b.start(), o.c.start(), f32::kernels(), pool.threads() / 2)
    };
    let (first, second) = (cut(0), cut(1));
    let border = first.parts();
    pool.run(border + second.parts(), (works[0] + works[1]) / PER_NANO, &|part| {
        if part < border { first.run(part) } else { second.run(part - border) }
    });
    Ok(())
}

/// A product of tensors as a batch of products of matrices. `batch` has the strides of a, b and c.
struct Product {
    e: Extents,
    a: [isize; 2],
    b: [isize; 2],
    c_row: isize,
    batch: Axes<3>,
    batches: usize,
}

impl Product {
    fn new(a: &Src, b: &Src, c: &Dst) -> Self {
        let rank = c.layout.shape.rank();
        let lead = c.layout.shape.leading(rank - 2);
        // Of the batch axes alone: all batches of one operand may be more than a tensor could have.
        let spread = |x: &crate::layout::Layout| {
            let own = x.shape.rank() - 2;
            let batch =
                crate::layout::Layout { shape: x.shape.leading(own), strides: Steps::new(&x.strides[..own]), ..*x };
            let mut strides = batch.broadcast(&lead).strides;
            strides.push(x.strides[own]);
            strides.push(x.strides[own + 1]);
            strides
        };
        let (sa, sb, sc) = (spread(&a.layout), spread(&b.layout), c.layout.strides);
        let k = a.layout.shape[a.layout.shape.rank() - 1];
        let mut e = Extents { m: c.layout.shape[rank - 2], n: c.layout.shape[rank - 1], k };
        let mut batch = Axes::new(&lead, [&sa[..rank - 2], &sb[..rank - 2], &sc[..rank - 2]]);
        let (mut a_row, mut c_row) = (sa[rank - 2], sc[rank - 2]);
        // The inner batch axis is more rows when b does not change along it and the rows go on evenly.
        if let Some(&Axis { extent, strides: [step_a, 0, step_c] }) = batch.list().last() {
            if e.m == 1 {
                (a_row, c_row, e.m) = (step_a, step_c, extent);
                batch.len -= 1;
            } else if step_a == a_row * e.m as i64 && step_c == c_row * e.m as i64 {
                e.m *= extent;
                batch.len -= 1;
            }
        }
        let batches = batch.list().iter().map(|x| x.extent).product();
        Product {
            e,
            a: [a_row as isize, sa[rank - 1] as isize],
            b: [sb[rank - 2] as isize, sb[rank - 1] as isize],
            c_row: c_row as isize,
            batch,
            batches,
        }
    }

    /// Where the three matrices of one batch begin.
    fn starts(&self, at: usize) -> [isize; 3] {
        offsets(self.batch.list(), at).map(|x| x as isize)
    }
}

fn floats<T: Gemm>(pool: &Pool, p: &Product, a: *const T, b: *const T, c: *mut T, kernels: &Kernels<T>) {
    let e = p.e;
    let cut = Cut::new(pool, p, a, b, c, kernels, pool.threads());
    let work = e.m * e.n * e.k.max(1);
    let whole = |range: std::ops::Range<usize>| {
        for at in range {
            if pool.is_cancelled() {
                return;
            }
            let (a, b, c) = cut.matrices(at);
            // SAFETY: KERNEL-3, and each batch has its own part of c.
            unsafe { gemm(pool, kernels, e, a, b, c) };
        }
    };
    if pool.threads() == 1 || work * p.batches < PARALLEL {
        whole(0..p.batches);
        return;
    }
    // Enough batches to occupy everyone: no need to cut matrices.
    if p.batches >= 4 * pool.threads() || (p.batches > 1 && work < PARALLEL) {
        split(pool, p.batches, (PARALLEL / 2).div_ceil(work), &whole);
        return;
    }
    pool.run(cut.parts(), work * p.batches / PER_NANO, &|part| cut.run(part));
}

/// A product cut into parts for threads to take.
struct Cut<'a, T: 'static> {
    pool: &'a Pool,
    product: &'a Product,
    a: Shared<T>,
    b: Shared<T>,
    c: Shared<T>,
    kernels: &'a Kernels<T>,
    /// How each matrix of the batch is cut.
    grid: Grid,
}

impl<'a, T: Gemm> Cut<'a, T> {
    /// For so many threads of the pool.
    fn new(
        pool: &'a Pool,
        p: &'a Product,
        a: *const T,
        b: *const T,
        c: *mut T,
        kernels: &'a Kernels<T>,
        threads: usize,
    ) -> Self {
        let grid = Grid::new(p.e, p.b[1] != 1, kernels, threads);
        Cut { pool, product: p, a: Shared::read(a), b: Shared::read(b), c: Shared(c), kernels, grid }
    }

    /// The matrices of one of the batch.
    fn matrices(&self, at: usize) -> (Matrix<T>, Matrix<T>, Matrix<T>) {
        let p = self.product;
        let [a, b, c] = p.starts(at);
        (
            Matrix { ptr: self.a.get().wrapping_offset(a), row: p.a[0], column: p.a[1] },
            Matrix { ptr: self.b.get().wrapping_offset(b), row: p.b[0], column: p.b[1] },
            Matrix { ptr: self.c.get().wrapping_offset(c), row: p.c_row, column: 1 },
        )
    }

    fn parts(&self) -> usize {
        self.grid.rows * self.grid.columns * self.product.batches
    }

    /// Computes one part.
    fn run(&self, part: usize) {
        let Cut { grid, kernels, .. } = self;
        let e = self.product.e;
        let in_matrix = grid.rows * grid.columns;
        let (a, b, c) = self.matrices(part / in_matrix);
        let part = part % in_matrix;
        let rows = grid.range(part / grid.columns, grid.rows, e.m, ROW_UNIT);
        let columns = grid.range(part % grid.columns, grid.columns, e.n, 2 * kernels.width);
        let a = Matrix { ptr: a.ptr.wrapping_offset(rows.start as isize * a.row), ..a };
        let b = Matrix { ptr: b.ptr.wrapping_offset(columns.start as isize * b.column), ..b };
        let c = Matrix { ptr: c.ptr.wrapping_offset(rows.start as isize * c.row + columns.start as isize), ..c };
        // SAFETY: KERNEL-3, and each part has its own rectangle of c.
        unsafe { gemm(self.pool, kernels, Extents { m: rows.len(), n: columns.len(), k: e.k }, a, b, c) };
    }
}

/// How one product is cut into rectangles of the result.
struct Grid {
    rows: usize,
    columns: usize,
}

impl Grid {
    /// The grid whose largest part costs least. Beside the products a thread fetches its rows of a and its columns of b, and
    /// turns the latter where `b` does not hold them as neighbours. Bits do not depend on it (GEMM-1).
    fn new<T>(e: Extents, turns_b: bool, kernels: &Kernels<T>, threads: usize) -> Grid {
        let (unit_m, unit_n) = (ROW_UNIT, 2 * kernels.width);
        let work = e.m * e.n * e.k;
        let (per_row, per_column) = (4.0, if turns_b { 6.0 } else { 2.0 });
        // Long products in more parts than threads: a thread that was delayed does not hold up the rest.
        let wanted = if work > 50_000_000 * threads { 2 * threads } else { threads.min(work / (PARALLEL / 2)).max(1) };
        let mut best = (f64::INFINITY, Grid { rows: 1, columns: 1 });
        for rows in 1..=wanted.min(e.m.div_ceil(unit_m)) {
            let columns = (wanted / rows).min(e.n.div_ceil(unit_n));
            let m = e.m.div_ceil(unit_m).div_ceil(rows) * unit_m;
            let n = e.n.div_ceil(unit_n).div_ceil(columns) * unit_n;
            let cost = (m.min(e.m) as f64 * n.min(e.n) as f64) + per_row * m as f64 + per_column * n as f64;
            // A thread takes several parts when there are more of them than threads.
            let cost = cost * (rows * columns).div_ceil(threads) as f64;
            if cost < best.0 {
                best = (cost, Grid { rows, columns });
            }
        }
        best.1
    }

    /// Part `i` of `parts` of `extent`, in whole units.
    fn range(&self, i: usize, parts: usize, extent: usize, unit: usize) -> std::ops::Range<usize> {
        let units = extent.div_ceil(unit);
        let border = |i: usize| (units * i / parts * unit).min(extent);
        border(i)..border(i + 1)
    }
}

/// Halves: operands widened, an `f32` product, one rounding.
fn halves<T: Element<Wide = f32>>(
    pool: &Pool,
    p: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
) -> Result<(), Failure> {
    let e = p.e;
    for at in 0..p.batches {
        let [oa, ob, oc] = p.starts(at);
        let (wide_a, strides_a) = widened(pool, a.wrapping_offset(oa), [e.m, e.k], p.a)?;
        let (wide_b, strides_b) = widened(pool, b.wrapping_offset(ob), [e.k, e.n], p.b)?;
        let mut sums: Room<f32> = pool.room(e.m * e.n)?;
        let one =
            Product { e, a: strides_a, b: strides_b, c_row: e.n as isize, batch: Axes::new(&[], [&[]; 3]), batches: 1 };
        floats(pool, &one, wide_a.as_ptr(), wide_b.as_ptr(), sums.as_mut_ptr(), f32::kernels());
        let (c, sums) = (Shared(c.wrapping_offset(oc)), &sums);
        split(pool, e.m, (1 << 15) / e.n.max(1), &|rows| {
            for i in rows {
                for j in 0..e.n {
                    // SAFETY: row i of c is this chunk's.
                    unsafe { *c.get().offset(i as isize * p.c_row).add(j) = T::narrow(sums[i * e.n + j]) };
                }
            }
        });
    }
    Ok(())
}

/// A copy of a matrix in `f32`, and its strides. Rows or columns that are one and the same are copied once.
fn widened<T: Element<Wide = f32>>(
    pool: &Pool,
    from: *const T,
    extents: [usize; 2],
    strides: [isize; 2],
) -> Result<(Room<f32>, [isize; 2]), Failure> {
    let distinct = |i: usize| if strides[i] == 0 { extents[i].min(1) } else { extents[i] };
    let extents = [distinct(0), distinct(1)];
    let step = |i: usize, step: usize| if strides[i] == 0 { 0 } else { step as isize };
    let packed = [step(0, extents[1]), step(1, 1)];
    let mut out: Room<f32> = pool.room(extents[0] * extents[1])?;
    let (from, to) = (Shared::read(from), Shared(out.as_mut_ptr()));
    split(pool, extents[0], (1 << 15) / extents[1].max(1), &|rows| {
        for i in rows {
            // SAFETY: row i of the copy is this chunk's; the operand is readable (KERNEL-3).
            unsafe {
                let row = from.get().offset(i as isize * strides[0]);
                let to = std::slice::from_raw_parts_mut(to.get().add(i * extents[1]), extents[1]);
                if strides[1] == 1 {
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = (*row.add(j)).widen();
                    }
                } else {
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = (*row.offset(j as isize * strides[1])).widen();
                    }
                }
            }
        }
    });
    Ok((out, packed))
}

/// Steps of `k` between two looks at whether the run was cancelled.
const STEPS_PER_LOOK: usize = 1 << 12;

/// Integers: rows of `b` scaled and added, wrapping; the order does not matter.
fn integers<T: Element<Wide = T> + Default>(
    pool: &Pool,
    p: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
) -> Result<(), Failure> {
    let e = p.e;
    for at in 0..p.batches {
        let [oa, ob, oc] = p.starts(at);
        let (a, c) = (Shared::read(a.wrapping_offset(oa)), Shared(c.wrapping_offset(oc)));
        let mut b = b.wrapping_offset(ob);
        let mut b_row = p.b[0];
        let mut packed: Room<T> = pool.room(if p.b[1] == 1 { 0 } else { e.k * e.n })?;
        if p.b[1] != 1 {
            for (r, row) in packed.chunks_exact_mut(e.n).enumerate() {
                for (j, to) in row.iter_mut().enumerate() {
                    // SAFETY: inside the operand (KERNEL-3).
                    *to = unsafe { *b.offset(r as isize * p.b[0] + j as isize * p.b[1]) };
                }
            }
            b = packed.as_ptr();
            b_row = e.n as isize;
        }
        let b = Shared::read(b);
        split(pool, e.m, PARALLEL.div_ceil(e.n * e.k.max(1)), &|rows| {
            for i in rows {
                // SAFETY: row i of c is this chunk's; operands are readable (KERNEL-3).
                unsafe {
                    let sums = std::slice::from_raw_parts_mut(c.get().offset(i as isize * p.c_row), e.n);
                    sums.fill(T::default());
                    for r in 0..e.k {
                        if r % STEPS_PER_LOOK == 0 && pool.is_cancelled() {
                            return;
                        }
                        let x = *a.get().offset(i as isize * p.a[0] + r as isize * p.a[1]);
                        let row = std::slice::from_raw_parts(b.get().offset(r as isize * b_row), e.n);
                        for (sum, &y) in sums.iter_mut().zip(row) {
                            *sum = T::add(*sum, T::mul(x, y));
                        }
                    }
                }
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gt_ir::Steps;

    use super::*;
    use crate::kernels::microkernel::{tables_f32, tables_f64};
    use crate::kernels::testing::{Tensor, values};

    /// GEMM-1 spelled out for one element.
    fn chain(k: usize, fused: bool, a: impl Fn(usize) -> f32, b: impl Fn(usize) -> f32) -> f32 {
        let mut total = 0f32;
        for from in (0..k).step_by(super::super::gemm::DEPTH) {
            let mut sum = 0f32;
            for p in from..(from + super::super::gemm::DEPTH).min(k) {
                sum = if fused { a(p).mul_add(b(p), sum) } else { a(p) * b(p) + sum };
            }
            total = if from == 0 { sum } else { total + sum };
        }
        total
    }

    #[test]
    fn every_table_stride_and_split_gives_the_same_bits() {
        let sizes = [
            (1, 1, 1),
            (3, 4, 5),
            (12, 32, 8),
            (13, 33, 300),
            (1, 200, 70),
            (40, 1, 600),
            (64, 64, 64),
            (61, 150, 257),
            (5, 17, 0),
            (100, 300, 40),
            // Wide enough for copies of several panels of either operand at once, with a rest.
            (283, 301, 261),
        ];
        for (m, n, k) in sizes {
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let (at, bt): (Vec<f32>, Vec<f32>) = (
                (0..m * k).map(|i| a[i % m * k + i / m]).collect(),
                (0..k * n).map(|i| b[i % k * n + i / k]).collect(),
            );
            let spaced: Vec<f32> = a.iter().flat_map(|&x| [x, 9.0, 9.0]).collect();
            for kernels in tables_f32() {
                let fused = kernels.width > 4 || cfg!(target_arch = "aarch64");
                let wanted: Vec<u32> =
                    (0..m * n).map(|x| chain(k, fused, |p| a[x / n * k + p], |p| b[p * n + x % n]).to_bits()).collect();
                let (k_, n_, m_) = (k as isize, n as isize, m as isize);
                for (pa, sa) in [(&a, [k_, 1]), (&at, [1, m_]), (&spaced, [3 * k_, 3])] {
                    for (pb, sb) in [(&b, [n_, 1]), (&bt, [1, k_])] {
                        for threads in [1, 3] {
                            let mut c = vec![7f32; m * n];
                            let p = Product {
                                e: Extents { m, n, k },
                                a: sa,
                                b: sb,
                                c_row: n_,
                                batch: Axes::new(&[], [&[]; 3]),
                                batches: 1,
                            };
                            floats(&Pool::new(threads), &p, pa.as_ptr(), pb.as_ptr(), c.as_mut_ptr(), kernels);
                            let bits: Vec<u32> = c.iter().map(|x| x.to_bits()).collect();
                            assert!(
                                bits == wanted,
                                "{m} {n} {k} width {} strides {sa:?} {sb:?} threads {threads}",
                                kernels.width
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn doubles_of_every_table() {
        let (m, n, k) = (29, 45, 270);
        let a: Vec<f64> = values(m * k, 1).iter().map(|&x| x as f64).collect();
        let bt: Vec<f64> = values(k * n, 2).iter().map(|&x| x as f64).collect();
        for kernels in tables_f64() {
            let mut c = vec![0f64; m * n];
            let p = Product {
                e: Extents { m, n, k },
                a: [k as isize, 1],
                b: [1, k as isize],
                c_row: n as isize,
                batch: Axes::new(&[], [&[]; 3]),
                batches: 1,
            };
            floats(&Pool::new(2), &p, a.as_ptr(), bt.as_ptr(), c.as_mut_ptr(), kernels);
            for (x, c) in c.iter().enumerate() {
                let sum: f64 = (0..k).map(|p| a[x / n * k + p] * bt[x % n * k + p]).sum();
                assert!((sum - c).abs() < 1e-10, "{sum} {c}");
            }
        }
    }

    #[test]
    fn batches_broadcast_in_every_dtype() {
        let pool = Pool::new(2);
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
            for (sa, sb, sc) in [
                (&[2, 1, 3, 4][..], &[3, 4, 2][..], &[2, 3, 3, 2][..]),
                (&[2, 3, 4], &[4, 5], &[2, 3, 5]),
                (&[2, 1, 4], &[4, 5], &[2, 1, 5]),
                (&[3, 4], &[2, 4, 5], &[2, 3, 5]),
                (&[2, 0], &[0, 3], &[2, 3]),
                (&[0, 2], &[2, 3], &[0, 3]),
            ] {
                let small = |n: usize| {
                    (0..n).map(|i| (i * 7 % 5) as f64 - 2.0 * dtype.is_float() as u8 as f64).collect::<Vec<_>>()
                };
                let a = Tensor::new(dtype, sa, &small(sa.iter().product()));
                // b is stored with its last axis first.
                let mut stored = vec![sb[sb.len() - 1]];
                stored.extend_from_slice(&sb[..sb.len() - 1]);
                let mut b = Tensor::new(dtype, &stored, &small(sb.iter().product()));
                b.layout = b.layout.permute(&(1..sb.len() as i64).chain([0]).collect::<Steps>());
                let mut c = Tensor::new(dtype, sc, &vec![1.0; sc.iter().product()]);
                matmul(&pool, a.src(), b.src(), c.dst()).unwrap();
                let rank = sc.len();
                let (va, vb) = (
                    a.spread(&[&sc[..rank - 2], &sa[sa.len() - 2..]].concat()),
                    b.spread(&[&sc[..rank - 2], &sb[sb.len() - 2..]].concat()),
                );
                let (m, n, k) = (sc[rank - 2], sc[rank - 1], sa[sa.len() - 1]);
                let wanted: Vec<f64> = (0..sc.iter().product())
                    .map(|x| {
                        let (batch, i, j) = (x / (m * n), x / n % m, x % n);
                        (0..k).map(|p| va[batch * m * k + i * k + p] * vb[batch * k * n + p * n + j]).sum()
                    })
                    .collect();
                assert_eq!(c.values(), wanted, "{dtype} {sa:?} {sb:?}");
            }
        }
    }
}
