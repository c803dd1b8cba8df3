//! Edges of the tape: where the gradient of a tensor goes.

use std::sync::Arc;

use super::node::{GradSlot, Node};
use crate::error::{Error, Result};
use crate::shown::History;
use crate::tensor::Tensor;

/// Where the gradient of a tensor goes: an output of a node, or a leaf.
#[derive(Clone)]
pub(crate) enum Edge {
    Node(Arc<Node>, u32),
    Leaf(Arc<GradSlot>),
}

/// Tells edges apart: two have the same key when they lead to the same output of a node or to the same leaf. It holds for
/// as long as something keeps what the edge leads to.
pub(super) type EdgeKey = (usize, u32);

impl Edge {
    /// The edge to where the gradient of a tensor goes, if it has one.
    pub(super) fn of(tensor: &Tensor) -> Option<Edge> {
        match &*tensor.0.shown.history() {
            History::None => None,
            History::Leaf(slot) => Some(Edge::Leaf(slot.clone())),
            History::Node(edge, _) => Some(edge.clone()),
        }
    }

    /// The edges to where the gradients of `inputs` go.
    ///
    /// # Errors
    /// When one of them has none.
    pub(super) fn of_inputs(inputs: &[Tensor]) -> Result<Vec<Edge>> {
        let missing = || Error::Autograd("One of the differentiated Tensors does not require grad".into());
        inputs.iter().map(|t| Edge::of(t).ok_or_else(missing)).collect()
    }

    /// What tells it apart from edges that lead elsewhere.
    pub(super) fn key(&self) -> EdgeKey {
        match self {
            Edge::Node(node, index) => (address(node), *index),
            Edge::Leaf(slot) => (Arc::as_ptr(slot) as usize, u32::MAX),
        }
    }
}

/// What tells nodes apart for as long as they live.
pub(super) fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}
