//! A conversion in one round: what others need is sent, what is needed of others is received and put together. The two may lie
//! apart: what is computed between them hides what travels.
//!
//! EXCHANGE-1: what goes from one worker to another travels in lots, which both know without a word: large pieces as they lie,
//! the rest behind one another in one message.

use gt_ir::shard::Region;
use gt_ir::{Emit, OpError, TensorId, TensorType, Val};

use super::all_reduce::ALONE_BYTES;
use super::convert::{Holdings, Piece, Tags, assemble, cut, flat_slice, kind_of, own_parts, pack, reduce, row, travel};
use super::draft::Draft;
use super::{Conversion, Phase, Placement};

/// How many workers are compared in the time that a part of a value takes, about.
const RANKS_PER_PART: usize = 256;

/// From where to where, and under which names.
pub(super) struct Way<'a> {
    pub(super) from: &'a Placement,
    pub(super) to: &'a Placement,
    pub(super) tags: &'a Tags,
}

impl Way<'_> {
    /// Counts the work for so many values.
    fn count(&self, draft: &mut Draft<'_>, values: usize) -> Result<(), OpError> {
        let (from, to) = (self.from.mesh.count(), self.to.mesh.count());
        // Each value's part of each worker is looked at once; finding a worker among the others takes little.
        draft.look_at_parts(values.saturating_mul(from + to).saturating_add(from * to / RANKS_PER_PART))
    }
}

/// The indices, among the pieces of a rank, of those that it gets from one holder (EXCHANGE-1).
fn lots(pieces: &[Piece], types: &[TensorType], holder: usize) -> Vec<Vec<usize>> {
    let (mut lots, mut together) = (Vec::new(), Vec::new());
    for (place, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.holder == holder) {
        match piece.region.size.numel() * types[piece.value].dtype.size() >= ALONE_BYTES {
            true => lots.push(vec![place]),
            false => together.push(place),
        }
    }
    if !together.is_empty() {
        lots.push(together);
    }
    lots
}

/// Sends what others need of the worker's parts.
pub(super) fn send(draft: &mut Draft<'_>, values: &[Conversion], way: &Way<'_>) -> Result<(), OpError> {
    let Some(source) = way.from.mesh.rank(draft.worker) else { return Ok(()) };
    way.count(draft, values.len())?;
    let types: Vec<TensorType> = values.iter().map(|v| v.ty).collect();
    let holdings = Holdings::new(&types, way.from);
    let held = holdings.of(source);
    let mine = own_parts(draft, values, way.from, source)?;
    let mut sends = Vec::new();
    for (rank, &worker) in way.to.mesh.workers().iter().enumerate() {
        if worker == draft.worker {
            continue;
        }
        let pieces = held.pieces(way.to, rank);
        for (n, lot) in lots(&pieces, &types, source).into_iter().enumerate() {
            let part = |place: usize| cut(draft, &mine[pieces[place].value], &pieces[place].region);
            let parts = lot.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
            sends.push((pack(draft, &parts)?, way.tags.lot(0, draft.worker, worker, n), worker));
        }
    }
    draft.exchange(&sends, &[])?;
    Ok(())
}

/// Receives what the worker needs of others, and makes its parts.
pub(super) fn receive(draft: &mut Draft<'_>, values: &[Conversion], way: &Way<'_>) -> Result<(), OpError> {
    let Some(rank) = way.to.mesh.rank(draft.worker) else { return Ok(()) };
    let source = way.from.mesh.rank(draft.worker);
    way.count(draft, values.len())?;
    let types: Vec<TensorType> = values.iter().map(|v| v.ty).collect();
    let needed = Holdings::new(&types, way.from).pieces(way.to, rank);
    let mut holders: Vec<usize> = needed.iter().map(|p| p.holder).filter(|&h| Some(h) != source).collect();
    holders.sort_unstable();
    holders.dedup();
    let (mut places, mut receives) = (Vec::new(), Vec::new());
    for holder in holders {
        let worker = way.from.mesh.workers()[holder];
        for (n, lot) in lots(&needed, &types, holder).into_iter().enumerate() {
            let numel = lot.iter().map(|&place| needed[place].region.size.numel()).sum();
            let ty = row(types[0].dtype, numel)?;
            receives.push((way.tags.lot(0, worker, draft.worker, n), ty, worker));
            places.push(lot);
        }
    }
    let received = draft.exchange(&[], &receives)?;
    let mut arrived: Vec<Option<Val>> = vec![None; needed.len()];
    for (lot, packed) in places.into_iter().zip(received) {
        let mut at = 0;
        for place in lot {
            let size = needed[place].region.size;
            let flat = flat_slice(draft, packed, at, size.numel())?;
            arrived[place] = Some((draft as &mut dyn Emit).reshape(flat, size)?);
            at += size.numel();
        }
    }
    let mine = source.map(|rank| own_parts(draft, values, way.from, rank)).transpose()?.unwrap_or_default();
    for (index, value) in values.iter().enumerate() {
        let want = way.to.region(&value.ty.shape, rank);
        let mut whole: Vec<(Region, Val)> = Vec::new();
        // Pieces are in the order of their values.
        let first = needed.partition_point(|piece| piece.value < index);
        for (place, piece) in (first..).zip(&needed[first..]).take_while(|(_, piece)| piece.value == index) {
            let val = match arrived[place] {
                Some(val) => val,
                None => cut(draft, &mine[index], &piece.region)?,
            };
            match whole.last_mut() {
                // CONVERT-1: the addends of one region follow one another.
                Some((region, sum)) if *region == piece.region && way.from.is_partial() => {
                    *sum = reduce(draft, kind_of(way.from), *sum, val)?;
                }
                _ => whole.push((piece.region, val)),
            }
        }
        let made = match whole.is_empty() {
            true => (draft as &mut dyn Emit).fill(value.ty.with_shape(want.size), 0.0)?,
            false => assemble(draft, whole, 0)?,
        };
        draft.give(value.to, made)?;
    }
    Ok(())
}

/// One phase of it: there is nothing in the middle.
pub(super) fn phase(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    first: TensorId,
    phase: Phase,
) -> Result<(), OpError> {
    let wrong = || OpError::malformed("a conversion that cannot be taken apart");
    let (from, to) = travel(draft, values.first().ok_or_else(wrong)?, values)?;
    if to.is_partial() {
        return Err(wrong());
    }
    let tags = Tags::new(first, &from, &to);
    let way = Way { from: &from, to: &to, tags: &tags };
    match phase {
        Phase::Begin if draft.begun.insert(first) => send(draft, values, &way),
        Phase::End if draft.begun.remove(&first) => receive(draft, values, &way),
        _ => Err(wrong()),
    }
}
