//! How a value is split over workers, and what an op says about it.
//!
//! SHARD-1: along one axis of a mesh a value is whole everywhere, cut along one of its axes, or the sum (or another
//! reduction) of what the workers hold.
//! SHARD-2: borders are a function of extent, unit and count alone ([`bounds`]), so every worker knows everybody's part.
//! SHARD-3: a strategy of an op is legal along any axis of a mesh, whatever is chosen along the others: what
//! [`Sharding::local`] makes depends on regions only.

use smallvec::SmallVec;

use crate::ops::ReduceKind;
use crate::{Counts, Emit, Op, OpError, Scalar, Shape, Steps, TensorType, Val};

/// How a value lies along one axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Everywhere the same.
    Replicate,
    /// Cut along one of its axes, at multiples of `unit`: a head, or what a reshape makes of one, is never cut.
    Shard {
        /// Which axis.
        axis: u8,
        /// Elements that stay together. In a [`Strategy`] a ratio: every unit of an instruction is multiplied by one
        /// number, which the placement of the inputs decides.
        unit: u32,
    },
    /// Every worker has a part; the value is their reduction.
    Partial(ReduceKind),
}

impl Split {
    /// Cut along `axis`, between any two elements.
    pub const fn shard(axis: usize) -> Split {
        Split::Shard { axis: axis as u8, unit: 1 }
    }

    /// To be summed.
    pub const SUM: Split = Split::Partial(ReduceKind::Sum);
}

/// One legal way to split an instruction along one axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Of each input.
    pub ins: SmallVec<[Split; 3]>,
    /// Of each output.
    pub outs: SmallVec<[Split; 2]>,
}

impl Strategy {
    /// A strategy, in short.
    pub fn new(ins: &[Split], outs: &[Split]) -> Strategy {
        Strategy { ins: SmallVec::from_slice(ins), outs: SmallVec::from_slice(outs) }
    }
}

/// Where part `index` of `count` begins and how long it is, of an axis of `extent` elements that is cut at multiples of
/// `unit`. Earlier parts are larger where it does not come out even; late ones may be empty.
///
/// ```
/// use gt_ir::shard::bounds;
/// assert_eq!([0, 1, 2].map(|i| bounds(7, 1, 3, i)), [(0, 3), (3, 2), (5, 2)]);
/// assert_eq!([0, 1, 2].map(|i| bounds(10, 4, 3, i)), [(0, 4), (4, 4), (8, 2)]);
/// ```
pub fn bounds(extent: usize, unit: usize, count: usize, index: usize) -> (usize, usize) {
    let units = extent.div_ceil(unit);
    let (each, more) = (units / count, units % count);
    let first = index * each + index.min(more);
    let last = first + each + (index < more) as usize;
    let (start, end) = ((first * unit).min(extent), (last * unit).min(extent));
    (start, end - start)
}

/// A box of a tensor: where it starts and how far it reaches, axis by axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The first element of each axis.
    pub start: Counts,
    /// How many elements.
    pub size: Shape,
}

impl Region {
    /// All of a tensor.
    pub fn whole(shape: &Shape) -> Region {
        Region { start: Counts::splat(shape.rank(), 0), size: *shape }
    }

    /// Whether it is all of a tensor of this shape.
    pub fn is_whole(&self, shape: &Shape) -> bool {
        self.size == *shape
    }

    /// Whether it is all of a tensor of this shape along `axis`.
    pub fn is_whole_along(&self, shape: &Shape, axis: usize) -> bool {
        self.size[axis] == shape[axis]
    }

    /// Part `index` of `count` of it.
    #[must_use]
    pub fn part(&self, split: Split, count: usize, index: usize) -> Region {
        let Split::Shard { axis, unit } = split else { return *self };
        let axis = axis as usize;
        let (start, size) = bounds(self.size[axis], unit as usize, count, index);
        let mut part = *self;
        part.start[axis] += start;
        part.size = part.size.shrunk(axis, size);
        part
    }

    /// What both have; `None` if that is nothing.
    pub fn meet(&self, other: &Region) -> Option<Region> {
        let mut both = *self;
        for axis in 0..self.size.rank() {
            let start = self.start[axis].max(other.start[axis]);
            let end = (self.start[axis] + self.size[axis]).min(other.start[axis] + other.size[axis]);
            if end <= start {
                return None;
            }
            both.start[axis] = start;
            both.size = both.size.shrunk(axis, end - start);
        }
        Some(both)
    }
}

/// A value of an instruction as a worker sees it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The type of the whole.
    pub ty: TensorType,
    /// Which of it the worker has, or makes.
    pub region: Region,
}

impl Part {
    /// The type of what the worker has.
    pub fn local(&self) -> TensorType {
        self.ty.with_shape(self.region.size)
    }
}

/// What every op answers about being split. As [`crate::Primitive`] it has no default bodies: an op that cannot be split says
/// so.
pub trait Sharding {
    /// How many tensors an instruction with so many inputs handles side by side, each by itself: one, but for ops that are
    /// many instructions in one. With n of them input and output `i` belong to tensor `i % n`, and [`Sharding::shard`] is
    /// asked about one tensor at a time.
    fn packed_tensors(&self, ins: usize) -> usize;
    /// Every legal way to split the instruction along one axis of a mesh, but for the one that is always legal: everything
    /// replicated.
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy>;
    /// Emits what one worker does of it: `vals` are its parts of the inputs, and the parts of the outputs come back, each
    /// made by an instruction of its own.
    ///
    /// # Errors
    /// When the regions are such that no strategy allows them.
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError>;
}

/// What an op sees when it is asked for the part of one worker.
pub struct LocalCx<'a> {
    /// The inputs: the whole types, and what the worker has.
    pub ins: &'a [Part],
    /// The outputs: the whole types, and what the worker makes, or contributes to.
    pub outs: &'a [Part],
    /// The immediates.
    pub scalars: &'a [Scalar],
}

impl LocalCx<'_> {
    /// The common case: the same op, with the attributes it has for this part, on the parts.
    pub fn run(&self, op: impl Into<Op>, ins: &[Val], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError> {
        e.emit(op.into(), ins, self.scalars)
    }

    /// The region of output `index` of a value that was made whole.
    pub fn cut(&self, index: usize, whole: Val, e: &mut dyn Emit) -> Result<Val, OpError> {
        let part = &self.outs[index];
        if part.region.is_whole(&part.ty.shape) {
            return Ok(whole);
        }
        let starts: Vec<i64> = part.region.start.iter().map(|&s| s as i64).collect();
        e.slice(whole, part.region.size, &starts, Steps::splat(part.region.size.rank(), 1))
    }
}
