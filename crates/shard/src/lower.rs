//! A placed window as one worker runs it: local windows, with sends and receives between them.
//!
//! LOWER-1: the ids a local window defines are consecutive (WINDOW-1), so a worker has names of its own: [`Lowerer::name`]
//! tells which. They are counters of one lane that no client has.
//! LOWER-2: what arrives is not trusted: a window that makes no sense is refused whole, before anything of it is done.
//! LOWER-3: all workers go through sends and receives in one order, and a send never waits: nobody waits in a circle.
//! LOWER-4: the work and the memory that a window takes are limited, whatever it says.

use std::sync::Arc;

use gt_ir::{IdMap, OpError, TensorId, TensorType, Window};
use gt_stream::{Checker, Occurrence};

use super::PlacedWindow;
use super::draft::Draft;
use super::lowered::Lowered;
use super::template::{PlacedBindings, PlacedTemplate, Remembered};

/// The lane of a worker's own names.
pub(super) const LANE: u16 = u16::MAX;

/// What a worker does, in order.
#[derive(Clone, Debug)]
// Nearly all of them are windows.
#[allow(clippy::large_enum_variant)]
pub enum LocalStep<W = Occurrence> {
    /// Runs a window on its parts.
    Run {
        /// With names of the worker's own.
        window: W,
        /// Uploads whose payload travels apart: which instruction, and the name it is supplied under.
        waits: Vec<(u32, TensorId)>,
    },
    /// Sends a value, once it is there. It may be freed by what follows.
    Send {
        /// The worker's own name.
        id: TensorId,
        /// Its name on the way.
        name: TensorId,
        /// To whom.
        to: u32,
    },
    /// Waits for a value of another worker.
    Receive {
        /// The worker's own name.
        id: TensorId,
        /// Its name on the way.
        name: TensorId,
        /// What it must be.
        ty: TensorType,
        /// From whom.
        from: u32,
    },
}

/// One worker's names, from window to window.
#[derive(Debug)]
pub struct Lowerer {
    worker: u32,
    pub(super) names: IdMap<TensorId>,
    pub(super) next: u64,
    templates: Remembered<Arc<Lowered>>,
    pub(super) checker: Checker,
}

/// A window that a worker has made, as an occurrence.
pub(super) fn occurrence(window: Window) -> Result<Occurrence, OpError> {
    Occurrence::of(window).map_err(|error| OpError::malformed(error.to_string()))
}

impl LocalStep<Window> {
    pub(super) fn finished(self) -> Result<LocalStep, OpError> {
        Ok(match self {
            LocalStep::Run { window, waits } => LocalStep::Run { window: occurrence(window)?, waits },
            LocalStep::Send { id, name, to } => LocalStep::Send { id, name, to },
            LocalStep::Receive { id, name, ty, from } => LocalStep::Receive { id, name, ty, from },
        })
    }
}

impl LocalStep {
    /// What it takes in memory, payloads left out.
    pub(super) fn held_bytes(&self) -> usize {
        let own = match self {
            LocalStep::Run { window, waits } => window.held_bytes() + size_of_val(&waits[..]),
            LocalStep::Send { .. } | LocalStep::Receive { .. } => 0,
        };
        size_of::<LocalStep>() + own
    }
}

impl Lowerer {
    /// For the worker of this number.
    pub fn new(worker: u32) -> Lowerer {
        Lowerer {
            worker,
            names: IdMap::default(),
            next: 0,
            templates: Remembered::default(),
            checker: Checker::default(),
        }
    }

    /// The worker's own name of a value; a value that was never placed has the one it came with.
    pub fn name(&self, id: TensorId) -> TensorId {
        self.names.get(&id).copied().unwrap_or(id)
    }

    /// How many names it knows.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// What the templates that it remembers take in memory.
    pub fn template_bytes(&self) -> usize {
        self.templates.entries().map(|lowered| lowered.held_bytes()).sum()
    }

    /// What the worker does of a placed window.
    ///
    /// # Errors
    /// When the window makes no sense; nothing of it counts then.
    pub fn window(&mut self, window: &PlacedWindow) -> Result<Vec<LocalStep>, OpError> {
        let mut draft = Draft::new(self.worker, window, &self.names, self.next);
        let mut payloads = window.uploads.iter().peekable();
        for (at, step) in window.steps.iter().enumerate() {
            draft.step(step, payloads.next_if(|p| p.instr as usize == at))?;
        }
        let gone = draft.finish(window)?;
        let Draft { next, made, steps, .. } = draft;
        self.next = next;
        self.names.extend(made);
        gone.iter().for_each(|id| _ = self.names.remove(id));
        steps.into_iter().map(LocalStep::finished).collect()
    }

    /// Remembers a template under a number, higher than all before it.
    ///
    /// # Errors
    /// When it makes no sense, or is too large.
    pub fn define(&mut self, number: u64, template: PlacedTemplate) -> Result<(), OpError> {
        let steps = template.steps();
        if !Remembered::<Arc<Lowered>>::takes(steps) {
            return Err(OpError::malformed("a template is too large"));
        }
        self.templates.put(number, steps, Arc::new(Lowered::new(self.worker, template)?))
    }

    /// What the worker does of an occurrence of a template.
    ///
    /// # Errors
    /// When there is no such template, or it cannot be bound so; nothing of it counts then.
    pub fn replay(&mut self, number: u64, bindings: &PlacedBindings) -> Result<Vec<LocalStep>, OpError> {
        let lowered = self.templates.get(number).cloned();
        let lowered = lowered.ok_or_else(|| OpError::malformed(format!("there is no template {number}")))?;
        lowered.bind(self, bindings)
    }

    pub(super) fn worker(&self) -> u32 {
        self.worker
    }
}
