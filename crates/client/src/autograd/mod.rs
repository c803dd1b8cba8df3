//! The tape: which instruction made a tensor, and the walk back over it.

mod backward;
mod custom;
mod differentiate;
mod edge;
mod emit;
mod gathered;
mod hooks;
mod mode;
mod node;
mod packed_types;
mod piece;
mod walk;
mod wanted;

pub use backward::{BackwardOptions, backward, grad, grad_of_piece};
pub use custom::{CustomBackward, custom};
pub(crate) use edge::Edge;
pub use hooks::{Hook, HookId};
pub use mode::{GradModeGuard, enable_grad, grad_enabled, no_grad, set_grad_enabled};
pub use node::{GradSlot, NextStep, Node};
pub use piece::{captured, position};

use crate::error::{Error, Result};
use crate::shown::History;
use crate::tensor::Tensor;
use std::sync::Arc;

impl Tensor {
    /// Whether gradients flow to or through this tensor.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.0.shown.tracks()
    }

    /// Whether no tracked instruction made it.
    pub fn is_leaf(&self) -> bool {
        !matches!(*self.0.shown.history(), History::Node(..))
    }

    /// Whether it is a leaf that gradients flow to.
    pub(crate) fn collects_gradients(&self) -> bool {
        matches!(*self.0.shown.history(), History::Leaf(_))
    }

    pub(crate) fn history(&self) -> History {
        self.0.shown.history().clone()
    }

    /// The node that made it.
    pub fn grad_fn(&self) -> Option<Arc<Node>> {
        let _ = self.value();
        match &*self.0.shown.history() {
            History::Node(Edge::Node(node, _), _) => Some(node.clone()),
            _ => None,
        }
    }

    /// Makes the tensor a leaf that collects gradients, or stops it.
    pub fn set_requires_grad(&self, on: bool) -> Result<()> {
        let became_leaf = self.0.shown.change_history(|history| match (&history, on) {
            (History::None, true) => {
                if !self.0.ty.dtype.is_float() {
                    return Err(Error::State(
                        "only Tensors of floating point and complex dtype can require gradients".into(),
                    ));
                }
                *history = History::Leaf(Arc::new(GradSlot::default()));
                Ok(true)
            }
            (History::Leaf(_), false) => {
                *history = History::None;
                Ok(false)
            }
            (History::Node(..), false) => Err(Error::State(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in \
                 a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                    .into(),
            )),
            _ => Ok(false),
        })?;
        if became_leaf {
            self.mark_state(true);
        }
        Ok(())
    }

    /// Forgets how the tensor was made; it becomes a leaf that needs no gradient.
    pub fn forget_history(&self) -> Result<()> {
        if self.base().is_some() {
            return Err(Error::State("Can't detach views in-place. Use detach() instead.".into()));
        }
        let old = self.0.shown.change_history(std::mem::take);
        drop(old);
        Ok(())
    }

    /// Where its gradient is collected.
    pub fn grad_slot(&self) -> Option<Arc<GradSlot>> {
        match &*self.0.shown.history() {
            History::Leaf(slot) | History::Node(_, Some(slot)) => Some(slot.clone()),
            _ => None,
        }
    }

    /// The gradient collected so far.
    pub fn grad(&self) -> Option<Tensor> {
        self.grad_slot().and_then(|slot| slot.grad.lock().clone())
    }

    /// Replaces the collected gradient.
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        if let Some(g) = &grad
            && (g.shape() != self.shape() || g.dtype() != self.dtype())
        {
            return Err(Error::State(format!(
                "assigned grad has data of a different size: {} for a tensor of {}",
                g.ty(),
                self.ty()
            )));
        }
        let slot = match self.grad_slot() {
            Some(slot) => slot,
            None if grad.is_none() => return Ok(()),
            None => {
                // As in PyTorch a tensor that does not require gradients may still be given one.
                self.set_requires_grad(true)?;
                self.grad_slot().expect("a leaf has a slot")
            }
        };
        let old = std::mem::replace(&mut *slot.grad.lock(), grad);
        drop(old);
        Ok(())
    }

    /// Collects the gradient of a tensor that is not a leaf too.
    pub fn retain_grad(&self) -> Result<()> {
        let _ = self.value()?;
        self.0.shown.change_history(|history| match history {
            History::None => Err(Error::State("can't retain_grad on Tensor that has requires_grad=False".into())),
            History::Leaf(_) => Ok(()),
            History::Node(edge, slot) => {
                if slot.is_none() {
                    let fresh = Arc::new(GradSlot::default());
                    if let Edge::Node(node, index) = edge {
                        node.retain(*index, &fresh);
                    }
                    *slot = Some(fresh);
                }
                Ok(())
            }
        })
    }

    /// Whether [`Tensor::retain_grad`] was called on a tensor that is not a leaf.
    pub fn retains_grad(&self) -> bool {
        matches!(*self.0.shown.history(), History::Node(_, Some(_)))
    }

    /// Calls `hook` with the tensor's gradient on every backward pass; what it returns replaces the gradient.
    pub fn register_hook(&self, hook: Hook) -> Result<HookId> {
        let _ = self.value()?;
        match &*self.0.shown.history() {
            History::None => {
                Err(Error::State("cannot register a hook on a tensor that doesn't require gradient".into()))
            }
            History::Leaf(slot) => Ok(slot.hooks.add(0, hook)),
            History::Node(Edge::Node(node, index), _) => Ok(node.hooks.add(*index, hook)),
            History::Node(Edge::Leaf(slot), _) => Ok(slot.hooks.add(0, hook)),
        }
    }

    /// Calls `hook` with the collected gradient each time one was added to it. What it returns is not used.
    ///
    /// # Errors
    /// When the tensor is not a leaf that collects gradients.
    pub fn register_hook_after_collecting(&self, hook: Hook) -> Result<HookId> {
        match &*self.0.shown.history() {
            History::None => {
                Err(Error::State("cannot register a hook on a tensor that doesn't require gradient".into()))
            }
            History::Leaf(slot) => Ok(slot.after.add(0, hook)),
            History::Node(..) => {
                Err(Error::State("post accumulate grad hooks cannot be registered on non-leaf tensors".into()))
            }
        }
    }

    /// The same tensor, its node called after the function it ends: `Mean`, or `MeanBackward1` where that is not the
    /// function's first form.
    pub fn named(self, label: &'static str) -> Tensor {
        if let History::Node(Edge::Node(node, _), _) = &*self.0.shown.history() {
            node.set_label(label);
        }
        self
    }

    /// Takes a hook back.
    pub fn remove_hook(&self, id: HookId) {
        let history = self.history();
        match &history {
            History::None => {}
            History::Leaf(slot) | History::Node(Edge::Leaf(slot), _) => {
                slot.hooks.remove(id);
                slot.after.remove(id);
            }
            History::Node(Edge::Node(node, _), _) => node.hooks.remove(id),
        }
    }

    /// Runs the backward pass from this tensor; see [`backward`].
    pub fn backward(&self) -> Result<()> {
        backward(std::slice::from_ref(self), &[None], BackwardOptions::default())
    }
}
