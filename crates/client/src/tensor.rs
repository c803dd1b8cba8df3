//! The tensor handle.
//!
//! A handle is a cell and a way to look at it. What it shows is cached together with the cell's version; when the cell
//! has moved on, the handle derives itself again. Autograd history belongs to the handle: a base and its views share it
//! by deriving from the base, a detached alias shares only the cell.
//!
//! TENSOR-1: `state` is locked for loads and stores only; recording happens with no lock held.

use std::sync::Arc;

use gt_ir::{DType, HostTensor, Op, Scalar, Shape, Steps, TensorType};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::autograd::{Edge, GradSlot, Node, enable_grad, grad_enabled, no_grad};
use crate::error::{Error, Result};
use crate::lane;
use crate::session::{blocking, interrupted, session, wait_error};
use crate::value::{Cell, Value};
use crate::view::View;

/// A tensor: cheap to clone, clones are the same tensor.
///
/// ```no_run
/// # fn main() -> gt_client::Result<()> {
/// use gt_client::Tensor;
/// let x = Tensor::full(&[2, 3], 1.5, None)?;
/// let y = (&x + &x)?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0; 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub ty: TensorType,
    pub cell: Arc<Cell>,
    /// How to look at the cell; `None` sees all of it as it is.
    pub view: Option<Box<View>>,
    /// Whether writes through it escape autograd's version check, as those through `.data` do.
    pub quiet: bool,
    pub state: Mutex<State>,
}

pub(crate) struct State {
    pub value: Value,
    /// The cell's version that `value` was derived from.
    pub version: u32,
    pub history: History,
}

/// Where gradients of a tensor go.
#[derive(Clone, Default)]
pub(crate) enum History {
    /// Nowhere.
    #[default]
    None,
    /// Into its own `.grad`.
    Leaf(Arc<GradSlot>),
    /// To the instruction that made it; the slot is there once `retain_grad` was asked for.
    Node(Edge, Option<Arc<GradSlot>>),
}

/// The outputs of an instruction.
pub(crate) type Results = SmallVec<[Tensor; 1]>;

impl Tensor {
    /// A tensor of its own that shows `value`.
    #[inline]
    #[track_caller]
    pub(crate) fn from_value(value: Value, history: History) -> Self {
        let cell = Cell::new(value.clone());
        Tensor::in_cell(value, cell, history)
    }

    /// A tensor that shows all of a new cell.
    #[inline]
    #[track_caller]
    fn in_cell(value: Value, cell: Arc<Cell>, history: History) -> Self {
        let ty = *value.ty();
        Tensor(Arc::new(Inner {
            ty,
            cell,
            view: None,
            quiet: false,
            state: Mutex::new(State { value, version: 0, history }),
        }))
    }

    /// Records an instruction on tensors and tracks it if gradients may flow.
    #[track_caller]
    pub(crate) fn apply(op: Op, ins: &[&Tensor], scalars: &[Scalar]) -> Result<Results> {
        let mut values: SmallVec<[Value; 3]> = SmallVec::new();
        let mut types: SmallVec<[TensorType; 3]> = SmallVec::new();
        let mut tracked = false;
        for t in ins {
            let (value, tracks) = t.look()?;
            values.push(value);
            types.push(t.0.ty);
            tracked |= tracks;
        }
        let outs = op.primitive().infer(&types)?;
        tracked = tracked && grad_enabled() && outs.iter().any(|ty| ty.dtype.is_float());
        let node_op = if tracked { Some(op.clone()) } else { None };
        let refs: SmallVec<[&Value; 3]> = values.iter().collect();
        let first = lane::record(op, &refs, scalars, outs.len(), None)?;
        let mut made: SmallVec<[(Value, Arc<Cell>); 1]> = SmallVec::new();
        for (i, ty) in outs.iter().enumerate() {
            let value = Value::new(gt_ir::TensorId(first.0 + i as u64), *ty);
            let cell = Cell::new(value.clone());
            made.push((value, cell));
        }
        let node = node_op.map(|op| Node::for_op(op, scalars, ins, &values, &types, &made));
        let mut results = Results::new();
        for (i, (value, cell)) in made.into_iter().enumerate() {
            let history = match &node {
                Some(node) if value.ty().dtype.is_float() => History::Node(Edge::Node(node.clone(), i as u32), None),
                _ => History::None,
            };
            results.push(Tensor::in_cell(value, cell, history));
        }
        Ok(results)
    }

    /// [`Tensor::apply`] where the caller knows that the one output has type `ty`: nothing is left to infer.
    #[inline]
    #[track_caller]
    pub(crate) fn apply_known<const N: usize>(
        op: Op,
        ins: [&Tensor; N],
        scalars: &[Scalar],
        ty: TensorType,
    ) -> Result<Tensor> {
        let mut tracked = false;
        let mut failed = None;
        // An error leaves a hole, which is never looked into: the call ends there.
        let values: [Option<Value>; N] = std::array::from_fn(|i| match ins[i].look() {
            Ok((value, tracks)) => {
                tracked |= tracks;
                Some(value)
            }
            Err(e) => {
                failed = Some(e);
                None
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        let values = values.map(|v| v.expect("every look gave a value"));
        let refs: [&Value; N] = std::array::from_fn(|i| &values[i]);
        if tracked && ty.dtype.is_float() && grad_enabled() {
            let first = lane::record(op.clone(), &refs, scalars, 1, None)?;
            let value = Value::new(first, ty);
            let made = [(value.clone(), Cell::new(value))];
            let types: [TensorType; N] = std::array::from_fn(|i| ins[i].0.ty);
            let node = Node::for_op(op, scalars, &ins, &values, &types, &made);
            let [(value, cell)] = made;
            return Ok(Tensor::in_cell(value, cell, History::Node(Edge::Node(node, 0), None)));
        }
        let first = lane::record(op, &refs, scalars, 1, None)?;
        Ok(Tensor::from_value(Value::new(first, ty), History::None))
    }

    /// Records an instruction with one output.
    #[inline]
    #[track_caller]
    pub(crate) fn apply1(op: impl Into<Op>, ins: &[&Tensor], scalars: &[Scalar]) -> Result<Tensor> {
        let mut outs = Tensor::apply(op.into(), ins, scalars)?;
        Ok(outs.swap_remove(0))
    }

    /// What the tensor shows now.
    #[inline]
    #[track_caller]
    pub(crate) fn value(&self) -> Result<Value> {
        self.look().map(|(value, _)| value)
    }

    /// What the tensor shows now, and whether gradients flow to or through it.
    #[inline]
    #[track_caller]
    fn look(&self) -> Result<(Value, bool)> {
        {
            let state = self.0.state.lock();
            if state.version == self.0.cell.version() {
                return Ok((state.value.clone(), !matches!(state.history, History::None)));
            }
        }
        let value = self.derive()?;
        Ok((value, self.requires_grad()))
    }

    /// Looks at the cell again after it moved on.
    #[cold]
    #[track_caller]
    fn derive(&self) -> Result<Value> {
        let Some(view) = &self.0.view else {
            let (value, version) = self.0.cell.read();
            let mut state = self.0.state.lock();
            let old = std::mem::replace(&mut state.value, value.clone());
            state.version = version;
            drop(state);
            drop(old);
            return Ok(value);
        };
        let (source, version) = self.0.cell.read();
        let (value, history) = match &view.base {
            // The base's history may have moved on with the cell: derive through it, so that gradients follow.
            Some(base) if view.untracked => {
                if grad_enabled() && self.is_left_behind() {
                    return Err(Error::State(
                        "A view was created in no_grad mode and its base or another view of its base has been modified \
                         inplace since. Given that this use case is ambiguous and error-prone, it is forbidden. Create \
                         the view in grad mode, or detach() it."
                            .into(),
                    ));
                }
                (no_grad(|| view.look(base)?.value())?, None)
            }
            // Whoever looks first may do so with tracking off; the view stays what it is.
            Some(base) => {
                let fresh = enable_grad(|| view.look(base))?;
                (fresh.value()?, Some(fresh.history()))
            }
            None => {
                let whole = Tensor::from_value(source, History::None);
                let fresh = no_grad(|| view.look(&whole))?;
                (fresh.value()?, None)
            }
        };
        let mut state = self.0.state.lock();
        let old = std::mem::replace(&mut state.value, value.clone());
        state.version = version;
        // A view that became a leaf by itself (`requires_grad_`) keeps its own slot.
        let old_history = match (history, &state.history) {
            (Some(new), History::None | History::Node(..)) => Some(std::mem::replace(&mut state.history, new)),
            _ => None,
        };
        drop(state);
        drop((old, old_history));
        Ok(value)
    }

    /// Whether it is a view made with tracking off, and its cell has moved on under a base that gradients flow to: it
    /// cannot be used with tracking on.
    pub fn is_left_behind(&self) -> bool {
        self.0.view.as_ref().is_some_and(|view| {
            // Of a leaf that is a view it is an alias that follows nothing.
            view.untracked
                && view.to_base == 0
                && view.base.as_ref().is_some_and(Tensor::requires_grad)
                && self.0.state.lock().version != self.0.cell.version()
        })
    }

    /// Another handle on the same cell, seen through `view`.
    #[track_caller]
    pub(crate) fn with_view(&self, ty: TensorType, view: Option<Box<View>>, value: Value, history: History) -> Tensor {
        let version = self.0.cell.version();
        if self.0.cell.is_state() {
            value.mark_state(true);
        }
        let state = Mutex::new(State { value, version, history });
        Tensor(Arc::new(Inner { ty, cell: self.0.cell.clone(), view, quiet: self.0.quiet, state }))
    }

    /// The tensor type.
    #[inline]
    #[track_caller]
    pub fn ty(&self) -> TensorType {
        self.0.ty
    }

    /// The element type.
    #[inline]
    #[track_caller]
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    /// The extents.
    #[inline]
    #[track_caller]
    pub fn shape(&self) -> &Shape {
        &self.0.ty.shape
    }

    /// The number of dimensions.
    #[inline]
    #[track_caller]
    pub fn rank(&self) -> usize {
        self.0.ty.shape.rank()
    }

    /// The number of elements.
    #[track_caller]
    pub fn numel(&self) -> usize {
        self.0.ty.numel()
    }

    /// Element strides, as PyTorch would have them.
    #[track_caller]
    pub fn strides(&self) -> Steps {
        match &self.0.view {
            Some(view) => view.strides,
            None => self.0.ty.shape.contiguous_strides(),
        }
    }

    /// Elements from the start of the cell to the first one of the view.
    #[track_caller]
    pub fn storage_offset(&self) -> i64 {
        self.0.view.as_ref().map_or(0, |v| v.offset)
    }

    /// Whether the elements lie packed in row-major order.
    #[track_caller]
    pub fn is_contiguous(&self) -> bool {
        let (shape, strides) = (self.shape(), self.strides());
        let mut expected = 1i64;
        for axis in (0..shape.rank()).rev() {
            if shape[axis] != 1 && strides[axis] != expected {
                return shape.numel() == 0;
            }
            expected *= shape[axis] as i64;
        }
        true
    }

    /// How often the tensor's cell was written to.
    #[track_caller]
    pub fn version(&self) -> u32 {
        self.0.cell.seen()
    }

    /// Whether both are the same tensor.
    #[track_caller]
    pub fn is(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// An address-like number: the same for clones of one tensor.
    #[track_caller]
    pub fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// The same for the cell: equal for all tensors that share it.
    #[track_caller]
    pub fn cell_key(&self) -> usize {
        Arc::as_ptr(&self.0.cell) as usize
    }

    /// Whether both look at the same cell.
    #[track_caller]
    pub fn shares_cell(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0.cell, &other.0.cell)
    }

    /// The tensor this is a view of.
    #[track_caller]
    pub fn base(&self) -> Option<Tensor> {
        self.0.view.as_ref().and_then(|v| v.base.clone())
    }

    /// The stream's name of the tensor's present value.
    #[track_caller]
    pub fn id(&self) -> Result<gt_ir::TensorId> {
        Ok(self.value()?.id())
    }

    /// Says whether the tensor is state: a parameter, a buffer, what an optimizer keeps. A group of workers that uses it
    /// keeps it whole, where it splits data. What is written to it later is state too.
    pub fn mark_state(&self, on: bool) {
        self.0.cell.mark_state(on);
        self.0.state.lock().value.mark_state(on);
    }

    /// Whether the tensor is state; see [`Tensor::mark_state`].
    pub fn is_state(&self) -> bool {
        self.0.cell.is_state()
    }

    /// A copy that lies as `scope` says: what is made there (SIGNAL-5).
    ///
    /// # Errors
    /// When it cannot be recorded.
    #[track_caller]
    pub fn laid_out(&self, scope: gt_ir::ScopeId) -> Result<Tensor> {
        let _there = crate::signal::under(scope);
        let mut copy = Tensor::apply(gt_ir::ops::Reshape { shape: *self.shape() }.into(), &[self], &[])?;
        Ok(copy.remove(0).named("ToCopy"))
    }

    /// Waits for the value and copies it out: one round trip.
    #[track_caller]
    pub fn read(&self) -> Result<HostTensor> {
        let value = self.value()?;
        lane::cut_for_read(&value)?;
        let session = session()?;
        blocking(|| session.link.read(value.id(), &interrupted)).map_err(wait_error)
    }

    /// The only element, as a scalar.
    #[track_caller]
    pub fn item(&self) -> Result<Scalar> {
        if self.numel() != 1 {
            return Err(Error::State(format!(
                "a Tensor with {} elements cannot be converted to Scalar (its shape is {})",
                self.numel(),
                self.shape()
            )));
        }
        let host = self.read()?;
        Ok(crate::host::scalar_at(&host, 0))
    }
}

impl std::fmt::Debug for Tensor {
    #[track_caller]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({})", self.0.ty)
    }
}
