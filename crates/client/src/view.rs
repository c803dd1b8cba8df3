//! Views: how a handle looks at its cell, and how a write through it reaches the whole.

use std::sync::Arc;

use gt_ir::ops::{Broadcast, Permute, Reshape, Slice, UpdateSlice, inverse_permutation};
use gt_ir::{AxisSet, Op, Scalar, Scalars, Shape, Steps, TensorType};

use crate::autograd::{Node, grad_enabled, no_grad};
use crate::error::{Error, Result};
use crate::lane;
use crate::shown::{History, Shown};
use crate::tensor::Tensor;

/// One step from a whole to a part of it. Views of one view share the steps that lead to it.
#[derive(Debug)]
pub(crate) struct Look {
    op: Op,
    starts: Scalars,
    /// The steps before this one.
    before: Option<Arc<Look>>,
    /// Whether this step or one before repeats elements.
    repeats: bool,
    /// Element strides inside the cell of what is seen then.
    pub strides: Steps,
    /// Elements before the first one.
    pub offset: i64,
}

/// How a tensor looks at its cell.
#[derive(Clone)]
pub(crate) struct View {
    /// The last step from the cell's content to what is shown.
    pub last: Arc<Look>,
    /// The tensor whose history the view follows; a detached alias has none. A view that is a leaf by itself is the base
    /// of its own views.
    pub base: Option<Tensor>,
    /// How many of the steps lead from the cell to the base.
    pub to_base: u32,
    /// Made with tracking off: it does not follow a base that gradients flow to.
    pub untracked: bool,
}

impl View {
    /// The steps in the order they are taken, from the base or, without one, from the cell.
    #[track_caller]
    fn steps(&self) -> Vec<&Look> {
        let mut steps: Vec<&Look> = std::iter::successors(Some(&*self.last), |s| s.before.as_deref()).collect();
        steps.reverse();
        steps.drain(..self.to_base as usize);
        steps
    }

    /// The same view as an alias that follows nothing.
    fn without_base(&self) -> View {
        View { base: None, to_base: 0, ..self.clone() }
    }

    /// Shows `whole`, the base or the cell's content, through the steps; tracked if gradients flow.
    #[track_caller]
    pub fn look(&self, whole: &Tensor) -> Result<Tensor> {
        let mut shown = whole.clone();
        for step in self.steps() {
            shown = Tensor::apply1(step.op.clone(), &[&shown], &step.starts)?;
        }
        Ok(shown)
    }

    /// The whole with the part that is shown replaced by `new`; tracked if gradients flow.
    #[track_caller]
    pub fn write(&self, whole: &Tensor, new: &Tensor) -> Result<Tensor> {
        if self.last.repeats {
            return self.write_at_places(whole, new);
        }
        // What each step looks at, outermost first.
        let steps = self.steps();
        let mut seen = vec![whole.clone()];
        for step in &steps[..steps.len() - 1] {
            let next = Tensor::apply1(step.op.clone(), &[&seen[seen.len() - 1]], &step.starts)?;
            seen.push(next);
        }
        let mut part = new.clone();
        for (step, from) in steps.iter().zip(&seen).rev() {
            part = match &step.op {
                Op::Reshape(_) => Tensor::apply1(Reshape { shape: *from.shape() }, &[&part], &[])?,
                Op::Permute(p) => Tensor::apply1(Permute { perm: inverse_permutation(&p.perm) }, &[&part], &[])?,
                Op::Slice(s) => {
                    Tensor::apply1(UpdateSlice { steps: s.steps, drop: s.drop }, &[from, &part], &step.starts)?
                }
                other => {
                    return Err(Error::internal(format_args!(
                        "a view through {} cannot be written to",
                        other.display_name()
                    )));
                }
            };
        }
        Ok(part)
    }

    /// [`View::write`] for views that repeat elements: where each element shown lies in the whole is looked up.
    #[track_caller]
    fn write_at_places(&self, whole: &Tensor, new: &Tensor) -> Result<Tensor> {
        let dims: Vec<i64> = whole.shape().iter().map(|&d| d as i64).collect();
        let places = no_grad(|| self.look(&Tensor::iota(whole.numel())?.reshape(&dims)?)?.reshape(&[-1]))?;
        let put = gt_ir::ops::Put { axis: 0, mode: gt_ir::ops::PutMode::Set, wrap: false };
        Tensor::apply1(put, &[&whole.reshape(&[-1])?, &places, &new.reshape(&[-1])?], &[])?.reshape(&dims)
    }

    /// Whether several elements shown are one element of the cell.
    #[track_caller]
    pub fn overlaps(&self, shape: &Shape) -> bool {
        shape.iter().zip(self.last.strides.iter()).any(|(&extent, &stride)| extent > 1 && stride == 0)
    }
}

impl Tensor {
    /// A view: shares the cell, follows the history. The caller has checked that `op` gives `shape`.
    #[track_caller]
    fn view_as_op(&self, op: Op, shape: Shape, starts: &[Scalar], strides: Steps, offset: i64) -> Result<Tensor> {
        let source = self.value()?;
        let tracked = grad_enabled() && self.requires_grad();
        let id = lane::record(op.clone(), &[&source], starts, 1, None, 0)?;
        let ty = TensorType { shape, ..self.0.ty };
        let (before, base, to_base) = match &self.0.view {
            // What lies below a leaf has no part in its history.
            Some(view) if self.collects_gradients() => {
                let steps = std::iter::successors(Some(&*view.last), |s| s.before.as_deref()).count();
                (Some(view.last.clone()), Some(self.clone()), steps as u32)
            }
            // A detached alias has no base, and neither have the views of it: they follow its own history.
            Some(view) => (Some(view.last.clone()), view.base.clone(), view.to_base),
            None => (None, Some(self.clone()), 0),
        };
        let untracked = !grad_enabled() || self.0.view.as_ref().is_some_and(|view| view.untracked);
        let repeats = matches!(op, Op::Broadcast(_)) || before.as_ref().is_some_and(|b| b.repeats);
        let node_op = tracked.then(|| op.clone());
        let last = Arc::new(Look { op, starts: starts.into(), before, repeats, strides, offset });
        let view = View { last, base, to_base, untracked };
        let made = self.with_view(&ty, Some(view), Shown::made(id, self.cell().version()));
        let Some(op) = node_op else { return Ok(made) };
        let node = Node::for_op(op, starts, &[self], &[source], std::slice::from_ref(&made));
        Ok(made.made_by(node, 0))
    }

    /// An alias without history.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        let (value, version) = self.0.shown.value(&self.0.ty);
        let view = self.0.view.as_ref().map(View::without_base);
        self.with_view(&self.0.ty, view, Shown::of(value, version, History::None))
    }

    /// An alias without history whose writes autograd does not see: what `.data` is.
    #[track_caller]
    pub fn data(&self) -> Tensor {
        let mut inner = Arc::into_inner(self.detach().0).expect("the alias was just made");
        inner.shown.quiet_writes = true;
        Tensor(Arc::new(inner))
    }

    /// An alias that was just made, with a history of its own and writes that autograd sees.
    #[track_caller]
    pub(crate) fn into_handle_of(self, history: History) -> Tensor {
        let mut inner = Arc::into_inner(self.0).expect("the alias was just made");
        inner.shown.change_history(|own| *own = history);
        inner.shown.quiet_writes = false;
        Tensor(Arc::new(inner))
    }

    /// Gives the tensor's part of its cell a new content: what every in-place op ends in.
    ///
    /// `new` carries the history the tensor shall have. The write is an instruction, so that a poisoned `new` leaves the
    /// cell as it was.
    #[track_caller]
    pub(crate) fn assign(&self, new: &Tensor) -> Result<()> {
        if let Some(view) = &self.0.view
            && view.overlaps(self.shape())
            && self.numel() > 0
        {
            return Err(Error::State(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory \
                 location. Please clone() the tensor before performing the operation."
                    .into(),
            ));
        }
        self.assign_uniform(new)
    }

    /// [`Tensor::assign`] of several tensors by one write: all of them, or, when something failed, none. Untracked.
    #[track_caller]
    pub(crate) fn assign_all(tensors: &[&Tensor], new: &[Tensor]) -> Result<()> {
        if tensors.iter().any(|t| t.0.view.is_some()) {
            return tensors.iter().zip(new).try_for_each(|(t, new)| t.assign(new));
        }
        let mut olds: Vec<Tensor> = Vec::with_capacity(tensors.len());
        for t in tensors {
            t.check_writable()?;
            olds.push(Tensor::from_value(t.value()?, History::None));
        }
        let ins: Vec<&Tensor> = olds.iter().chain(new).collect();
        let kept = Tensor::apply(gt_ir::ops::Write {}.into(), &ins, &[])?;
        for (t, kept) in tensors.iter().zip(&kept) {
            let value = kept.value()?;
            let version = t.cell().write(value.clone(), t.0.shown.quiet_writes);
            t.0.shown.show(value, version, None);
        }
        Ok(())
    }

    /// [`Tensor::assign`] of the same number everywhere, which may be written to one place several times.
    #[track_caller]
    pub(crate) fn assign_uniform(&self, new: &Tensor) -> Result<()> {
        self.check_writable()?;
        let new = if new.0.ty == self.0.ty {
            new.clone()
        } else {
            return Err(Error::internal(format_args!("a write of {} into {} was not prepared", new.0.ty, self.0.ty)));
        };
        match &self.0.view {
            None => {
                let new = if new.requires_grad() { new } else { self.replaced_by(new)? };
                let old = Tensor::from_value(self.value()?, History::None);
                let kept = no_grad(|| Tensor::apply1(gt_ir::ops::Write {}, &[&old, &new], &[]))?;
                let value = kept.value()?;
                let version = self.cell().write(value.clone(), self.0.shown.quiet_writes);
                self.0.shown.show(value, version, grad_enabled().then(|| new.history()));
            }
            Some(view) => match &view.base {
                // Through the base, so that its history holds the write; this view then derives itself from it.
                Some(base) => {
                    let whole = view.write(base, &new)?;
                    // A view of all elements leaves nothing of the base that would hold its history.
                    let whole = if new.numel() == base.numel() { base.replaced_by(whole)? } else { whole };
                    base.assign(&whole)?;
                }
                None => {
                    let (content, _) = self.cell().read();
                    let old = Tensor::from_value(content, History::None);
                    let tracked = new.requires_grad() && grad_enabled();
                    let whole = no_grad(|| view.write(&old, &new.detach()))?;
                    let kept = no_grad(|| Tensor::apply1(gt_ir::ops::Write {}, &[&old, &whole], &[]))?;
                    let version = self.cell().write(kept.value()?, self.0.shown.quiet_writes);
                    if tracked {
                        // An alias of its own history: it shows what was written.
                        self.0.shown.show(new.value()?, version, Some(new.history()));
                    }
                }
            },
        }
        Ok(())
    }

    /// `new`, with a history that leads to the present one too: what was computed from a tensor that is overwritten gets
    /// a gradient of zero, not none. A view's base keeps its history by itself.
    #[track_caller]
    pub(crate) fn replaced_by(&self, new: Tensor) -> Result<Tensor> {
        if !grad_enabled() || !self.requires_grad() || self.0.view.is_some() {
            return Ok(new);
        }
        let taken = Tensor::full(&[], true, None)?;
        Ok(Tensor::select_by(&taken, &new, self)?.named("Copy"))
    }

    #[track_caller]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if !grad_enabled() {
            return Ok(());
        }
        if self.is_leaf() && self.requires_grad() {
            return Err(Error::State(
                "a leaf Variable that requires grad is being used in an in-place operation.".into(),
            ));
        }
        let Some(view) = &self.0.view else { return Ok(()) };
        if let Some(base) = &view.base
            && base.requires_grad()
        {
            if base.is_leaf() {
                return Err(Error::State(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation.".into(),
                ));
            }
            if view.untracked {
                return Err(Error::State(
                    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that \
                     this use case is ambiguous and error-prone, it is forbidden. Create the view in grad mode, or modify \
                     it with grad mode disabled."
                        .into(),
                ));
            }
        }
        Ok(())
    }

    /// `x.reshape` as a view, when strides allow it.
    #[track_caller]
    pub(crate) fn view_reshape(&self, shape: Shape) -> Result<Option<Tensor>> {
        let Some(strides) = reshape_strides(self.shape(), &self.strides(), &shape) else { return Ok(None) };
        self.view_as_op(Reshape { shape }.into(), shape, &[], strides, self.storage_offset()).map(Some)
    }

    #[track_caller]
    pub(crate) fn view_permute(&self, perm: Steps) -> Result<Tensor> {
        let strides = self.strides();
        let shape = self.shape().permuted(&perm).expect("the caller names every axis once");
        self.view_as_op(Permute { perm }.into(), shape, &[], perm.map(|p| strides[p as usize]), self.storage_offset())
    }

    #[track_caller]
    pub(crate) fn view_broadcast(&self, shape: Shape) -> Result<Tensor> {
        let (own, lead) = (self.strides(), shape.rank().saturating_sub(self.rank()));
        let mut strides = Steps::splat(shape.rank(), 0);
        for axis in 0..self.rank().min(shape.rank()) {
            if self.shape()[axis] == shape[axis + lead] {
                strides[axis + lead] = own[axis];
            }
        }
        self.view_as_op(Broadcast { shape }.into(), shape, &[], strides, self.storage_offset())
    }

    /// `sizes` elements from `starts` on, `steps` apart, without the axes in `drop`.
    #[track_caller]
    pub(crate) fn view_slice(&self, sizes: Shape, starts: &[i64], steps: Steps, drop: AxisSet) -> Result<Tensor> {
        let own = self.strides();
        let (mut offset, empty) = (self.storage_offset(), sizes.numel() == 0);
        let (mut strides, mut scalars) = (Steps::default(), Scalars::new());
        for axis in 0..sizes.rank() {
            scalars.push(Scalar::I64(starts[axis]));
            if !empty {
                offset += starts[axis] * own[axis];
            }
            if !drop.contains(axis) {
                strides.push(own[axis] * steps[axis]);
            }
        }
        let shape = drop.remove_from(&sizes);
        self.view_as_op(Slice { sizes, steps, drop }.into(), shape, &scalars, strides, offset)
    }
}

/// The strides of the same elements in another shape, or `None` when a copy is needed.
fn reshape_strides(shape: &Shape, strides: &Steps, new: &Shape) -> Option<Steps> {
    let mut seen = shape.strides_seen_as(strides, new)?;
    // Axes of extent 1 take the stride a packed tensor would have there, as users see it.
    for axis in (0..new.rank()).rev() {
        if new[axis] == 1 {
            seen[axis] = if axis + 1 < new.rank() { seen[axis + 1] * new[axis + 1] as i64 } else { 1 };
        }
    }
    Some(seen)
}
