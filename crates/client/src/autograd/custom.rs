//! Nodes whose backward pass is the user's own code.

use gt_ir::TensorType;
use smallvec::SmallVec;

use super::edge::Edge;
use super::node::Node;
use crate::error::Result;
use crate::shown::History;
use crate::tensor::Tensor;

/// The backward pass of a custom function. Called with no lock held.
pub trait CustomBackward: Send {
    /// Gradients of the inputs from gradients of the outputs; `None` is zero or not needed. Called again when the graph is
    /// kept.
    fn backward(&mut self, grads: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>>;
    /// The graph is done: let go of what was saved.
    fn release(&mut self);
}

/// Ties tensors that the user's own code computed from `ins` to its backward pass.
///
/// `outs` must have been computed without tracking. Outputs marked false in `differentiable` stay outside.
pub fn custom(
    name: String,
    ins: &[&Tensor],
    outs: &[Tensor],
    differentiable: &[bool],
    function: Box<dyn CustomBackward>,
) -> Result<Vec<Tensor>> {
    let types: SmallVec<[TensorType; 1]> = outs.iter().map(Tensor::ty).collect();
    let node = Node::for_custom(name, ins, types, function);
    outs.iter()
        .zip(differentiable)
        .enumerate()
        .map(|(i, (out, &on))| {
            if !on || !out.dtype().is_float() {
                return Ok(out.clone());
            }
            let history = History::Node(Edge::Node(node.clone(), i as u32), None);
            // An input returned as it is becomes a tensor of its own; an output that others may know keeps its cell.
            if ins.iter().any(|t| t.is(out)) {
                return Ok(Tensor::from_value(out.value()?, history));
            }
            let old = out.0.shown.change_history(|own| std::mem::replace(own, history));
            drop(old);
            Ok(out.clone())
        })
        .collect()
}
