//! In-place ops: the op, then a write.

use std::sync::Arc;

use gt_ir::OpError;
use gt_ir::rows::{BinaryKind, UnaryKind};

use super::{Arg, check_fits};
use crate::error::{Error, Result};
use crate::shown::History;
use crate::tensor::Tensor;

impl Tensor {
    /// Replaces the content by a result of the same shape; a result of a higher kind of dtype is an error.
    ///
    /// The instruction that made the result may keep what it replaces; see [`Tensor::write_computed`] for results of
    /// several instructions.
    #[track_caller]
    pub fn write_result(&self, new: &Tensor) -> Result<()> {
        if let Some(node) = new.grad_fn() {
            node.excuse(self.cell());
        }
        self.write_fitting(new)
    }

    /// Computes a result from the tensor and replaces its content by it, as [`Tensor::write_result`] does.
    #[track_caller]
    pub fn write_computed(&self, compute: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
        let since = crate::autograd::position();
        let new = compute(self)?;
        let mut nodes: Vec<_> = new.grad_fn().into_iter().collect();
        while let Some(node) = nodes.pop() {
            if node.sequence() >= since {
                node.excuse(self.cell());
                nodes.extend(node.next_nodes().into_iter().flatten());
            }
        }
        self.write_fitting(&new)
    }

    #[track_caller]
    fn write_fitting(&self, new: &Tensor) -> Result<()> {
        if new.dtype().category() > self.dtype().category() {
            return Err(OpError::dtype(format!(
                "result type {} can't be cast to the desired output type {}",
                new.dtype().long_name(),
                self.dtype().long_name()
            ))
            .into());
        }
        if new.shape() != self.shape() {
            return Err(OpError::shape(format!(
                "output with shape {} doesn't match the broadcast shape {}",
                self.shape(),
                new.shape()
            ))
            .into());
        }
        let new = new.to_dtype(self.dtype())?;
        // A leaf cannot lend its slot: the written tensor gets a node of its own.
        let new = if new.is_leaf() && new.requires_grad() { new.alias()? } else { new };
        self.assign(&new)
    }

    /// `self = kind(self, other)` in place.
    #[track_caller]
    pub fn binary_<'a>(&'a self, kind: BinaryKind, other: impl Into<Arg<'a>>) -> Result<()> {
        let other = other.into();
        self.write_computed(|x| Tensor::binary(kind, x, other))
    }

    /// `self += other` in place.
    #[track_caller]
    pub fn add_<'a>(&'a self, other: impl Into<Arg<'a>>) -> Result<()> {
        self.binary_(BinaryKind::Add, other)
    }

    /// `self -= other` in place.
    #[track_caller]
    pub fn sub_<'a>(&'a self, other: impl Into<Arg<'a>>) -> Result<()> {
        self.binary_(BinaryKind::Sub, other)
    }

    /// `self *= other` in place.
    #[track_caller]
    pub fn mul_<'a>(&'a self, other: impl Into<Arg<'a>>) -> Result<()> {
        self.binary_(BinaryKind::Mul, other)
    }

    /// `self = kind(self)` in place.
    #[track_caller]
    pub fn unary_(&self, kind: UnaryKind) -> Result<()> {
        self.write_computed(|x| x.unary(kind))
    }

    /// Every element becomes `value`.
    #[track_caller]
    pub fn fill_<'a>(&'a self, value: impl Into<Arg<'a>>) -> Result<()> {
        let new = match value.into() {
            Arg::Number(n) => {
                check_fits(n, self.dtype())?;
                Tensor::full(self.shape(), n, Some(self.dtype()))?
            }
            Arg::Tensor(t) if t.rank() == 0 => t.to_dtype(self.dtype())?.expand_for_write(self.shape())?,
            Arg::Tensor(t) => {
                return Err(Error::State(format!(
                    "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
                    t.rank()
                )));
            }
        };
        self.assign_uniform(&new)
    }

    /// Takes over the elements of `source`, broadcast and cast.
    #[track_caller]
    pub fn copy_(&self, source: &Tensor) -> Result<()> {
        let new = source.to_dtype(self.dtype())?.expand_for_write(self.shape())?;
        let new = if new.is_leaf() && new.requires_grad() { new.alias()? } else { new };
        self.assign(&new)
    }

    /// The handle that takes this one's place when the tensor becomes another one: what `x.data = y` does. It shares the
    /// cell of `source` and keeps this tensor's history; views and aliases made before still look at the old cell.
    #[track_caller]
    pub fn with_data(&self, source: &Tensor) -> Result<Tensor> {
        if self.requires_grad() && !source.dtype().is_float() {
            return Err(Error::State(
                "data set to a tensor that requires gradients must be floating point or complex dtype".into(),
            ));
        }
        let handle = source.detach().into_handle_of(self.history());
        if self.is_state() {
            handle.mark_state(true);
        }
        Ok(handle)
    }

    /// The handle that takes this one's place when the tensor changes its shape in place: `look` gives a view of it.
    /// Counts as a write. A leaf, which can only be written with tracking off, stays the leaf it is.
    #[track_caller]
    pub fn with_shape_of(&self, look: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        self.check_writable()?;
        let shown = look(self)?;
        let own = self.history();
        let shown = match own {
            History::None => shown,
            History::Node(..) if shown.requires_grad() => shown,
            own => shown.detach().into_handle_of(own),
        };
        let (content, _) = self.cell().read();
        let version = self.cell().write(content, self.0.quiet);
        shown.0.shown.set_version(version);
        Ok(shown)
    }

    /// Gives up the content of a handle that nobody looks through any more, unless its cell has other users.
    #[track_caller]
    pub fn give_up(&self) -> Result<()> {
        if Arc::strong_count(&self.0) == 1 && Arc::strong_count(self.cell()) == 1 {
            let nothing = Tensor::zeros(&[0], Some(self.dtype()))?.value()?;
            // Quietly: what autograd saved of the old content is still good.
            let version = self.cell().write(nothing.clone(), true);
            self.0.shown.show(nothing, version, None);
        }
        Ok(())
    }
}
