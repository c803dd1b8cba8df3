//! Workers in rows and columns, and where on them a value lies.

use gt_ir::shard::{Region, Split};
use gt_ir::{Shape, TensorType};
use smallvec::SmallVec;

/// Workers on a grid of one axis or more: the last axis counts fastest. A single worker is a mesh too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    workers: SmallVec<[u32; 4]>,
    extents: SmallVec<[u32; 2]>,
}

impl Mesh {
    /// Workers in a row.
    ///
    /// # Panics
    /// When there are none.
    pub fn row(workers: &[u32]) -> Mesh {
        assert!(!workers.is_empty(), "a mesh has workers");
        Mesh { workers: workers.into(), extents: SmallVec::from_slice(&[workers.len() as u32]) }
    }

    /// Workers on a grid; `None` unless there are as many as the extents say, each once.
    pub fn grid(workers: &[u32], extents: &[u32]) -> Option<Mesh> {
        let count = extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e))?;
        let fits = count as usize == workers.len() && count > 0 && !extents.is_empty() && are_distinct(workers);
        fits.then(|| Mesh { workers: workers.into(), extents: extents.into() })
    }

    /// All workers.
    pub fn workers(&self) -> &[u32] {
        &self.workers
    }

    /// How many there are along each axis.
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// How many workers there are.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// The place of a worker among [`Mesh::workers`].
    pub fn rank(&self, worker: u32) -> Option<usize> {
        self.workers.iter().position(|&w| w == worker)
    }

    /// The coordinate of a rank along an axis.
    pub fn coordinate(&self, rank: usize, axis: usize) -> usize {
        let inner: u32 = self.extents[axis + 1..].iter().product();
        rank / inner as usize % self.extents[axis] as usize
    }
}

fn are_distinct(workers: &[u32]) -> bool {
    let mut sorted: SmallVec<[u32; 16]> = workers.into();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Where a value lies: on which mesh, and how along each of its axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The workers.
    pub mesh: Mesh,
    /// One for each axis of the mesh.
    pub splits: SmallVec<[Split; 2]>,
}

impl Placement {
    /// Whole on one worker.
    pub fn on(worker: u32) -> Placement {
        Placement::replicated(Mesh::row(&[worker]))
    }

    /// Whole on each worker of a mesh.
    pub fn replicated(mesh: Mesh) -> Placement {
        let splits = mesh.extents.iter().map(|_| Split::Replicate).collect();
        Placement { mesh, splits }
    }

    /// Whether every worker has all of it.
    pub fn is_replicated(&self) -> bool {
        self.splits.iter().all(|s| *s == Split::Replicate)
    }

    /// Whether what the workers have has to be reduced.
    pub fn is_partial(&self) -> bool {
        self.splits.iter().any(|s| matches!(s, Split::Partial(_)))
    }

    /// What a rank has of a tensor of this shape.
    pub fn region(&self, shape: &Shape, rank: usize) -> Region {
        let mut region = Region::whole(shape);
        for (axis, &split) in self.splits.iter().enumerate().filter(|(_, split)| matches!(split, Split::Shard { .. })) {
            let count = self.mesh.extents[axis] as usize;
            region = region.part(split, count, self.mesh.coordinate(rank, axis));
        }
        region
    }

    /// Each worker, and how many bytes it has of a tensor of this type.
    pub fn shares(&self, ty: TensorType) -> impl Iterator<Item = (u32, u64)> + '_ {
        let share = move |(rank, &worker): (usize, &u32)| (worker, self.local(&ty, rank).bytes() as u64);
        self.mesh.workers().iter().enumerate().map(share)
    }

    /// The type of what a rank has.
    pub fn local(&self, ty: &TensorType, rank: usize) -> TensorType {
        ty.with_shape(self.region(&ty.shape, rank).size)
    }
}
