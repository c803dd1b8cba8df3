//! A group's stream: windows are placed, and go to the workers that take part.
//!
//! PLACING-1: one window is placed at a time, and is in the streams of all its workers before the next: all streams have the
//! same order.
//! PLACING-2: a window is placed on workers that are there. One that is lost meanwhile is given up in all streams.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gt_ir::{Bytes, Failure, FailureKind, OpError, Payload, ScopeId, TensorId};
use gt_net::protocol::{StreamMessage, encode};
use gt_shard::{Layout, Placed, PlacedWindow, Placement, Placer, Repeated, UploadShare, UploadStep};
use gt_stream::Occurrence;

use super::encoder::longest_inside;
use super::group::nowhere;
use super::live::Live;
use super::member::Load;
use super::members::{Loss, Members};
use super::spread::{self, Spread, Supplied};
use gt_client::signal;

/// What a group knows of its stream, under one lock.
pub(super) struct PlacedStream {
    pub(super) placer: Placer,
    pub(super) members: Members,
    pub(super) live: Live,
    /// Uploads whose payload is to be lent, and the worker that waits for it.
    pub(super) lent: HashMap<TensorId, u32>,
    spread: Arc<Spread>,
}

/// Payloads that travel apart, by worker, and how many bytes each worker takes in all.
#[derive(Default)]
struct Apart {
    apart: Vec<(u32, TensorId, Bytes)>,
    len_bytes: HashMap<u32, u64>,
}

impl PlacedStream {
    pub(super) fn new(members: Members, live: Live, spread: Arc<Spread>, reports: bool) -> PlacedStream {
        let mut placer = Placer::new(members.home());
        if reports {
            placer.keep_report();
        }
        PlacedStream { placer, members, live, lent: HashMap::new(), spread }
    }

    /// Takes note of what has happened to the workers.
    pub(super) fn catch_up(&mut self) {
        for Loss { number, worker, reason } in self.members.losses() {
            let (mut gone, orphans) = self.placer.lose(number);
            // Whoever comes in its place was told of none.
            self.placer.forget_templates();
            if number == self.members.home() {
                // What was there before the first signal, and was never placed.
                gone.extend(self.live.values().into_iter().filter(|id| !self.placer.knows(*id)));
                gone.sort_unstable();
                gone.dedup();
            }
            let failure = self.live.lose_these(&gone, &worker, &reason);
            self.members.lose(number, &Failure { worker, ..failure });
            if !orphans.frees.is_empty() {
                self.dispatch(orphans);
            }
        }
        if self.members.refresh() {
            self.placer.forget_templates();
        }
    }

    /// Places a window and sends it, to workers whose sessions are open: the group sees to that before.
    pub(super) fn send(&mut self, window: Occurrence) {
        self.catch_up();
        let spread = self.spread_in(&window);
        // What needs lost values is taken out of the window, which is another one then.
        let spared = self.live.has_losses().then(|| {
            let mut spared = window.window();
            self.live.spare(&mut spared);
            spared
        });
        if spared.is_none() {
            self.live.window(&window);
        }
        let outs = || (0..window.recipe().defined()).map(|k| window.defined(k));
        if self.members.remote(self.members.home()).is_none() {
            let failure = Failure::new(FailureKind::WorkerLost, "no worker joined before the wait was cancelled");
            return self.live.fail(outs(), failure);
        }
        // Made where the loader is, whatever the scope.
        let home = self.members.home();
        let mut loaded = self.members.remote(home).map_or_else(Vec::new, |home| home.loaded_in(&window));
        loaded.retain(|id| spread.iter().all(|(of, _)| of != id));
        let at_home = loaded.iter().map(|&id| (id, Placement::on(home)));
        self.placer.supply(spread.iter().map(|(id, by)| (*id, by.placement.clone())).chain(at_home));
        let layouts = self.layouts(&window);
        let layout = |scope: ScopeId| self.members.present(layouts.get(&scope)?.clone()?);
        let placed = match &spared {
            Some(spared) => self.placer.window(spared, &layout).map(Placed::Whole),
            None => self.placer.place_window(&window, &layout),
        };
        match placed {
            Ok(Placed::Whole(placed)) => self.dispatch(placed),
            Ok(Placed::Repeated(again)) => self.dispatch_again(again, &window.bindings().uploads),
            Err(error) => self.live.fail(outs(), refused(&error)),
        }
        if let Some(home) = self.members.remote(self.members.home()).filter(|_| !loaded.is_empty()) {
            loaded.iter().for_each(|id| _ = self.lent.remove(id));
            home.bind(loaded);
        }
        spread.iter().for_each(|(id, _)| _ = self.lent.remove(id));
        spread::bind(&spread);
    }

    /// The values of a window that several workers have, part by part. Where one of them is gone they are lost.
    fn spread_in(&mut self, window: &Occurrence) -> Vec<(TensorId, Supplied)> {
        let mut found = self.spread.take(window);
        let is_there = |by: &Supplied| by.is_there(&self.members);
        let lost: Vec<(TensorId, Supplied)> = found.extract_if(.., |(_, by)| !is_there(by)).collect();
        if !lost.is_empty() {
            let failure = self.live.last_loss().cloned().unwrap_or_else(nowhere);
            self.live.fail(lost.iter().map(|(id, _)| *id), failure);
            lost.iter().for_each(|(id, by)| by.unbind(*id));
        }
        found
    }

    /// The workers that the scopes of a window name.
    pub(super) fn workers_of(&self, window: &Occurrence) -> Vec<u32> {
        let layouts = self.layouts(window);
        layouts
            .values()
            .flatten()
            .flat_map(|layout| layout.mesh.workers().iter().copied())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// What the scopes of a window mean.
    fn layouts(&self, window: &Occurrence) -> HashMap<ScopeId, Option<Layout>> {
        let names = self.members.names();
        let scopes = window.recipe().scopes().iter().filter(|scope| **scope != ScopeId(0));
        scopes.map(|&scope| (scope, signal::layout(scope, &names))).collect()
    }

    /// Sends an occurrence of a template to the workers that take part.
    fn dispatch_again(&mut self, mut again: Repeated, payloads: &[Payload]) {
        if let Some(before) = again.before.take() {
            self.dispatch(before);
        }
        again.add_payloads(payloads);
        let Repeated { bindings, uploads, .. } = &mut again;
        let first = bindings.first.0;
        let named = |upload: &UploadStep| UploadShare { id: TensorId(first + upload.defined), ..upload.share };
        let uploads = uploads.iter().map(named);
        let apart = self.take_apart(uploads.collect(), &mut bindings.uploads);
        let mut bytes = Vec::new();
        bindings.encode(&mut bytes);
        let number = again.number;
        let message = match &again.template {
            Some(template) => {
                let mut whole = Vec::with_capacity(64 + 96 * again.steps);
                template.encode(&mut whole);
                encode(&StreamMessage::DefinePlaced { number, template: &whole, bindings: &bytes })
            }
            None => encode(&StreamMessage::ReplayPlaced { number, bindings: &bytes }),
        };
        self.load(&again.workers, &message, again.steps, &apart);
    }

    /// Sends a placed window to the workers that take part.
    pub(super) fn dispatch(&mut self, mut placed: PlacedWindow) {
        let uploads = placed.upload_shares();
        let apart = self.take_apart(uploads, &mut placed.uploads);
        let mut bytes = Vec::with_capacity(64 + 96 * placed.steps.len());
        placed.encode(&mut bytes);
        let message = encode(&StreamMessage::Placed { window: &bytes });
        self.load(&placed.workers(), &message, placed.steps.len(), &apart);
    }

    /// Puts a message into the streams of workers.
    fn load(&self, workers: &[u32], message: &[u8], steps: usize, payloads: &Apart) {
        for &number in workers {
            let Some(remote) = self.members.remote(number) else { continue };
            let apart: Vec<(TensorId, Bytes)> = payloads
                .apart
                .iter()
                .filter(|(worker, ..)| *worker == number)
                .map(|(_, id, bytes)| (*id, bytes.clone()))
                .collect();
            remote.load(&Load {
                message,
                instrs: steps.max(1) as u32,
                payload_bytes: payloads.len_bytes.get(&number).copied().unwrap_or(0),
                apart: &apart,
            });
        }
    }

    /// Takes large payloads out, and notes what else is to come.
    fn take_apart(&mut self, uploads: Vec<UploadShare>, payloads: &mut Vec<Payload>) -> Apart {
        let mut taken = Apart::default();
        if uploads.is_empty() {
            return taken;
        }
        let longest = longest_inside(payloads);
        for UploadShare { step, id, worker, len_bytes } in uploads {
            *taken.len_bytes.entry(worker).or_default() += len_bytes;
            match payloads.iter().position(|payload| payload.instr == step) {
                None => _ = self.lent.insert(id, worker),
                Some(place) if payloads[place].bytes.len() > longest => {
                    let Payload { bytes, .. } = payloads.remove(place);
                    taken.apart.push((worker, id, bytes));
                }
                Some(_) => {}
            }
        }
        taken
    }
}

fn refused(error: &OpError) -> Failure {
    Failure::new(FailureKind::Internal, format!("the recorded work cannot be split over the workers: {error}"))
}
