//! A sum that everybody wants, in two rounds (CONVERT-2), which may lie apart: what is computed between them hides them.
//!
//! ```text
//! begin   pack, send to each peer its share of the addends
//! middle  receive addends of the own share, reduce them in order, send the sum to all
//! end     receive the other shares, unpack
//! ```

use gt_ir::ops::ReduceKind;
use gt_ir::shard::bounds;
use gt_ir::{Emit, OpError, Shape, TensorType, Val};

use super::convert::{Tags, all_reduced, flat_slice, own_parts, pack, reduce};
use super::lower::Draft;
use super::{Conversion, Phase, Placement};

/// What a worker is in a reduction along one axis of a mesh.
pub(super) struct Share<'a> {
    pub(super) placement: &'a Placement,
    pub(super) axis: usize,
    pub(super) kind: ReduceKind,
    pub(super) rank: usize,
}

impl Share<'_> {
    fn count(&self) -> usize {
        self.placement.mesh.extents()[self.axis] as usize
    }

    fn own(&self) -> usize {
        self.placement.mesh.coordinate(self.rank, self.axis)
    }

    /// The others of the reduction, with their places in it.
    fn others(&self) -> Vec<(usize, u32)> {
        let mesh = &self.placement.mesh;
        // Those that differ along this axis only.
        let step: usize = mesh.extents()[self.axis + 1..].iter().map(|&e| e as usize).product();
        let first = self.rank - self.own() * step;
        (0..self.count()).filter(|&k| k != self.own()).map(|k| (k, mesh.workers()[first + k * step])).collect()
    }
}

/// A reduction between its rounds.
pub(super) struct Flight {
    packed: Val,
    sum: Option<Val>,
}

impl Flight {
    fn ty(&self, draft: &Draft<'_>) -> TensorType {
        draft.ty(self.packed)
    }
}

/// All of it at once.
pub(super) fn all_reduce(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    own: &Share<'_>,
    tags: &Tags,
) -> Result<(), OpError> {
    let mut flight = begin(draft, values, own, tags)?;
    middle(draft, &mut flight, own, tags)?;
    end(draft, values, &flight, own, tags)
}

/// One phase of it.
pub(super) fn phase(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    first: gt_ir::TensorId,
    phase: Phase,
) -> Result<(), OpError> {
    let wrong = || OpError::malformed("a reduction that cannot be taken apart");
    let one = values.first().ok_or_else(wrong)?;
    let (from, to) = (draft.placement(one.lies)?.clone(), draft.placement(one.wanted)?.clone());
    for value in values {
        if (value.lies, value.wanted, value.ty.dtype) != (one.lies, one.wanted, one.ty.dtype) {
            return Err(wrong());
        }
        super::lower::fits(&from, &value.ty)?;
    }
    let (axis, kind) = all_reduced(&from, &to).ok_or_else(wrong)?;
    let Some(rank) = from.mesh.rank(draft.worker) else { return Ok(()) };
    let own = Share { placement: &from, axis, kind, rank };
    let tags = Tags::new(first, &from, &to);
    match phase {
        Phase::Begin => {
            let flight = begin(draft, values, &own, &tags)?;
            draft.flights.insert(first, flight);
        }
        Phase::Middle => {
            let mut flight = draft.flights.remove(&first).ok_or_else(wrong)?;
            middle(draft, &mut flight, &own, &tags)?;
            draft.flights.insert(first, flight);
        }
        Phase::End => {
            let flight = draft.flights.remove(&first).ok_or_else(wrong)?;
            end(draft, values, &flight, &own, &tags)?;
        }
    }
    Ok(())
}

fn begin(draft: &mut Draft<'_>, values: &[Conversion], own: &Share<'_>, tags: &Tags) -> Result<Flight, OpError> {
    let mine = own_parts(draft, values, own.placement, own.rank)?;
    let vals: Vec<Val> = mine.iter().map(|(_, val)| *val).collect();
    let flight = Flight { packed: pack(draft, &vals)?, sum: None };
    let numel = flight.ty(draft).numel();
    let mut sends = Vec::new();
    for (k, peer) in own.others() {
        let (start, len) = bounds(numel, 1, own.count(), k);
        if len > 0 {
            let part = flat_slice(draft, flight.packed, start, len)?;
            sends.push((part, tags.name(0, draft.worker, peer), peer));
        }
    }
    draft.exchange(&sends, &[]);
    Ok(flight)
}

fn middle(draft: &mut Draft<'_>, flight: &mut Flight, own: &Share<'_>, tags: &Tags) -> Result<(), OpError> {
    let ty = flight.ty(draft);
    let (start, len) = bounds(ty.numel(), 1, own.count(), own.own());
    if len == 0 {
        return Ok(());
    }
    let part = ty.with_shape(Shape::new(&[len]));
    let others = own.others();
    let receives: Vec<_> = others.iter().map(|&(_, peer)| (tags.name(0, peer, draft.worker), part, peer)).collect();
    let mut received = draft.exchange(&[], &receives).into_iter();
    let mut sum = None;
    for k in 0..own.count() {
        let next = match k == own.own() {
            true => flat_slice(draft, flight.packed, start, len)?,
            false => received.next().ok_or_else(|| OpError::malformed("an addend is missing"))?,
        };
        sum = Some(match sum {
            Some(sum) => reduce(draft, own.kind, sum, next)?,
            None => next,
        });
    }
    flight.sum = sum;
    let Some(sum) = sum else { return Ok(()) };
    let sends: Vec<_> = others.iter().map(|&(_, peer)| (sum, tags.name(1, draft.worker, peer), peer)).collect();
    draft.exchange(&sends, &[]);
    Ok(())
}

fn end(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    flight: &Flight,
    own: &Share<'_>,
    tags: &Tags,
) -> Result<(), OpError> {
    let ty = flight.ty(draft);
    let len = |k: usize| bounds(ty.numel(), 1, own.count(), k).1;
    let receives: Vec<_> = own
        .others()
        .into_iter()
        .filter(|&(k, _)| len(k) > 0)
        .map(|(k, peer)| (tags.name(1, peer, draft.worker), ty.with_shape(Shape::new(&[len(k)])), peer))
        .collect();
    let mut received = draft.exchange(&[], &receives).into_iter();
    let mut shares = Vec::new();
    for k in (0..own.count()).filter(|&k| len(k) > 0) {
        let next = if k == own.own() { flight.sum } else { received.next() };
        shares.push(next.ok_or_else(|| OpError::malformed("a share is missing"))?);
    }
    let whole = pack(draft, &shares)?;
    let mut at = 0;
    for value in values {
        let size = own.placement.region(&value.ty.shape, own.rank).size;
        let flat = flat_slice(draft, whole, at, size.numel())?;
        let made = (draft as &mut dyn Emit).reshape(flat, size)?;
        at += size.numel();
        draft.give(value.to, made)?;
    }
    Ok(())
}
