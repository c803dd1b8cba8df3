//! Short lists with one number per axis: small, `Copy`, compared and hashed as slices.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::OpError;

/// The most dimensions a tensor may have.
///
/// Every list of axes lies inline and is copied with its instruction, so a larger number makes recording
/// slower: 64, as in PyTorch and NumPy, would make every tensor type half a kilobyte. Already a list of 16 is copied by
/// a call, as compilers copy at most 128 bytes in place, so what every operation does borrows types.
pub const MAX_RANK: usize = 16;

/// A list of at most [`MAX_RANK`] numbers, stored inline: strides, starts or steps. Extents are a [`crate::Shape`].
#[derive(Clone, Copy)]
pub struct Dims<T> {
    rank: u8,
    dims: [T; MAX_RANK],
}

/// Unsigned numbers, one per axis, that need not be the extents of a tensor: what a pad adds, where a region starts.
pub type Counts = Dims<usize>;

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
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`].
    #[inline]
    pub fn splat(rank: usize, value: T) -> Self {
        assert!(rank <= MAX_RANK, "rank {rank} is over {MAX_RANK}");
        let mut out = Self { rank: rank as u8, dims: [T::default(); MAX_RANK] };
        out.iter_mut().for_each(|dim| *dim = value);
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
    ///
    /// # Panics
    /// If the list is full.
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
    #[inline]
    fn default() -> Self {
        Self { rank: 0, dims: [T::default(); MAX_RANK] }
    }
}

impl<T: Copy + Default> FromIterator<T> for Dims<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut out = Self { rank: 0, dims: [T::default(); MAX_RANK] };
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
