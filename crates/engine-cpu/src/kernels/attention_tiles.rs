//! What both directions of attention are made of: blocks of queries and keys, and small products on them.
//!
//! Scores of a block lie with a key in each row and a query in each column. So a query's maximum and sum run down
//! a column, lane by lane, and of all operands only the queries must be turned, once for all their keys.
//!
//! ATTENTION-1: blocks and groups are cut by the shape alone, and each sum runs over its block in order. So bits depend on
//! values and shapes only, and differ between instruction sets only where products do (MICROKERNEL-1).

use std::cell::RefCell;

use gt_ir::Failure;

use super::gemm::{Extents, Matrix};
use super::microkernel::{Kernels, Tile};
use super::pack::{Block, panel};
use super::{Dst, Shared, Src};
use crate::alloc::Plain;
use crate::pool::Pool;
use crate::simd::instantiate;

/// Queries, and keys, of a block: their scores fit half of a first-level cache.
pub(super) const BLOCK: usize = 64;

/// Rows of a block on the diagonal that are worked on together. What none of them sees is left out.
pub(super) const GROUP: usize = 8;

/// Queries worked on side by side; blocks are that many columns wide, or a multiple.
pub(super) const LANES: usize = 16;

/// Multiplications (about 20 µs of them) below which everything stays on the calling thread.
pub(super) const WORTH_SHARING: usize = 600_000;

/// What an exponential costs, in multiplications.
pub(super) const EXP_COST: usize = 16;

/// A tensor `[batch, head, row, column]`.
#[derive(Clone, Copy)]
pub(super) struct View {
    start: Shared<f32>,
    strides: [isize; 4],
}

impl View {
    /// Of an operand of up to four axes; those it lacks have one element.
    pub fn read(x: &Src) -> View {
        View { start: Shared::read(x.start()), strides: strides(&x.layout.strides) }
    }

    /// Of a result.
    pub fn write(x: &Dst) -> View {
        View { start: Shared(x.start()), strides: strides(&x.layout.strides) }
    }

    /// The rows of one head from `row` on.
    pub fn rows(&self, batch: usize, head: usize, row: usize) -> Matrix<f32> {
        let [b, h, r, c] = self.strides;
        let at = batch as isize * b + head as isize * h + row as isize * r;
        Matrix { ptr: self.start.get().wrapping_offset(at), row: r, column: c }
    }
}

fn strides(from: &[i64]) -> [isize; 4] {
    std::array::from_fn(|axis| from.get(axis).map_or(0, |&s| s as isize))
}

/// A loop over a block, compiled for each instruction set.
pub(super) trait Pass {
    /// # Safety
    /// The pointers hold what the fields beside them say.
    unsafe fn run(&self);
}
instantiate!(
    /// The loop for this machine.
    instance, Pass, (pass: &F));

/// Runs a loop.
///
/// # Safety
/// As [`Pass::run`].
pub(super) unsafe fn run<P: Pass>(pass: &P) {
    // SAFETY: the caller's.
    unsafe { instance::<P>()(pass) }
}

/// Lanes of a row.
///
/// # Safety
/// There are [`LANES`] elements.
#[inline(always)]
pub(super) unsafe fn load(from: *const f32) -> [f32; LANES] {
    // SAFETY: the caller's.
    unsafe { from.cast::<[f32; LANES]>().read_unaligned() }
}

/// The reverse of [`load`].
///
/// # Safety
/// There is room for [`LANES`] elements.
#[inline(always)]
pub(super) unsafe fn store(to: *mut f32, lanes: [f32; LANES]) {
    // SAFETY: the caller's.
    unsafe { to.cast::<[f32; LANES]>().write_unaligned(lanes) }
}

/// `x *= by`, all of it.
pub(super) struct Scale {
    pub x: *mut f32,
    pub len: usize,
    pub by: f32,
}

impl Pass for Scale {
    #[inline(always)]
    unsafe fn run(&self) {
        // SAFETY: the caller's elements.
        for x in unsafe { std::slice::from_raw_parts_mut(self.x, self.len) } {
            *x *= self.by;
        }
    }
}

/// A block of queries against a block of keys.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub queries: usize,
    pub keys: usize,
    /// Columns of the scores: the queries, rounded up to [`LANES`].
    pub wide: usize,
    /// Whether query `i` of the block sees only keys `0..=i` of it.
    pub diagonal: bool,
}

impl Pair {
    /// The first column of scores that is worked out for key `j`.
    #[inline(always)]
    pub fn first_column(&self, j: usize) -> usize {
        if self.diagonal { j / LANES * LANES } else { 0 }
    }

    fn groups(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let step = if self.diagonal { GROUP } else { BLOCK };
        (0..rows).step_by(step).map(move |i| (i, (rows - i).min(step)))
    }

    /// `c = a @ b`: rows of `a` are keys, columns of `b` queries, `k` deep.
    ///
    /// # Safety
    /// The operands hold what the pair says, `c` packed.
    pub unsafe fn scores(&self, kernels: &Kernels<f32>, k: usize, a: Matrix<f32>, b: *mut f32, c: *mut f32) {
        for (j, m) in self.groups(self.keys) {
            let from = self.first_column(j);
            let e = Extents { m, n: self.wide - from, k };
            // SAFETY: the caller's operands; `from` is below `wide`, since keys on the diagonal are at most the queries.
            unsafe {
                product(
                    kernels,
                    e,
                    at(a, j),
                    packed(b.add(from), self.wide),
                    packed(c.add(j * self.wide + from), self.wide),
                    false,
                );
            }
        }
    }

    /// `c = x.T @ b`, or added to `c`: for each query the sum over its keys of scores times rows of `b`, `n` wide.
    ///
    /// # Safety
    /// The operands hold what the pair says, `x` packed, `b` and `c` with neighbouring columns.
    pub unsafe fn over_keys(
        &self,
        kernels: &Kernels<f32>,
        n: usize,
        x: *mut f32,
        b: Matrix<f32>,
        c: Matrix<f32>,
        accumulate: bool,
    ) {
        for (i, m) in self.groups(self.queries) {
            let k = if self.diagonal { (i + GROUP).min(self.keys) } else { self.keys };
            // SAFETY: the caller's operands.
            unsafe {
                let a = Matrix { ptr: x.add(i), row: 1, column: self.wide as isize };
                product(kernels, Extents { m, n, k }, a, b, at(c, i), accumulate);
            }
        }
    }

    /// `c += x @ b`: for each key the sum over the queries that see it of scores times rows of `b`, `n` wide.
    ///
    /// # Safety
    /// As [`Pair::over_keys`].
    pub unsafe fn over_queries(&self, kernels: &Kernels<f32>, n: usize, x: *mut f32, b: Matrix<f32>, c: Matrix<f32>) {
        for (j, m) in self.groups(self.keys) {
            let from = if self.diagonal { j } else { 0 };
            // SAFETY: the caller's operands.
            unsafe {
                let a = packed(x.add(j * self.wide + from), self.wide);
                product(kernels, Extents { m, n, k: self.queries - from }, a, at(b, from), at(c, j), true);
            }
        }
    }
}

/// The matrix from row `i` on.
pub(super) fn at(x: Matrix<f32>, i: usize) -> Matrix<f32> {
    Matrix { ptr: x.ptr.wrapping_offset(i as isize * x.row), ..x }
}

/// Rows of `width` elements, one after the other.
pub(super) fn packed(ptr: *mut f32, width: usize) -> Matrix<f32> {
    Matrix { ptr, row: width as isize, column: 1 }
}

/// `c = a @ b` or `c += a @ b` without copies: everything lies in the first-level cache, or nearly.
unsafe fn product(
    kernels: &Kernels<f32>,
    e: Extents,
    a: Matrix<f32>,
    b: Matrix<f32>,
    c: Matrix<f32>,
    accumulate: bool,
) {
    debug_assert!(b.column == 1 && c.column == 1);
    let columns = 2 * kernels.width;
    // Rows spread evenly over the fewest tiles.
    let rows = e.m.div_ceil(e.m.div_ceil(kernels.unit.len()));
    for i in (0..e.m).step_by(rows) {
        let m = (e.m - i).min(rows);
        let table = if a.row == 1 { &kernels.unit[m - 1] } else { &kernels.strided[m - 1] };
        for j in (0..e.n).step_by(columns) {
            let wide = (e.n - j).min(columns);
            let tile = Tile {
                k: e.k,
                a: at(a, i).ptr,
                a_row: a.row,
                a_step: a.column,
                b: b.ptr.wrapping_add(j),
                b_step: b.row,
                c: at(c, i).ptr.wrapping_add(j),
                c_row: c.row,
                columns: wide,
                accumulate,
            };
            // SAFETY: the tile lies inside the caller's operands.
            unsafe { table[(wide > kernels.width) as usize](&tile) };
        }
    }
}

/// The rows with neighbouring columns, as products read them: in place when they are so, else copied.
///
/// # Safety
/// `x` holds `count` rows of `width`, and `space` has room for [`row_space`] each.
pub(super) unsafe fn gathered(x: Matrix<f32>, count: usize, width: usize, space: *mut f32) -> Matrix<f32> {
    // Copies of rows that are merely far apart cost more than the cache misses they avoid: measured up to 8 KiB.
    if x.column == 1 {
        return x;
    }
    let to = packed(space, row_space(width));
    // SAFETY: the caller's.
    unsafe { copy_rows(x, to, count, width) };
    to
}

/// Elements between copied rows.
pub(super) fn row_space(width: usize) -> usize {
    width.next_multiple_of(LANES)
}

/// Copies rows.
///
/// # Safety
/// Both hold `count` rows of `width` and do not overlap.
pub(super) unsafe fn copy_rows(from: Matrix<f32>, to: Matrix<f32>, count: usize, width: usize) {
    // SAFETY: inside both.
    unsafe {
        for i in 0..count {
            let (from_row, to_row) = (at(from, i).ptr, at(to, i).ptr);
            if from.column == 1 && to.column == 1 {
                std::ptr::copy_nonoverlapping(from_row, to_row, width);
            } else {
                for j in 0..width {
                    *to_row.wrapping_offset(j as isize * to.column) =
                        *from_row.wrapping_offset(j as isize * from.column);
                }
            }
        }
    }
}

/// Writes `count` rows of `depth` elements as columns of a matrix `wide` wide; zeros behind them.
///
/// # Safety
/// `x` holds that much, and `to` has room for `depth * wide` elements.
pub(super) unsafe fn turn(
    kernels: &Kernels<f32>,
    x: Matrix<f32>,
    count: usize,
    depth: usize,
    wide: usize,
    to: *mut f32,
) {
    let block = Block { from: x.ptr, across: x.row, along: x.column, count, depth };
    // SAFETY: the caller's.
    unsafe { panel(block, to, wide, kernels.transpose) };
}

/// A cache line, for its alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [f32; LANES]);

// SAFETY: numbers, aligned to a cache line.
unsafe impl Plain for Line {}

/// Space of up to so many lines a thread keeps from call to call: heads of a usual width need no more.
const KEPT_LINES: usize = (2 << 20) / size_of::<Line>();

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// A block of `rows` of `width` elements; more than can be had where that overflows.
pub(super) fn elements(rows: usize, width: usize) -> usize {
    rows.saturating_mul(width)
}

/// Calls `f` with room for this many elements each.
pub(super) fn with_scratch<const N: usize>(
    pool: &Pool,
    sizes: [usize; N],
    f: impl FnOnce([*mut f32; N]),
) -> Result<(), Failure> {
    let mut starts = [0; N];
    let mut total = 0usize;
    for (start, size) in starts.iter_mut().zip(sizes) {
        *start = total.saturating_mul(LANES);
        // A line between them: the same place of two blocks would fall on one set of the cache.
        total = total.saturating_add(size.div_ceil(LANES)).saturating_add(1);
    }
    let work = |lines: *mut Line| f(starts.map(|start| lines.cast::<f32>().wrapping_add(start)));
    if total > KEPT_LINES {
        work(pool.room::<Line>(total)?.as_mut_ptr());
        return Ok(());
    }
    SCRATCH.with_borrow_mut(|lines| {
        if lines.len() < total {
            #[allow(clippy::disallowed_methods, reason = "bounded by KEPT_LINES")]
            lines.resize(total, Line([0.0; LANES]));
        }
        work(lines.as_mut_ptr());
    });
    Ok(())
}
