//! The extents of tensors that can exist.
//!
//! SHAPE-1: the product of a shape's extents, with 0 counted as 1, is at most [`Shape::MAX_ELEMENTS`], whoever made it:
//! no constructor leaves that unchecked, and a shape cannot be changed in place. So element counts, byte counts, packed
//! strides and offsets never overflow, not even on the way to a product of zero.

use std::fmt;
use std::ops::Deref;

use crate::{Dims, MAX_RANK, OpError, Steps};

/// The extents of a tensor.
///
/// ```
/// use gt_ir::Shape;
/// let s = Shape::new(&[2, 3]);
/// assert_eq!(s.numel(), 6);
/// assert_eq!(&s[..], [2, 3]);
/// assert!(Shape::try_new(&[1 << 40, 1 << 40]).is_err());
/// assert!(Shape::try_new(&[1 << 40, 1 << 40, 0]).is_err());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shape(Dims<usize>);

impl Shape {
    /// The most elements of a tensor, where an extent of 0 counts as 1: 2^62 bytes of the widest dtype.
    pub const MAX_ELEMENTS: usize = 1 << 59;

    /// The extents of a tensor, for extents that the program itself chose.
    ///
    /// # Panics
    /// If no tensor can have them; use [`Shape::try_new`] on extents that were computed, or that a user wrote.
    #[inline]
    pub fn new(extents: &[usize]) -> Shape {
        if let Err(error) = check(extents) {
            panic!("{error}");
        }
        Shape(Dims::new(extents))
    }

    /// The extents of a tensor.
    ///
    /// # Errors
    /// If there are more than [`MAX_RANK`] of them, or more elements than [`Shape::MAX_ELEMENTS`].
    pub fn try_new(extents: &[usize]) -> Result<Shape, OpError> {
        check(extents)?;
        Ok(Shape(Dims::new(extents)))
    }

    /// [`Shape::try_new`] of what an iterator gives.
    ///
    /// # Errors
    /// As [`Shape::try_new`].
    pub fn try_collect(extents: impl IntoIterator<Item = usize>) -> Result<Shape, OpError> {
        let (mut dims, mut count) = (Dims::default(), 0);
        for extent in extents {
            count += 1;
            if count <= MAX_RANK {
                dims.push(extent);
            }
        }
        if count > MAX_RANK {
            return Err(too_many(count));
        }
        Shape::try_from(dims)
    }

    /// `rank` axes of one element.
    pub fn ones(rank: usize) -> Shape {
        Shape(Dims::splat(rank, 1))
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.iter().product()
    }

    /// The first `rank` axes.
    pub fn leading(&self, rank: usize) -> Shape {
        Shape(Dims::new(&self[..rank]))
    }

    /// The axes for which `keep` says so.
    pub fn filtered(&self, keep: impl Fn(usize) -> bool) -> Shape {
        let mut dims = Dims::default();
        for axis in 0..self.rank() {
            if keep(axis) {
                dims.push(self[axis]);
            }
        }
        Shape(dims)
    }

    /// The shape with extent 1 along the axes for which `flat` says so.
    pub fn flattened(&self, flat: impl Fn(usize) -> bool) -> Shape {
        let mut dims = self.0;
        for axis in 0..dims.rank() {
            if flat(axis) {
                dims[axis] = 1;
            }
        }
        Shape(dims)
    }

    /// All axes but this one.
    pub fn without(&self, axis: usize) -> Shape {
        self.filtered(|other| other != axis)
    }

    /// The shape with another extent along `axis`.
    ///
    /// # Errors
    /// If that makes too many elements.
    pub fn with_extent(&self, axis: usize, extent: usize) -> Result<Shape, OpError> {
        let mut shape = *self;
        shape.0[axis] = extent;
        check_size(&shape)?;
        Ok(shape)
    }

    /// The shape with a smaller extent along `axis`.
    ///
    /// # Panics
    /// If it is not smaller, and not 1 either.
    pub fn shrunk(&self, axis: usize, extent: usize) -> Shape {
        let mut dims = self.0;
        assert!(extent <= dims[axis].max(1), "{extent} elements are not a part of axis {axis} of {self}");
        dims[axis] = extent;
        Shape(dims)
    }

    /// The shape with an axis of one element before axis `at`.
    ///
    /// # Panics
    /// If there is no room for another axis.
    pub fn with_unit_axis(&self, at: usize) -> Shape {
        let mut dims = self.0;
        dims.insert(at, 1);
        Shape(dims)
    }

    /// The shape with axes `a` and `b` exchanged.
    pub fn swapped(&self, a: usize, b: usize) -> Shape {
        let mut dims = self.0;
        dims.swap(a, b);
        Shape(dims)
    }

    /// The shape whose axis `i` is axis `perm[i]` of this one, or `None` unless `perm` names every axis once.
    pub fn permuted(&self, perm: &[i64]) -> Option<Shape> {
        if perm.len() != self.rank() {
            return None;
        }
        let (mut dims, mut seen) = (Dims::default(), 0u64);
        for &axis in perm {
            let axis = usize::try_from(axis).ok().filter(|&axis| axis < self.rank() && seen >> axis & 1 == 0)?;
            seen |= 1 << axis;
            dims.push(self[axis]);
        }
        Some(Shape(dims))
    }

    /// Row-major element strides.
    pub fn contiguous_strides(&self) -> Steps {
        let mut strides = Steps::splat(self.rank(), 1);
        for axis in (0..self.rank().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * self[axis + 1].max(1) as i64;
        }
        strides
    }

    /// The strides by which elements that lie in this shape with `strides` are seen in shape `new`, or `None` where they
    /// have to be copied for that. Axes of extent 1 get stride 0: nobody walks along them.
    pub fn strides_seen_as(&self, strides: &Steps, new: &Shape) -> Option<Steps> {
        if self.numel() == 0 {
            return Some(new.contiguous_strides());
        }
        // Runs of old axes are matched with runs of new axes of the same element count; inside an old run the strides must
        // nest as in a packed tensor.
        let old: Vec<(usize, i64)> =
            (0..self.rank()).filter(|&axis| self[axis] != 1).map(|axis| (self[axis], strides[axis])).collect();
        let mut seen = Steps::splat(new.rank(), 0);
        let (mut o, mut n) = (0, 0);
        while n < new.rank() {
            if new[n] == 1 {
                n += 1;
                continue;
            }
            let (o_start, n_start) = (o, n);
            let (mut old_count, mut new_count) = (old.get(o)?.0, new[n]);
            while old_count != new_count {
                if old_count < new_count {
                    o += 1;
                    old_count *= old.get(o)?.0;
                } else {
                    n += 1;
                    new_count *= *new.get(n)?;
                }
            }
            if (o_start..o).any(|i| old[i].1 != old[i + 1].1 * old[i + 1].0 as i64) {
                return None;
            }
            let mut stride = old[o].1;
            for axis in (n_start..=n).rev() {
                seen[axis] = stride;
                stride *= new[axis] as i64;
            }
            o += 1;
            n += 1;
        }
        Some(seen)
    }
}

impl TryFrom<Dims<usize>> for Shape {
    type Error = OpError;

    fn try_from(dims: Dims<usize>) -> Result<Shape, OpError> {
        check_size(&dims)?;
        Ok(Shape(dims))
    }
}

#[inline]
fn check(extents: &[usize]) -> Result<(), OpError> {
    if extents.len() > MAX_RANK {
        return Err(too_many(extents.len()));
    }
    check_size(extents)
}

/// Every shape with new extents is checked here (SHAPE-1).
#[inline]
fn check_size(extents: &[usize]) -> Result<(), OpError> {
    let count = extents.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
    match count {
        Some(n) if n <= Shape::MAX_ELEMENTS => Ok(()),
        _ => Err(too_large(extents)),
    }
}

#[cold]
fn too_large(extents: &[usize]) -> OpError {
    let dims = Dims::new(extents);
    OpError::shape(format!("a tensor of shape {dims} is too large: at most 2^59 elements are allowed"))
}

#[cold]
fn too_many(count: usize) -> OpError {
    OpError::shape(format!("a tensor may have at most {MAX_RANK} dimensions, got {count}"))
}

impl Deref for Shape {
    type Target = Dims<usize>;
    #[inline]
    fn deref(&self) -> &Dims<usize> {
        &self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The extents two operands broadcast to, or `None` when they do not. No tensor may be large enough to have them.
pub(crate) fn broadcast_extents(a: &Shape, b: &Shape) -> Option<Dims<usize>> {
    let rank = a.rank().max(b.rank());
    let mut out = Dims::splat(rank, 1);
    for i in 0..rank {
        let da = if i + a.rank() >= rank { a[i + a.rank() - rank] } else { 1 };
        let db = if i + b.rank() >= rank { b[i + b.rank() - rank] } else { 1 };
        out[i] = match (da, db) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Some(out)
}

/// Whether a tensor of shape `from` broadcasts to `to`.
pub(crate) fn expands_to(from: &Shape, to: &Shape) -> bool {
    from.rank() <= to.rank() && from.iter().rev().zip(to.iter().rev()).all(|(&from, &to)| from == to || from == 1)
}

/// The shape two operands broadcast to, or `None` when they do not, or no tensor is that large.
#[inline]
pub fn broadcast(a: &Shape, b: &Shape) -> Option<Shape> {
    // Nearly always one of the two is what both broadcast to.
    if expands_to(b, a) {
        return Some(*a);
    }
    if expands_to(a, b) {
        return Some(*b);
    }
    Shape::try_from(broadcast_extents(a, b)?).ok()
}
