//! Reductions over rows that lie apart: each column is an output.
//!
//! COLUMNS-1: the rows of a block go to [`LANES`] lanes in turn (REDUCE-1), and threads share a block by lanes: what one lane gets, and
//! in which order, does not depend on them.

use gt_ir::ops::Reduce;

use super::TILE;
use super::bind::Bound;
use super::run::{Partials, Workspace};
use crate::pool::Pool;

const LANES: usize = Reduce::LANES;
/// The widest strip of columns reduced at once: the lanes of wider ones would leave the nearest cache.
const STRIP: usize = 512;

/// A block of rows of a strip.
struct Region {
    /// Which of the outer outputs.
    outer: usize,
    block: usize,
    column: usize,
    columns: usize,
    rows: usize,
}

/// How columns are cut.
struct Strips {
    /// Columns of a strip.
    strip: usize,
    strips: usize,
    /// Blocks of rows.
    blocks: usize,
    regions: usize,
    /// Units that share the lanes of a region.
    groups: usize,
}

impl Bound<'_> {
    /// Several whole sets of rows in a tile.
    pub(super) fn small_columns(&self, pool: &Pool, outer: usize, rows: usize, width: usize) {
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

    /// How many partials [`Bound::columns`] needs: of its blocks, and of lanes that several units have in common.
    pub(super) fn column_partials(
        &self,
        pool: &Pool,
        outer: usize,
        rows: usize,
        width: usize,
    ) -> (Option<usize>, Option<usize>) {
        let Strips { strip, blocks, regions, groups, .. } = self.strips(pool, outer, rows, width);
        let partials = (blocks > 1).then(|| outer.saturating_mul(blocks).saturating_mul(width));
        (partials, (groups > 1).then(|| regions.saturating_mul(LANES * strip)))
    }

    fn strips(&self, pool: &Pool, outer: usize, rows: usize, width: usize) -> Strips {
        let (strip, strips) = if width <= STRIP { (width, 1) } else { (STRIP, width.div_ceil(STRIP)) };
        let blocks = rows.div_ceil(TILE);
        let regions = outer * blocks * strips;
        let groups = if self.is_worth_sharing(pool) { lane_groups(pool.threads(), regions, rows) } else { 1 };
        Strips { strip, strips, blocks, regions, groups }
    }

    /// Strips of columns, a block of rows at a time.
    pub(super) fn columns(&self, pool: &Pool, outer: usize, rows: usize, width: usize, workspace: &Workspace) {
        let Strips { strip, strips, blocks, regions, groups } = self.strips(pool, outer, rows, width);
        let Workspace { partials, common } = workspace;
        let region = |index: usize| {
            let (block, column) = (index / strips % blocks, index % strips * STRIP);
            Region {
                outer: index / (blocks * strips),
                block,
                column,
                columns: strip.min(width - column),
                rows: TILE.min(rows - block * TILE),
            }
        };
        let common_lanes = |common: &Partials, index: usize, r: usize| {
            common.at(r, self.fused.reductions[r].kernels.lane_bytes, index * LANES * strip)
        };
        self.share(pool, regions * groups, strip, &|frame, units| {
            for unit in units {
                let (index, group) = (unit / groups, unit % groups);
                let Region { outer, block, column, columns, rows: height } = region(index);
                let lanes = |r: usize| match common {
                    Some(common) => common_lanes(common, index, r),
                    None => frame.lanes_of(r, strip),
                };
                // Whole rows lie one after the other; of strips there is one row a tile.
                let rows_per_tile = if strips == 1 { (TILE / width).max(1) } else { 1 };
                let (turn, own) = if groups == 1 { (height, height) } else { (LANES, LANES / groups) };
                for first in (group * own..height).step_by(turn) {
                    let (mut row, end) = (first, height.min(first + own));
                    while row < end {
                        let count = rows_per_tile.min(end - row);
                        let start = (outer * rows + block * TILE + row) * width + column;
                        frame.compute(start, count * columns);
                        for (r, reduction) in self.fused.reductions.iter().enumerate() {
                            let source = frame.at(reduction.source, start);
                            // SAFETY: the tile holds `count` rows of `columns`; the lanes of these rows are this unit's.
                            unsafe { (reduction.kernels.columns)(source, count, columns, row, lanes(r)) };
                        }
                        frame.settle(start, count * columns);
                        row += count;
                    }
                }
                if common.is_none() {
                    self.finish_region(&region(index), (blocks, width), partials.as_ref(), &lanes);
                }
            }
        });
        if let Some(common) = common {
            for index in 0..regions {
                let lanes = |r: usize| common_lanes(common, index, r);
                self.finish_region(&region(index), (blocks, width), partials.as_ref(), &lanes);
            }
        }
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

    /// Folds the lanes of a region, all of which are written, to its results, or to its partials where there are other blocks.
    fn finish_region(
        &self,
        region: &Region,
        (blocks, width): (usize, usize),
        partials: Option<&Partials>,
        lanes: &dyn Fn(usize) -> *mut u8,
    ) {
        let Region { outer, block, column, columns, rows } = *region;
        for (r, reduction) in self.fused.reductions.iter().enumerate() {
            let (kernels, lanes) = (&reduction.kernels, lanes(r));
            let out = self.results[r].wrapping_add((outer * width + column) * reduction.ty.dtype.size());
            // SAFETY: the lanes of `rows` rows are written; the results, or the partials, of this region are its own.
            unsafe {
                (kernels.fold)(lanes, columns, rows);
                match partials {
                    None => (kernels.finish)(lanes, 1, 0, columns, out),
                    Some(partials) => {
                        let to = partials.at(r, kernels.lane_bytes, (outer * blocks + block) * width + column);
                        std::ptr::copy_nonoverlapping(lanes, to, columns * kernels.lane_bytes);
                    }
                }
            }
        }
    }
}

/// Into how many groups of lanes each of `regions` is cut, so that all threads have something to do and end together.
fn lane_groups(threads: usize, regions: usize, rows: usize) -> usize {
    // A few rows are not worth another look at the lanes.
    if rows < 4 * LANES {
        return 1;
    }
    (2 * threads).div_ceil(regions).next_power_of_two().min(LANES / 4)
}
