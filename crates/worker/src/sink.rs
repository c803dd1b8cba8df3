//! Where a run's results go: into the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use gt_engine::{Buffer, Sink, Value};
use gt_ir::{Cause, Failure, FailureKind, SiteId, SkippedWrite, TensorId};
use gt_plan::{Plan, Slot};
use gt_stream::Occurrence;
use parking_lot::Mutex;

use crate::session::{HOLDERS, Session};
use crate::table::Entry;

/// Publishes the live values of one run under their ids.
pub(crate) struct RunSink<B> {
    session: Arc<Session<B>>,
    pub(crate) plan: Arc<Plan>,
    /// The instruction that defines each slot past the inputs.
    pub(crate) definers: Arc<[u32]>,
    /// The values of the plan's input slots.
    inputs: Box<[TensorId]>,
    /// The id of the first value the window defines.
    pub(crate) first: TensorId,
    pub(crate) sites: Arc<[SiteId]>,
    /// One bit for each slot past the inputs that was published.
    published: Vec<AtomicU64>,
    /// Failures as the engine made them and as they left here, so that one failure stays one.
    placed: Mutex<Vec<(Arc<Failure>, Arc<Failure>)>>,
}

impl<B: Buffer> RunSink<B> {
    pub(crate) fn new(
        session: Arc<Session<B>>,
        plan: Arc<Plan>,
        definers: Arc<[u32]>,
        occurrence: &Occurrence,
    ) -> Self {
        let published = (0..definers.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let (inputs, first) = (occurrence.bindings().inputs.as_slice().into(), occurrence.bindings().first);
        let sites = occurrence.sites().clone();
        RunSink { session, plan, definers, inputs, first, sites, published, placed: Mutex::new(Vec::new()) }
    }

    /// The live-outs that the engine has not published.
    fn missing(&self) -> impl Iterator<Item = Slot> + '_ {
        let is_missing = |slot: &Slot| {
            let at = *slot as usize - self.plan.inputs;
            self.published[at / 64].load(Acquire) >> (at % 64) & 1 == 0
        };
        self.plan.live_outs.iter().copied().filter(is_missing)
    }

    pub(crate) fn has_missing(&self) -> bool {
        self.missing().next().is_some()
    }

    /// Poisons every live-out that the engine has not published.
    pub(crate) fn poison_rest(&self, failure: &Arc<Failure>) {
        self.missing().for_each(|slot| self.publish(slot, Err(failure.clone())));
    }

    /// Poisons every live-out that is still pending, for an engine that broke its promise to settle them (PUBLISH-2).
    pub(crate) fn poison_pending(&self, failure: &Arc<Failure>) {
        let failure = self.placed(failure.clone());
        for &slot in &self.plan.live_outs {
            let id = self.value_of(slot);
            let mut entry = match self.session.table.lock().get(id) {
                Some(entry) if entry.is_pending() => entry.clone(),
                _ => continue,
            };
            entry.value = Err(failure.clone());
            self.session.publish(id, entry);
        }
    }

    /// The value of the stream that a slot of the plan stands for.
    fn value_of(&self, slot: Slot) -> TensorId {
        match self.inputs.get(slot as usize) {
            Some(&id) => id,
            None => TensorId(self.first.0 + (slot as usize - self.inputs.len()) as u64),
        }
    }

    /// The failure with this worker's name and the value it blames, and for lack of memory what holds it.
    fn placed(&self, failure: Arc<Failure>) -> Arc<Failure> {
        if !failure.worker.is_empty() {
            return failure;
        }
        let mut placed = self.placed.lock();
        if let Some((_, known)) = placed.iter().find(|(raw, _)| Arc::ptr_eq(raw, &failure)) {
            return known.clone();
        }
        let mut full = (*failure).clone();
        full.worker = self.session.worker.name.clone();
        if let Some(Cause::Slot(slot)) = full.cause {
            full.cause = Some(Cause::Value(self.value_of(slot)));
        }
        if full.kind == FailureKind::Memory {
            // The engine names the values of the run, those that are published included.
            let own = self.first.0..self.first.0 + self.definers.len() as u64;
            let named = std::mem::take(&mut full.holders);
            let others = self.session.table.lock().holders(usize::MAX, |id| named.is_empty() || !own.contains(&id.0));
            full.holders = Failure::largest_holders(named.into_iter().chain(others), HOLDERS);
        }
        let full = Arc::new(full);
        self.session.report(&full);
        placed.push((failure, full.clone()));
        full
    }
}

impl<B: Buffer> Sink<B> for RunSink<B> {
    fn publish(&self, slot: Slot, value: Value<B>) {
        let at = slot as usize - self.plan.inputs;
        let value = value.map_err(|failure| self.placed(failure));
        let site = self.sites[self.definers[at] as usize];
        let ty = Some(self.plan.types[slot as usize]);
        self.published[at / 64].fetch_or(1 << (at % 64), Release);
        self.session.publish(TensorId(self.first.0 + at as u64), Entry { value, ty, site });
    }

    fn settled(&self, slot: Slot) {
        self.session.settled(self.value_of(slot));
    }

    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        self.placed(failure)
    }

    fn write_skipped(&self, instr: u32, failure: Arc<Failure>) {
        let site = self.sites.get(instr as usize).copied().unwrap_or_default();
        let outs = self.plan.instrs[instr as usize].outs.iter();
        let kept = outs.map(|id| self.plan.types[id.0 as usize]).collect();
        self.session.table.skipped(SkippedWrite { site, kept }, &self.placed(failure));
    }
}
