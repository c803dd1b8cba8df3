//! Windows that repeat: from their template to their plan, without being spelled out.
//!
//! REPEAT-1: an occurrence does what its window would do. Whatever is not as it was the last time (types of its values, a plan
//! that is gone or due for compiling, a session that looks at instructions one by one) makes it a window again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use gt_engine::Engine;
use gt_ir::{OpError, SiteId, TensorId, TensorType};
use gt_observe::Counters;
use gt_plan::{Bindings, Canonical, Canonicalizer, Immediates, Occurrence, Template};
use parking_lot::Mutex;

use crate::device::Device;
use crate::flight::InFlight;
use crate::inbox::Credits;
use crate::launch::submit;
use crate::planner::{Planner, Ready};
use crate::session::Session;

/// A template, and what is the same in all its occurrences.
pub struct Repeating {
    template: Arc<Template>,
    held_bytes: usize,
    sites: Arc<[SiteId]>,
    /// The places and sizes of its payloads.
    payloads: Box<[(u32, usize)]>,
    /// The canonical form of the occurrence that ran last, if one did.
    known: Mutex<Option<Canonical>>,
}

/// One occurrence of a template.
pub struct Repeat {
    of: Arc<Repeating>,
    occurrence: Occurrence,
}

impl Repeating {
    /// A template of which nothing has run.
    pub fn new(template: Template) -> Arc<Repeating> {
        let (sites, payloads) = (template.sites().collect(), template.payloads().collect());
        let held_bytes = template.held_bytes();
        Arc::new(Repeating { template: Arc::new(template), held_bytes, sites, payloads, known: Mutex::new(None) })
    }

    /// How many instructions it has.
    pub fn instrs(&self) -> usize {
        self.template.len()
    }

    /// What it takes in memory: the template, and about as much for the canonical form of its last occurrence.
    pub fn held_bytes(&self) -> usize {
        2 * self.held_bytes
    }

    /// One occurrence.
    ///
    /// # Errors
    /// When the bindings are not ones of this template.
    pub fn bind(self: &Arc<Self>, bindings: Bindings) -> Result<Repeat, OpError> {
        Ok(Repeat { of: self.clone(), occurrence: self.template.bind(bindings)? })
    }
}

impl Repeat {
    /// Whether all its payloads are in it.
    pub fn is_whole(&self) -> bool {
        let inside = self.occurrence.bindings().uploads.iter().map(|payload| (payload.instr, payload.bytes.len()));
        inside.eq(self.of.payloads.iter().copied())
    }

    /// How many instructions it has.
    pub fn instrs(&self) -> usize {
        self.of.instrs()
    }

    /// What its window takes in memory, payloads left out.
    pub fn held_bytes(&self) -> usize {
        self.occurrence.held_bytes()
    }

    /// Bytes of the payloads in it.
    pub fn payload_bytes(&self) -> usize {
        self.occurrence.bindings().uploads.iter().map(|payload| payload.bytes.len()).sum()
    }

    /// The window, spelled out.
    pub fn window(&self) -> gt_ir::Window {
        self.occurrence.window()
    }

    /// Its canonical form, if those before had the same.
    fn form<'a>(
        &self,
        known: &'a mut Option<Canonical>,
        canonicalizer: &mut Canonicalizer,
        lookup: impl FnMut(TensorId) -> Option<TensorType>,
    ) -> Option<&'a Canonical> {
        let known = known.as_mut()?;
        canonicalizer.rebind(known, self.occurrence.bindings(), lookup).then_some(known)
    }

    /// What it brings to its plan.
    fn immediates(&self) -> Immediates {
        let Bindings { scalars, uploads, .. } = self.occurrence.bindings();
        let uploads = uploads.iter().map(|payload| payload.bytes.clone()).collect();
        Immediates { scalars: scalars.clone(), sites: self.of.sites.clone(), uploads }
    }
}

impl<E: Engine> Device<E> {
    /// Runs what repeats: by its plan if that is known, else as a window.
    pub(crate) fn repeat(&mut self, session: Arc<Session<E::Buffer>>, repeat: &Repeat, credits: Credits) {
        let config = &session.config;
        let is_cut = config.batch_limit.is_some_and(|limit| repeat.instrs() > limit);
        let by_instr = is_cut || config.lost.is_some() || repeat.instrs() == 0;
        if by_instr || !self.repeat_plan(&session, repeat, credits) {
            self.window(session, repeat.window(), Vec::new(), credits);
        }
    }

    /// The plan of a template's canonical form, bound to this occurrence, if there is one.
    fn known_plan(
        &mut self,
        session: &Arc<Session<E::Buffer>>,
        repeat: &Repeat,
        known: &mut Option<Canonical>,
    ) -> Option<Ready<E>> {
        let Device { engine, canonicalizer, cache, .. } = self;
        let table = session.table.lock();
        let lookup = |id| table.get(id).and_then(|entry| entry.ty);
        let Some(canonical) = repeat.form(known, canonicalizer, lookup) else {
            // A window that cannot be planned says so when it is run.
            *known = canonicalizer.run(&repeat.window(), lookup).ok().cloned();
            return None;
        };
        drop(table);
        Planner { engine, cache, session }.known(repeat.instrs(), canonical)
    }

    /// Runs it by its plan, if that is known.
    fn repeat_plan(&mut self, session: &Arc<Session<E::Buffer>>, repeat: &Repeat, credits: Credits) -> bool {
        let started = Instant::now();
        let mut known = repeat.of.known.lock();
        // What panics here does so again when the window is run, and is said there (WORKER-2).
        let found = catch_unwind(AssertUnwindSafe(|| self.known_plan(session, repeat, &mut known)));
        if found.is_err() {
            *known = None;
        }
        let (Ok(Some(planned)), Some(canonical)) = (found, &*known) else { return false };
        let Device { engine, shared, .. } = self;
        let run = submit(engine, shared, session, planned, canonical, repeat.immediates(), started);
        drop(known);
        self.track_run(InFlight { session: session.clone(), run, credits: Some(credits) });
        true
    }
}

/// Counts what was received.
pub(crate) fn count(counters: &Counters, repeat: &Repeat) {
    Counters::add(&counters.windows, 1);
    Counters::add(&counters.total_instructions, repeat.instrs() as u64);
    Counters::add(&counters.bytes_in, repeat.payload_bytes() as u64);
}
