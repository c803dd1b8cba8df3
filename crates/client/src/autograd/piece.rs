//! A piece of the tape: what was recorded between two moments, and what it took from before.
//!
//! `checkpoint` runs a function, keeps of its piece of the tape nothing but the edges that leave it, and when the gradient
//! comes records the piece anew and walks it with [`super::grad_of_piece`].

use std::collections::HashSet;

use super::edge::{Edge, EdgeKey};
use super::no_grad;
use super::node::next_sequence;
use crate::error::Result;
use crate::shown::History;
use crate::tensor::Tensor;

/// Where the tape stands: nodes recorded from now on have this number or a larger one.
pub fn position() -> u64 {
    next_sequence()
}

/// The edges by which nodes recorded from `since` on, and below `outs`, refer to leaves and to older nodes, each once. They
/// come as tensors that have an edge for their history and no value worth reading.
///
/// # Errors
/// When the stand-in for their values cannot be recorded.
pub fn captured(outs: &[Tensor], since: u64) -> Result<Vec<Tensor>> {
    let mut left: Vec<History> = Vec::new();
    let mut seen: HashSet<EdgeKey> = HashSet::new();
    let mut walked: HashSet<u64> = HashSet::new();
    let mut stack: Vec<Edge> = Vec::new();
    for out in outs.iter().rev() {
        let _ = out.value()?;
        stack.extend(Edge::of(out));
    }
    while let Some(edge) = stack.pop() {
        match edge {
            Edge::Node(node, _) if node.seq >= since => {
                if walked.insert(node.seq) {
                    stack.extend(node.next.iter().rev().flatten().cloned());
                }
            }
            edge if !seen.insert(edge.key()) => {}
            Edge::Leaf(slot) => left.push(History::Leaf(slot)),
            edge @ Edge::Node(..) => left.push(History::Node(edge, None)),
        }
    }
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let value = no_grad(|| Tensor::full(&[], 0.0, None))?.value()?;
    Ok(left.into_iter().map(|history| Tensor::from_value(value.clone(), history)).collect())
}
