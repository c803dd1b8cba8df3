//! What a user asks of the tape: gradients into the leaves, or of named inputs.

use super::edge::Edge;
use super::walk::walk;
use super::wanted::Wanted;
use crate::error::{Error, Result};
use crate::lane;
use crate::tensor::Tensor;

/// How a backward pass treats the tape.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions {
    /// Keep saved values for another pass.
    pub retain_graph: bool,
    /// Track the backward pass itself.
    pub create_graph: bool,
}

impl BackwardOptions {
    /// Whether saved values stay for another pass.
    pub(super) fn keeps_graph(self) -> bool {
        self.retain_graph || self.create_graph
    }
}

/// Collects gradients of `roots` into the leaves they were computed from.
///
/// # Errors
/// When a root needs no gradient, is not a scalar and has no gradient given, or the graph was released already.
pub fn backward(roots: &[Tensor], grads: &[Option<Tensor>], options: BackwardOptions) -> Result<()> {
    lane::boundary()?;
    walk(roots, grads, options, None)?;
    lane::boundary()
}

/// Gradients of `roots` with respect to `inputs`, without touching any `.grad`.
///
/// # Errors
/// As [`backward`], and when an input was not used and `allow_unused` is off.
pub fn grad(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    inputs: &[Tensor],
    options: BackwardOptions,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    lane::boundary()?;
    for input in inputs {
        let _ = input.value()?;
    }
    let wanted = Wanted::between(roots, Edge::of_inputs(inputs)?);
    let found = walk(roots, grads, options, Some(wanted))?;
    if !allow_unused && found.iter().any(Option::is_none) {
        return Err(Error::Autograd(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this \
             is the desired behavior."
                .into(),
        ));
    }
    lane::boundary()?;
    Ok(found)
}

/// Gradients of `roots` with respect to the edges by which nodes recorded from `since` on refer to older ones: the walk
/// ends there, hooks of what lies beyond do not run. `edges` are what [`super::captured`] gave for the same piece.
///
/// # Errors
/// As [`backward`].
pub fn grad_of_piece(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    edges: &[Tensor],
    since: u64,
    create_graph: bool,
) -> Result<Vec<Option<Tensor>>> {
    let wanted = Wanted::at_ends_of_piece(since, Edge::of_inputs(edges)?);
    walk(roots, grads, BackwardOptions { retain_graph: false, create_graph }, Some(wanted))
}
