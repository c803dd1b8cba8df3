//! One matrix product `c = a @ b` on one thread: blocks that fit the caches, panels that fit the tiles.
//!
//! GEMM-1: an element of `c` is the sum, in order, of one partial sum (MICROKERNEL-1) for each [`DEPTH`] steps of
//! `k`. Strides, blocks, packing and the part of `c` a call computes do not change it.

use std::cell::RefCell;

use super::microkernel::{Kernels, Tile, TileFn, tables_f32, tables_f64};
use super::pack::{Block, panels};
use crate::pool::Pool;

/// Steps of `k` summed in registers before they are added to the result. Part of what a product *is* (GEMM-1).
pub(super) const DEPTH: usize = 256;

/// Bytes of `b` kept packed at once: half of a common second-level cache.
const BLOCK_BYTES: usize = 512 << 10;

/// Panels of `a` packed at once: where its rows are neighbours, those of so many panels fill whole cache lines.
const GROUP: usize = 4;

/// A matrix operand: `(i, j)` lies at `ptr + i * row + j * column`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T> {
    pub ptr: *mut T,
    pub row: isize,
    pub column: isize,
}

impl<T> Matrix<T> {
    /// The matrix that begins at `(i, j)`.
    fn at(self, i: usize, j: usize) -> Self {
        Matrix { ptr: self.ptr.wrapping_offset(i as isize * self.row + j as isize * self.column), ..self }
    }
}

/// Extents of a product.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// An element type that has tiles.
pub(super) trait Gemm: Copy + Default + Send + Sync + 'static {
    /// The best tiles of this machine.
    fn kernels() -> &'static Kernels<Self>;
}

macro_rules! gemm {
    ($t:ty, $tables:ident) => {
        impl Gemm for $t {
            fn kernels() -> &'static Kernels<$t> {
                static BEST: std::sync::OnceLock<&'static Kernels<$t>> = std::sync::OnceLock::new();
                BEST.get_or_init(|| $tables()[0])
            }
        }
    };
}
gemm!(f32, tables_f32);
gemm!(f64, tables_f64);

/// Packing space that a thread keeps from call to call.
struct Scratch {
    blocks: Vec<Line>,
}

/// A cache line, for its alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { blocks: Vec::new() }) };
}

impl Scratch {
    fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.blocks.len() < lines {
            #[allow(clippy::disallowed_methods, reason = "blocks are cut to the caches' sizes")]
            self.blocks.resize(lines, Line([0; 64]));
        }
        self.blocks.as_mut_ptr().cast()
    }
}

/// Multiplications between two looks at whether the run was cancelled: a second's work at most.
const WORK_PER_LOOK: usize = 1 << 30;

/// Computes `c = a @ b`, unless the run is cancelled meanwhile; `c.column` must be 1.
///
/// # Safety
/// The operands hold what the extents say, and nobody else touches this part of `c`.
pub(super) unsafe fn gemm<T: Gemm>(
    pool: &Pool,
    kernels: &Kernels<T>,
    e: Extents,
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
) {
    let span = (WORK_PER_LOOK / (e.m * e.n).max(1)).max(1).next_multiple_of(DEPTH);
    if e.k <= span {
        // SAFETY: the caller's operands.
        return unsafe { add_product(kernels, e, a, b, c, false) };
    }
    for p in (0..e.k).step_by(span) {
        if pool.is_cancelled() {
            return;
        }
        let part = Extents { k: (e.k - p).min(span), ..e };
        // SAFETY: the caller's operands, from step `p` of `k` on.
        unsafe { add_product(kernels, part, a.at(0, p), b.at(p, 0), c, p > 0) };
    }
}

/// Computes `c = a @ b`, or `c = c + a @ b` to `accumulate`; `c.column` must be 1.
///
/// # Safety
/// As [`gemm`].
unsafe fn add_product<T: Gemm>(
    kernels: &Kernels<T>,
    e: Extents,
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
    accumulate: bool,
) {
    debug_assert_eq!(c.column, 1);
    if e.m == 0 || e.n == 0 {
        return;
    }
    if e.k == 0 {
        for i in 0..e.m {
            for j in 0..e.n {
                // SAFETY: inside `c`.
                unsafe { *c.at(i, j).ptr = T::default() };
            }
        }
        return;
    }
    if e.n == 1 && c.row == 1 && e.m > 1 {
        // A column of results is a row of the transposed product: products commute, so the bits are the same.
        let turned = |x: Matrix<T>| Matrix { ptr: x.ptr, row: x.column, column: x.row };
        let e = Extents { m: 1, n: e.m, k: e.k };
        let c = Matrix { ptr: c.ptr, row: 0, column: 1 };
        // SAFETY: the same operands.
        return unsafe { add_product(kernels, e, turned(b), turned(a), c, accumulate) };
    }
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: the caller's operands.
        unsafe { blocks(kernels, e, a, b, (c, accumulate), scratch) }
    });
}

unsafe fn blocks<T: Gemm>(
    kernels: &Kernels<T>,
    e: Extents,
    a: Matrix<T>,
    b: Matrix<T>,
    (c, accumulate): (Matrix<T>, bool),
    scratch: &mut Scratch,
) {
    let (rows, columns) = (kernels.unit.len(), 2 * kernels.width);
    let size = size_of::<T>();
    let depth = e.k.min(DEPTH);
    // Columns of a block of b, a multiple of the panel; spread evenly.
    let most = (BLOCK_BYTES / (DEPTH * size) / columns).max(1) * columns;
    let block = if e.m <= rows {
        // One panel of a: each panel of b is used once, while it is still in the first-level cache.
        columns
    } else {
        e.n.div_ceil(e.n.div_ceil(most)).next_multiple_of(columns)
    };
    let pack_a = packs_a(&e, &a, columns, size);
    let pack_b = packs_b(&e, &b, rows, columns, size);
    // One row with b in place: wide tiles, since only b's memory matters.
    if e.m == 1 && !pack_b {
        // SAFETY: the caller's operands.
        unsafe { one_row(kernels, e, a, b, (c, accumulate)) };
        return;
    }
    let b_space = if pack_b { block.min(e.n.next_multiple_of(columns)) * depth } else { 0 };
    let a_space = if pack_a { GROUP * rows * depth } else { 0 };
    let packed_b: *mut T = scratch.reserve((a_space + b_space) * size).cast();
    let packed_a = packed_b.wrapping_add(b_space);
    for p in (0..e.k).step_by(DEPTH) {
        let k = (e.k - p).min(DEPTH);
        for j0 in (0..e.n).step_by(block) {
            let n = (e.n - j0).min(block);
            if pack_b {
                let from = b.at(p, j0).ptr;
                let part = Block { from, across: b.column, along: b.row, count: n, depth: k };
                // SAFETY: a block of b into its panels.
                unsafe { panels(part, packed_b, columns, kernels.transpose, kernels.copy[1]) };
            }
            for i in (0..e.m).step_by(rows) {
                let m = (e.m - i).min(rows);
                let mut at = a.at(i, p);
                if pack_a {
                    let place = i / rows % GROUP;
                    if place == 0 {
                        let count = (e.m - i).min(GROUP * rows);
                        let part = Block { from: at.ptr, across: a.row, along: a.column, count, depth: k };
                        // SAFETY: a block of a into its panels.
                        unsafe { panels(part, packed_a, rows, kernels.transpose, kernels.copy[0]) };
                    }
                    at = Matrix { ptr: packed_a.wrapping_add(place * rows * k), row: 1, column: rows as isize };
                }
                let table: &[TileFn<T>; 2] = if at.row == 1 { &kernels.unit[m - 1] } else { &kernels.strided[m - 1] };
                for j in (0..n).step_by(columns) {
                    let wide = (n - j).min(columns);
                    let (from, step) = if pack_b {
                        (packed_b.wrapping_add(j * k), columns as isize)
                    } else {
                        (b.at(p, j0 + j).ptr, b.row)
                    };
                    let tile = Tile {
                        k,
                        a: at.ptr,
                        a_row: at.row,
                        a_step: at.column,
                        b: from,
                        b_step: step,
                        c: c.at(i, j0 + j).ptr,
                        c_row: c.row,
                        columns: wide,
                        accumulate: accumulate || p > 0,
                    };
                    // SAFETY: the tile lies inside the operands or their packed copies.
                    unsafe { table[(wide > kernels.width) as usize](&tile) };
                }
            }
        }
    }
}

/// A product with one row of `a`.
unsafe fn one_row<T: Gemm>(
    kernels: &Kernels<T>,
    e: Extents,
    a: Matrix<T>,
    b: Matrix<T>,
    (c, accumulate): (Matrix<T>, bool),
) {
    for p in (0..e.k).step_by(DEPTH) {
        let mut j = 0;
        while j < e.n {
            let wide = match e.n - j {
                n if n >= 8 * kernels.width => 8 * kernels.width,
                n => n.min(2 * kernels.width),
            };
            let tile = Tile {
                k: (e.k - p).min(DEPTH),
                a: a.at(0, p).ptr,
                a_row: 1,
                a_step: a.column,
                b: b.at(p, j).ptr,
                b_step: b.row,
                c: c.at(0, j).ptr,
                c_row: 0,
                columns: wide,
                accumulate: accumulate || p > 0,
            };
            let kernel = match wide.div_ceil(kernels.width) {
                8 => kernels.flat[0],
                vectors => kernels.unit[0][vectors - 1],
            };
            // SAFETY: the tile lies inside the operands.
            unsafe { kernel(&tile) };
            j += wide;
        }
    }
}

/// Rows this far apart, or a multiple of it, fall on the same few sets of the nearest cache and evict each other.
const CLASH_BYTES: usize = 4096;

/// Steps of `k` this far apart are copied: each lies on cache lines, and soon on pages, of its own, which a tile would wait
/// for one by one. A copy reads a few panels' worth of each instead, and fetches ahead.
const FAR_BYTES: usize = 1024;

/// Whether a copy of `a` in panels pays. Tiles read rows where they lie as fast as from a panel, unless these clash.
fn packs_a<T>(e: &Extents, a: &Matrix<T>, columns: usize, size: usize) -> bool {
    if e.n <= columns || e.m == 1 {
        return false;
    }
    let (row, column) = (a.row.unsigned_abs() * size, a.column.unsigned_abs() * size);
    if a.row == 1 {
        return column >= FAR_BYTES && e.n > 4 * columns;
    }
    if a.column == 1 {
        return row.is_multiple_of(CLASH_BYTES);
    }
    true
}

/// Whether a copy of `b` in panels pays. Tiles need neighbouring columns, so only such a `b` can be read in place.
fn packs_b<T>(e: &Extents, b: &Matrix<T>, rows: usize, columns: usize, size: usize) -> bool {
    if b.column != 1 && e.n > 1 {
        return true;
    }
    e.m > 4 * rows && e.n >= columns && b.row.unsigned_abs() * size >= FAR_BYTES
}
