//! In-place ops: the op, then a write.

use std::sync::Arc;

use gt_ir::OpError;
use gt_ir::rows::{BinaryKind, UnaryKind};

use super::{Arg, check_fits};
use crate::autograd::grad_enabled;
use crate::error::{Error, Result};
use crate::shown::History;
use crate::tensor::Tensor;

impl Tensor {
    /// What an in-place op computes from: the present content under a handle of its own, with the same history. The write
    /// that follows moves this tensor on and not that handle, so the tape may keep the value that is replaced. A second
    /// operand that is this tensor (`x.mul_(x)`) is still refused in the backward pass, as in PyTorch.
    ///
    /// Where nothing is recorded on the tape it is the tensor itself.
    #[track_caller]
    pub fn before_write(&self) -> Result<Tensor> {
        if !grad_enabled() {
            return Ok(self.clone());
        }
        Ok(Tensor::from_value(self.value()?, self.history()))
    }

    /// Replaces the content by a result of the same shape; a result of a higher kind of dtype is an error.
    ///
    /// Results computed from the tensor start from [`Tensor::before_write`].
    #[track_caller]
    pub fn write_result(&self, new: &Tensor) -> Result<()> {
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
        let (source, other): (Tensor, Arg<'_>) = (self.before_write()?, other.into());
        self.write_result(&Tensor::binary(kind, &source, other)?)
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
        self.write_result(&self.before_write()?.unary(kind)?)
    }

    /// Every element becomes `value`.
    #[track_caller]
    pub fn fill_<'a>(&'a self, value: impl Into<Arg<'a>>) -> Result<()> {
        let new = match value.into() {
            Arg::Number(n) => {
                check_fits(n, self.dtype())?;
                Tensor::full(self.shape(), n, Some(self.dtype()))?
            }
            Arg::Tensor(t) if t.rank() == 0 => {
                self.replaced_by(t.to_dtype(self.dtype())?.expand_for_write(self.shape())?)?
            }
            Arg::Tensor(t) => {
                return Err(Error::Argument(format!(
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
        let new = self.replaced_by(new)?;
        let new = if new.is_leaf() && new.requires_grad() { new.alias()? } else { new };
        self.assign(&new)
    }

    /// The handle that takes this one's place when the tensor becomes another one: what `x.data = y` does. It shares the
    /// cell of `source` and keeps this tensor's history; views and aliases made before still look at the old cell.
    #[track_caller]
    pub fn with_data(&self, source: &Tensor) -> Result<Tensor> {
        if self.requires_grad() && !source.dtype().is_float() {
            return Err(Error::Argument(
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
        let version = self.cell().write(content, self.0.shown.quiet_writes);
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
