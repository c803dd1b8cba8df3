//! Nodes of the tape.
//!
//! NODE-1: a node refers to what it was computed from, never to the tensors it made: no cycles.
//! NODE-2: a saved value knows the cell it was seen in and the version; a backward pass that finds the cell moved on fails.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use gt_ir::ops::{ReduceKind, Side};
use gt_ir::rows::{BinaryKind, UnaryKind};
use gt_ir::{Op, Scalar, Scalars, ScopeId, TensorType};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::CustomBackward;
use super::edge::Edge;
use super::hooks::Hooks;
use super::packed_types::PackedTypes;
use crate::error::{Error, Result};
use crate::signal;
use crate::tensor::Tensor;
use crate::value::{Cell, Value};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number that the next node will get.
pub(crate) fn next_sequence() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// Where gradients of a leaf are collected.
#[derive(Default)]
pub struct GradSlot {
    pub(crate) grad: Mutex<Option<Tensor>>,
    pub(crate) hooks: Hooks,
    /// Run once a gradient was added to `grad`.
    pub(crate) after: Hooks,
    /// How many edges of living nodes lead here.
    pub(crate) edges: AtomicUsize,
}

impl GradSlot {
    /// The collected gradient goes on under another handle, if it is still `old`.
    pub fn follow(&self, old: &Tensor, new: &Tensor) {
        let mut grad = self.grad.lock();
        if grad.as_ref().is_some_and(|g| g.is(old)) {
            let old = grad.replace(new.clone());
            drop(grad);
            drop(old);
        }
    }
}

/// Where a gradient goes next.
#[derive(Clone)]
pub enum NextStep {
    /// To one of the outputs of a node.
    Node(Arc<Node>, u32),
    /// Into a leaf.
    Leaf(Arc<GradSlot>),
}

/// A value kept for the backward pass.
pub(crate) struct Saved {
    value: Value,
    cell: Weak<Cell>,
    version: u32,
}

impl Saved {
    fn new(value: Value, cell: &Arc<Cell>) -> Self {
        Saved { value, cell: Arc::downgrade(cell), version: cell.seen() }
    }

    /// The value, unless its cell was written to since.
    pub fn value(&self) -> Result<&Value> {
        if let Some(cell) = self.cell.upgrade() {
            let now = cell.seen();
            if now != self.version {
                return Err(Error::Autograd(format!(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: \
                     [{}], is at version {now}; expected version {} instead. Hint: the backtrace of the read names the \
                     line that computed it.",
                    self.value.ty(),
                    self.version
                )));
            }
        }
        Ok(&self.value)
    }
}

/// An instruction on the tape.
pub struct Node {
    pub(crate) seq: u64,
    /// One for each input.
    pub(crate) next: SmallVec<[Option<Edge>; 2]>,
    /// How many outputs it has.
    pub(crate) outs: usize,
    pub(crate) hooks: Hooks,
    retained: Mutex<Vec<(u32, Weak<GradSlot>)>>,
    /// The name of the function that the node is the last instruction of.
    label: Mutex<Option<&'static str>>,
    /// The signal it was recorded under.
    pub(crate) scope: ScopeId,
    pub(crate) kind: NodeKind,
}

// Nearly every node is an op; boxing it would cost each of them an allocation.
#[allow(clippy::large_enum_variant)]
pub(crate) enum NodeKind {
    /// The types are those of the inputs, then those of the outputs.
    Op {
        op: Op,
        scalars: Scalars,
        types: PackedTypes,
        needs: u64,
        saved: Mutex<Option<SavedSet>>,
    },
    Custom(Mutex<Option<Box<dyn CustomBackward>>>, String),
}

#[derive(Default)]
pub(crate) struct SavedSet {
    pub ins: SmallVec<[Option<Saved>; 2]>,
    pub outs: SmallVec<[Option<Saved>; 1]>,
}

/// The edges of a node being made; leaves count them until it is dropped.
fn edges(ins: &[&Tensor]) -> SmallVec<[Option<Edge>; 2]> {
    let mut edges = SmallVec::new();
    for t in ins {
        let edge = Edge::of(t);
        if let Some(Edge::Leaf(slot)) = &edge {
            slot.edges.fetch_add(1, Ordering::Relaxed);
        }
        edges.push(edge);
    }
    edges
}

impl Node {
    /// The node of an instruction that was just recorded on `ins`, which showed `values` then; those need not be given for an
    /// op that saves none of them.
    #[inline]
    pub(crate) fn for_op(op: Op, scalars: &[Scalar], ins: &[&Tensor], values: &[Value], outs: &[Tensor]) -> Arc<Node> {
        // Pushed one by one: collecting into a SmallVec costs several times as much, and this is every tracked op.
        let next = edges(ins);
        let mut needs = 0;
        for (i, edge) in next.iter().enumerate() {
            needs |= (edge.is_some() as u64) << i.min(63);
        }
        let mut types = PackedTypes::default();
        ins.iter().for_each(|t| types.push(&t.0.ty));
        outs.iter().for_each(|t| types.push(&t.0.ty));
        let saves = op.primitive().saves(needs);
        let wanted = |mask: u64, i: usize| mask >> i.min(63) & 1 != 0;
        let mut set = SavedSet::default();
        if saves.ins != 0 {
            for (i, t) in ins.iter().enumerate() {
                let value = || values.get(i).cloned().unwrap_or_else(|| t.0.shown.value(&t.0.ty).0);
                set.ins.push(wanted(saves.ins, i).then(|| Saved::new(value(), t.cell())));
            }
        }
        if saves.outs != 0 {
            for (i, t) in outs.iter().enumerate() {
                let value = || t.0.shown.value(&t.0.ty).0;
                set.outs.push(wanted(saves.outs, i).then(|| Saved::new(value(), t.cell())));
            }
        }
        Arc::new(Node {
            seq: NEXT.fetch_add(1, Ordering::Relaxed),
            next,
            outs: outs.len(),
            hooks: Hooks::default(),
            retained: Mutex::default(),
            label: Mutex::default(),
            scope: signal::recorded_under(),
            kind: NodeKind::Op {
                op,
                scalars: Scalars::from_slice(scalars),
                types,
                needs,
                saved: Mutex::new(Some(set)),
            },
        })
    }

    pub(crate) fn for_custom(
        name: String,
        ins: &[&Tensor],
        outs: usize,
        function: Box<dyn CustomBackward>,
    ) -> Arc<Node> {
        Arc::new(Node {
            seq: NEXT.fetch_add(1, Ordering::Relaxed),
            next: edges(ins),
            outs,
            hooks: Hooks::default(),
            retained: Mutex::default(),
            label: Mutex::default(),
            scope: signal::recorded_under(),
            kind: NodeKind::Custom(Mutex::new(Some(function)), name),
        })
    }

    /// What the node computes the gradient of: `MulBackward0` and the like, as PyTorch calls it.
    pub fn name(&self) -> String {
        match &self.kind {
            NodeKind::Op { op, types, .. } => {
                let label = *self.label.lock();
                let mut unpacked = SmallVec::new();
                types.unpack(&mut unpacked);
                let name = label.map_or_else(|| function_name(op, &unpacked), str::to_owned);
                // A write through a view is one node in PyTorch, and bears no number; some functions have several forms.
                if name == "CopySlices" || name.contains("Backward") { name } else { format!("{name}Backward0") }
            }
            NodeKind::Custom(_, name) => name.clone(),
        }
    }

    /// Says which function the node ends; the last one counts, which is the outermost.
    pub(crate) fn set_label(&self, label: &'static str) {
        *self.label.lock() = Some(label);
    }

    /// Where the gradients of its inputs go; `None` for inputs that need none.
    pub fn next_steps(&self) -> Vec<Option<NextStep>> {
        let step = |edge: &Edge| match edge {
            Edge::Node(node, index) => NextStep::Node(node.clone(), *index),
            Edge::Leaf(slot) => NextStep::Leaf(slot.clone()),
        };
        self.next.iter().map(|edge| edge.as_ref().map(step)).collect()
    }

    /// The nodes its inputs came from; `None` for inputs that need no gradient, leaves name no node.
    pub fn next_nodes(&self) -> Vec<Option<Arc<Node>>> {
        self.next
            .iter()
            .map(|e| match e {
                Some(Edge::Node(n, _)) => Some(n.clone()),
                _ => None,
            })
            .collect()
    }

    /// The order in which it was recorded.
    pub fn sequence(&self) -> u64 {
        self.seq
    }

    pub(crate) fn retain(&self, index: u32, slot: &Arc<GradSlot>) {
        self.retained.lock().push((index, Arc::downgrade(slot)));
    }

    /// Hands a gradient to those who asked for it with `retain_grad`.
    pub(crate) fn deliver(&self, index: u32, grad: &Tensor) {
        let slots: SmallVec<[Arc<GradSlot>; 1]> =
            self.retained.lock().iter().filter(|(i, _)| *i == index).filter_map(|(_, s)| s.upgrade()).collect();
        for slot in slots {
            let old = slot.grad.lock().replace(grad.clone());
            drop(old);
        }
    }
}

/// What PyTorch calls the function an instruction computes.
fn function_name(op: &Op, ins: &[TensorType]) -> String {
    match op {
        Op::Matmul(_) => match (ins[0].shape.rank(), ins[1].shape.rank()) {
            (2, 2) => "Mm",
            _ => "Bmm",
        },
        Op::Reshape(_) => "View",
        Op::Broadcast(_) => "Expand",
        Op::Concat(_) => "Cat",
        Op::Cast(_) => "ToCopy",
        Op::Select(_) => "Where",
        Op::Take(_) => "Index",
        Op::Put(_) => "IndexPut",
        Op::UpdateSlice(_) => "CopySlices",
        Op::Reduce(r) if r.axes.iter().count() < ins[0].shape.rank() => match r.kind {
            ReduceKind::Sum => "SumBackward1",
            ReduceKind::Prod => "ProdBackward1",
            ReduceKind::Max => "Amax",
            ReduceKind::Min => "Amin",
        },
        Op::Unary(u) if u.kind == UnaryKind::Square => "Pow",
        Op::Unary(u) if u.kind == UnaryKind::Log1p => "Log1P",
        Op::Binary(b) if b.kind == BinaryKind::Pow && b.scalar == Side::None => "PowBackward1",
        Op::Binary(b) if b.kind == BinaryKind::Pow && b.scalar == Side::Left => "PowBackward2",
        _ => {
            return op.display_name().split('_').map(|w| w[..1].to_ascii_uppercase() + &w[1..]).collect();
        }
    }
    .to_owned()
}

/// A long chain of nodes is taken apart in a loop: dropping it recursively would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut queue: Vec<Edge> = self.next.drain(..).flatten().collect();
        while let Some(edge) = queue.pop() {
            match edge {
                Edge::Node(mut node, _) => {
                    // Where it lies: a node is too large to be moved out just to be dropped.
                    if let Some(last) = Arc::get_mut(&mut node) {
                        queue.extend(last.next.drain(..).flatten());
                    }
                }
                Edge::Leaf(slot) => {
                    slot.edges.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }
}
