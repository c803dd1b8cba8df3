//! From one placement to another: what one worker cuts, sends, receives, reduces and puts together.
//!
//! Every worker needs a region of each value, and knows who has what: the regions that there are, each once for every addend
//! where the value is partial. So gathering, scattering, sending and reducing are one thing. What goes from one worker to
//! another goes as one message.
//!
//! CONVERT-1: addends are reduced in the order of their coordinates, pieces taken in the order of their regions: runs repeat
//! bit for bit.
//! CONVERT-2: a large sum that everybody wants is made in two rounds, each worker reducing its share and giving it to the
//! others: 2 (n - 1) / n of its bytes leave each worker, as by a ring, in two steps instead of 2 (n - 1).

use std::collections::HashMap;

use gt_ir::ops::{Binary, Concat, ReduceKind, Side};
use gt_ir::rows::BinaryKind;
use gt_ir::shard::{Region, Split, bounds};
use gt_ir::{DType, Emit, OpError, Shape, Steps, TensorId, TensorType, Val};

use super::all_reduce::{Share, all_reduce};
use super::draft::{Draft, fits};
use super::exchange::{self, Way};
use super::{Conversion, Placement};

/// Sums below so many bytes are made in one round: everybody gets everything.
pub(super) const TWO_ROUNDS_BYTES: usize = 16 << 10;

/// Bytes that each worker sends when values of these types go from one placement to another.
pub(super) fn sent_by(from: &Placement, to: &Placement, types: &[TensorType]) -> Vec<(u32, u64)> {
    let mut sent: Vec<(u32, u64)> = from.mesh.workers().iter().map(|&w| (w, 0)).collect();
    if to.is_partial() {
        return sent;
    }
    if let Some((axis, _)) = all_reduced(from, to) {
        let count = from.mesh.extents()[axis] as usize;
        let numel = |rank: usize| {
            types.iter().fold(0, |n: usize, ty| n.saturating_add(from.region(&ty.shape, rank).size.numel()))
        };
        let size = types.first().map_or(1, |ty| ty.dtype.size());
        if numel(0).saturating_mul(size) >= TWO_ROUNDS_BYTES && count > 1 {
            for (rank, (_, bytes)) in sent.iter_mut().enumerate() {
                let (all, own) = (numel(rank), bounds(numel(rank), 1, count, from.mesh.coordinate(rank, axis)).1);
                *bytes = (all - own).saturating_add(own.saturating_mul(count - 1)).saturating_mul(size) as u64;
            }
            return sent;
        }
    }
    let holdings = Holdings::new(types, from);
    for (rank, &worker) in to.mesh.workers().iter().enumerate() {
        for piece in holdings.pieces(to, rank) {
            if from.mesh.workers()[piece.holder] != worker {
                let bytes = &mut sent[piece.holder].1;
                *bytes = bytes.saturating_add((piece.region.size.numel() * types[piece.value].dtype.size()) as u64);
            }
        }
    }
    sent
}

/// What one worker contributes to another's region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    /// Of the value of this place in the list.
    pub(super) value: usize,
    pub(super) region: Region,
    /// Who sends it, by rank where it lies.
    pub(super) holder: usize,
}

/// Names for what travels: one for each round and pair of workers.
pub(super) struct Tags {
    first: TensorId,
    workers: Vec<u32>,
}

impl Tags {
    pub(super) fn new(first: TensorId, from: &Placement, to: &Placement) -> Tags {
        let mut workers: Vec<u32> = from.mesh.workers().iter().chain(to.mesh.workers()).copied().collect();
        workers.sort_unstable();
        workers.dedup();
        Tags { first, workers }
    }

    fn name(&self, round: usize, from: u32, to: u32) -> TensorId {
        let n = self.workers.len();
        let place = |w: u32| self.workers.iter().position(|&x| x == w).unwrap_or_default();
        TensorId(self.first.0.wrapping_add(((round * n + place(from)) * n + place(to)) as u64))
    }

    /// Of one lot among several.
    pub(super) fn lot(&self, round: usize, from: u32, to: u32, lot: usize) -> TensorId {
        let n = self.workers.len();
        let first = self.name(round, from, to);
        TensorId(first.0.wrapping_add((2 * n * n * lot) as u64))
    }

    /// How many names the conversion of so many values takes.
    pub(super) fn count(from: &Placement, to: &Placement, values: usize) -> u64 {
        let n = Tags::new(TensorId::default(), from, to).workers.len() as u64;
        2 * n * n * (values as u64 + 1)
    }
}

/// Whether a placement becomes another one without anybody hearing of it, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quiet {
    /// Everybody has what it needs, or more.
    Cut,
    /// A whole value as one that has to be summed: the first keeps it, the others have nothing to add.
    Addend,
}

/// See [`Quiet`]; `None` when something has to travel.
pub(super) fn quiet(from: &Placement, to: &Placement, shape: &Shape) -> Option<Quiet> {
    if to.is_partial() {
        let same = from.mesh == to.mesh
            && from
                .splits
                .iter()
                .zip(&to.splits)
                .all(|(a, b)| a == b || matches!((a, b), (Split::Replicate, Split::Partial(_))));
        return same.then_some(if from.splits == to.splits { Quiet::Cut } else { Quiet::Addend });
    }
    if from.is_partial() {
        return None;
    }
    let has = |(rank, &worker): (usize, &u32)| {
        let need = to.region(shape, rank);
        from.mesh.rank(worker).is_some_and(|r| contains(&from.region(shape, r), &need))
    };
    to.mesh.workers().iter().enumerate().all(has).then_some(Quiet::Cut)
}

fn contains(outer: &Region, inner: &Region) -> bool {
    inner.size.contains(&0)
        || (0..inner.size.rank()).all(|axis| {
            outer.start[axis] <= inner.start[axis]
                && inner.start[axis] + inner.size[axis] <= outer.start[axis] + outer.size[axis]
        })
}

/// The axis of the mesh along which everybody's addends become everybody's sum.
pub(super) fn all_reduced(from: &Placement, to: &Placement) -> Option<(usize, ReduceKind)> {
    if from.mesh != to.mesh {
        return None;
    }
    let mut changed = (0..from.splits.len()).filter(|&k| from.splits[k] != to.splits[k]);
    let axis = changed.next().filter(|_| changed.next().is_none())?;
    match (from.splits[axis], to.splits[axis]) {
        (Split::Partial(kind), Split::Replicate) => Some((axis, kind)),
        _ => None,
    }
}

/// Whether addends become sums of which everybody has a part.
pub(super) fn reduce_scattered(from: &Placement, to: &Placement) -> bool {
    let mut changed = from.splits.iter().zip(&to.splits).filter(|(a, b)| a != b);
    let one = matches!(changed.next(), Some((Split::Partial(_), Split::Shard { .. })));
    from.mesh == to.mesh && one && changed.next().is_none()
}

/// Where conversions that travel together begin and end. All of them together have no more elements than one tensor may have,
/// so what they are packed into has a shape, and sums of their parts do not overflow.
pub(super) fn travel(
    draft: &Draft<'_>,
    one: &Conversion,
    values: &[Conversion],
) -> Result<(Placement, Placement), OpError> {
    let (from, to) = (draft.placement(one.lies)?.clone(), draft.placement(one.wanted)?.clone());
    for value in values {
        if (value.lies, value.wanted, value.ty.dtype) != (one.lies, one.wanted, one.ty.dtype) {
            return Err(OpError::malformed("conversions that travel together differ"));
        }
        fits(&from, &value.ty)?;
        fits(&to, &value.ty)?;
    }
    let together = values.iter().fold(0usize, |n, v| n.saturating_add(v.ty.numel()));
    if together > Shape::MAX_ELEMENTS {
        return Err(OpError::shape(format!("conversions of {together} elements together are too large")));
    }
    Ok((from, to))
}

/// Makes the worker's part of some conversions.
pub(super) fn convert(draft: &mut Draft<'_>, values: &[Conversion], first: TensorId) -> Result<(), OpError> {
    let Some(one) = values.first() else { return Ok(()) };
    let (from, to) = travel(draft, one, values)?;
    let (source, target) = (from.mesh.rank(draft.worker), to.mesh.rank(draft.worker));
    if source.is_none() && target.is_none() {
        return Ok(());
    }
    if to.is_partial() {
        return add_in(draft, values, &from, &to);
    }
    let tags = Tags::new(first, &from, &to);
    if let (Some((axis, kind)), Some(rank)) = (all_reduced(&from, &to), source) {
        let numel: usize = values.iter().map(|v| from.region(&v.ty.shape, rank).size.numel()).sum();
        if numel * one.ty.dtype.size() >= TWO_ROUNDS_BYTES && from.mesh.extents()[axis] > 1 {
            let own = Share { placement: &from, axis, kind, rank };
            return all_reduce(draft, values, &own, &tags);
        }
    }
    let way = Way { from: &from, to: &to, tags: &tags };
    exchange::send(draft, values, &way)?;
    exchange::receive(draft, values, &way)
}

/// What reduces a partial placement; along several axes it is one kind.
pub(super) fn kind_of(placement: &Placement) -> ReduceKind {
    let mut kinds =
        placement.splits.iter().filter_map(|s| if let Split::Partial(kind) = s { Some(*kind) } else { None });
    kinds.next().unwrap_or(ReduceKind::Sum)
}

pub(super) fn reduce(draft: &mut Draft<'_>, kind: ReduceKind, a: Val, b: Val) -> Result<Val, OpError> {
    let is_bool = draft.ty(a).dtype == DType::Bool;
    let kind = match kind {
        ReduceKind::Sum if is_bool => BinaryKind::Max,
        ReduceKind::Sum => BinaryKind::Add,
        ReduceKind::Prod if is_bool => BinaryKind::Min,
        ReduceKind::Prod => BinaryKind::Mul,
        ReduceKind::Max => BinaryKind::Max,
        ReduceKind::Min => BinaryKind::Min,
    };
    Ok(draft.emit(Binary { kind, scalar: Side::None }.into(), &[a, b], &[])?[0])
}

/// The parts that a rank has.
pub(super) fn own_parts(
    draft: &mut Draft<'_>,
    values: &[Conversion],
    from: &Placement,
    rank: usize,
) -> Result<Vec<(Region, Val)>, OpError> {
    let part = |v: &Conversion| {
        let region = from.region(&v.ty.shape, rank);
        Ok((region, draft.value(v.from, v.ty.with_shape(region.size))))
    };
    values.iter().map(part).collect()
}

/// Who has which regions of some values.
pub(super) struct Holdings<'a> {
    types: &'a [TensorType],
    from: &'a Placement,
    values: Vec<Vec<Held>>,
}

/// A region, and the ranks that have each addend of it, by addend.
struct Held {
    region: Region,
    addends: Vec<(usize, Vec<usize>)>,
}

impl<'a> Holdings<'a> {
    pub(super) fn new(types: &'a [TensorType], from: &'a Placement) -> Holdings<'a> {
        let values = types.iter().map(|ty| held(&ty.shape, from)).collect();
        Holdings { types, from, values }
    }

    /// Who gives what to the region that `rank` of another placement wants: by value, region and addend.
    pub(super) fn pieces(&self, to: &Placement, rank: usize) -> Vec<Piece> {
        let own = self.from.mesh.rank(to.mesh.workers()[rank]);
        let mut out = Vec::new();
        for (value, (ty, held)) in self.types.iter().zip(&self.values).enumerate() {
            let want = to.region(&ty.shape, rank);
            for Held { region, addends } in held {
                let Some(both) = region.meet(&want) else { continue };
                for (_, holders) in addends {
                    out.push(Piece { value, region: both, holder: giver(holders, own, rank) });
                }
            }
        }
        out
    }

    /// What one holder has of each value, and who else has it.
    pub(super) fn of(&self, holder: usize) -> HeldBy<'_> {
        let addend = addend(self.from, holder);
        let mut values = Vec::with_capacity(self.values.len());
        for (ty, held) in self.types.iter().zip(&self.values) {
            let region = self.from.region(&ty.shape, holder);
            let held = held.iter().find(|held| held.region == region);
            let addends: &[(usize, Vec<usize>)] = held.map_or(&[], |held| &held.addends);
            let at = addends.binary_search_by_key(&addend, |(addend, _)| *addend).ok();
            values.push((region, at.map_or(&[][..], |at| &addends[at].1)));
        }
        HeldBy { holder, from: self.from, types: self.types, values }
    }
}

/// What one holder has of each value, and the ranks that have the same.
pub(super) struct HeldBy<'a> {
    holder: usize,
    from: &'a Placement,
    types: &'a [TensorType],
    values: Vec<(Region, &'a [usize])>,
}

impl HeldBy<'_> {
    /// Those of [`Holdings::pieces`] that the holder gives.
    pub(super) fn pieces(&self, to: &Placement, rank: usize) -> Vec<Piece> {
        let own = self.from.mesh.rank(to.mesh.workers()[rank]);
        let piece = |(value, (ty, (region, holders))): (usize, (&TensorType, &(Region, &[usize])))| {
            let region = region.meet(&to.region(&ty.shape, rank))?;
            let gives = !holders.is_empty() && giver(holders, own, rank) == self.holder;
            gives.then_some(Piece { value, region, holder: self.holder })
        };
        self.types.iter().zip(&self.values).enumerate().filter_map(piece).collect()
    }
}

/// Who gives a region to a rank: itself if it can, else one of those that have it, so that the load is spread.
fn giver(holders: &[usize], own: Option<usize>, rank: usize) -> usize {
    own.filter(|own| holders.binary_search(own).is_ok()).unwrap_or(holders[rank % holders.len()])
}

/// The regions of one value in the order of the first rank that has them.
fn held(shape: &Shape, from: &Placement) -> Vec<Held> {
    let mut regions: Vec<Held> = Vec::new();
    let mut known: HashMap<Region, usize> = HashMap::new();
    let mut known_addends: HashMap<(usize, usize), usize> = HashMap::new();
    for holder in 0..from.mesh.count() {
        let region = from.region(shape, holder);
        let at = *known.entry(region).or_insert_with(|| {
            regions.push(Held { region, addends: Vec::new() });
            regions.len() - 1
        });
        let (addend, addends) = (addend(from, holder), &mut regions[at].addends);
        let place = *known_addends.entry((at, addend)).or_insert_with(|| {
            addends.push((addend, Vec::new()));
            addends.len() - 1
        });
        addends[place].1.push(holder);
    }
    regions.iter_mut().for_each(|held| held.addends.sort_by_key(|(addend, _)| *addend));
    regions
}

/// Which addend a rank has, where a value is partial.
fn addend(from: &Placement, rank: usize) -> usize {
    let mut addend = 0;
    for (axis, split) in from.splits.iter().enumerate() {
        if matches!(split, Split::Partial(_)) {
            addend = addend * from.mesh.extents()[axis] as usize + from.mesh.coordinate(rank, axis);
        }
    }
    addend
}

/// A region of what the worker has.
pub(super) fn cut(draft: &mut Draft<'_>, (have, val): &(Region, Val), region: &Region) -> Result<Val, OpError> {
    if have == region {
        return Ok(*val);
    }
    let starts: Vec<i64> = region.start.iter().zip(have.start.iter()).map(|(r, h)| (r - h) as i64).collect();
    (draft as &mut dyn Emit).slice(*val, region.size, &starts, Steps::splat(region.size.rank(), 1))
}

/// The type of `len` elements behind one another.
pub(super) fn row(dtype: DType, len: usize) -> Result<TensorType, OpError> {
    Ok(TensorType { dtype, shape: Shape::try_new(&[len])? })
}

pub(super) fn flat(draft: &mut Draft<'_>, val: Val) -> Result<Val, OpError> {
    let numel = draft.ty(val).numel();
    (draft as &mut dyn Emit).reshape(val, Shape::try_new(&[numel])?)
}

pub(super) fn flat_slice(draft: &mut Draft<'_>, val: Val, start: usize, len: usize) -> Result<Val, OpError> {
    let part = Shape::try_new(&[len])?;
    if draft.ty(val).shape == part {
        return Ok(val);
    }
    (draft as &mut dyn Emit).slice(val, part, &[start as i64], Steps::splat(1, 1))
}

/// Values behind one another in one of one axis.
pub(super) fn pack(draft: &mut Draft<'_>, vals: &[Val]) -> Result<Val, OpError> {
    let flats = vals.iter().map(|&v| flat(draft, v)).collect::<Result<Vec<_>, _>>()?;
    match flats[..] {
        [one] => Ok(one),
        _ => Ok(draft.emit(Concat { axis: 0 }.into(), &flats, &[])?[0]),
    }
}

/// Pieces of a grid as one value.
pub(super) fn assemble(draft: &mut Draft<'_>, mut pieces: Vec<(Region, Val)>, axis: usize) -> Result<Val, OpError> {
    if let [(_, one)] = pieces[..] {
        return Ok(one);
    }
    if axis >= pieces[0].0.size.rank() {
        return Err(OpError::malformed("two pieces lie in one place"));
    }
    // Stable: pieces of one start stay in order.
    pieces.sort_by_key(|(region, _)| region.start[axis]);
    let mut rows = Vec::new();
    while !pieces.is_empty() {
        let start = pieces[0].0.start[axis];
        let others = pieces.split_off(pieces.partition_point(|(region, _)| region.start[axis] == start));
        rows.push(assemble(draft, std::mem::replace(&mut pieces, others), axis + 1)?);
    }
    match rows[..] {
        [one] => Ok(one),
        _ => Ok(draft.emit(Concat { axis: axis as u8 }.into(), &rows, &[])?[0]),
    }
}

/// [`Quiet::Addend`].
fn add_in(draft: &mut Draft<'_>, values: &[Conversion], from: &Placement, to: &Placement) -> Result<(), OpError> {
    for value in values {
        if quiet(from, to, &value.ty.shape).is_none() {
            return Err(OpError::malformed("a value cannot become one that has to be summed"));
        }
        let Some(rank) = from.mesh.rank(draft.worker) else { continue };
        let ty = from.local(&value.ty, rank);
        let keeps = (0..to.splits.len()).all(|axis| match (from.splits[axis], to.splits[axis]) {
            (Split::Replicate, Split::Partial(ReduceKind::Sum | ReduceKind::Prod)) => {
                from.mesh.coordinate(rank, axis) == 0
            }
            // The largest of equal ones is that one.
            _ => true,
        });
        let val = if keeps {
            draft.value(value.from, ty)
        } else {
            let neutral = if kind_of(to) == ReduceKind::Prod { 1.0 } else { 0.0 };
            (draft as &mut dyn Emit).fill(ty, neutral)?
        };
        draft.give(value.to, val)?;
    }
    Ok(())
}
