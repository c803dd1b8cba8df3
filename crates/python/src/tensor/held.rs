//! The handle behind a Python tensor. Changing a shape in place and assigning to `.data` exchange it, so that the object,
//! which optimizers and modules hold, stays the same.
//!
//! HELD-1: looking at a handle that was never exchanged costs one load and no counting.
//! HELD-2: what `get` gave stays good whatever is exchanged meanwhile, also by another thread while this one waits with
//! the GIL released: the first handle lives as long as the tensor, later ones are given out as clones.

use std::ops::Deref;
use std::sync::OnceLock;

use gt_client::Tensor;
use parking_lot::Mutex;

/// A handle that can be exchanged.
pub struct Handle {
    first: Tensor,
    later: OnceLock<Box<Mutex<Tensor>>>,
}

/// A handle while somebody looks at it.
pub enum Held<'a> {
    /// The one the tensor was made with.
    First(&'a Tensor),
    /// One that took its place.
    Later(Tensor),
}

impl Handle {
    /// A handle that was never exchanged.
    #[inline]
    pub fn new(first: Tensor) -> Self {
        Handle { first, later: OnceLock::new() }
    }

    /// The handle now.
    #[inline]
    pub fn get(&self) -> Held<'_> {
        match self.later.get() {
            None => Held::First(&self.first),
            Some(later) => Held::Later(later.lock().clone()),
        }
    }

    /// The handle as long as it was never exchanged.
    #[inline]
    pub fn never_exchanged(&self) -> Option<&Tensor> {
        self.later.get().is_none().then_some(&self.first)
    }

    /// The handle the tensor was made with.
    #[inline]
    pub fn first(&self) -> &Tensor {
        &self.first
    }

    /// From now on the tensor is `new`. What only the old handle kept is freed.
    pub fn exchange(&self, new: Tensor) -> gt_client::Result<()> {
        let old = match self.later.get() {
            Some(later) => std::mem::replace(&mut *later.lock(), new),
            None => {
                if let Err(lost) = self.later.set(Box::new(Mutex::new(new))) {
                    return self.exchange(lost.into_inner());
                }
                return self.first.give_up();
            }
        };
        drop(old);
        Ok(())
    }
}

impl Deref for Held<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            Held::First(t) => t,
            Held::Later(t) => t,
        }
    }
}
