//! A session that is one of several of its client's: the others, and what it does of a placed window.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::TensorId;
use gt_net::protocol::Peer;
use gt_plan::shard::{LocalStep, Lowerer, PlacedBindings, PlacedTemplate, PlacedWindow};

use super::arrivals::Origin;
use super::reading::{Fault, NewWindow, Step};

/// Where a session stands among its client's workers.
pub(super) struct Placing {
    own: Origin,
    lowerer: Lowerer,
    peers: BTreeMap<u32, Arc<Peer>>,
}

impl Placing {
    pub(super) fn new(number: u32) -> Self {
        let own = Origin { number, epoch: 0 };
        Placing { own, lowerer: Lowerer::new(number), peers: BTreeMap::new() }
    }

    /// The client says who the others are.
    pub(super) fn meet(&mut self, number: u32, epoch: u64, peers: Vec<Peer>) -> Result<(), Fault> {
        if number != self.own.number {
            return Err(Fault::Broken(format!("worker {} cannot become worker {number}", self.own.number)));
        }
        self.own.epoch = epoch;
        self.peers = peers.into_iter().map(|peer| (peer.number, Arc::new(peer))).collect();
        Ok(())
    }

    /// Who another worker is.
    pub(super) fn origin(&self, number: u32) -> Result<Origin, Fault> {
        self.peer(number).map(|peer| Origin { number, epoch: peer.epoch })
    }

    fn peer(&self, number: u32) -> Result<&Arc<Peer>, Fault> {
        self.peers.get(&number).ok_or_else(|| Fault::Broken(format!("nothing was said of worker {number}")))
    }

    /// A value's name here.
    pub(super) fn name(&self, id: TensorId) -> TensorId {
        self.lowerer.name(id)
    }

    /// What is to be done of a placed window, in order.
    pub(super) fn steps(&mut self, window: &PlacedWindow) -> Result<Vec<Step>, Fault> {
        let steps = self.lowerer.window(window)?;
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    /// Remembers a template.
    pub(super) fn define(&mut self, number: u64, template: PlacedTemplate) -> Result<(), Fault> {
        Ok(self.lowerer.define(number, template)?)
    }

    /// What is to be done of an occurrence of a template, in order.
    pub(super) fn replay(&mut self, number: u64, bindings: &PlacedBindings) -> Result<Vec<Step>, Fault> {
        let steps = self.lowerer.replay(number, bindings)?;
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: LocalStep) -> Result<Step, Fault> {
        Ok(match step {
            LocalStep::Window { window, waits } => Step::Window(Box::new(NewWindow::new(window, waits))),
            LocalStep::Send { id, name, to } => Step::Send { id, name, to: self.peer(to)?.clone(), own: self.own },
            LocalStep::Receive { id, name, ty, from } => {
                Step::Receive(Box::new(Receive { id, name, ty, from: self.origin(from)? }))
            }
        })
    }
}

/// A value of another worker that the stream waits for.
pub(super) struct Receive {
    pub(super) id: TensorId,
    pub(super) name: TensorId,
    pub(super) ty: gt_ir::TensorType,
    pub(super) from: Origin,
}
