//! Walking the space tile by tile.
//!
//! RUN-1: a unit of work writes its own positions of the results, or its own partials, so units run in any order on any
//! thread. How many there are is a matter of speed only (REDUCE-2).

use std::ops::Range;

use super::bind::{Access, Bound};
use super::frame::Frame;
use super::{Loops, TILE};
use crate::pool::Pool;

/// Work below this does not pay for waking a helper.
const WORTH_SHARING_NANOS: usize = 20_000;
/// About as much as one chunk should hold: small enough that threads end together.
const CHUNK_NANOS: usize = 8_000;
/// The widest strip of columns reduced at once: the lanes of wider ones would leave the nearest cache.
const STRIP: usize = 512;
/// Blocks reduced at once where they are read in place.
const BLOCKS_AT_ONCE: usize = 4;

/// Partials that outlive their chunk: those of all blocks of all outputs, per reduction.
struct Partials {
    /// Keeps the memory; only `starts` is used to reach it.
    _memory: Vec<Vec<u64>>,
    starts: Vec<*mut u8>,
}

// SAFETY: threads write different lanes (RUN-1), and they are read when all have.
unsafe impl Sync for Partials {}

impl Partials {
    /// Room for `count` lanes of each reduction.
    fn new(bound: &Bound<'_>, count: usize) -> Partials {
        let words = |lane_bytes: usize| (count * lane_bytes).div_ceil(8);
        let mut memory: Vec<Vec<u64>> =
            bound.fused.reductions.iter().map(|r| vec![0; words(r.kernels.lane_bytes)]).collect();
        let starts = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        Partials { _memory: memory, starts }
    }

    /// The address of lane `at` of a reduction.
    fn at(&self, reduction: usize, lane_bytes: usize, at: usize) -> *mut u8 {
        self.starts[reduction].wrapping_add(at * lane_bytes)
    }
}

impl Bound<'_> {
    /// Runs the program.
    ///
    /// # Safety
    /// The operands are alive and not written by anyone else, the results belong to this call; [`super::Fused::run`] sees to both.
    pub(super) unsafe fn execute(&self, pool: &Pool) {
        let fused = self.fused;
        if fused.numel == 0 {
            for (reduction, &out) in fused.reductions.iter().zip(&self.results) {
                // SAFETY: there are no partials to read and room for every result.
                unsafe { (reduction.kernels.finish)(out, 0, 0, reduction.ty.numel(), out) };
            }
            return;
        }
        match fused.loops {
            Loops::Flat => self.flat(pool),
            Loops::WholeRows { rows, len } => self.whole_rows(pool, rows, len),
            Loops::Rows { rows, len } if len <= TILE => self.short_rows(pool, rows, len),
            Loops::Rows { rows, len } => self.long_rows(pool, rows, len),
            Loops::Columns { outer, rows, width } if rows * width <= TILE => {
                self.small_columns(pool, outer, rows, width)
            }
            Loops::Columns { outer, rows, width } => self.columns(pool, outer, rows, width),
        }
    }

    /// Runs `units` units of work in chunks; each chunk gets a frame.
    fn share(&self, pool: &Pool, units: usize, strip: usize, work: &(dyn Fn(&Frame<'_>, Range<usize>) + Sync)) {
        let nanos = self.fused.numel.saturating_mul(self.fused.picos_per_element) / 1000;
        if pool.threads() == 1 || nanos < WORTH_SHARING_NANOS || units == 1 {
            return self.with_frame(strip, |frame| work(frame, 0..units));
        }
        let chunks = (nanos / CHUNK_NANOS).min(pool.threads() * 4).min(units).max(1);
        pool.run(chunks, nanos, &|c| {
            self.with_frame(strip, |frame| work(frame, units * c / chunks..units * (c + 1) / chunks));
        });
    }

    fn flat(&self, pool: &Pool) {
        let numel = self.fused.numel;
        self.share(pool, numel.div_ceil(TILE), 0, &|frame, tiles| {
            for tile in tiles {
                let start = tile * TILE;
                let n = TILE.min(numel - start);
                if self.fused.parts.is_empty() {
                    frame.tile(start, n);
                } else {
                    frame.parts(start, n);
                }
            }
        });
    }

    /// Several rows in a tile.
    fn short_rows(&self, pool: &Pool, rows: usize, len: usize) {
        let rows_per_tile = TILE / len;
        self.share(pool, rows.div_ceil(rows_per_tile), 0, &|frame, tiles| {
            for tile in tiles {
                let row = tile * rows_per_tile;
                let count = rows_per_tile.min(rows - row);
                frame.compute(row * len, count * len);
                for (r, reduction) in self.fused.reductions.iter().enumerate() {
                    let source = frame.at(reduction.source, row * len);
                    let out = self.results[r].wrapping_add(row * reduction.ty.dtype.size());
                    // SAFETY: the tile holds `count` rows; `partials` has room for a tile of them; the results of these
                    // rows are this unit's.
                    unsafe {
                        (reduction.kernels.rows)(source, count, len, frame.partials);
                        (reduction.kernels.finish)(frame.partials, 1, 0, count, out);
                    }
                }
                frame.settle(row * len, count * len);
            }
        });
    }

    /// Several rows in a tile, with loops over positions and over rows (FUSED-5).
    fn whole_rows(&self, pool: &Pool, rows: usize, len: usize) {
        let rows_per_tile = TILE / len;
        self.share(pool, rows.div_ceil(rows_per_tile), 0, &|frame, tiles| {
            for tile in tiles {
                let row = tile * rows_per_tile;
                frame.rows(row, rows_per_tile.min(rows - row), len);
            }
        });
    }

    /// Several blocks in a row.
    fn long_rows(&self, pool: &Pool, rows: usize, len: usize) {
        let blocks = len.div_ceil(TILE);
        let partials = Partials::new(self, rows * blocks);
        // With nothing to compute first, blocks are reduced where they lie, several at once; a constant's tile is one block.
        let lies = |place: u16| self.ins.get(place as usize).is_some_and(|i| i.access == Access::Packed);
        let in_place = self.fused.ops.is_empty() && self.fused.reductions.iter().all(|r| lies(r.source));
        self.share(pool, rows * blocks, 0, &|frame, units| {
            let mut unit = units.start;
            while unit < units.end {
                let (row, block) = (unit / blocks, unit % blocks);
                let start = block * TILE;
                let whole = ((len - start) / TILE).min(units.end - unit).min(BLOCKS_AT_ONCE);
                let (count, n) = if in_place && whole > 1 { (whole, TILE) } else { (1, TILE.min(len - start)) };
                if !in_place {
                    frame.compute(row * len + start, n);
                }
                for (r, reduction) in self.fused.reductions.iter().enumerate() {
                    let source = frame.at(reduction.source, row * len + start);
                    let partial = partials.at(r, reduction.kernels.lane_bytes, unit);
                    // SAFETY: `count` blocks of `n` elements are there, each with a partial of its own.
                    unsafe { (reduction.kernels.rows)(source, count, n, partial) };
                }
                if !in_place {
                    frame.settle(row * len + start, n);
                }
                unit += count;
            }
        });
        for (r, reduction) in self.fused.reductions.iter().enumerate() {
            for row in 0..rows {
                let partial = partials.at(r, reduction.kernels.lane_bytes, row * blocks);
                let out = self.results[r].wrapping_add(row * reduction.ty.dtype.size());
                // SAFETY: the row's partials lie one after the other and are all written.
                unsafe { (reduction.kernels.finish)(partial, blocks, 1, 1, out) };
            }
        }
    }

    /// Several whole sets of rows in a tile.
    fn small_columns(&self, pool: &Pool, outer: usize, rows: usize, width: usize) {
        let (set, per_tile) = (rows * width, TILE / (rows * width));
        self.share(pool, outer.div_ceil(per_tile), width, &|frame, tiles| {
            for tile in tiles {
                let first = tile * per_tile;
                let count = per_tile.min(outer - first);
                frame.compute(first * set, count * set);
                for (r, reduction) in self.fused.reductions.iter().enumerate() {
                    let (kernels, source) = (&reduction.kernels, frame.at(reduction.source, first * set));
                    for k in 0..count {
                        let source = source.wrapping_add(k * set * kernels.lane_bytes);
                        let out = self.results[r].wrapping_add((first + k) * width * reduction.ty.dtype.size());
                        // SAFETY: the tile holds `count` sets of `rows` rows; the lanes are this frame's.
                        unsafe {
                            (kernels.columns)(source, rows, width, 0, frame.lanes);
                            (kernels.fold)(frame.lanes, width, rows);
                            (kernels.finish)(frame.lanes, 1, 0, width, out);
                        }
                    }
                }
                frame.settle(first * set, count * set);
            }
        });
    }

    /// Strips of columns, a block of rows at a time.
    fn columns(&self, pool: &Pool, outer: usize, rows: usize, width: usize) {
        let (strip, strips) = if width <= STRIP { (width, 1) } else { (STRIP, width.div_ceil(STRIP)) };
        let blocks = rows.div_ceil(TILE);
        let partials = (blocks > 1).then(|| Partials::new(self, outer * blocks * width));
        self.share(pool, outer * blocks * strips, strip, &|frame, units| {
            for unit in units {
                let (k, block, column) = (unit / (blocks * strips), unit / strips % blocks, unit % strips * STRIP);
                let cols = strip.min(width - column);
                let (first, height) = (block * TILE, TILE.min(rows - block * TILE));
                // Whole rows lie one after the other; of strips there is one row a tile.
                let rows_per_tile = if strips == 1 { (TILE / width).max(1) } else { 1 };
                let mut row = 0;
                while row < height {
                    let count = rows_per_tile.min(height - row);
                    let start = (k * rows + first + row) * width + column;
                    frame.compute(start, count * cols);
                    for (r, reduction) in self.fused.reductions.iter().enumerate() {
                        let source = frame.at(reduction.source, start);
                        // SAFETY: the tile holds `count` rows of `cols` columns; the lanes are this frame's.
                        unsafe { (reduction.kernels.columns)(source, count, cols, row, frame.lanes_of(r, strip)) };
                    }
                    frame.settle(start, count * cols);
                    row += count;
                }
                for (r, reduction) in self.fused.reductions.iter().enumerate() {
                    let (kernels, lanes) = (&reduction.kernels, frame.lanes_of(r, strip));
                    let out = self.results[r].wrapping_add((k * width + column) * reduction.ty.dtype.size());
                    // SAFETY: the lanes of `height` rows are written; the results, or the partials, of this strip and
                    // block are this unit's.
                    unsafe {
                        (kernels.fold)(lanes, cols, height);
                        match &partials {
                            None => (kernels.finish)(lanes, 1, 0, cols, out),
                            Some(partials) => {
                                let to = partials.at(r, kernels.lane_bytes, (k * blocks + block) * width + column);
                                std::ptr::copy_nonoverlapping(lanes, to, cols * kernels.lane_bytes);
                            }
                        }
                    }
                }
            }
        });
        let Some(partials) = partials else { return };
        for (r, reduction) in self.fused.reductions.iter().enumerate() {
            for k in 0..outer {
                let partial = partials.at(r, reduction.kernels.lane_bytes, k * blocks * width);
                let out = self.results[r].wrapping_add(k * width * reduction.ty.dtype.size());
                // SAFETY: `blocks` rows of `width` partials, all written.
                unsafe { (reduction.kernels.finish)(partial, blocks, width, width, out) };
            }
        }
    }
}
