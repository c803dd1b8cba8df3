//! Nodes whose backward pass is the user's own code.

use gt_ir::TensorType;

use super::edge::Edge;
use super::grad_enabled;
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

/// The backward pass of a function whose slope is zero everywhere: zeros of these types, or no gradient.
struct Flat(Vec<Option<TensorType>>);

impl CustomBackward for Flat {
    fn backward(&mut self, _: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let zeros = |ty: &TensorType| Tensor::full(&ty.shape, 0.0, Some(ty.dtype));
        self.0.iter().map(|ty| ty.as_ref().map(zeros).transpose()).collect()
    }
    fn release(&mut self) {}
}

impl Tensor {
    /// The tensor as a function of `ins` whose slope is zero, as that of rounding is: it requires gradients if one of them
    /// does, and gives them zeros. What else the tensor was computed from keeps its gradient.
    #[track_caller]
    pub fn with_zero_gradient(self, name: &str, ins: &[&Tensor]) -> Result<Tensor> {
        if !self.requires_grad() || !ins.iter().any(|t| t.requires_grad()) {
            return self.flat(name, ins, |t| Some(t.ty()));
        }
        // Taken away, so that a zero keeps its sign.
        let zero = Tensor::full(&[], 0.0, Some(self.dtype()))?.flat(name, ins, |t| Some(t.ty()))?;
        self.sub(&zero)
    }

    /// As [`Tensor::with_zero_gradient`], but `ins` get no gradient at all: a leaf's `grad` stays `None`. The tensor must
    /// have been computed without tracking.
    pub fn without_gradient(self, name: &str, ins: &[&Tensor]) -> Result<Tensor> {
        self.flat(name, ins, |_| None)
    }

    fn flat(self, name: &str, ins: &[&Tensor], gradient: fn(&Tensor) -> Option<TensorType>) -> Result<Tensor> {
        if !grad_enabled() || !ins.iter().any(|t| t.requires_grad()) {
            return Ok(self);
        }
        let flat = Flat(ins.iter().map(|t| gradient(t)).collect());
        let mut outs = custom(format!("{name}Backward0"), ins, &[self], &[true], Box::new(flat))?;
        Ok(outs.swap_remove(0))
    }
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
    let node = Node::for_custom(name, ins, outs.len(), function);
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
