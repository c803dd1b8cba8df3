//! A step of an optimizer that each worker takes for a part of the parameters (PLACE-7).

use gt_ir::ops::ReduceKind;
use gt_ir::shard::Split;
use gt_ir::{OpError, TensorId};
use smallvec::SmallVec;

use super::choose::Candidate;
use super::{Mesh, Placement, Placer};

/// Steps on fewer bytes are taken whole by everybody: they cost less than another message.
const LEAST_BYTES: usize = 1 << 20;

/// A parameter whose step is taken in parts.
pub(super) struct InParts {
    /// Its place in the update.
    pub(super) tensor: usize,
    /// Where it lies, and will lie again.
    pub(super) whole: Placement,
    /// Where its parts, and those of its gradient and states, lie.
    part: Placement,
}

impl InParts {
    /// The way its step goes.
    pub(super) fn candidate(&self, ins: usize, outs: usize) -> Candidate {
        Candidate {
            ins: SmallVec::from_elem(self.part.clone(), ins),
            outs: SmallVec::from_elem(self.part.splits.clone(), outs),
            ..Candidate::default()
        }
    }
}

impl Placer {
    /// Those of an update's parameters whose step is taken in parts: gradients that have to be summed anyway travel as parts of
    /// sums, and new parameters travel back, which moves as many bytes as sums for all, while each worker computes a share and
    /// keeps a share of the states.
    pub(super) fn steps_in_parts(
        &self,
        ins: &[TensorId],
        tensors: usize,
        members: &[usize],
        mesh: &Mesh,
    ) -> Result<Vec<InParts>, OpError> {
        if mesh.count() == 1 {
            return Ok(Vec::new());
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        for &tensor in members {
            let ids: SmallVec<[TensorId; 4]> = ins.iter().copied().skip(tensor).step_by(tensors).collect();
            if let Some(in_parts) = self.step_in_parts(tensor, &ids, mesh)? {
                bytes = self.known(ids[0])?.ty.bytes().saturating_add(bytes);
                found.push(in_parts);
            }
        }
        Ok(if bytes >= LEAST_BYTES { found } else { Vec::new() })
    }

    fn step_in_parts(&self, tensor: usize, ids: &[TensorId], mesh: &Mesh) -> Result<Option<InParts>, OpError> {
        let [parameter, gradient, states @ ..] = ids else { return Ok(None) };
        let (parameter, gradient) = (self.known(*parameter)?, self.known(*gradient)?);
        // A gradient that somebody has asked for is summed already.
        let [addends] = &gradient.copies[..] else { return Ok(None) };
        if addends.placement.mesh != *mesh || gradient.origin.is_some() {
            return Ok(None);
        }
        let splits = &addends.placement.splits;
        let mut partial = (0..splits.len()).filter(|&k| matches!(splits[k], Split::Partial(_)));
        let (Some(along), None) = (partial.next(), partial.next()) else { return Ok(None) };
        if splits[along] != Split::Partial(ReduceKind::Sum) {
            return Ok(None);
        }
        let with = |split: Split| {
            let mut splits = splits.clone();
            splits[along] = split;
            Placement { mesh: mesh.clone(), splits }
        };
        let whole = with(Split::Replicate);
        // Along an axis that is not cut yet, and gives everybody something.
        let is_cut = |axis: u8| splits.iter().any(|s| matches!(s, Split::Shard { axis: cut, .. } if *cut == axis));
        let count = mesh.extents()[along] as usize;
        let shape = &parameter.ty.shape;
        let axis = (0..shape.rank() as u8).find(|&axis| !is_cut(axis) && shape[axis as usize] >= count);
        let Some(axis) = axis else { return Ok(None) };
        let part = with(Split::shard(axis as usize));
        let lies = |copies: &[super::placer::PlacedCopy], placement: &Placement| {
            copies.iter().any(|c| c.placement == *placement)
        };
        let mut there = lies(&parameter.copies, &whole);
        for &state in states {
            let state = self.known(state)?;
            there &= state.origin.is_some() || lies(&state.copies, &whole) || lies(&state.copies, &part);
        }
        Ok(there.then_some(InParts { tensor, whole, part }))
    }
}
