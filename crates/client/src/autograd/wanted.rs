//! Which gradients a walk was asked for, and which nodes it visits to find them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::edge::{Edge, EdgeKey, address};
use super::node::Node;
use crate::tensor::Tensor;

/// Gradients that are handed back instead of being collected in leaves.
pub(super) struct Wanted {
    targets: Vec<Edge>,
    found: HashMap<EdgeKey, Option<Tensor>>,
    reach: Reach,
}

/// The nodes that a walk visits.
enum Reach {
    /// Those on a way from a root to a target.
    Between(HashSet<usize>),
    /// Those recorded from here on: a piece of the tape.
    Since(u64),
}

impl Wanted {
    /// Gradients of `roots` that reach `targets`, however far back these lie.
    pub fn between(roots: &[Tensor], targets: Vec<Edge>) -> Self {
        let nodes = needed(roots, &targets);
        Wanted::new(targets, Reach::Between(nodes))
    }

    /// Gradients that reach `targets`, the ends of the piece of the tape recorded from `since` on.
    pub fn at_ends_of_piece(since: u64, targets: Vec<Edge>) -> Self {
        Wanted::new(targets, Reach::Since(since))
    }

    fn new(targets: Vec<Edge>, reach: Reach) -> Self {
        let found = targets.iter().map(|edge| (edge.key(), None)).collect();
        Wanted { targets, found, reach }
    }

    /// Whether the inputs of a node get gradients.
    pub fn walks(&self, node: &Arc<Node>) -> bool {
        match &self.reach {
            Reach::Between(nodes) => nodes.contains(&address(node)),
            Reach::Since(since) => node.seq >= *since,
        }
    }

    /// Whether it is a piece of the tape that is walked, not all of it.
    pub fn is_of_piece(&self) -> bool {
        matches!(self.reach, Reach::Since(_))
    }

    /// Whether a node lies beyond the piece of the tape that is walked.
    pub fn is_beyond(&self, node: &Node) -> bool {
        matches!(self.reach, Reach::Since(since) if node.seq < since)
    }

    /// Whether the gradient that an edge bears was asked for.
    pub fn has(&self, key: EdgeKey) -> bool {
        self.found.contains_key(&key)
    }

    /// Whether the gradient of an output of a node was asked for.
    pub fn has_output_of(&self, node: &Arc<Node>) -> bool {
        self.found.keys().any(|key| key.0 == address(node))
    }

    /// What was found so far.
    pub fn get(&self, key: EdgeKey) -> Option<&Tensor> {
        self.found.get(&key).and_then(Option::as_ref)
    }

    /// Keeps a gradient if it was asked for.
    pub fn put(&mut self, key: EdgeKey, grad: Tensor) {
        if let Some(found) = self.found.get_mut(&key) {
            *found = Some(grad);
        }
    }

    /// What was found, in the order of the targets; a target may be named twice.
    pub fn into_found(self) -> Vec<Option<Tensor>> {
        self.targets.iter().map(|edge| self.get(edge.key()).cloned()).collect()
    }
}

/// Nodes from which one of the targets can be reached.
fn needed(roots: &[Tensor], targets: &[Edge]) -> HashSet<usize> {
    let goals: HashSet<EdgeKey> = targets.iter().map(Edge::key).collect();
    let goal_nodes: HashSet<usize> =
        targets.iter().filter_map(|e| if let Edge::Node(n, _) = e { Some(address(n)) } else { None }).collect();
    // All nodes below the roots, then forward from the goals in recorded order.
    let mut all: BTreeMap<u64, Arc<Node>> = BTreeMap::new();
    let mut stack: Vec<Arc<Node>> = Vec::new();
    for root in roots {
        if let Some(Edge::Node(node, _)) = Edge::of(root) {
            stack.push(node);
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
            Edge::Leaf(_) => goals.contains(&e.key()),
            Edge::Node(n, _) => {
                let at = address(n);
                needed.contains(&at) || goal_nodes.contains(&at)
            }
        });
        if leads {
            needed.insert(address(node));
        }
    }
    needed
}
