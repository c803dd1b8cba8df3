//! Which strategy an instruction takes along each axis of its mesh (PLACE-3).

use gt_ir::shard::{Split, Strategy};
use gt_ir::{Op, TensorType};
use smallvec::SmallVec;

use super::copies::same_parts;
use super::cost::{NEVER, moved};
use super::placer::Known;
use super::{Mesh, Placement};

/// More combinations than this are not tried: along later axes of the mesh everything is replicated then.
const MOST: usize = 4096;

/// What is whole is cut for nothing, but is often needed whole again: each byte counts for a part of one that moves.
const CUT: u64 = 16;

/// A way to place an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    pub(super) ins: SmallVec<[Placement; 4]>,
    /// The splits of each output.
    pub(super) outs: SmallVec<[SmallVec<[Split; 2]>; 2]>,
    /// An input that is cut has to be put together, or reduced, for it.
    pub(super) moves_whole: bool,
    pub(super) cost: Cost,
}

/// How good a candidate is; the least one is taken. See [`Work`] for the order of the four numbers.
type Cost = (u64, u64, u64, u64);

/// How much an instruction computes for each byte that it makes, and so how the costs of a candidate are compared. `moved` is
/// the bytes that travel, `cut` a share of the bytes that are whole and get cut, `changed` the number of inputs that are
/// changed, and `repeated` along how many axes of the mesh the workers do the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// `moved + cut`, then `changed`: the result may be wanted whole again.
    Little,
    /// `moved + cut`, then `changed`, then `repeated`.
    Much,
    /// `moved`, then `repeated`, `cut` and `changed`: putting the result together again costs less than computing it all.
    Most,
}

/// At least so many operations for each byte that is made are [`Work::Much`].
const MUCH_WORK: u64 = 16;
/// At least so many operations for each byte that is made are [`Work::Most`].
const MOST_WORK: u64 = 128;

impl Work {
    /// Of an instruction with these inputs and outputs.
    pub(super) fn of(op: &Op, types: &[TensorType], outs: &[TensorType]) -> Work {
        let made = outs.iter().fold(0u64, |sum, ty| sum.saturating_add(ty.bytes() as u64));
        match op.primitive().cost(types, outs).flops {
            flops if flops >= made.saturating_mul(MOST_WORK) => Work::Most,
            flops if flops >= made.saturating_mul(MUCH_WORK) => Work::Much,
            _ => Work::Little,
        }
    }

    fn cost(self, moved: u64, cut: u64, changed: u64, repeated: u64) -> Cost {
        match self {
            Work::Little => (moved.saturating_add(cut), changed, 0, 0),
            Work::Much => (moved.saturating_add(cut), changed, repeated, 0),
            Work::Most => (moved, repeated, cut, changed),
        }
    }
}

/// The cheapest way to run an instruction on a mesh.
pub(super) fn choose(
    mesh: &Mesh,
    ins: &[&Known],
    strategies: &[Strategy],
    outs: &[TensorType],
    work: Work,
) -> Candidate {
    let axes = mesh.extents().len();
    let whole = Strategy {
        ins: ins.iter().map(|_| Split::Replicate).collect(),
        outs: outs.iter().map(|_| Split::Replicate).collect(),
    };
    let mut options: Vec<&Strategy> = vec![&whole];
    if mesh.count() > 1 {
        options.extend(strategies);
    }
    let mut best: Option<Candidate> = None;
    let mut picked: SmallVec<[usize; 2]> = SmallVec::from_elem(0, axes);
    for turn in 0..options.len().saturating_pow(axes as u32).min(MOST) {
        let mut rest = turn;
        for pick in picked.iter_mut() {
            *pick = rest % options.len();
            rest /= options.len();
        }
        let picks: SmallVec<[&Strategy; 2]> = picked.iter().map(|&p| options[p]).collect();
        let repeated = picked.iter().filter(|&&pick| pick == 0 && mesh.count() > 1).count();
        let candidate =
            candidate(mesh, ins, &picks, outs, |moved, cut, changed| work.cost(moved, cut, changed, repeated as u64));
        let is_free = candidate.cost == Cost::default();
        if best.as_ref().is_none_or(|best| candidate.cost < best.cost) {
            best = Some(candidate);
        }
        // Nothing is better, and of equals the first is taken.
        if is_free {
            break;
        }
    }
    let mut best = best.unwrap_or_default();
    best.moves_whole = ins.iter().zip(&best.ins).any(|(known, placement)| {
        placement.is_replicated()
            && mesh.count() > 1
            && !is_whole_on(known, mesh)
            && known.origin.is_none()
            && known.copies.iter().any(|c| {
                c.placement.mesh == *mesh && c.placement.splits.iter().any(|s| matches!(s, Split::Shard { .. }))
            })
    });
    best
}

fn candidate(
    mesh: &Mesh,
    ins: &[&Known],
    picks: &[&Strategy],
    outs: &[TensorType],
    cost: impl Fn(u64, u64, u64) -> Cost,
) -> Candidate {
    let mut placements: SmallVec<[Placement; 4]> =
        ins.iter().map(|_| Placement { mesh: mesh.clone(), splits: SmallVec::new() }).collect();
    let mut made: SmallVec<[SmallVec<[Split; 2]>; 2]> = SmallVec::from_elem(SmallVec::new(), outs.len());
    for (axis, strategy) in picks.iter().enumerate() {
        let unit = unit(mesh, ins, strategy, axis);
        let scaled = |split: &Split| match *split {
            Split::Shard { axis, unit: ratio } => Split::Shard { axis, unit: ratio.saturating_mul(unit) },
            other => other,
        };
        for (placement, split) in placements.iter_mut().zip(&strategy.ins) {
            placement.splits.push(scaled(split));
        }
        for (splits, split) in made.iter_mut().zip(&strategy.outs) {
            splits.push(scaled(split));
        }
    }
    let (mut bytes, mut cut, mut changed) = (0u64, 0u64, 0);
    for (k, (known, placement)) in ins.iter().zip(&placements).enumerate() {
        // What an instruction takes twice moves once.
        let is_again = (0..k).any(|j| std::ptr::eq(ins[j], *known) && placements[j] == *placement);
        if is_again {
            continue;
        }
        let (moved, stays) = reach(known, placement);
        bytes = bytes.saturating_add(moved);
        changed += !stays as u64;
        if !stays && known.origin.is_none() && is_whole_on(known, mesh) && !placement.is_partial() {
            cut = cut.saturating_add(known.ty.bytes() as u64 / CUT);
        }
    }
    // What has to be reduced later is no bargain, unless it is had for nothing.
    if bytes > 0 {
        for (ty, splits) in outs.iter().zip(&made) {
            let is_partial = |k: &usize| matches!(splits[*k], Split::Partial(_));
            let others = (0..splits.len()).filter(is_partial).map(|k| mesh.extents()[k] as u64 - 1).sum::<u64>();
            bytes = bytes.saturating_add((ty.bytes() as u64).saturating_mul(2 * others));
        }
    }
    Candidate { ins: placements, outs: made, moves_whole: false, cost: cost(bytes, cut, changed) }
}

fn is_whole_on(known: &Known, mesh: &Mesh) -> bool {
    known.copies.iter().any(|c| c.placement.mesh == *mesh && c.placement.is_replicated())
}

/// What it costs to have a value lie so, and whether it does already.
fn reach(known: &Known, placement: &Placement) -> (u64, bool) {
    let lies = |c: &&super::placer::PlacedCopy| {
        c.placement.mesh == placement.mesh && same_parts(&c.placement, placement, &known.ty)
    };
    if known.copies.iter().any(|c| lies(&c)) {
        return (0, true);
    }
    if known.origin.is_some() {
        return (0, false);
    }
    (known.copies.iter().map(|c| moved(&c.placement, placement, &known.ty)).min().unwrap_or(NEVER), false)
}

/// The number that multiplies the units of a strategy: that of the first input which lies as the strategy wants it.
fn unit(mesh: &Mesh, ins: &[&Known], strategy: &Strategy, along: usize) -> u32 {
    for (known, split) in ins.iter().zip(&strategy.ins) {
        let Split::Shard { axis, unit: ratio } = *split else { continue };
        for copy in known.copies.iter().filter(|c| c.placement.mesh == *mesh) {
            if let Split::Shard { axis: cut, unit } = copy.placement.splits[along]
                && cut == axis
                && unit % ratio == 0
            {
                return unit / ratio;
            }
        }
    }
    1
}
