//! A session that is one of several of its client's: the others, and what it does of a placed window.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::TensorId;
use gt_net::protocol::Peer;
use gt_shard::{LocalStep, Lowerer, PlacedBindings, PlacedTemplate, PlacedWindow};

use super::arrivals::Origin;
use super::group::ServerConnection;
use super::reading::{Fault, NewWindow, Step};
use gt_worker::{Charge, SessionMemory};

/// Where a session stands among its client's workers.
pub(super) struct MemberLowering {
    own: Origin,
    lowerer: Lowerer,
    peers: BTreeMap<u32, Arc<Peer>>,
    group: Arc<ServerConnection>,
    /// For the templates that the lowerer remembers.
    templates: Option<Charge>,
}

impl MemberLowering {
    pub(super) fn new(number: u32, group: Arc<ServerConnection>) -> Self {
        let own = Origin { number, epoch: 0 };
        MemberLowering { own, lowerer: Lowerer::new(number), peers: BTreeMap::new(), group, templates: None }
    }

    /// The client says who the others are.
    pub(super) fn meet(&mut self, number: u32, epoch: u64, peers: Vec<Peer>) -> Result<(), Fault> {
        if number != self.own.number {
            return Err(Fault::Broken(format!("worker {} cannot be renumbered to {number}", self.own.number)));
        }
        if let Some(peer) = peers.iter().find(|peer| !self.group.vouches_for(&peer.worker)) {
            return Err(Fault::Broken(format!(
                "the server does not know worker {} at its stated address",
                peer.worker.id
            )));
        }
        self.own.epoch = epoch;
        self.peers = peers.into_iter().map(|peer| (peer.number, Arc::new(peer))).collect();
        Ok(())
    }

    /// How many names and peers are remembered.
    pub(super) fn records(&self) -> usize {
        self.lowerer.names() + self.peers.len()
    }

    /// Who another worker is.
    pub(super) fn origin(&self, number: u32) -> Result<Origin, Fault> {
        self.peer(number).map(|peer| Origin { number, epoch: peer.epoch })
    }

    fn peer(&self, number: u32) -> Result<&Arc<Peer>, Fault> {
        self.peers.get(&number).ok_or_else(|| Fault::Broken(format!("worker {number} is unknown")))
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
    pub(super) fn define(
        &mut self,
        number: u64,
        template: PlacedTemplate,
        memory: &SessionMemory,
    ) -> Result<(), Fault> {
        self.lowerer.define(number, template)?;
        self.templates = None;
        let charge = memory.hold_words(self.lowerer.template_bytes());
        self.templates =
            Some(charge.map_err(|failure| Fault::Broken(format!("out of memory for repeated work: {failure}")))?);
        Ok(())
    }

    /// What is to be done of an occurrence of a template, in order.
    pub(super) fn replay(&mut self, number: u64, bindings: &PlacedBindings) -> Result<Vec<Step>, Fault> {
        let steps = self.lowerer.replay(number, bindings)?;
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: LocalStep) -> Result<Step, Fault> {
        Ok(match step {
            LocalStep::Run { window, waits } => Step::Window(Box::new(NewWindow::new(window, waits))),
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
