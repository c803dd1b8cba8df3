//! Sets of axes.

use crate::{Dims, MAX_RANK, Shape};

/// A set of axes as a bit mask.
///
/// ```
/// use gt_ir::AxisSet;
/// let axes = AxisSet::of(&[0, 2]);
/// assert!(axes.contains(2) && !axes.contains(1));
/// assert_eq!(axes.iter().collect::<Vec<_>>(), [0, 2]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct AxisSet(pub u16);

const _: () = assert!(MAX_RANK <= u16::BITS as usize, "an axis set has a bit for every axis");

impl AxisSet {
    /// The set of the given axes.
    pub fn of(axes: &[usize]) -> Self {
        AxisSet(axes.iter().fold(0, |m, &a| m | 1 << a))
    }

    /// All axes of a tensor of this rank.
    pub fn all(rank: usize) -> Self {
        AxisSet(((1u32 << rank) - 1) as u16)
    }

    /// Whether `axis` is in the set.
    pub fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 & (1 << axis) != 0
    }

    /// The axes, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let axis = left.trailing_zeros() as usize;
            // Clears the lowest bit; of none there is nothing to clear.
            left &= left.wrapping_sub(1);
            (axis < MAX_RANK).then_some(axis)
        })
    }

    /// The shape without these axes.
    pub fn remove_from(self, shape: &Shape) -> Shape {
        if self.is_empty() {
            return *shape;
        }
        shape.filtered(|axis| !self.contains(axis))
    }

    /// The shape with extent 1 along these axes.
    pub fn flatten_in(self, shape: &Shape) -> Shape {
        shape.flattened(|axis| self.contains(axis))
    }

    /// The shape with these axes put in, of extent 1: undoes [`AxisSet::remove_from`].
    ///
    /// # Panics
    /// If that makes more axes than a tensor may have.
    pub fn insert_into(self, shape: &Shape) -> Shape {
        self.iter().fold(*shape, |shape, axis| shape.with_unit_axis(axis.min(shape.rank())))
    }

    /// The list with `value` put in at these axes.
    ///
    /// # Panics
    /// If that makes more axes than a tensor may have.
    pub fn insert_value<T: Copy + Default>(self, list: &Dims<T>, value: T) -> Dims<T> {
        let mut out = *list;
        self.iter().for_each(|axis| out.insert(axis.min(out.rank()), value));
        out
    }

    /// The number of axes.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
