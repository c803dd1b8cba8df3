//! The same elements as a tensor of its own.

use gt_ir::ops::{Concat, Reshape};

use crate::autograd::{Node, grad_enabled};
use crate::error::Result;
use crate::shown::History;
use crate::tensor::Tensor;

impl Tensor {
    /// A tensor of its own with the same elements: a new cell, no copy until one of them is written to.
    #[track_caller]
    pub fn alias(&self) -> Result<Tensor> {
        let value = self.value()?;
        let out = Tensor::from_value(value.clone(), History::None);
        if !grad_enabled() || !self.requires_grad() {
            return Ok(out);
        }
        let op = Reshape { shape: *self.shape() };
        let node = Node::for_op(op.into(), &[], &[self], &[value], std::slice::from_ref(&out));
        node.set_label("Clone");
        Ok(out.made_by(node, 0))
    }

    /// A tensor of its own that keeps no more alive than its own elements.
    #[track_caller]
    pub fn copied(&self) -> Result<Tensor> {
        let whole = self.known_cell().map_or(self.numel(), |cell| cell.read().0.ty().numel());
        if self.numel() * 2 > whole || self.numel() == 0 {
            return self.alias();
        }
        // A small part of something large may share its memory: gathering it anew lets go of the rest.
        let row = if self.rank() == 0 { self.reshape(&[1])? } else { self.clone() };
        let copy = Tensor::apply1(Concat { axis: 0 }, &[&row], &[])?;
        let copy = if self.rank() == 0 { copy.reshape(&[])?.alias()? } else { copy };
        Ok(copy.named("Clone"))
    }
}
