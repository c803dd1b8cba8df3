//! Reading and writing at positions: along the axes that go side by side, along the positions, and along the axis that
//! the positions speak of, where each worker does what falls into its part.
//!
//! INDEX-SHARD-1: a position outside the whole axis fails as it does on one worker: every worker that looks into a part
//! checks the positions against the whole first ([`Positions`]).

use smallvec::smallvec;

use super::{Vals, axes, from_one, partial_kinds, sums};
use crate::ops::{Check, Complaint, Gather, Pad, Put, PutMode, ReduceKind, Reshape, Scatter, Take};
use crate::rows::{BinaryKind, CompareKind};
use crate::shard::{LocalCx, Part, Sharding, Split, Strategy};
use crate::{AxisSet, Counts, DType, Emit, FailureKind, Op, OpError, Scalar, Shape, Steps, TensorType, Val};

const WHOLE: Split = Split::Replicate;

/// Positions along an axis of which a worker has a part.
struct Positions {
    /// Which are in the part.
    mine: Val,
    /// Where in the part; anything where they are not in it.
    at: Val,
}

impl Positions {
    /// Of `index` in the part of `data` along `axis`; a failure of `kind` unless all are in the whole.
    fn new(
        e: &mut dyn Emit,
        index: Val,
        data: &Part,
        axis: usize,
        wrap: bool,
        kind: FailureKind,
    ) -> Result<Self, OpError> {
        let (extent, start) = (data.ty.shape[axis] as i64, data.region.start[axis] as i64);
        let number = |n: i64| crate::Operand::Num(Scalar::I64(n));
        let mut at = index;
        if wrap {
            let from_end = e.compare(CompareKind::Lt, index, number(0))?;
            let wrapped = e.add(index, number(extent))?;
            at = e.select(from_end, wrapped, index, DType::I64)?;
        }
        let below = e.compare(CompareKind::Lt, at, number(0))?;
        let above = e.compare(CompareKind::Ge, at, number(extent))?;
        let outside = e.binary(BinaryKind::Or, below, above)?;
        let all = AxisSet::all(e.ty(outside).shape.rank());
        let wrong = e.reduce(ReduceKind::Max, outside, all, false)?;
        let complaint = if kind == FailureKind::Index { Complaint::Index } else { Complaint::Position };
        let at = e.one(Check { complaint }.into(), &[at, wrong], &[])?;
        let at = e.sub(at, number(start))?;
        let after = e.compare(CompareKind::Ge, at, number(0))?;
        let before = e.compare(CompareKind::Lt, at, number(data.region.size[axis] as i64))?;
        Ok(Positions { mine: e.binary(BinaryKind::And, after, before)?, at })
    }

    /// The positions with `elsewhere` where they are not in the part.
    fn or(&self, e: &mut dyn Emit, elsewhere: usize) -> Result<Val, OpError> {
        e.select(self.mine, self.at, crate::Operand::Num(Scalar::I64(elsewhere as i64)), DType::I64)
    }

    /// `x`, whose last axes but `after` are those of the positions, with zeros where they are not in the part.
    fn only_mine(&self, e: &mut dyn Emit, x: Val, after: usize) -> Result<Val, OpError> {
        let own = e.ty(self.mine).shape;
        let mine = e.reshape(self.mine, (0..after).fold(own, |shape, _| shape.with_unit_axis(shape.rank())))?;
        let dtype = e.ty(x).dtype;
        e.select(mine, x, 0.0, dtype)
    }
}

/// Writes into a part that has one more slice, for what does not belong to it, and takes that slice away again.
fn with_room(
    e: &mut dyn Emit,
    part: Val,
    axis: usize,
    write: impl FnOnce(&mut dyn Emit, Val) -> Result<Val, OpError>,
) -> Result<Val, OpError> {
    let shape = e.ty(part).shape;
    let (low, mut high) = (Counts::splat(shape.rank(), 0), Counts::splat(shape.rank(), 0));
    high[axis] = 1;
    let room = e.one(Pad { low, high }.into(), &[part], &[Scalar::I64(0)])?;
    let written = write(e, room)?;
    e.slice(written, shape, &vec![0; shape.rank()], Steps::splat(shape.rank(), 1))
}

/// A part of no elements as it is, under a name of its own.
fn untouched(e: &mut dyn Emit, part: Val) -> Vals {
    let shape = e.ty(part).shape;
    e.emit(Reshape { shape }.into(), &[part], &[])
}

/// Whether a worker looks into a part of the axis that the positions speak of.
fn is_cut(data: &Part, axis: usize) -> bool {
    !data.region.is_whole_along(&data.ty.shape, axis)
}

/// Reading `data` at positions that everybody has: parts of any reduction, or of an axis of which one has the element.
fn read_of_parts(dtype: DType, axis: usize, extent: usize) -> Vec<Strategy> {
    let partials = partial_kinds(dtype).iter().map(|&kind| Split::Partial(kind));
    let mut found: Vec<Strategy> = partials.map(|part| Strategy::new(&[part, WHOLE], &[part])).collect();
    if extent > 1 {
        found.push(Strategy::new(&[Split::shard(axis), WHOLE], &[from_one(dtype)]));
    }
    found
}

/// Writing at positions that everybody has: of parts of a reduction, or into parts of the axis.
fn written_to_parts(dtype: DType, mode: PutMode, axis: usize, extent: usize) -> Vec<Strategy> {
    let passes = |kind: ReduceKind| mode == PutMode::Set || kind == ReduceKind::Sum;
    let partials = partial_kinds(dtype).iter().filter(|&&kind| passes(kind)).map(|&kind| Split::Partial(kind));
    let mut found: Vec<Strategy> = partials.map(|part| Strategy::new(&[part, WHOLE, part], &[part])).collect();
    if extent > 1 {
        found.push(Strategy::new(&[Split::shard(axis), WHOLE, WHOLE], &[Split::shard(axis)]));
    }
    found
}

/// Where an axis that is not the taken one is in the result of `take`.
fn beside_taken(axis: usize, taken: usize, index: &Shape) -> usize {
    if axis < taken { axis } else { axis + index.rank() - 1 }
}

/// What a worker reads where the data is cut along the axis that is read: what lies in its part, and nothing for the rest. `op`
/// reads the whole, `within` a part, and `behind` axes of what is read come behind those of the index.
fn read_part(
    (op, within): (Op, Op),
    axis: u8,
    (wrap, kind): (bool, FailureKind),
    behind: usize,
    cx: &LocalCx<'_>,
    vals: &[Val],
    e: &mut dyn Emit,
) -> Vals {
    let (data, own) = (&cx.ins[0], axis as usize);
    if !is_cut(data, own) {
        return cx.run(op, vals, e);
    }
    if data.region.size[own] == 0 {
        return Ok(smallvec![e.fill(cx.outs[0].local(), 0.0)?]);
    }
    let positions = Positions::new(e, vals[1], data, own, wrap, kind)?;
    let at = positions.or(e, 0)?;
    let read = e.one(within, &[vals[0], at], &[])?;
    Ok(smallvec![positions.only_mine(e, read, behind)?])
}

impl Sharding for Take {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let (x, index, own) = (ins[0].shape, ins[1].shape, self.axis as usize);
        let mut found = read_of_parts(ins[0].dtype, own, x[own]);
        found.extend(axes(&index).map(|j| Strategy::new(&[WHOLE, Split::shard(j)], &[Split::shard(own + j)])));
        found.extend(
            axes(&x)
                .filter(|&a| a != own)
                .map(|a| Strategy::new(&[Split::shard(a), WHOLE], &[Split::shard(beside_taken(a, own, &index))])),
        );
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let behind = cx.ins[0].ty.shape.rank() - self.axis as usize - 1;
        let within = Take { axis: self.axis, wrap: false };
        read_part((self.clone().into(), within.into()), self.axis, (self.wrap, FailureKind::Index), behind, cx, vals, e)
    }
}

impl Sharding for Put {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let (x, index, own) = (ins[0].shape, ins[1].shape, self.axis as usize);
        let mut found = written_to_parts(ins[0].dtype, self.mode, own, x[own]);
        if self.mode == PutMode::Add && sums(ins[0].dtype) {
            found.extend(
                axes(&index)
                    .map(|j| Strategy::new(&[Split::SUM, Split::shard(j), Split::shard(own + j)], &[Split::SUM])),
            );
        }
        found.extend(axes(&x).filter(|&a| a != own).map(|a| {
            let written = Split::shard(beside_taken(a, own, &index));
            Strategy::new(&[Split::shard(a), WHOLE, written], &[Split::shard(a)])
        }));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let (data, own) = (&cx.ins[0], self.axis as usize);
        if !is_cut(data, own) {
            return cx.run(self.clone(), vals, e);
        }
        if data.region.size[own] == 0 {
            return untouched(e, vals[0]);
        }
        let rank = data.ty.shape.rank();
        let kind = Put::out_of_range(self.mode, self.wrap, rank);
        let positions = Positions::new(e, vals[1], data, own, self.wrap, kind)?;
        let op = Put { wrap: false, ..self.clone() };
        Ok(smallvec![match self.mode {
            PutMode::Add => {
                let at = positions.or(e, 0)?;
                let added = positions.only_mine(e, vals[2], rank - own - 1)?;
                e.one(op.into(), &[vals[0], at, added], &[])?
            }
            PutMode::Set => {
                let at = positions.or(e, data.region.size[own])?;
                with_room(e, vals[0], own, |e, room| e.one(op.into(), &[room, at, vals[2]], &[]))?
            }
        }])
    }
}

impl Sharding for Gather {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let (x, index, own) = (ins[0].shape, ins[1].shape, self.axis as usize);
        let mut found = read_of_parts(ins[0].dtype, own, x[own]);
        // An index of no elements need not even have the data's rank.
        if index.numel() == 0 {
            return found;
        }
        found.extend(axes(&index).filter(|&a| a == own || index[a] == x[a]).map(|a| {
            let cut = Split::shard(a);
            Strategy::new(&[if a == own { WHOLE } else { cut }, cut], &[cut])
        }));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let op: Op = self.clone().into();
        read_part((op.clone(), op), self.axis, (false, FailureKind::Domain), 0, cx, vals, e)
    }
}

impl Sharding for Scatter {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let (x, index, src, own) = (ins[0].shape, ins[1].shape, ins[2].shape, self.axis as usize);
        let dtype = ins[0].dtype;
        if index.numel() == 0 {
            return written_to_parts(dtype, self.mode, own, 0);
        }
        let mut found = written_to_parts(dtype, self.mode, own, x[own]);
        let covered = |a: usize| index[a] == src[a];
        if self.mode == PutMode::Add && sums(dtype) && covered(own) && index[own] > 1 {
            let cut = Split::shard(own);
            found.push(Strategy::new(&[Split::SUM, cut, cut], &[Split::SUM]));
        }
        found.extend(axes(&x).filter(|&a| a != own && index[a] == x[a] && covered(a)).map(|a| {
            let cut = Split::shard(a);
            Strategy::new(&[cut, cut, cut], &[cut])
        }));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let (data, own) = (&cx.ins[0], self.axis as usize);
        if !is_cut(data, own) {
            return cx.run(self.clone(), vals, e);
        }
        if data.region.size[own] == 0 {
            return untouched(e, vals[0]);
        }
        let positions = Positions::new(e, vals[1], data, own, false, FailureKind::Domain)?;
        Ok(smallvec![match self.mode {
            PutMode::Add => {
                let at = positions.or(e, 0)?;
                // The index covers a corner of the source.
                let (shape, mut added) = (e.ty(at).shape, vals[2]);
                if e.ty(added).shape != shape {
                    added = e.slice(added, shape, &vec![0; shape.rank()], Steps::splat(shape.rank(), 1))?;
                }
                let added = positions.only_mine(e, added, 0)?;
                e.one(self.clone().into(), &[vals[0], at, added], &[])?
            }
            PutMode::Set => {
                let at = positions.or(e, data.region.size[own])?;
                with_room(e, vals[0], own, |e, room| e.one(self.clone().into(), &[room, at, vals[2]], &[]))?
            }
        }])
    }
}
