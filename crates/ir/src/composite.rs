//! Composites: instructions that stand for many primitives, recorded and run whole where an engine has a kernel.

use smallvec::SmallVec;

use crate::{Emit, OpError, Primitive, Scalar, Val};

/// An op that is defined by an expansion into primitives.
///
/// An engine without a kernel for it runs the expansion; gradients that are themselves differentiated go through it too.
pub trait Composite: Primitive {
    /// Emits the definition and returns the outputs.
    fn expand(&self, ins: &[Val], scalars: &[Scalar], e: &mut dyn Emit) -> Result<SmallVec<[Val; 2]>, OpError>;

    /// Whether [`Primitive::grad`] has a rule. Those without one (gradients of composites, updates) are differentiated
    /// through their expansion.
    fn has_grad(&self) -> bool;
}
