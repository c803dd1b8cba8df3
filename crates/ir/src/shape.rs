//! Shapes and axis lists: small, `Copy`, compared and hashed as slices.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::OpError;

/// The most dimensions a tensor may have.
pub const MAX_RANK: usize = 8;

/// A list of at most [`MAX_RANK`] numbers, stored inline: extents, strides, starts or steps.
#[derive(Clone, Copy)]
pub struct Dims<T> {
    rank: u8,
    dims: [T; MAX_RANK],
}

/// The extents of a tensor.
///
/// ```
/// use gt_ir::Shape;
/// let s = Shape::new(&[2, 3]);
/// assert_eq!(s.numel(), 6);
/// assert_eq!(&s[..], [2, 3]);
/// ```
pub type Shape = Dims<usize>;

/// Element strides, starts or steps: signed numbers, one per axis.
pub type Steps = Dims<i64>;

impl<T: Copy + Default> Dims<T> {
    /// A list of the given numbers.
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`]; use [`Dims::try_new`] on what a user wrote.
    #[inline]
    pub fn new(dims: &[T]) -> Self {
        assert!(dims.len() <= MAX_RANK, "rank {} is over {MAX_RANK}", dims.len());
        let mut out = Self { rank: dims.len() as u8, dims: [T::default(); MAX_RANK] };
        out.dims[..dims.len()].copy_from_slice(dims);
        out
    }

    /// A list of the given numbers, or an error when there are too many.
    pub fn try_new(dims: &[T]) -> Result<Self, OpError> {
        if dims.len() > MAX_RANK {
            return Err(OpError::shape(format!("a tensor may have at most {MAX_RANK} dimensions, got {}", dims.len())));
        }
        Ok(Self::new(dims))
    }

    /// `rank` copies of one number.
    pub fn splat(rank: usize, value: T) -> Self {
        let mut out = Self::new(&[]);
        for _ in 0..rank {
            out.push(value);
        }
        out
    }

    /// The number of entries.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Appends a number.
    ///
    /// # Panics
    /// If the list is full.
    #[inline]
    pub fn push(&mut self, dim: T) {
        assert!((self.rank as usize) < MAX_RANK, "rank is over {MAX_RANK}");
        self.dims[self.rank as usize] = dim;
        self.rank += 1;
    }

    /// Inserts a number before position `at`.
    pub fn insert(&mut self, at: usize, dim: T) {
        self.push(dim);
        self[at..].rotate_right(1);
    }

    /// Removes the number at position `at`.
    pub fn remove(&mut self, at: usize) -> T {
        let out = self[at];
        self[at..].rotate_left(1);
        self.rank -= 1;
        self.dims[self.rank as usize] = T::default();
        out
    }

    /// The entries with `f` applied.
    pub fn map<U: Copy + Default>(&self, f: impl FnMut(T) -> U) -> Dims<U> {
        self.iter().copied().map(f).collect()
    }
}

impl Shape {
    /// The number of elements. An empty tensor may have extents whose product overflows on the way to zero.
    #[inline]
    pub fn numel(&self) -> usize {
        self.iter().fold(1, |n, &d| n.wrapping_mul(d))
    }

    /// The number of elements, or `None` when it does not fit what an address can hold.
    pub fn checked_numel(&self) -> Option<usize> {
        if self.contains(&0) {
            return Some(0);
        }
        let n = self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (n <= isize::MAX as usize / 8).then_some(n)
    }

    /// Row-major element strides.
    pub fn contiguous_strides(&self) -> Steps {
        let mut strides = Steps::splat(self.rank(), 1);
        for axis in (0..self.rank().saturating_sub(1)).rev() {
            // Wrapping: the strides of an empty tensor are read by nobody.
            strides[axis] = strides[axis + 1].wrapping_mul(self[axis + 1].max(1) as i64);
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

impl<T> Deref for Dims<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.dims[..self.rank as usize]
    }
}

impl<T> DerefMut for Dims<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.dims[..self.rank as usize]
    }
}

impl<T: PartialEq> PartialEq for Dims<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq> Eq for Dims<T> {}

impl<T: std::hash::Hash> std::hash::Hash for Dims<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T: Copy + Default> Default for Dims<T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<T: Copy + Default> FromIterator<T> for Dims<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut out = Self::default();
        for dim in iter {
            out.push(dim);
        }
        out
    }
}

impl<T: fmt::Debug> fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: fmt::Display> fmt::Display for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// A set of axes as a bit mask.
///
/// ```
/// use gt_ir::AxisSet;
/// let axes = AxisSet::of(&[0, 2]);
/// assert!(axes.contains(2) && !axes.contains(1));
/// assert_eq!(axes.iter().collect::<Vec<_>>(), [0, 2]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct AxisSet(pub u8);

impl AxisSet {
    /// The set of the given axes.
    pub fn of(axes: &[usize]) -> Self {
        AxisSet(axes.iter().fold(0, |m, &a| m | 1 << a))
    }

    /// All axes of a tensor of this rank.
    pub fn all(rank: usize) -> Self {
        AxisSet(((1u16 << rank) - 1) as u8)
    }

    /// Whether `axis` is in the set.
    pub fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 & (1 << axis) != 0
    }

    /// The axes, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_RANK).filter(move |&a| self.contains(a))
    }

    /// The shape without these axes.
    pub fn remove_from(self, shape: &Shape) -> Shape {
        if self.is_empty() {
            return *shape;
        }
        (0..shape.rank()).filter(|&a| !self.contains(a)).map(|a| shape[a]).collect()
    }

    /// The shape with these axes put in, of extent 1: undoes [`AxisSet::remove_from`].
    ///
    /// # Panics
    /// If that makes more axes than a tensor may have.
    pub fn insert_into(self, shape: &Shape) -> Shape {
        let mut out = *shape;
        self.iter().for_each(|axis| out.insert(axis.min(out.rank()), 1));
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

/// The shape two operands broadcast to, or `None` when they do not.
#[inline]
pub fn broadcast(a: &Shape, b: &Shape) -> Option<Shape> {
    if a == b {
        return Some(*a);
    }
    let rank = a.rank().max(b.rank());
    let mut out = Shape::splat(rank, 1);
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
