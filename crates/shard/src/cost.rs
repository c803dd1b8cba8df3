//! Bytes that a conversion moves, all workers together.

use gt_ir::TensorType;
use gt_ir::shard::Split;

use super::Placement;
use super::convert::quiet;

/// Bytes that travel when a value of this type goes from one placement to another.
pub(super) fn moved(from: &Placement, to: &Placement, ty: &TensorType) -> u64 {
    if quiet(from, to, &ty.shape).is_some() {
        return 0;
    }
    if to.is_partial() {
        let whole = |s: &Split| if matches!(s, Split::Partial(_)) { Split::Replicate } else { *s };
        let through = Placement { mesh: to.mesh.clone(), splits: to.splits.iter().map(whole).collect() };
        return moved(from, &through, ty);
    }
    let size = ty.dtype.size() as u64;
    let mut bytes = 0u64;
    for (rank, &worker) in to.mesh.workers().iter().enumerate() {
        let want = to.region(&ty.shape, rank);
        let have = from.mesh.rank(worker).and_then(|r| from.region(&ty.shape, r).meet(&want));
        let have = have.map_or(0, |region| region.size.numel() as u64);
        bytes = bytes.saturating_add((want.size.numel() as u64 - have) * size);
    }
    let addends: u64 = (0..from.splits.len())
        .filter(|&k| matches!(from.splits[k], Split::Partial(_)))
        .map(|k| from.mesh.extents()[k] as u64)
        .fold(1, u64::saturating_mul);
    if addends > 1 {
        // Reduced in shares and given to all, which is also what a sum costs that only parts of the group ask for: its parts
        // would have to be put together again before long.
        bytes = bytes.saturating_add((ty.bytes() as u64).saturating_mul(2 * (addends - 1)));
    }
    bytes
}

/// What a value costs that is nowhere.
pub(super) const NEVER: u64 = u64::MAX / 16;
