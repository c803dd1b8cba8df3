//! The walk back over the tape: nodes in reverse order of recording, each once all its gradients are in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::backward::BackwardOptions;
use super::differentiate::{differentiate, part};
use super::edge::{Edge, EdgeKey, address};
use super::gathered::{Gathered, Part};
use super::node::Node;
use super::wanted::Wanted;
use super::{GradModeGuard, no_grad};
use crate::error::{Error, Result};
use crate::shown::History;
use crate::signal;
use crate::tensor::Tensor;

/// Gradients that wait for their node.
type Pending = BTreeMap<u64, (Arc<Node>, SmallVec<[Gathered; 1]>)>;

/// Where the walk ends: leaves, and for a piece of the tape whatever lies beyond it; in the order they were reached.
#[derive(Default)]
struct Ends {
    index: HashMap<EdgeKey, usize>,
    list: Vec<End>,
}

struct End {
    edge: Edge,
    gathered: Gathered,
    /// Edges to a leaf that were walked. When there are no others, its gradient is whole.
    walked: usize,
}

impl Ends {
    fn at(&mut self, edge: &Edge) -> &mut End {
        let at = *self.index.entry(edge.key()).or_insert_with(|| {
            self.list.push(End { edge: edge.clone(), gathered: Gathered::default(), walked: 0 });
            self.list.len() - 1
        });
        &mut self.list[at]
    }
}

/// A gradient on its way to an edge.
enum Given {
    Whole(Tensor),
    Part(Part),
}

/// A walk under way.
struct Walk {
    options: BackwardOptions,
    /// Where gradients are kept instead of in leaves.
    wanted: Option<Wanted>,
    pending: Pending,
    ends: Ends,
}

/// Walks back from `roots`. Gives what was wanted; without `wanted` gradients are collected in the leaves.
pub(super) fn walk(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    options: BackwardOptions,
    wanted: Option<Wanted>,
) -> Result<Vec<Option<Tensor>>> {
    let mut walk = Walk { options, wanted, pending: Pending::new(), ends: Ends::default() };
    walk.start(roots, grads)?;
    walk.run()?;
    Ok(walk.wanted.map(Wanted::into_found).unwrap_or_default())
}

impl Walk {
    /// Gives every root the gradient it starts with.
    fn start(&mut self, roots: &[Tensor], grads: &[Option<Tensor>]) -> Result<()> {
        for (i, root) in roots.iter().enumerate() {
            let _ = root.value()?;
            let Some(edge) = Edge::of(root) else {
                return Err(Error::Autograd(format!(
                    "element {i} of tensors does not require grad and does not have a grad_fn"
                )));
            };
            let _scope = match &edge {
                Edge::Node(node, _) if signal::in_use() => Some(signal::under(signal::gradients_of(node.scope))),
                _ => None,
            };
            let grad = match grads.get(i).cloned().flatten() {
                Some(g) if g.shape() != root.shape() => {
                    return Err(Error::Autograd(format!(
                        "Mismatch in shape: grad_output[{i}] has a shape of {} and output[{i}] has a shape of {}.",
                        g.shape(),
                        root.shape()
                    )));
                }
                // As PyTorch: of the root's dtype, whatever it was given as.
                Some(g) => g.to_dtype(root.dtype())?,
                None if root.numel() == 1 => no_grad(|| Tensor::full(root.shape(), 1.0, Some(root.dtype())))?,
                None => {
                    return Err(Error::Autograd(format!(
                        "grad can be implicitly created only for scalar outputs (the shape is {})",
                        root.shape()
                    )));
                }
            };
            self.give(&edge, Given::Whole(grad))?;
        }
        Ok(())
    }

    /// Adds a gradient to what an edge has so far.
    fn give(&mut self, edge: &Edge, given: Given) -> Result<()> {
        match edge {
            Edge::Node(node, index) if !self.is_beyond(node) => {
                if let Some(wanted) = &self.wanted
                    && !wanted.walks(node)
                    && !wanted.has_output_of(node)
                {
                    return Ok(());
                }
                let fresh = || (node.clone(), (0..node.outs).map(|_| Gathered::default()).collect());
                let entry = self.pending.entry(node.seq).or_insert_with(fresh);
                let mut gathered = std::mem::take(&mut entry.1[*index as usize]);
                self.gather(&mut gathered, given)?;
                let entry = self.pending.get_mut(&node.seq).expect("it was just entered");
                entry.1[*index as usize] = gathered;
            }
            Edge::Node(..) | Edge::Leaf(_) => {
                let mut gathered = std::mem::take(&mut self.ends.at(edge).gathered);
                self.gather(&mut gathered, given)?;
                self.ends.at(edge).gathered = gathered;
            }
        }
        Ok(())
    }

    /// Whether a node lies beyond the piece of the tape that is walked.
    fn is_beyond(&self, node: &Node) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.is_beyond(node))
    }

    fn gather(&self, gathered: &mut Gathered, given: Given) -> Result<()> {
        match given {
            Given::Whole(grad) => self.tracked(|| gathered.add(grad)),
            Given::Part(part) => {
                gathered.add_part(part);
                Ok(())
            }
        }
    }

    /// An edge has been walked. A leaf that all edges lead to gets its gradient at once, so that it need not be kept beside
    /// the sum it is added to.
    fn walked(&mut self, edge: &Edge) -> Result<()> {
        let Edge::Leaf(slot) = edge else { return Ok(()) };
        let end = self.ends.at(edge);
        end.walked += 1;
        if end.walked < slot.edges.load(Ordering::Relaxed) {
            return Ok(());
        }
        let gathered = std::mem::take(&mut end.gathered);
        self.arrive(edge, gathered)
    }

    /// A gradient reaches where somebody asked for it, or where nobody did.
    fn collect(&mut self, edge: &Edge, grad: Tensor) -> Result<()> {
        let key = edge.key();
        let Some(wanted) = self.wanted.as_ref().filter(|wanted| wanted.has(key)) else { return Ok(()) };
        let sum = match wanted.get(key) {
            Some(have) => self.tracked(|| have.add(&grad))?,
            None => grad,
        };
        if let Some(wanted) = &mut self.wanted {
            wanted.put(key, sum);
        }
        Ok(())
    }

    /// The gradient of a leaf, or of what lies beyond a piece, is whole.
    fn arrive(&mut self, edge: &Edge, gathered: Gathered) -> Result<()> {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.has(edge.key())) {
            return Ok(());
        }
        let Some(grad) = self.tracked(|| gathered.sum())? else { return Ok(()) };
        let slot = match edge {
            Edge::Leaf(slot) if self.wanted.as_ref().is_none_or(|wanted| !wanted.is_of_piece()) => slot,
            Edge::Leaf(_) | Edge::Node(..) => return self.collect(edge, grad),
        };
        let grad = slot.hooks.run(0, grad)?;
        if self.wanted.is_some() {
            return self.collect(edge, grad);
        }
        let have = slot.grad.lock().clone();
        match have {
            Some(have) if !self.options.create_graph => no_grad(|| have.add_(&grad))?,
            have => {
                let sum = match have {
                    Some(have) => self.tracked(|| have.add(&grad))?,
                    // A gradient may be shared with another leaf or the caller: the leaf gets a cell of its own.
                    None if self.options.create_graph => grad,
                    None => Tensor::from_value(grad.value()?, History::None),
                };
                if signal::in_use() {
                    // It goes with its parameter.
                    sum.mark_state(true);
                }
                let old = slot.grad.lock().replace(sum);
                drop(old);
            }
        }
        let collected = slot.grad.lock().clone();
        if let Some(collected) = collected {
            slot.after.run(0, collected)?;
        }
        Ok(())
    }

    /// Runs `f` tracked or not, as the options say.
    fn tracked<T>(&self, f: impl FnOnce() -> T) -> T {
        let _guard = GradModeGuard::new(self.options.create_graph);
        f()
    }

    /// Visits the nodes, latest first, until every gradient has reached an end.
    fn run(&mut self) -> Result<()> {
        while let Some((_, (node, grads))) = self.pending.pop_last() {
            let _scope = signal::in_use().then(|| signal::under(signal::gradients_of(node.scope)));
            let mut ready: SmallVec<[Option<Tensor>; 1]> = SmallVec::new();
            for (i, gathered) in grads.into_iter().enumerate() {
                let grad = match self.tracked(|| gathered.sum())? {
                    Some(g) => Some(node.hooks.run(i as u32, g)?),
                    None => None,
                };
                if let Some(g) = &grad {
                    node.deliver(i as u32, g);
                    if let Some(wanted) = &mut self.wanted {
                        wanted.put((address(&node), i as u32), g.clone());
                    }
                }
                ready.push(grad);
            }
            if let Some(wanted) = &self.wanted
                && !wanted.walks(&node)
            {
                continue;
            }
            if let [Some(grad)] = &ready[..]
                && let Some(edge) = &node.next[0]
                && let Some(part) = part(&node, grad, self.options)?
            {
                self.give(edge, Given::Part(part))?;
                self.walked(edge)?;
                continue;
            }
            let given = differentiate(&node, ready, self.options)?;
            for (edge, grad) in node.next.iter().zip(given) {
                let Some(edge) = edge else { continue };
                if let Some(grad) = grad {
                    self.give(edge, Given::Whole(grad))?;
                }
                self.walked(edge)?;
            }
        }
        // Also leaves that edges of other graphs lead to, or that are roots themselves.
        for end in std::mem::take(&mut self.ends).list {
            self.arrive(&end.edge, end.gathered)?;
        }
        Ok(())
    }
}
