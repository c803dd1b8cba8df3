//! The tensor handle.
//!
//! A handle is a cell and a way to look at it. What it shows is cached together with the cell's version; when the cell
//! has moved on, the handle derives itself again. Autograd history belongs to the handle: a base and its views share it
//! by deriving from the base, a detached alias shares only the cell.
//!
//! TENSOR-1: what is shown is locked for loads and stores only; recording happens with no lock of a tensor held.
//! TENSOR-2: a tensor gets a cell when somebody asks for it: to write to it, to share it or to watch it. Most never do.

use std::sync::{Arc, OnceLock};

use gt_ir::{DType, HostTensor, Op, Scalar, Shape, Steps, TensorId, TensorType};
use smallvec::SmallVec;

use crate::autograd::{Edge, Node, enable_grad, grad_enabled, no_grad};
use crate::error::{Error, Result};
use crate::lane;
use crate::run_ahead::{SMALL_ELEMENTS, large_work_ns, work_ns};
use crate::session::session;
use crate::shown::{History, Shown};
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
    /// None is a cell that holds what is shown and was never written to (TENSOR-2).
    pub cell: OnceLock<Arc<Cell>>,
    /// How to look at the cell; `None` sees all of it as it is.
    pub view: Option<View>,
    pub shown: Shown,
}

/// [`work_ns`] where the one output tells how much there is to work on.
#[inline]
fn known_work_ns<const N: usize>(op: &Op, ins: [&Tensor; N], ty: &TensorType) -> u64 {
    match ty.numel() < SMALL_ELEMENTS {
        true => 0,
        false => large_work_ns(op, &ins.map(|tensor| tensor.0.ty), std::slice::from_ref(ty)),
    }
}

/// The outputs of an instruction.
pub(crate) type Results = SmallVec<[Tensor; 1]>;

impl Tensor {
    /// A tensor of its own that shows `value`.
    #[track_caller]
    pub(crate) fn from_value(value: Value, history: History) -> Self {
        let ty = *value.ty();
        Tensor::whole(&ty, Shown::of(value, 0, history))
    }

    /// The result of an instruction that was just recorded.
    #[inline]
    #[track_caller]
    pub(crate) fn made(id: TensorId, ty: &TensorType) -> Self {
        Tensor::whole(ty, Shown::made(id, 0))
    }

    /// A tensor that shows all of a new cell.
    #[inline]
    #[track_caller]
    fn whole(ty: &TensorType, shown: Shown) -> Self {
        Tensor(Arc::new(Inner { ty: *ty, cell: OnceLock::new(), view: None, shown }))
    }

    /// The tensor, made by output `index` of `node`.
    #[inline]
    #[track_caller]
    pub(crate) fn made_by(self, node: Arc<Node>, index: u32) -> Self {
        self.0.shown.change_history(|history| *history = History::Node(Edge::Node(node, index), None));
        self
    }

    /// The tensor's cell.
    pub(crate) fn cell(&self) -> &Arc<Cell> {
        self.0.cell.get_or_init(|| Cell::new(self.0.shown.value(&self.0.ty).0))
    }

    /// The cell if somebody has asked for it.
    #[inline]
    pub(crate) fn known_cell(&self) -> Option<&Arc<Cell>> {
        self.0.cell.get()
    }

    /// Whether what is shown is what the cell holds.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.0.shown.version() == self.known_cell().map_or(0, |cell| cell.version())
    }

    /// Records an instruction on tensors and tracks it if gradients may flow.
    #[track_caller]
    pub(crate) fn apply(op: Op, ins: &[&Tensor], scalars: &[Scalar]) -> Result<Results> {
        match *ins {
            [x] => Tensor::apply_inferred(op, [x], std::slice::from_ref(&x.0.ty), scalars),
            [x, y] => Tensor::apply_inferred(op, [x, y], &[x.0.ty, y.0.ty], scalars),
            _ => Tensor::apply_any(op, ins, scalars),
        }
    }

    /// [`Tensor::apply`] on a few operands of the types `types`.
    #[inline(never)]
    #[track_caller]
    fn apply_inferred<const N: usize>(
        op: Op,
        ins: [&Tensor; N],
        types: &[TensorType],
        scalars: &[Scalar],
    ) -> Result<Results> {
        // Looked at where they are: types are too large to be moved for nothing.
        let inferred = op.primitive().infer(types);
        match &inferred {
            Ok(outs) => match &outs[..] {
                [ty] => {
                    let work_ns = work_ns(&op, types, outs);
                    Tensor::apply_timed(op, ins, scalars, ty, work_ns).map(|out| Results::from_buf([out]))
                }
                _ => Tensor::apply_any(op, &ins, scalars),
            },
            Err(error) => Err(error.clone().into()),
        }
    }

    /// [`Tensor::apply`] on any number of operands.
    #[inline(never)]
    #[track_caller]
    fn apply_any(op: Op, ins: &[&Tensor], scalars: &[Scalar]) -> Result<Results> {
        let mut values: SmallVec<[Value; 3]> = SmallVec::new();
        let mut types: SmallVec<[TensorType; 3]> = SmallVec::new();
        let mut tracked = false;
        for t in ins {
            let (value, tracks) = t.look()?;
            values.push(value);
            types.push(t.0.ty);
            tracked |= tracks;
        }
        // Looked at where they are: types are too large to be moved for nothing.
        let inferred = op.primitive().infer(&types);
        let outs = match &inferred {
            Ok(outs) => outs,
            Err(error) => return Err(error.clone().into()),
        };
        tracked = tracked && grad_enabled() && outs.iter().any(|ty| ty.dtype.is_float());
        let node_op = if tracked { Some(op.clone()) } else { None };
        let refs: SmallVec<[&Value; 3]> = values.iter().collect();
        let work_ns = work_ns(&op, &types, outs);
        let first = lane::record(op, &refs, scalars, outs.len(), None, work_ns)?;
        let mut results = Results::new();
        for (i, ty) in outs.iter().enumerate() {
            results.push(Tensor::made(TensorId(first.0 + i as u64), ty));
        }
        if let Some(op) = node_op {
            let node = Node::for_op(op, scalars, ins, &values, &results);
            for (i, out) in results.iter_mut().enumerate().filter(|(_, out)| out.dtype().is_float()) {
                *out = out.clone().made_by(node.clone(), i as u32);
            }
        }
        Ok(results)
    }

    /// [`Tensor::apply`] where the caller knows that the one output has type `ty`, and that there is no more to work on than that:
    /// nothing is left to infer.
    #[inline]
    #[track_caller]
    pub(crate) fn apply_known<const N: usize>(
        op: Op,
        ins: [&Tensor; N],
        scalars: &[Scalar],
        ty: &TensorType,
    ) -> Result<Tensor> {
        let work_ns = known_work_ns(&op, ins, ty);
        Tensor::apply_timed(op, ins, scalars, ty, work_ns)
    }

    /// [`Tensor::apply_known`] where the instruction is estimated to take so long.
    #[inline]
    #[track_caller]
    fn apply_timed<const N: usize>(
        op: Op,
        ins: [&Tensor; N],
        scalars: &[Scalar],
        ty: &TensorType,
        work_ns: u64,
    ) -> Result<Tensor> {
        let needs = (0..N).fold(0, |needs, i| needs | (ins[i].0.shown.tracks() as u64) << i);
        let tracked = needs != 0 && ty.dtype.is_float() && grad_enabled();
        // What the tape keeps must be held before it is recorded; the rest need only be named.
        if tracked && op.primitive().saves(needs).ins != 0 {
            return Tensor::apply_values(op, ins, scalars, ty, work_ns);
        }
        let node_op = tracked.then(|| op.clone());
        let out = match lane::record_shown(op, ins, scalars, work_ns)? {
            Ok(id) => Tensor::made(id, ty),
            Err(given_back) => return Tensor::apply_values(given_back, ins, scalars, ty, work_ns),
        };
        Ok(match node_op {
            None => out,
            Some(op) => {
                let node = Node::for_op(op, scalars, &ins, &[], std::slice::from_ref(&out));
                out.made_by(node, 0)
            }
        })
    }

    /// [`Tensor::apply_known`] where a look at the operands does not do.
    #[inline(never)]
    #[track_caller]
    fn apply_values<const N: usize>(
        op: Op,
        ins: [&Tensor; N],
        scalars: &[Scalar],
        ty: &TensorType,
        work_ns: u64,
    ) -> Result<Tensor> {
        let (mut values, mut tracked) = (SmallVec::<[Value; N]>::new(), false);
        for t in ins {
            let (value, tracks) = t.look()?;
            values.push(value);
            tracked |= tracks;
        }
        let refs: [&Value; N] = std::array::from_fn(|i| &values[i]);
        if !tracked || !ty.dtype.is_float() || !grad_enabled() {
            return lane::record(op, &refs, scalars, 1, None, work_ns).map(|id| Tensor::made(id, ty));
        }
        let id = lane::record(op.clone(), &refs, scalars, 1, None, work_ns)?;
        let out = Tensor::made(id, ty);
        let node = Node::for_op(op, scalars, &ins, &values, std::slice::from_ref(&out));
        Ok(out.made_by(node, 0))
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
        let (value, version) = self.0.shown.value(&self.0.ty);
        if version == self.known_cell().map_or(0, |cell| cell.version()) {
            return Ok((value, self.0.shown.tracks()));
        }
        drop(value);
        let value = self.derive()?;
        Ok((value, self.requires_grad()))
    }

    /// Looks at the cell again after it moved on.
    #[cold]
    #[track_caller]
    fn derive(&self) -> Result<Value> {
        let (source, version) = self.cell().read();
        let Some(view) = &self.0.view else {
            self.0.shown.show(source.clone(), version, None);
            return Ok(source);
        };
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
        // A view that became a leaf by itself (`requires_grad_`) keeps its own slot.
        self.0.shown.show(value.clone(), version, history);
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
                && !self.is_current()
        })
    }

    /// Another handle on the same cell, seen through `view`.
    #[track_caller]
    pub(crate) fn with_view(&self, ty: &TensorType, view: Option<View>, mut shown: Shown) -> Tensor {
        let cell = self.cell().clone();
        if cell.is_state() {
            shown.value(ty).0.mark_state(true);
        }
        shown.quiet_writes = self.0.shown.quiet_writes;
        Tensor(Arc::new(Inner { ty: *ty, cell: cell.into(), view, shown }))
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
            Some(view) => view.last.strides,
            None => self.0.ty.shape.contiguous_strides(),
        }
    }

    /// Elements from the start of the cell to the first one of the view.
    #[track_caller]
    pub fn storage_offset(&self) -> i64 {
        self.0.view.as_ref().map_or(0, |v| v.last.offset)
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
        self.known_cell().map_or(0, |cell| cell.seen())
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
        Arc::as_ptr(self.cell()) as usize
    }

    /// Whether both look at the same cell.
    #[track_caller]
    pub fn shares_cell(&self, other: &Tensor) -> bool {
        self.is(other) || self.known_cell().is_some_and(|cell| other.known_cell().is_some_and(|o| Arc::ptr_eq(cell, o)))
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
        self.cell().mark_state(on);
        self.0.shown.value(&self.0.ty).0.mark_state(on);
    }

    /// Whether the tensor is state; see [`Tensor::mark_state`].
    pub fn is_state(&self) -> bool {
        self.known_cell().is_some_and(|cell| cell.is_state())
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
        session.wait_for(|link, cancel| link.read(value.id(), cancel))
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
        if let Some(known) = self.known_element()? {
            return Ok(known);
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
