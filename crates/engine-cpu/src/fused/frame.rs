//! One thread's part of a walk: where each place of a program lies, and the loops over a tile.

use std::cell::{Cell, RefCell};

use gt_plan::Part;
use gt_plan::tile::Level;
use smallvec::SmallVec;

use super::bind::{Access, Bound, Input};
use super::kernel::{Kernel, TileType, splat};
use super::place::{first_run, place};
use super::{TILE, Work};

/// Lanes of a block.
const LANES: usize = gt_ir::ops::Reduce::LANES;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    /// Tiles, lanes and partials of the chunk this thread works on.
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Where a loop reads or writes position `p`: `ptr + p * step`; tiles have a step of 0.
#[derive(Clone, Copy)]
struct Place {
    ptr: *mut u8,
    step: usize,
}

/// The places of one chunk of work.
pub(super) struct Frame<'a> {
    bound: &'a Bound<'a>,
    places: SmallVec<[Cell<Place>; 16]>,
    has_walks: bool,
    has_out_tiles: bool,
    /// Loops that repeat one element, by the logarithm of its size.
    splats: [Kernel; 4],
    /// Room for a tile's partials.
    pub partials: *mut u8,
    /// Room for the lanes of every reduction.
    pub lanes: *mut u8,
}

impl Bound<'_> {
    /// Calls `work` with the places of this thread; `strip` is the number of columns whose lanes it needs.
    pub(super) fn with_frame(&self, strip: usize, work: impl FnOnce(&Frame<'_>)) {
        let fused = self.fused;
        let lanes_bytes = fused.reductions.len() * LANES * strip * 8;
        let folds = !fused.reductions.is_empty() || !fused.level_ops.is_empty();
        let bytes = fused.tiles_bytes + if folds { TILE * 8 + lanes_bytes } else { 0 };
        SCRATCH.with_borrow_mut(|scratch| {
            let lines = bytes.div_ceil(64);
            if scratch.len() < lines {
                #[allow(clippy::disallowed_methods, reason = "a program's tiles, whatever the extents")]
                scratch.resize(lines, Line([0; 64]));
            }
            let base = scratch.as_mut_ptr().cast::<u8>();
            work(&self.frame(base));
        });
    }

    /// The places, with tiles at `base`.
    #[inline]
    fn frame(&self, base: *mut u8) -> Frame<'_> {
        let fused = self.fused;
        let mut frame = Frame {
            bound: self,
            places: SmallVec::new(),
            has_walks: false,
            has_out_tiles: false,
            splats: [splat(1), splat(2), splat(4), splat(8)],
            partials: base.wrapping_add(fused.tiles_bytes),
            lanes: base.wrapping_add(fused.tiles_bytes + TILE * 8),
        };
        // Constant tiles are as long as the longest tile.
        let longest = TILE.min(fused.numel);
        for (input, spec) in self.ins.iter().zip(&fused.ins) {
            let tile = base.wrapping_add(spec.tile);
            let place = match input.access {
                Access::Packed => Place { ptr: input.first.cast_mut(), step: spec.size },
                Access::One => {
                    // SAFETY: the operand has one element and its tile room for `TILE`.
                    unsafe { splat(spec.size)(longest, tile, input.first, tile, tile) };
                    Place { ptr: tile, step: 0 }
                }
                Access::Walk(_) => {
                    frame.has_walks = true;
                    Place { ptr: tile, step: 0 }
                }
                Access::Alike(walk) => {
                    let longest = longest.min(fused.extents(spec.level).numel());
                    // SAFETY: the walk has so many elements at least, and the tile room for `TILE`.
                    unsafe { self.walks[walk].copy(input.first, spec.size, 0, longest, tile) };
                    Place { ptr: tile, step: 0 }
                }
                // Each tile says where.
                Access::Again(_) => {
                    frame.has_walks = true;
                    Place { ptr: tile, step: 0 }
                }
                Access::Placed(_) => Place { ptr: tile, step: 0 },
            };
            frame.places.push(Cell::new(place));
        }
        for (output, spec) in self.outs.iter().zip(&fused.outs) {
            frame.has_out_tiles |= output.by_tile;
            frame.places.push(Cell::new(match output.by_tile {
                true => Place { ptr: base.wrapping_add(spec.tile), step: 0 },
                false => Place { ptr: output.ptr, step: spec.ty.dtype.size() },
            }));
        }
        for (bits, spec) in self.consts.iter().zip(&fused.consts) {
            let one = std::ptr::from_ref(bits).cast::<u8>().cast_mut();
            frame.places.push(Cell::new(match spec.tile {
                None => Place { ptr: one, step: 0 },
                Some(at) => {
                    let tile = base.wrapping_add(at);
                    // SAFETY: the constant's low bytes are one element; its tile has room for `TILE`.
                    unsafe { splat(TileType::of(spec.dtype).size())(longest, tile, one, tile, tile) };
                    Place { ptr: tile, step: 0 }
                }
            }));
        }
        for &at in &fused.registers {
            frame.places.push(Cell::new(Place { ptr: base.wrapping_add(at), step: 0 }));
        }
        frame
    }
}

impl Frame<'_> {
    /// Where position `start` of a place lies.
    #[inline(always)]
    pub(super) fn at(&self, place: u16, start: usize) -> *mut u8 {
        let place = self.places[place as usize].get();
        place.ptr.wrapping_add(start * place.step)
    }

    pub(super) fn lanes_of(&self, reduction: usize, strip: usize) -> *mut u8 {
        self.lanes.wrapping_add(reduction * LANES * strip * 8)
    }

    pub(super) fn tile(&self, start: usize, n: usize) {
        self.compute(start, n);
        self.settle(start, n);
    }

    /// Runs every loop on positions `start..start + n`.
    #[inline]
    pub(super) fn compute(&self, start: usize, n: usize) {
        let fused = self.bound.fused;
        if self.has_walks {
            self.gather(|_| (start, n));
        }
        for op in &fused.ops {
            // SAFETY: every place has `n` elements from `start` on (a constant one, as its loop expects); registers are
            // assigned so that a loop's destination is none of its operands, and results are either fresh, or taken over
            // from operands whose last reader came before, or tiles (FUSED-3).
            unsafe {
                (op.kernel)(n, self.at(op.dst, start), self.at(op.a, start), self.at(op.b, start), self.at(op.c, start))
            };
        }
    }

    /// Brings the tiles of operands that do not lie in the iteration order, given where each level starts and how far it
    /// goes.
    #[inline(always)]
    fn gather(&self, range: impl Fn(Level) -> (usize, usize)) {
        for ((input, spec), place) in self.bound.ins.iter().zip(&self.bound.fused.ins).zip(&self.places) {
            match input.access {
                Access::Walk(walk) => {
                    let (start, n) = range(spec.level);
                    // SAFETY: the range lies inside its level, which the walk covers; the tile has room for `n`.
                    unsafe { self.bound.walks[walk].copy(input.first, spec.size, start, n, place.get().ptr) };
                }
                Access::Again(period) => {
                    let first = input.first.wrapping_add(range(spec.level).0 % period * spec.size);
                    place.set(Place { ptr: first.cast_mut(), step: 0 });
                }
                Access::Packed | Access::One | Access::Alike(_) | Access::Placed(_) => {}
            }
        }
    }

    /// Runs every operation on `count` rows of `len` positions.
    pub(super) fn rows(&self, row: usize, count: usize, len: usize) {
        self.levels(len, |level| match level {
            Level::Row => (row, count),
            // Steps with reductions have no parts.
            Level::Full | Level::Part(_) => (row * len, count * len),
        });
    }

    /// Runs every operation on positions `start..start + n` and what the parts have of them (FUSED-6).
    pub(super) fn parts(&self, start: usize, n: usize) {
        let range = |part: &Part| (part.before(start), part.before(start + n) - part.before(start));
        let ranges: SmallVec<[(usize, usize); 4]> = self.bound.fused.parts.iter().map(range).collect();
        self.levels(n, |level| match level {
            Level::Part(part) => ranges[part as usize],
            // Steps with parts have no reductions.
            Level::Full | Level::Row => (start, n),
        });
    }

    /// Runs every operation, given where each level starts and how far it goes; a row has `len` positions.
    #[inline(always)]
    fn levels(&self, len: usize, at: impl Fn(Level) -> (usize, usize)) {
        let fused = self.bound.fused;
        if self.has_walks {
            self.gather(&at);
        }
        for op in &fused.level_ops {
            // SAFETY: as in `compute`; operands and results of a loop are all of its level, a fold reads positions and
            // writes rows, a spread the other way round; `partials` has room for a tile of them. What is placed is
            // read at the level of its part.
            unsafe {
                match op.work {
                    Work::Loop(kernel, level) => {
                        let (start, n) = at(level);
                        let [dst, a, b, c] = [op.dst, op.a, op.b, op.c].map(|place| self.at(place, start));
                        kernel(n, dst, a, b, c);
                    }
                    Work::Fold(kernels) => {
                        let ((start, _), (row, count)) = (at(Level::Full), at(Level::Row));
                        (kernels.rows)(self.at(op.a, start), count, len, self.partials);
                        (kernels.finish)(self.partials, 1, 0, count, self.at(op.dst, row));
                    }
                    Work::Spread(size) => {
                        let ((start, _), (row, count)) = (at(Level::Full), at(Level::Row));
                        let (from, to) = (self.at(op.a, row), self.at(op.dst, start));
                        for r in 0..count {
                            let to = to.wrapping_add(r * len * size);
                            (self.splats[size.trailing_zeros() as usize])(len, to, from.wrapping_add(r * size), to, to);
                        }
                    }
                    Work::Place(part, size) => {
                        let ((start, n), (first, count)) = (at(Level::Full), at(Level::Part(part)));
                        let (part, to) = (&fused.parts[part as usize], self.at(op.dst, start));
                        match self.bound.ins.get(op.a as usize) {
                            Some(&Input { first: source, access: Access::Placed(walk) }) => {
                                let to = to.wrapping_add(first_run(part, start).1 * size);
                                let gap = part.period - part.len;
                                self.bound.walks[walk].copy_apart(source, size, first, count, to, gap);
                            }
                            _ => place(part, start, n, size, self.at(op.a, first), to),
                        }
                    }
                }
            }
        }
        if self.has_out_tiles {
            self.settle_outs(at);
        }
    }

    /// Copies results that were held in tiles to where they lie, once nothing reads the operands there any more.
    #[inline]
    pub(super) fn settle(&self, start: usize, n: usize) {
        if self.has_out_tiles {
            self.settle_outs(|_| (start, n));
        }
    }

    /// [`Frame::settle`], with the positions or rows of each level.
    fn settle_outs(&self, range: impl Fn(Level) -> (usize, usize)) {
        let fused = self.bound.fused;
        for (o, (output, spec)) in self.bound.outs.iter().zip(&fused.outs).enumerate() {
            if output.by_tile {
                let (start, n) = range(spec.level);
                let size = spec.ty.dtype.size();
                let tile = self.places[fused.ins.len() + o].get().ptr;
                // SAFETY: the result's positions are this unit's; a tile is no part of it.
                unsafe { std::ptr::copy_nonoverlapping(tile, output.ptr.wrapping_add(start * size), n * size) };
            }
        }
    }
}
