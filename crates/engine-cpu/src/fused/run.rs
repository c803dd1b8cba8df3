//! Walking the space tile by tile.
//!
//! RUN-1: a unit of work writes its own positions of the results, or its own partials, so units run in any order on any
//! thread. How many there are is a matter of speed only (REDUCE-2).

use std::ops::Range;

use gt_ir::Failure;
use smallvec::SmallVec;

use super::bind::{Access, Bound};
use super::frame::Frame;
use super::{Loops, TILE};
use crate::alloc::Room;
use crate::pool::Pool;

/// Work below this does not pay for waking a helper.
const WORTH_SHARING_NANOS: usize = 20_000;
/// About as much as one chunk should hold: small enough that threads end together.
const CHUNK_NANOS: usize = 8_000;
/// No chunk of long work should take longer, so that what nobody wants any more ends soon.
const LONGEST_CHUNK_NANOS: usize = 100_000_000;
/// Blocks reduced at once where they are read in place.
const BLOCKS_AT_ONCE: usize = 4;

/// Partials that outlive their chunk: those of all blocks of all outputs, per reduction.
pub(super) struct Partials {
    /// Keeps the memory; only `starts` is used to reach it.
    _memory: SmallVec<[Room<u64>; 2]>,
    starts: SmallVec<[*mut u8; 2]>,
}

// SAFETY: threads write different lanes (RUN-1), and they are read when all have.
unsafe impl Sync for Partials {}

impl Partials {
    /// Room for `count` lanes of each reduction.
    fn new(bound: &Bound<'_>, pool: &Pool, count: usize) -> Result<Partials, (u32, Failure)> {
        let mut memory: SmallVec<[Room<u64>; 2]> = SmallVec::new();
        for reduction in &bound.fused.reductions {
            let words = count.saturating_mul(reduction.kernels.lane_bytes).div_ceil(8);
            memory.push(pool.room::<u64>(words).map_err(|failure| (reduction.instr, failure))?);
        }
        let starts = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        Ok(Partials { _memory: memory, starts })
    }

    /// The address of lane `at` of a reduction.
    pub(super) fn at(&self, reduction: usize, lane_bytes: usize, at: usize) -> *mut u8 {
        self.starts[reduction].wrapping_add(at * lane_bytes)
    }
}

/// The memory that a run of a program works with, besides its results and tiles.
#[derive(Default)]
pub(super) struct Workspace {
    /// Of all blocks.
    pub partials: Option<Partials>,
    /// Of lanes that several units have in common.
    pub common: Option<Partials>,
}

impl Bound<'_> {
    /// What [`Bound::execute`] needs; all that can fail of it.
    pub(super) fn workspace(&self, pool: &Pool) -> Result<Workspace, (u32, Failure)> {
        let count = |count: Option<usize>| count.map(|count| Partials::new(self, pool, count)).transpose();
        let (partials, common) = match self.fused.loops {
            _ if self.fused.numel == 0 => (None, None),
            Loops::Rows { rows, len } if len > TILE => (Some(rows.saturating_mul(len.div_ceil(TILE))), None),
            Loops::Columns { outer, rows, width } if rows * width > TILE => {
                self.column_partials(pool, outer, rows, width)
            }
            Loops::Flat | Loops::WholeRows { .. } | Loops::Rows { .. } | Loops::Columns { .. } => (None, None),
        };
        Ok(Workspace { partials: count(partials)?, common: count(common)? })
    }

    /// Runs the program in the memory that [`Bound::workspace`] gave.
    ///
    /// # Safety
    /// The operands are alive and not written by anyone else, the results belong to this call; [`super::Fused::run`] sees to both.
    pub(super) unsafe fn execute(&self, pool: &Pool, workspace: &Workspace) {
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
            Loops::Rows { rows, len } => self.long_rows(pool, rows, len, workspace),
            Loops::Columns { outer, rows, width } if rows * width <= TILE => {
                self.small_columns(pool, outer, rows, width)
            }
            Loops::Columns { outer, rows, width } => self.columns(pool, outer, rows, width, workspace),
        }
    }

    /// About how long it takes one thread.
    fn nanos(&self) -> usize {
        self.fused.numel.saturating_mul(self.fused.picos_per_element) / 1000
    }

    /// Whether several threads are quicker than one.
    pub(super) fn is_worth_sharing(&self, pool: &Pool) -> bool {
        pool.threads() > 1 && self.nanos() >= WORTH_SHARING_NANOS
    }

    /// Runs `units` units of work in chunks; each chunk gets a frame.
    pub(super) fn share(
        &self,
        pool: &Pool,
        units: usize,
        strip: usize,
        work: &(dyn Fn(&Frame<'_>, Range<usize>) + Sync),
    ) {
        let nanos = self.nanos();
        let is_long = nanos >= LONGEST_CHUNK_NANOS;
        if units == 1 || !is_long && !self.is_worth_sharing(pool) {
            return self.with_frame(strip, |frame| work(frame, 0..units));
        }
        let chunks = (nanos / CHUNK_NANOS).min(pool.threads() * 4).max(nanos / LONGEST_CHUNK_NANOS).min(units).max(1);
        pool.run(chunks, nanos, &|c| {
            // The rest of the result is garbage, which nobody sees (ENGINE-4). Tile programs compute no addresses from values, so
            // what is left undone here cannot lead others astray; other kernels check first and write later, and run to their end.
            if is_long && pool.is_cancelled() {
                return;
            }
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
    fn long_rows(&self, pool: &Pool, rows: usize, len: usize, workspace: &Workspace) {
        let blocks = len.div_ceil(TILE);
        let Some(partials) = &workspace.partials else { return };
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
}
