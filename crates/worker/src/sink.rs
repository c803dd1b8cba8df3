//! Where a run's results go: into the table, as soon as they exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use gt_engine::{Buffer, Sink, Value};
use gt_ir::{Failure, FailureKind, SiteId, TensorId};
use gt_plan::{Plan, Slot};
use parking_lot::Mutex;

use crate::session::Session;
use crate::table::Entry;

/// How many values an out-of-memory failure names.
const HOLDERS: usize = 5;

/// Publishes the live values of one run under their ids.
pub(crate) struct RunSink<B> {
    session: Arc<Session<B>>,
    pub(crate) plan: Arc<Plan>,
    /// The instruction that defines each slot past the inputs.
    pub(crate) definers: Arc<[u32]>,
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
        first: TensorId,
        sites: Arc<[SiteId]>,
    ) -> Self {
        let published = (0..definers.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        RunSink { session, plan, definers, first, sites, published, placed: Mutex::new(Vec::new()) }
    }

    /// Poisons whatever the engine was to publish and did not.
    pub(crate) fn poison_rest(&self, failure: &Arc<Failure>) {
        for &slot in &self.plan.live_outs {
            let at = slot as usize - self.plan.inputs;
            if self.published[at / 64].load(Acquire) >> (at % 64) & 1 == 0 {
                self.publish(slot, Err(failure.clone()));
            }
        }
    }

    /// The failure with this worker's name, and for lack of memory what holds it.
    fn place(&self, failure: Arc<Failure>) -> Arc<Failure> {
        if !failure.worker.is_empty() {
            return failure;
        }
        let mut placed = self.placed.lock();
        if let Some((_, known)) = placed.iter().find(|(raw, _)| Arc::ptr_eq(raw, &failure)) {
            return known.clone();
        }
        let mut full = (*failure).clone();
        full.worker = self.session.worker.name.clone();
        if full.kind == FailureKind::Memory && full.holders.is_empty() {
            full.holders = self.session.table.lock().holders(HOLDERS);
        }
        self.session.report(&full);
        let full = Arc::new(full);
        placed.push((failure, full.clone()));
        full
    }
}

impl<B: Buffer> Sink<B> for RunSink<B> {
    fn publish(&self, slot: Slot, value: Value<B>) {
        let at = slot as usize - self.plan.inputs;
        let value = value.map_err(|failure| self.place(failure));
        let site = self.sites[self.definers[at] as usize];
        let ty = Some(self.plan.types[slot as usize]);
        self.published[at / 64].fetch_or(1 << (at % 64), Release);
        self.session.publish(TensorId(self.first.0 + at as u64), Entry { value, ty, site });
    }

    fn write_skipped(&self, failure: Arc<Failure>) {
        self.session.table.skipped(self.place(failure));
    }
}
