//! The walk back over the tape: nodes in reverse order of recording, each once all its gradients are in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gt_ir::{GradCx, Op};
use smallvec::SmallVec;

use super::emit::Scratch;
use super::gathered::{Gathered, Part};
use super::node::{Edge, Node, NodeKind, Saved};
use super::{GradModeGuard, grad_enabled, no_grad};
use crate::error::{Error, Result};
use crate::lane;
use crate::signal;
use crate::tensor::{History, Tensor};
use crate::value::Value;

/// How a backward pass treats the tape.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions {
    /// Keep saved values for another pass.
    pub retain_graph: bool,
    /// Track the backward pass itself.
    pub create_graph: bool,
}

/// Gradients that wait for their node.
type Pending = BTreeMap<u64, (Arc<Node>, SmallVec<[Gathered; 1]>)>;

/// Where the walk ends: leaves, and for a piece of the tape whatever lies beyond it; in the order they were reached.
#[derive(Default)]
struct Ends {
    index: HashMap<TargetKey, usize>,
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
        let at = *self.index.entry(key(edge)).or_insert_with(|| {
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

/// Collects gradients of `roots` into the leaves they were computed from.
///
/// # Errors
/// When a root needs no gradient, is not a scalar and has no gradient given, or the graph was released already.
pub fn backward(roots: &[Tensor], grads: &[Option<Tensor>], options: BackwardOptions) -> Result<()> {
    lane::boundary()?;
    let mut walk = Walk { options, wanted: None, pending: Pending::new(), ends: Ends::default() };
    walk.start(roots, grads)?;
    walk.run()?;
    lane::boundary()
}

/// Gradients of `roots` with respect to `inputs`, without touching any `.grad`.
///
/// # Errors
/// As [`backward`], and when an input was not used and `allow_unused` is off.
pub fn grad(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    inputs: &[Tensor],
    options: BackwardOptions,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    lane::boundary()?;
    let mut targets = Vec::new();
    for t in inputs {
        let _ = t.value()?;
        targets.push(match t.history() {
            History::None => {
                return Err(Error::Autograd("One of the differentiated Tensors does not require grad".into()));
            }
            History::Leaf(slot) => Edge::Leaf(slot),
            History::Node(edge, _) => edge,
        });
    }
    let found: HashMap<TargetKey, Option<Tensor>> = targets.iter().map(|e| (key(e), None)).collect();
    let needed = Walk::needed(roots, &targets);
    let mut walk = Walk {
        options,
        wanted: Some(Wanted { found, needed, since: None }),
        pending: Pending::new(),
        ends: Ends::default(),
    };
    walk.start(roots, grads)?;
    walk.run()?;
    let wanted = walk.wanted.expect("it was put there");
    let out: Vec<Option<Tensor>> = targets.iter().map(|e| wanted.found[&key(e)].clone()).collect();
    if !allow_unused && out.iter().any(Option::is_none) {
        return Err(Error::Autograd(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this \
             is the desired behavior."
                .into(),
        ));
    }
    lane::boundary()?;
    Ok(out)
}

/// Gradients of `roots` with respect to the edges by which nodes recorded from `since` on refer to older ones: the walk
/// ends there, hooks of what lies beyond do not run. `edges` are what [`super::captured`] gave for the same piece.
///
/// # Errors
/// As [`backward`].
pub fn grad_of_piece(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    edges: &[Tensor],
    since: u64,
    create_graph: bool,
) -> Result<Vec<Option<Tensor>>> {
    let targets: Vec<Edge> = edges
        .iter()
        .map(|t| match t.history() {
            History::None => Err(Error::Autograd("One of the differentiated Tensors does not require grad".into())),
            History::Leaf(slot) => Ok(Edge::Leaf(slot)),
            History::Node(edge, _) => Ok(edge),
        })
        .collect::<Result<_>>()?;
    let found: HashMap<TargetKey, Option<Tensor>> = targets.iter().map(|e| (key(e), None)).collect();
    let wanted = Wanted { found, needed: HashSet::new(), since: Some(since) };
    let options = BackwardOptions { retain_graph: false, create_graph };
    let mut walk = Walk { options, wanted: Some(wanted), pending: Pending::new(), ends: Ends::default() };
    walk.start(roots, grads)?;
    walk.run()?;
    let wanted = walk.wanted.expect("it was put there");
    Ok(targets.iter().map(|e| wanted.found[&key(e)].clone()).collect())
}

type TargetKey = (usize, u32);

fn key(edge: &Edge) -> TargetKey {
    match edge {
        Edge::Node(n, i) => (Arc::as_ptr(n) as usize, *i),
        Edge::Leaf(s) => (Arc::as_ptr(s) as usize, u32::MAX),
    }
}

struct Wanted {
    found: HashMap<TargetKey, Option<Tensor>>,
    /// Nodes on a way from a root to an input.
    needed: HashSet<usize>,
    /// Set for a piece of the tape: every node recorded from here on is walked, and nothing older.
    since: Option<u64>,
}

impl Wanted {
    fn walks(&self, node: &Arc<Node>) -> bool {
        match self.since {
            Some(since) => node.seq >= since,
            None => self.needed.contains(&(Arc::as_ptr(node) as usize)),
        }
    }
}

struct Walk {
    options: BackwardOptions,
    /// Set by [`grad`]: where gradients are kept instead of in leaves.
    wanted: Option<Wanted>,
    pending: Pending,
    ends: Ends,
}

impl Walk {
    fn start(&mut self, roots: &[Tensor], grads: &[Option<Tensor>]) -> Result<()> {
        for (i, root) in roots.iter().enumerate() {
            let _ = root.value()?;
            let edge = match root.history() {
                History::None => {
                    return Err(Error::Autograd(
                        "element 0 of tensors does not require grad and does not have a grad_fn"
                            .replace('0', &i.to_string()),
                    ));
                }
                History::Leaf(slot) => Edge::Leaf(slot),
                History::Node(edge, _) => edge,
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

    /// Nodes from which one of the targets can be reached.
    fn needed(roots: &[Tensor], targets: &[Edge]) -> HashSet<usize> {
        let goals: HashSet<TargetKey> = targets.iter().map(key).collect();
        let goal_nodes: HashSet<usize> = targets
            .iter()
            .filter_map(|e| if let Edge::Node(n, _) = e { Some(Arc::as_ptr(n) as usize) } else { None })
            .collect();
        // All nodes below the roots, then forward from the goals in recorded order.
        let mut all: BTreeMap<u64, Arc<Node>> = BTreeMap::new();
        let mut stack: Vec<Arc<Node>> = Vec::new();
        for root in roots {
            if let History::Node(Edge::Node(n, _), _) = root.history() {
                stack.push(n);
            }
        }
        while let Some(node) = stack.pop() {
            if all.insert(node.seq, node.clone()).is_none() {
                stack.extend(node.next_nodes().into_iter().flatten());
            }
        }
        let mut needed = HashSet::new();
        for node in all.values() {
            let leads = node.next.iter().flatten().any(|e| match e {
                Edge::Leaf(_) => goals.contains(&key(e)),
                Edge::Node(n, _) => {
                    let p = Arc::as_ptr(n) as usize;
                    needed.contains(&p) || goal_nodes.contains(&p)
                }
            });
            if leads {
                needed.insert(Arc::as_ptr(node) as usize);
            }
        }
        needed
    }

    /// Adds a gradient to what an edge has so far.
    fn give(&mut self, edge: &Edge, given: Given) -> Result<()> {
        match edge {
            Edge::Node(node, index) if !self.is_beyond(node) => {
                if let Some(wanted) = &self.wanted
                    && !wanted.walks(node)
                    && !wanted.found.keys().any(|k| k.0 == Arc::as_ptr(node) as usize)
                {
                    return Ok(());
                }
                let fresh = || (node.clone(), (0..node.outs.len()).map(|_| Gathered::default()).collect());
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
        self.wanted.as_ref().and_then(|w| w.since).is_some_and(|since| node.seq < since)
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
        let key = key(edge);
        let Some(have) = self.wanted.as_ref().and_then(|w| w.found.get(&key)).cloned() else { return Ok(()) };
        let sum = match have {
            Some(have) => self.tracked(|| have.add(&grad))?,
            None => grad,
        };
        if let Some(wanted) = &mut self.wanted {
            wanted.found.insert(key, Some(sum));
        }
        Ok(())
    }

    /// The gradient of a leaf, or of what lies beyond a piece, is whole.
    fn arrive(&mut self, edge: &Edge, gathered: Gathered) -> Result<()> {
        if self.wanted.as_ref().is_some_and(|w| !w.found.contains_key(&key(edge))) {
            return Ok(());
        }
        let Some(grad) = self.tracked(|| gathered.sum())? else { return Ok(()) };
        let slot = match edge {
            Edge::Leaf(slot) if self.wanted.as_ref().is_none_or(|w| w.since.is_none()) => slot,
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
                        let key = (Arc::as_ptr(&node) as usize, i as u32);
                        if let Some(found) = wanted.found.get_mut(&key) {
                            *found = Some(g.clone());
                        }
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
                && let Some(part) = self.part(&node, grad)?
            {
                self.give(edge, Given::Part(part))?;
                self.walked(edge)?;
                continue;
            }
            let given = self.differentiate(&node, ready)?;
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

    /// The gradient of the first input, where it is one of a part of it only.
    fn part(&self, node: &Arc<Node>, grad: &Tensor) -> Result<Option<Part>> {
        let NodeKind::Op { op, scalars, ins, saved, .. } = &node.kind else { return Ok(None) };
        match op {
            Op::Slice(_) => self.tracked(|| Part::of_slice(op, ins[0], scalars, grad)),
            Op::Take(_) => {
                let set = saved.lock();
                let index = set.as_ref().ok_or_else(released)?.ins.get(1).and_then(Option::as_ref);
                let Some(index) = index.map(|saved| saved.value().cloned()).transpose()? else { return Ok(None) };
                drop(set);
                if !(self.options.retain_graph || self.options.create_graph) {
                    saved.lock().take();
                }
                Ok(Part::of_rows(op, ins[0], Tensor::from_value(index, History::None), grad))
            }
            _ => Ok(None),
        }
    }

    /// The gradients of a node's inputs.
    fn differentiate(
        &self,
        node: &Arc<Node>,
        grads: SmallVec<[Option<Tensor>; 1]>,
    ) -> Result<SmallVec<[Option<Tensor>; 3]>> {
        let keep = self.options.retain_graph || self.options.create_graph;
        match &node.kind {
            NodeKind::Custom(function, name) => {
                let mut taken = function.lock().take().ok_or_else(released)?;
                let result = {
                    let _guard = GradModeGuard::new(self.options.create_graph);
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
            NodeKind::Op { op, scalars, ins, needs, saved } => {
                let set = saved.lock().take().ok_or_else(released)?;
                let _guard = GradModeGuard::new(self.options.create_graph);
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
                let cx = GradCx {
                    ins,
                    outs: &node.outs,
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
}

fn released() -> Error {
    Error::Autograd(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already \
         been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). \
         Specify retain_graph=True if you need to backward through the graph a second time."
            .into(),
    )
}
