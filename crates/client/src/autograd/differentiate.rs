//! The gradients of one node's inputs from those of its outputs.

use std::sync::Arc;

use gt_ir::{GradCx, Op};
use smallvec::SmallVec;

use super::backward::BackwardOptions;
use super::edge::Edge;
use super::emit::Scratch;
use super::gathered::Part;
use super::node::{Node, NodeKind, Saved};
use super::{GradModeGuard, grad_enabled};
use crate::error::{Error, Result};
use crate::shown::History;
use crate::tensor::Tensor;
use crate::value::Value;

/// The gradient of the first input, where it is one of a part of it only.
pub(super) fn part(node: &Node, grad: &Tensor, options: BackwardOptions) -> Result<Option<Part>> {
    let NodeKind::Op { op, scalars, types, saved, .. } = &node.kind else { return Ok(None) };
    match op {
        Op::Slice(_) => {
            let _guard = GradModeGuard::new(options.create_graph);
            Part::of_slice(op, types.first(), scalars, grad)
        }
        Op::Take(_) => {
            let set = saved.lock();
            let index = set.as_ref().ok_or_else(released)?.ins.get(1).and_then(Option::as_ref);
            let Some(index) = index.map(|saved| saved.value().cloned()).transpose()? else { return Ok(None) };
            drop(set);
            if !options.keeps_graph() {
                saved.lock().take();
            }
            Ok(Part::of_rows(op, types.first(), Tensor::from_value(index, History::None), grad))
        }
        _ => Ok(None),
    }
}

/// The gradients of a node's inputs.
pub(super) fn differentiate(
    node: &Arc<Node>,
    grads: SmallVec<[Option<Tensor>; 1]>,
    options: BackwardOptions,
) -> Result<SmallVec<[Option<Tensor>; 3]>> {
    let keep = options.keeps_graph();
    match &node.kind {
        NodeKind::Custom(function, name) => {
            let mut taken = function.lock().take().ok_or_else(released)?;
            let result = {
                let _guard = GradModeGuard::new(options.create_graph);
                taken.backward(grads.into_vec())
            };
            if keep {
                *function.lock() = Some(taken);
            } else {
                taken.release();
            }
            let given = result?;
            if given.len() > node.next.len() && given[node.next.len()..].iter().any(Option::is_some)
                || given.len() < node.next.len()
            {
                return Err(Error::Autograd(format!(
                    "function {name} returned an incorrect number of gradients (expected {}, got {})",
                    node.next.len(),
                    given.len()
                )));
            }
            Ok(given.into_iter().take(node.next.len()).collect())
        }
        NodeKind::Op { op, scalars, types, needs, saved } => {
            let set = saved.lock().take().ok_or_else(released)?;
            let _guard = GradModeGuard::new(options.create_graph);
            let mut scratch = Scratch::default();
            let given: SmallVec<[_; 1]> = grads.into_iter().map(|g| g.map(|g| scratch.put(g))).collect();
            let mut load = |saved: &Option<Saved>, edge: Option<Edge>| -> Result<Option<gt_ir::Val>> {
                let Some(saved) = saved else { return Ok(None) };
                let value: Value = saved.value()?.clone();
                let history = match edge {
                    Some(Edge::Leaf(slot)) if grad_enabled() => History::Leaf(slot),
                    Some(edge @ Edge::Node(..)) if grad_enabled() => History::Node(edge, None),
                    _ => History::None,
                };
                Ok(Some(scratch.put(Tensor::from_value(value, history))))
            };
            let mut loaded_ins: SmallVec<[_; 3]> = SmallVec::new();
            for (i, s) in set.ins.iter().enumerate() {
                loaded_ins.push(load(s, node.next[i].clone())?);
            }
            let mut loaded_outs: SmallVec<[_; 1]> = SmallVec::new();
            for (i, s) in set.outs.iter().enumerate() {
                loaded_outs.push(load(s, Some(Edge::Node(node.clone(), i as u32)))?);
            }
            let mut unpacked = SmallVec::new();
            types.unpack(&mut unpacked);
            let (ins, outs) = unpacked.split_at(node.next.len());
            let cx = GradCx {
                ins,
                outs,
                scalars,
                grads: &given,
                saved_ins: &loaded_ins,
                saved_outs: &loaded_outs,
                needs: *needs,
            };
            let result = op.primitive().grad(&cx, &mut scratch);
            // What saved nothing can be walked again at no cost.
            if keep || (set.ins.is_empty() && set.outs.is_empty()) {
                *saved.lock() = Some(set);
            }
            let vals = result.map_err(|e| scratch.error.take().unwrap_or(Error::Op(e)))?;
            Ok(vals.into_iter().map(|v| v.map(|v| scratch.get(v).clone())).collect())
        }
    }
}

fn released() -> Error {
    Error::Autograd(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already \
         been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). \
         Specify retain_graph=True if you need to backward through the graph a second time."
            .into(),
    )
}
