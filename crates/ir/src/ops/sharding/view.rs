//! Views: an axis that stays stays cut.

use super::{Vals, aligned, axes, partials_pass};
use crate::ops::{Broadcast, Permute, Reshape, Slice};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, Shape, TensorType, Val};

/// The elements below one step of the outermost axis, and the axis, in a group of axes that corresponds to another.
struct Outermost {
    axis: usize,
    extent: usize,
    below: usize,
}

/// Pairs the axes of two shapes of one count of elements into the smallest groups that correspond, and gives the
/// outermost axes of each. Axes of one element do not matter.
fn groups(from: &Shape, to: &Shape) -> Vec<(Outermost, Outermost)> {
    let mut found = Vec::new();
    if from.numel() == 0 {
        return found;
    }
    let (mut i, mut j) = (axes(from).peekable(), axes(to).peekable());
    while let (Some(a), Some(b)) = (i.next(), j.next()) {
        let (mut below_a, mut below_b) = (1, 1);
        // The counts are equal in the end, so that the smaller one always has an axis left.
        while from[a] * below_a != to[b] * below_b {
            let (axes, shape, below) = match from[a] * below_a < to[b] * below_b {
                true => (&mut i, from, &mut below_a),
                false => (&mut j, to, &mut below_b),
            };
            match axes.next() {
                Some(axis) => *below *= shape[axis],
                None => return found,
            }
        }
        let outer = |axis: usize, extent: usize, below: usize| Outermost { axis, extent, below };
        found.push((outer(a, from[a], below_a), outer(b, to[b], below_b)));
    }
    found
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Sharding for Reshape {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let mut found: Vec<Strategy> = Vec::new();
        for (from, to) in groups(&ins[0].shape, &self.shape) {
            // A cut falls where both outermost axes have a border: at multiples of the lowest common multiple of what
            // lies below them.
            let shared = common_divisor(from.below, to.below);
            let (unit_from, unit_to) = (to.below / shared, from.below / shared);
            let (Ok(fits_from), Ok(fits_to)) = (u32::try_from(unit_from), u32::try_from(unit_to)) else { continue };
            if from.extent > unit_from {
                found.push(Strategy::new(
                    &[Split::Shard { axis: from.axis as u8, unit: fits_from }],
                    &[Split::Shard { axis: to.axis as u8, unit: fits_to }],
                ));
            }
        }
        found.extend(partials_pass(ins[0].dtype, 1));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(Reshape { shape: cx.outs[0].region.size }, vals, e)
    }
}

impl Sharding for Permute {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let moved = |axis: usize| Strategy::new(&[Split::shard(self.perm[axis] as usize)], &[Split::shard(axis)]);
        axes(&outs[0].shape).map(moved).chain(partials_pass(ins[0].dtype, 1)).collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Broadcast {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let along = |axis| Strategy::new(&[aligned(&ins[0].shape, &self.shape, axis, 1)], &[Split::shard(axis)]);
        axes(&self.shape).map(along).chain(partials_pass(ins[0].dtype, 1)).collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(Broadcast { shape: cx.outs[0].region.size }, vals, e)
    }
}

impl Sharding for Slice {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let shape = ins[0].shape;
        axes(&shape)
            .filter(|&axis| self.sizes[axis] == shape[axis] && self.steps[axis] == 1)
            .map(|axis| {
                let to = axis - self.drop.iter().filter(|&gone| gone < axis).count();
                Strategy::new(&[Split::shard(axis)], &[Split::shard(to)])
            })
            .chain(partials_pass(ins[0].dtype, 1))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let (shape, region) = (cx.ins[0].ty.shape, cx.ins[0].region);
        let mut op = self.clone();
        for axis in 0..shape.rank() {
            // Only axes that are taken whole are ever cut.
            if !region.is_whole_along(&shape, axis) {
                op.sizes = op.sizes.with_extent(axis, region.size[axis])?;
            }
        }
        cx.run(op, vals, e)
    }
}
