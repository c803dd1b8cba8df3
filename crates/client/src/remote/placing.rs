//! A group's stream: windows are placed, and go to the workers that take part.
//!
//! PLACING-1: one window is placed at a time, and is in the streams of all its workers before the next: all streams have the
//! same order.
//! PLACING-2: a window is placed on workers that are there. One that is lost meanwhile is given up in all streams.

use std::collections::HashMap;

use gt_ir::{Bytes, Failure, FailureKind, Op, OpError, Payload, ScopeId, TensorId, Window};
use gt_net::protocol::{StreamMessage, encode};
use gt_plan::shard::{Layout, PlacedStep, PlacedWindow, Placer};

use super::encoder::longest_inside;
use super::live::Live;
use super::member::Load;
use super::members::{Loss, Members};
use crate::signal;

/// What a group knows of its stream, under one lock.
pub(super) struct Placing {
    pub(super) placer: Placer,
    pub(super) members: Members,
    pub(super) live: Live,
    /// Uploads whose payload is to be lent, and the worker that waits for it.
    pub(super) lent: HashMap<TensorId, u32>,
    names: Vec<String>,
}

/// A payload, and the worker it is for.
struct Apart {
    worker: u32,
    id: TensorId,
    bytes: Bytes,
}

impl Placing {
    pub(super) fn new(members: Members, live: Live, reports: bool) -> Placing {
        let mut placer = Placer::new(members.home());
        if reports {
            placer.keep_report();
        }
        let names = members.names();
        Placing { placer, members, live, lent: HashMap::new(), names }
    }

    /// Takes note of what has happened to the workers.
    pub(super) fn catch_up(&mut self) {
        for Loss { number, worker, reason } in self.members.losses() {
            let mut gone = self.placer.lose(number);
            if number == self.members.home() {
                // What was there before the first signal, and was never placed.
                gone.extend(self.live.values().into_iter().filter(|id| !self.placer.knows(*id)));
                gone.sort_unstable();
                gone.dedup();
            }
            let failure = self.live.lose_these(&gone, &worker, &reason);
            self.members.lose(number, &Failure { worker, ..failure });
        }
        self.members.refresh();
    }

    /// Places a window and sends it.
    pub(super) fn send(&mut self, mut window: Window) {
        self.catch_up();
        self.live.spare(&mut window);
        let outs = || window.instrs.iter().flat_map(|instr| instr.outs.iter().copied());
        if self.members.remote(self.members.home()).is_none() {
            let failure = Failure::new(FailureKind::WorkerLost, "there was no worker, and nobody waited for one");
            return self.live.fail(outs(), failure);
        }
        let layouts = self.layouts(&window);
        self.members.ensure(layouts.values().flatten().flat_map(|layout| layout.mesh.workers().iter().copied()));
        let layout = |scope: ScopeId| self.members.present(layouts.get(&scope)?.clone()?);
        match self.placer.window(&window, &layout) {
            Ok(placed) => self.dispatch(placed),
            Err(error) => self.live.fail(outs(), refused(&error)),
        }
    }

    /// What the scopes of a window mean.
    fn layouts(&self, window: &Window) -> HashMap<ScopeId, Option<Layout>> {
        let mut layouts = HashMap::new();
        for instr in window.instrs.iter().filter(|instr| instr.scope != ScopeId(0)) {
            layouts.entry(instr.scope).or_insert_with(|| signal::layout(instr.scope, &self.names));
        }
        layouts
    }

    /// Sends a placed window to the workers that take part.
    pub(super) fn dispatch(&mut self, mut placed: PlacedWindow) {
        let workers = placed.workers();
        let mut payload_bytes: HashMap<u32, u64> = HashMap::new();
        let apart = self.take_apart(&mut placed, &mut payload_bytes);
        let mut bytes = Vec::with_capacity(64 + 96 * placed.steps.len());
        placed.encode(&mut bytes);
        let message = encode(&StreamMessage::Placed { window: &bytes });
        for number in workers {
            let Some(remote) = self.members.remote(number) else { continue };
            let own: Vec<(TensorId, Bytes)> =
                apart.iter().filter(|a| a.worker == number).map(|a| (a.id, a.bytes.clone())).collect();
            remote.load(&Load {
                message: &message,
                instrs: placed.steps.len().max(1) as u32,
                payload_bytes: payload_bytes.get(&number).copied().unwrap_or(0),
                apart: &own,
            });
        }
    }

    /// Takes large payloads out, and notes what else is to come.
    fn take_apart(&mut self, placed: &mut PlacedWindow, payload_bytes: &mut HashMap<u32, u64>) -> Vec<Apart> {
        let mut uploads: Vec<(usize, TensorId, u32)> = Vec::new();
        for (at, step) in placed.steps.iter().enumerate() {
            let PlacedStep::Run { instr, outs, .. } = step else { continue };
            let Op::Upload(upload) = &instr.op else { continue };
            let placement = outs.first().and_then(|&index| placed.placements.get(index as usize));
            let (Some(&id), Some(placement)) = (instr.outs.first(), placement) else { continue };
            let worker = placement.mesh.workers()[0];
            *payload_bytes.entry(worker).or_default() += (upload.shape.numel() * upload.dtype.size()) as u64;
            uploads.push((at, id, worker));
        }
        if uploads.is_empty() {
            return Vec::new();
        }
        let longest = longest_inside(&placed.uploads);
        let mut apart = Vec::new();
        for (at, id, worker) in uploads {
            match placed.uploads.iter().position(|payload| payload.instr as usize == at) {
                None => _ = self.lent.insert(id, worker),
                Some(place) if placed.uploads[place].bytes.len() > longest => {
                    let Payload { bytes, .. } = placed.uploads.remove(place);
                    apart.push(Apart { worker, id, bytes });
                }
                Some(_) => {}
            }
        }
        apart
    }
}

fn refused(error: &OpError) -> Failure {
    Failure::new(FailureKind::Internal, format!("a window could not be placed: {error}"))
}
