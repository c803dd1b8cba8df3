//! A sum that everybody wants, in two rounds (CONVERT-2), which may lie apart: what is computed between them hides them.
//!
//! ```text
//! begin   send to each peer its share of the addends
//! middle  receive addends of the own share, reduce them in order, send the sum to all
//! end     receive the other shares
//! ```

use gt_ir::ops::ReduceKind;
use gt_ir::shard::bounds;
use gt_ir::{Emit, OpError, TensorType, Val};

use super::convert::{Tags, all_reduced, flat, flat_slice, own_parts, pack, reduce, row, travel};
use super::draft::Draft;
use super::exchange;
use super::{Conversion, Phase, Placement, PlacementIndex};

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

/// Pieces of at least so many bytes travel by themselves, as they lie; smaller ones are put behind one another first.
pub(super) const ALONE_BYTES: usize = 64 << 10;

/// A stretch of a value, counted in elements.
#[derive(Clone, Copy, Debug)]
struct Piece {
    value: usize,
    start: usize,
    len: usize,
}

/// The values of a reduction as one long row, of which each worker reduces its share. A share travels in lots.
struct Shares {
    /// By worker and lot.
    lots: Vec<Vec<Vec<Piece>>>,
}

impl Shares {
    fn new(sizes: &[usize], count: usize, size_bytes: usize) -> Shares {
        let total = sizes.iter().sum();
        let share = |k: usize| {
            let (first, len) = bounds(total, 1, count, k);
            let (mut alone, mut together, mut at) = (Vec::new(), Vec::new(), 0);
            for (value, &size) in sizes.iter().enumerate() {
                let (start, end) = (first.max(at), (first + len).min(at + size));
                if start < end {
                    let piece = Piece { value, start: start - at, len: end - start };
                    match piece.len * size_bytes >= ALONE_BYTES {
                        true => alone.push(vec![piece]),
                        false => together.push(piece),
                    }
                }
                at += size;
            }
            if !together.is_empty() {
                alone.push(together);
            }
            alone
        };
        Shares { lots: (0..count).map(share).collect() }
    }
}

fn len(lot: &[Piece]) -> usize {
    lot.iter().map(|piece| piece.len).sum()
}

/// A reduction between its rounds.
pub(super) struct Flight {
    /// Where its values lie, where they will lie, and their types: the same in all parts of it.
    route: Route,
    shares: Shares,
    /// The addends, flat.
    mine: Vec<Val>,
    /// The lots of the own share, reduced.
    sums: Vec<Val>,
}

/// What the parts of one reduction have in common.
#[derive(PartialEq)]
struct Route {
    lies: PlacementIndex,
    wanted: PlacementIndex,
    types: Vec<TensorType>,
}

impl Route {
    /// Of values that [`travel`] has found to go together.
    fn of(values: &[Conversion]) -> Route {
        let (lies, wanted) = values.first().map_or((0, 0), |one| (one.lies, one.wanted));
        Route { lies, wanted, types: values.iter().map(|v| v.ty).collect() }
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

/// One phase of it, or of a conversion of another kind.
pub(super) fn phase(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    first: gt_ir::TensorId,
    phase: Phase,
) -> Result<(), OpError> {
    let wrong = || OpError::malformed("a reduction that cannot be taken apart");
    let one = values.first().ok_or_else(wrong)?;
    let (from, to) = travel(draft, one, values)?;
    let Some((axis, kind)) = all_reduced(&from, &to) else { return exchange::phase(draft, values, first, phase) };
    let Some(rank) = from.mesh.rank(draft.worker) else { return Ok(()) };
    let own = Share { placement: &from, axis, kind, rank };
    let tags = Tags::new(first, &from, &to);
    let continues = |flight: &Flight| flight.route == Route::of(values);
    match phase {
        Phase::Begin => {
            let flight = begin(draft, values, &own, &tags)?;
            draft.flights.insert(first, flight);
        }
        Phase::Middle => {
            let mut flight = draft.flights.remove(&first).filter(continues).ok_or_else(wrong)?;
            middle(draft, &mut flight, &own, &tags)?;
            draft.flights.insert(first, flight);
        }
        Phase::End => {
            let flight = draft.flights.remove(&first).filter(continues).ok_or_else(wrong)?;
            end(draft, values, &flight, &own, &tags)?;
        }
    }
    Ok(())
}

fn begin(draft: &mut Draft<'_>, values: &[Conversion], own: &Share<'_>, tags: &Tags) -> Result<Flight, OpError> {
    draft.look_at_parts(values.len().saturating_mul(own.count()))?;
    let parts = own_parts(draft, values, own.placement, own.rank)?;
    let mine = parts.iter().map(|(_, val)| flat(draft, *val)).collect::<Result<Vec<_>, _>>()?;
    let sizes: Vec<usize> = mine.iter().map(|&val| draft.ty(val).numel()).collect();
    let size_bytes = values.first().map_or(1, |v| v.ty.dtype.size());
    let shares = Shares::new(&sizes, own.count(), size_bytes);
    let flight = Flight { route: Route::of(values), shares, mine, sums: Vec::new() };
    let mut sends = Vec::new();
    for (k, peer) in own.others() {
        for (n, lot) in flight.shares.lots[k].iter().enumerate() {
            let addends = addends(draft, &flight, lot)?;
            sends.push((addends, tags.lot(0, draft.worker, peer, n), peer));
        }
    }
    draft.exchange(&sends, &[])?;
    Ok(flight)
}

/// What the worker itself has of a lot.
fn addends(draft: &mut Draft<'_>, flight: &Flight, lot: &[Piece]) -> Result<Val, OpError> {
    let cut =
        lot.iter().map(|p| flat_slice(draft, flight.mine[p.value], p.start, p.len)).collect::<Result<Vec<_>, _>>()?;
    pack(draft, &cut)
}

fn middle(draft: &mut Draft<'_>, flight: &mut Flight, own: &Share<'_>, tags: &Tags) -> Result<(), OpError> {
    let others = own.others();
    let dtype = flight.mine.first().map_or(gt_ir::DType::F32, |&val| draft.ty(val).dtype);
    let mut receives = Vec::new();
    for (n, lot) in flight.shares.lots[own.own()].iter().enumerate() {
        let ty = row(dtype, len(lot))?;
        receives.extend(others.iter().map(|&(_, peer)| (tags.lot(0, peer, draft.worker, n), ty, peer)));
    }
    let mut received = draft.exchange(&[], &receives)?.into_iter();
    let mut sends = Vec::new();
    for n in 0..flight.shares.lots[own.own()].len() {
        let mut theirs = received.by_ref().take(others.len()).collect::<Vec<_>>().into_iter();
        let mine = addends(draft, flight, &flight.shares.lots[own.own()][n])?;
        let mut sum = None;
        for k in 0..own.count() {
            let next = if k == own.own() { Some(mine) } else { theirs.next() };
            let next = next.ok_or_else(|| OpError::malformed("an addend is missing"))?;
            sum = Some(match sum {
                Some(sum) => reduce(draft, own.kind, sum, next)?,
                None => next,
            });
        }
        let sum = sum.ok_or_else(|| OpError::malformed("no worker has an addend"))?;
        flight.sums.push(sum);
        sends.extend(others.iter().map(|&(_, peer)| (sum, tags.lot(1, draft.worker, peer, n), peer)));
    }
    draft.exchange(&sends, &[])?;
    Ok(())
}

fn end(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    flight: &Flight,
    own: &Share<'_>,
    tags: &Tags,
) -> Result<(), OpError> {
    let dtype = values.first().map_or(gt_ir::DType::F32, |v| v.ty.dtype);
    let mut receives = Vec::new();
    for (k, peer) in own.others() {
        for (n, lot) in flight.shares.lots[k].iter().enumerate() {
            receives.push((tags.lot(1, peer, draft.worker, n), row(dtype, len(lot))?, peer));
        }
    }
    let mut received = draft.exchange(&[], &receives)?.into_iter();
    // The pieces of each value, in order: shares follow one another.
    let mut pieces: Vec<Vec<(usize, Val)>> = vec![Vec::new(); values.len()];
    for (k, lots) in flight.shares.lots.iter().enumerate() {
        for (n, lot) in lots.iter().enumerate() {
            let sum = if k == own.own() { flight.sums.get(n).copied() } else { received.next() };
            let sum = sum.ok_or_else(|| OpError::malformed("a share is missing"))?;
            let mut at = 0;
            for piece in lot {
                pieces[piece.value].push((piece.start, flat_slice(draft, sum, at, piece.len)?));
                at += piece.len;
            }
        }
    }
    for (value, mut pieces) in values.iter().zip(pieces) {
        let size = own.placement.region(&value.ty.shape, own.rank).size;
        pieces.sort_by_key(|(start, _)| *start);
        let vals: Vec<Val> = pieces.into_iter().map(|(_, val)| val).collect();
        let made = match vals.is_empty() {
            true => (draft as &mut dyn Emit).fill(value.ty.with_shape(size), 0.0)?,
            false => {
                let flat = pack(draft, &vals)?;
                (draft as &mut dyn Emit).reshape(flat, size)?
            }
        };
        draft.give(value.to, made)?;
    }
    Ok(())
}
