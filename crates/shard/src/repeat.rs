//! Windows that repeat are placed once. What a placer decides follows from the window, from how the values it takes lie, and from
//! what the scopes mean: the same again means the same placed window, under other names.
//!
//! ```text
//! first time   placed, sent whole          (most windows never come again)
//! second time  placed, sent as a template  with what it did to the placer's own knowledge
//! afterwards   its number and its bindings
//! ```
//! PLACED-REPEAT-4: numbers that decide how something is spelled out (those of composites, and of constants) are part of what is the same;
//! others go with the bindings where they have changed.
//! PLACED-REPEAT-5: what a window frees that it does not use is freed by a window of its own: it differs from one occurrence to the next.

use std::collections::HashMap;
use std::sync::Arc;

use gt_ir::{Digest, OpError, Payload, ScopeId, TensorId};
use gt_stream::{Occurrence, Recipe};

use super::learned::Learned;
use super::template::{PlacedBindings, PlacedTemplate, Remembered};
use super::{Layout, PlacedWindow, Placer, UploadShare};

/// Windows that were seen once, at most: more are forgotten together.
const MOST_SEEN: usize = 1024;

/// How a window goes out.
#[derive(Clone, Debug)]
// One at a time.
#[allow(clippy::large_enum_variant)]
pub enum Placed {
    /// As it is.
    Whole(PlacedWindow),
    /// As an occurrence of a template.
    Repeated(Repeated),
}

/// An occurrence of a template.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// What goes before it, if anything.
    pub before: Option<PlacedWindow>,
    /// The template's number.
    pub number: u64,
    /// The template, where it goes out for the first time.
    pub template: Option<Arc<PlacedTemplate>>,
    /// This occurrence's names and numbers; its payloads are for the caller to add.
    pub bindings: PlacedBindings,
    /// The workers that take part.
    pub workers: Arc<[u32]>,
    /// How many steps it has.
    pub steps: usize,
    /// Its uploads.
    pub uploads: Arc<[UploadStep]>,
}

/// A step of a template that uploads something, for one of the workers that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadStep {
    /// Its place in the recorded window.
    pub instr: u32,
    /// What it makes, counted from the first value that the window defines.
    pub defined: u64,
    /// What a worker takes of it, by the names of the template.
    pub share: UploadShare,
}

/// A window that was seen.
struct Seen {
    /// Keeps its number from being another recipe's.
    recipe: Arc<Recipe>,
    /// The number of its template, once it has one.
    template: Option<u64>,
}

/// What a placer remembers of windows.
#[derive(Default)]
pub(super) struct Repeats {
    /// Windows by what decides how they are placed: the number of their template, if they have one.
    seen: HashMap<Digest, Seen>,
    learned: Remembered<Arc<Learned>>,
    last: u64,
}

impl Placer {
    /// Places a window, by its template if it has come before.
    ///
    /// # Errors
    /// As [`Placer::window`].
    pub fn place_window(
        &mut self,
        occurrence: &Occurrence,
        layouts: &dyn Fn(ScopeId) -> Option<Layout>,
    ) -> Result<Placed, OpError> {
        // What time cut does not come again; a report wants to see everything; after a loss nothing is as it was.
        if occurrence.bindings().eager || occurrence.is_empty() || self.report.is_some() || !self.lost.is_empty() {
            return self.window(&occurrence.window(), layouts).map(Placed::Whole);
        }
        self.meet_all(&occurrence.met, occurrence.bindings().first.0, occurrence.recipe().defined() as u64);
        let mut repeats = std::mem::take(&mut self.repeats);
        let placed = self.repeat(&mut repeats, occurrence, layouts);
        self.repeats = repeats;
        placed
    }

    /// Forgets all templates: whoever was sent them may be there no more.
    pub fn forget_templates(&mut self) {
        let last = self.repeats.last;
        self.repeats = Repeats { last, ..Repeats::default() };
    }

    fn repeat(
        &mut self,
        repeats: &mut Repeats,
        occurrence: &Occurrence,
        layouts: &dyn Fn(ScopeId) -> Option<Layout>,
    ) -> Result<Placed, OpError> {
        let Some(key) = self.key(occurrence, layouts) else {
            return self.window(&occurrence.window(), layouts).map(Placed::Whole);
        };
        let number = match repeats.seen.get(&key) {
            None => {
                if repeats.seen.len() >= MOST_SEEN {
                    repeats.seen.clear();
                }
                repeats.seen.insert(key, Seen { recipe: occurrence.recipe().clone(), template: None });
                return self.window(&occurrence.window(), layouts).map(Placed::Whole);
            }
            Some(seen) => {
                debug_assert!(Arc::ptr_eq(&seen.recipe, occurrence.recipe()));
                seen.template
            }
        };
        let bindings = occurrence.bindings();
        let older = self.free_older(&bindings.older_frees);
        if let Some((number, learned)) = number.and_then(|n| Some((n, repeats.learned.get(n)?.clone()))) {
            return Ok(Placed::Repeated(self.replay(&learned, number, bindings, older)));
        }
        let mut plain = occurrence.window();
        let older_from = plain.frees.len() - bindings.older_frees.len();
        plain.frees.truncate(older_from);
        let (placed, learned) = self.learn(&plain, layouts, bindings.inputs.clone(), bindings.scalars.clone())?;
        let number = repeats.last + 1;
        let Some((learned, bindings)) = learned.filter(|_| Remembered::<Arc<Learned>>::takes(placed.steps.len()))
        else {
            // The frees go along, as they would have.
            let mut placed = placed;
            if let Some(older) = older {
                let add = |(id, index): (TensorId, u32)| {
                    let placement = older.placements.get(index as usize)?;
                    Some((id, super::placer::index(&mut placed.placements, placement)))
                };
                let frees: Vec<_> = older.frees.iter().copied().filter_map(add).collect();
                placed.frees.extend(frees);
            }
            return Ok(Placed::Whole(placed));
        };
        repeats.last = number;
        repeats.seen.insert(key, Seen { recipe: occurrence.recipe().clone(), template: Some(number) });
        let learned = Arc::new(learned);
        repeats.learned.put(number, placed.steps.len(), learned.clone())?;
        Ok(Placed::Repeated(Repeated {
            before: older,
            number,
            template: Some(learned.template.clone()),
            bindings,
            workers: learned.workers.clone(),
            steps: placed.steps.len(),
            uploads: learned.uploads.clone(),
        }))
    }

    /// PLACED-REPEAT-5.
    fn free_older(&mut self, ids: &[TensorId]) -> Option<PlacedWindow> {
        if ids.is_empty() {
            return None;
        }
        let mut draft = super::placer::Draft::default();
        ids.iter().for_each(|&id| self.free_value(&mut draft, id));
        Some(draft.out)
    }
}

impl Repeated {
    /// Adds the payloads that there are of a window.
    pub fn add_payloads(&mut self, payloads: &[Payload]) {
        let own = |upload: &UploadStep| {
            let payload = payloads.iter().find(|payload| payload.instr == upload.instr)?;
            Some(Payload { instr: upload.share.step, bytes: payload.bytes.clone() })
        };
        self.bindings.uploads = self.uploads.iter().filter_map(own).collect();
    }
}
