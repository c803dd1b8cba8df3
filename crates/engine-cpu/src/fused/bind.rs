//! What a run brings to a tile program: layouts, addresses, numbers.

use std::sync::Arc;

use gt_engine::Value;
use gt_ir::{DType, Failure, Scalar, Shape};
use gt_plan::tile::Level;
use smallvec::SmallVec;

use super::assign::packed_in;
use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::{ConstSpec, Fused, FusedIn, Loops, TILE, Take, Walk};
use crate::Layout;
use crate::alloc::{Allocator, Storage};
use crate::buffer::CpuBuffer;
use crate::kernels::{self, Dst, Src};
use crate::pool::Pool;

/// The values of a running plan, by slot.
pub type Slots = [Option<Value<CpuBuffer>>];

/// A program with the addresses of one run. Small, because for small tensors making it is most of the work.
pub(super) struct Bound<'a> {
    pub fused: &'a Fused,
    pub ins: SmallVec<[Input; 4]>,
    /// The walks that [`Access::Walk`] names.
    pub walks: Vec<Walk>,
    pub outs: SmallVec<[Output; 4]>,
    /// Where each reduction's results go.
    pub results: SmallVec<[*mut u8; 2]>,
    pub consts: SmallVec<[u64; 4]>,
    /// Packed copies of operands, kept until the run is over.
    copies: Vec<Storage>,
}

/// How an operand is read (FUSED-1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Where it lies.
    Packed,
    /// One element for all positions.
    One,
    /// Copied into a tile, by the walk of this number.
    Walk(usize),
    /// The same, once: all tiles are alike.
    Alike(usize),
    /// Where it lies, again from its first element on after so many.
    Again(usize),
    /// Copied to its positions of a concatenation, whose runs are the walk's (FUSED-6).
    Placed(usize),
}

#[derive(Clone, Copy)]
pub(super) struct Input {
    pub first: *const u8,
    pub access: Access,
}

#[derive(Clone, Copy)]
pub(super) struct Output {
    pub ptr: *mut u8,
    /// Written to its own tile first (FUSED-3).
    pub by_tile: bool,
}

// SAFETY: operands are only read, and each thread writes its own positions of the results (FUSED-2).
unsafe impl Sync for Bound<'_> {}

/// An order of axes, outermost first.
type AxisOrder = SmallVec<[u8; 8]>;

impl Fused {
    /// Runs the step: looks at the operands, allocates the results, walks the space and stores the results in their
    /// slots. When it fails nothing was written and nothing taken over; the failure comes with the instruction whose
    /// result found no room.
    ///
    /// # Panics
    /// If an operand is missing or poisoned: the engine looks first.
    pub(crate) fn run(
        &self,
        slots: &mut Slots,
        scalars: &[Scalar],
        allocator: &Arc<Allocator>,
        pool: &Pool,
    ) -> Result<(), (u32, Failure)> {
        let mut bound = Bound {
            fused: self,
            ins: SmallVec::new(),
            walks: Vec::new(),
            outs: SmallVec::new(),
            results: SmallVec::new(),
            consts: self.consts.iter().map(|c| c.bits(scalars[c.scalar])).collect(),
            copies: Vec::new(),
        };
        let order = bound.read_layouts(slots, allocator, pool)?;

        // Which results take over storage; decided before anything is allocated, done when nothing can fail any more.
        let mut taken: SmallVec<[Option<u16>; 4]> = smallvec::smallvec![None; self.outs.len()];
        for (nth, take) in self.takes.iter().enumerate() {
            let in_use = |t: &u16| self.takes[*t as usize].operand == take.operand;
            if taken[take.out as usize].is_none() && !taken.iter().flatten().any(in_use) && bound.may_take(take, slots)
            {
                taken[take.out as usize] = Some(nth as u16);
            }
        }
        let allocate = |bytes: usize, instr: u32| allocator.allocate(bytes).map(Arc::new).map_err(|f| (instr, f));
        let mut storages: SmallVec<[Option<Arc<Storage>>; 4]> = SmallVec::new();
        for (out, taken) in self.outs.iter().zip(&taken) {
            storages.push(if taken.is_none() { Some(allocate(out.bytes, out.instr)?) } else { None });
        }
        let mut reduced: SmallVec<[Arc<Storage>; 2]> = SmallVec::new();
        for reduction in &self.reductions {
            let storage = allocate(reduction.ty.bytes(), reduction.instr)?;
            bound.results.push(storage.ptr());
            reduced.push(storage);
        }

        let workspace = bound.workspace(pool)?;

        for (storage, taken) in storages.iter_mut().zip(&taken) {
            let take = taken.map(|t| &self.takes[t as usize]);
            if let Some(take) = take {
                let slot = self.ins[take.operand as usize].slot;
                *storage = slots[slot as usize].take().and_then(Result::ok).map(|buffer| buffer.storage);
            }
            let ptr = storage.as_ref().map_or(std::ptr::null_mut(), |s| s.ptr());
            bound.outs.push(Output { ptr, by_tile: take.is_some_and(|t| !t.direct) });
        }
        // SAFETY: operands stay in their slots, or in `storages` where taken over, until after the call; storage that is
        // written is fresh or was held by nobody else.
        unsafe { bound.execute(pool, &workspace) };

        for (out, storage) in self.outs.iter().zip(storages) {
            let layout = order.as_ref().map_or_else(|| out.layout.clone(), |order| Arc::new(packed_in(out.ty, order)));
            slots[out.slot as usize] = storage.map(|storage| Ok(CpuBuffer { storage, layout }));
        }
        for (reduction, storage) in self.reductions.iter().zip(reduced) {
            slots[reduction.slot as usize] = Some(Ok(CpuBuffer { storage, layout: reduction.layout.clone() }));
        }
        Ok(())
    }
}

impl Fused {
    /// What the first position, or row, of every tile is a multiple of; no tile goes past the next multiple.
    fn tile_starts(&self, level: Level) -> Option<usize> {
        match (self.loops, level) {
            // There are no tiles, and rows may have no positions.
            _ if self.numel == 0 => None,
            (Loops::Flat, Level::Full) => Some(TILE),
            (Loops::WholeRows { len, .. }, Level::Full) => Some(TILE / len * len),
            (Loops::WholeRows { len, .. }, Level::Row) => Some(TILE / len),
            _ => None,
        }
    }

    /// What loops of a level run over.
    pub(super) fn extents(&self, level: Level) -> &Shape {
        match level {
            Level::Full => &self.space,
            Level::Row => &self.rows,
            Level::Part(part) => &self.parts[part as usize].shape,
        }
    }
}

fn operand<'s>(slots: &'s Slots, input: &FusedIn) -> &'s CpuBuffer {
    match &slots[input.slot as usize] {
        Some(Ok(buffer)) => buffer,
        Some(Err(_)) | None => panic!("an operand of a fused step is not there"),
    }
}

impl Bound<'_> {
    /// Decides how each operand is read. Gives the order of axes if it is one of this run's own.
    fn read_layouts(
        &mut self,
        slots: &Slots,
        allocator: &Arc<Allocator>,
        pool: &Pool,
    ) -> Result<Option<AxisOrder>, (u32, Failure)> {
        let fused = self.fused;
        let mut simple = fused.natural;
        for input in &fused.ins {
            let buffer = operand(slots, input);
            let packed = buffer.layout.shape == *fused.extents(input.level) && buffer.layout.is_packed();
            let one = !packed && buffer.layout.shape.numel() == 1;
            simple &= packed | one;
            self.ins.push(Input { first: buffer.first(), access: if one { Access::One } else { Access::Packed } });
        }
        if simple {
            return Ok(None);
        }
        let layouts: SmallVec<[Layout; 4]> =
            fused.ins.iter().map(|i| operand(slots, i).layout.broadcast(fused.extents(i.level))).collect();
        // Parts lie in row-major order (FUSED-6).
        let any_order = fused.loops == Loops::Flat && fused.parts.is_empty();
        let own = if any_order { memory_order(&fused.space, &layouts) } else { None };
        let order = own.as_deref().unwrap_or(&fused.order);
        for (i, layout) in layouts.iter().enumerate() {
            let extents = fused.extents(fused.ins[i].level);
            let axes = order.iter().map(|&a| (extents[a as usize], layout.strides[a as usize]));
            let walk = Walk::new(axes);
            let bytes = extents.numel() * fused.ins[i].size;
            self.ins[i].access = match () {
                _ if walk.is_packed() => Access::Packed,
                _ if walk.is_one() => Access::One,
                _ if walk.is_transposed() && bytes > TRANSPOSE_BYTES => {
                    let storage = allocator.allocate(bytes).map_err(|f| (fused.first_instr, f))?;
                    let src = layout.permute(&order.iter().map(|&a| a as i64).collect());
                    let dst = Layout::packed(src.ty());
                    let from = operand(slots, &fused.ins[i]).storage.ptr();
                    kernels::copy(pool, Src { ptr: from, layout: src }, Dst { ptr: storage.ptr(), layout: dst });
                    self.ins[i].first = storage.ptr();
                    self.copies.push(storage);
                    Access::Packed
                }
                _ => self.gathered(i, walk),
            };
        }
        Ok(own)
    }

    /// How an operand is read that neither lies in the iteration order nor is one element.
    fn gathered(&mut self, i: usize, walk: Walk) -> Access {
        let (fused, nth) = (self.fused, self.walks.len());
        self.walks.push(walk);
        let input = &fused.ins[i];
        let Level::Part(part) = input.level else {
            return match (walk.period(), fused.tile_starts(input.level)) {
                (Some(period), Some(unit)) if unit % period == 0 => Access::Alike(nth),
                (Some(period), Some(unit)) if period % unit == 0 && walk.is_packed_in_period() => Access::Again(period),
                _ => Access::Walk(nth),
            };
        };
        let runs_alike = walk.innermost() == fused.parts[part as usize].len;
        if input.only_placed && runs_alike { Access::Placed(nth) } else { Access::Walk(nth) }
    }

    /// Whether a result may be written where an operand lies: packed, all of its storage, and held by nobody else.
    fn may_take(&self, take: &Take, slots: &mut Slots) -> bool {
        let input = &self.ins[take.operand as usize];
        let Some(Ok(buffer)) = &mut slots[self.fused.ins[take.operand as usize].slot as usize] else { return false };
        input.access == Access::Packed
            && std::ptr::eq(input.first, buffer.storage.ptr())
            && buffer.storage.len_bytes() == self.fused.outs[take.out as usize].bytes
            && Arc::get_mut(&mut buffer.storage).is_some()
    }
}

/// Larger operands that lie across the iteration order are turned first, in blocks, rather than gathered tile by
/// tile: every cache line would be fetched once per element.
const TRANSPOSE_BYTES: usize = 64 << 10;

/// The order of axes in which the operands lie, where all that fill the space lie in one that is not row-major. Walking
/// it reads them in place instead of gathering.
fn memory_order(space: &Shape, layouts: &[Layout]) -> Option<AxisOrder> {
    let wide = |a: &u8| space[*a as usize] != 1;
    let mut found: Option<AxisOrder> = None;
    for layout in layouts {
        let stride = |a: &u8| layout.strides[*a as usize];
        let axes: AxisOrder = (0..space.rank() as u8).collect();
        if axes.iter().any(|a| wide(a) && stride(a) == 0) {
            continue;
        }
        let mut order: AxisOrder = axes.iter().copied().filter(wide).collect();
        order.sort_by_key(|a| std::cmp::Reverse(stride(a)));
        let mut expected = 1;
        for a in order.iter().rev() {
            if stride(a) != expected {
                return None;
            }
            expected *= space[*a as usize] as i64;
        }
        order.extend(axes.iter().copied().filter(|a| !wide(a)));
        match &found {
            Some(found) if *found != order => return None,
            _ => found = Some(order),
        }
    }
    found
}

impl ConstSpec {
    /// The scalar as an element of a tile, in the low bytes.
    fn bits(&self, scalar: Scalar) -> u64 {
        let single = match scalar {
            Scalar::I64(i) => i as f32,
            Scalar::F64(_) | Scalar::Bool(_) => scalar.as_f64() as f32,
        };
        match self.dtype {
            DType::Bool => scalar.as_bool() as u64,
            DType::U8 | DType::I8 | DType::I32 | DType::I64 => scalar.as_i64() as u64,
            DType::F16 if self.rounded => f16_to_f32(f32_to_f16(single)).to_bits() as u64,
            DType::BF16 if self.rounded => bf16_to_f32(f32_to_bf16(single)).to_bits() as u64,
            DType::F16 | DType::BF16 | DType::F32 => single.to_bits() as u64,
            DType::F64 => scalar.as_f64().to_bits(),
        }
    }
}
