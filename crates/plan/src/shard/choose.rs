//! Which strategy an instruction takes along each axis of its mesh (PLACE-3).

use gt_ir::TensorType;
use gt_ir::shard::{Split, Strategy};
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
    pub(super) cost: (u64, usize),
}

/// The cheapest way to run an instruction on a mesh.
pub(super) fn choose(mesh: &Mesh, ins: &[&Known], strategies: &[Strategy], outs: &[TensorType]) -> Candidate {
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
        let candidate = candidate(mesh, ins, &picks, outs);
        let is_free = candidate.cost == (0, 0);
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

fn candidate(mesh: &Mesh, ins: &[&Known], picks: &[&Strategy], outs: &[TensorType]) -> Candidate {
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
        let (cost, stays) = reach(known, placement);
        bytes = bytes.saturating_add(cost);
        changed += !stays as usize;
        if !stays && known.origin.is_none() && is_whole_on(known, mesh) && !placement.is_partial() {
            cut += known.ty.bytes() as u64 / CUT;
        }
    }
    // What has to be reduced later is no bargain, unless it is had for nothing.
    if bytes > 0 {
        for (ty, splits) in outs.iter().zip(&made) {
            let is_partial = |k: &usize| matches!(splits[*k], Split::Partial(_));
            let others = (0..splits.len()).filter(is_partial).map(|k| mesh.extents()[k] as u64 - 1).sum::<u64>();
            bytes = bytes.saturating_add(2 * others * ty.bytes() as u64);
        }
    }
    Candidate { ins: placements, outs: made, moves_whole: false, cost: (bytes.saturating_add(cut), changed) }
}

fn is_whole_on(known: &Known, mesh: &Mesh) -> bool {
    known.copies.iter().any(|c| c.placement.mesh == *mesh && c.placement.is_replicated())
}

/// What it costs to have a value lie so, and whether it does already.
fn reach(known: &Known, placement: &Placement) -> (u64, bool) {
    let lies =
        |c: &&super::placer::Copy| c.placement.mesh == placement.mesh && same_parts(&c.placement, placement, &known.ty);
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
