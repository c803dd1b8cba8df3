//! Where each value of a stream lies, and which strategy each instruction takes.
//!
//! PLACE-1: a scope fixes the workers of what is recorded inside. Without one an instruction runs where most bytes of its
//! inputs are; what has no inputs is made at home.
//! PLACE-2: what is created inside a scope is split as the scope says. What comes from outside is split so too, except for
//! state (parameters, buffers), which is whole on every worker from then on. A tensor with too few axes, or fewer rows
//! than workers, is whole.
//! PLACE-3: of the legal strategies, the placer takes the one that moves the fewest bytes, counting what will have to be reduced
//! later unless that moves nothing now. Ties go to the strategy that leaves most inputs as they are, then, where there is much to
//! compute, to one that splits the work, then to the first. Where an instruction computes so much that putting its result
//! together again costs less, splitting comes before leaving inputs as they are. A copy that was made stays until its value
//! dies, and counts.
//! PLACE-4: a composite none of whose strategies keeps its inputs where they are is spelled out, and its primitives placed.
//! PLACE-5: a reshape to the shape there is, under a scope, lies as what is created there: that is how one tensor is put
//! somewhere.
//! PLACE-6: decisions depend on the stream alone, never on time or the order of a hash map.
//! PLACE-7: a large step of an optimizer whose gradients are still to be summed is taken in parts: each worker sums its part of
//! the gradients, takes the step for that part, and gives the new parameters to the others. States stay in parts.

use std::collections::BTreeSet;

use gt_ir::shard::Split;
use gt_ir::{ExternalValue, IdMap, Instr, OpError, Outs, ScopeId, TensorId, TensorType, Window};
use smallvec::SmallVec;

use super::overlap::overlap;
use super::repeat::Repeats;
use super::{Mesh, PlacedWindow, Placement, PlacementIndex, Report, Traffic};

/// The lane of names that a placer makes.
pub(super) const LANE: u16 = super::template::PLACED;

/// What a signal says about what happens inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The workers.
    pub mesh: Mesh,
    /// How what is created inside is split, along each axis of the mesh: `Replicate` or `Shard`.
    pub splits: SmallVec<[Split; 2]>,
}

impl Layout {
    /// Where a tensor of this type belongs that is created inside (PLACE-2).
    pub fn placement(&self, ty: &TensorType, is_state: bool) -> Placement {
        let split = |(split, &count): (&Split, &u32)| match split {
            Split::Shard { axis, .. }
                if !is_state && ty.shape.get(*axis as usize).is_some_and(|&extent| extent >= count as usize) =>
            {
                *split
            }
            _ => Split::Replicate,
        };
        let splits = self.splits.iter().zip(self.mesh.extents()).map(split).collect();
        Placement { mesh: self.mesh.clone(), splits }
    }
}

/// How a value is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// What has to be sent before, if anything.
    pub before: Option<PlacedWindow>,
    /// Which worker has it then.
    pub worker: u32,
    /// And under which name.
    pub id: TensorId,
}

/// A value under one of its names.
#[derive(Clone, Debug)]
pub(super) struct PlacedCopy {
    pub(super) id: TensorId,
    pub(super) placement: Placement,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) ty: TensorType,
    pub(super) is_state: bool,
    pub(super) copies: SmallVec<[PlacedCopy; 2]>,
    /// What made it, where that is cheaper than moving it.
    pub(super) origin: Option<Box<Instr>>,
}

fn first_of(window: &Window) -> u64 {
    window.instrs.first().and_then(|i| i.outs.first()).map_or(u64::MAX, |id| id.0)
}

/// Places a session's windows.
pub struct Placer {
    pub(super) home: u32,
    pub(super) values: IdMap<Known>,
    /// Values that went with a worker, and what was made of them.
    pub(super) lost: BTreeSet<TensorId>,
    /// Where uploads of the window being placed are supplied, if their workers have the payloads.
    pub(super) supplied: IdMap<Placement>,
    pub(super) next: u64,
    pub(super) traffic: Traffic,
    pub(super) report: Option<Box<Report>>,
    pub(super) repeats: Repeats,
}

/// A window being placed.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) out: PlacedWindow,
    /// What the window makes that is state by the time it is used.
    pub(super) states: BTreeSet<TensorId>,
}

impl Draft {
    pub(super) fn index(&mut self, placement: &Placement) -> PlacementIndex {
        index(&mut self.out.placements, placement)
    }
}

/// The place of a placement in a list, at its end if it is new.
pub(super) fn index(known: &mut Vec<Placement>, placement: &Placement) -> PlacementIndex {
    // There are few, and most instructions lie as the one before: looking is quicker than hashing.
    let found = known.iter().rposition(|other| other == placement);
    let at = found.unwrap_or_else(|| {
        known.push(placement.clone());
        known.len() - 1
    });
    at as PlacementIndex
}

impl Placer {
    /// These uploads of the next window are supplied by their workers, each its own part: they begin there, whatever their
    /// scope.
    pub fn supply(&mut self, places: impl IntoIterator<Item = (TensorId, Placement)>) {
        self.supplied.clear();
        self.supplied.extend(places);
    }

    /// A placer for a session whose unplaced values are on worker `home`.
    pub fn new(home: u32) -> Placer {
        Placer {
            home,
            values: IdMap::default(),
            lost: Default::default(),
            supplied: IdMap::default(),
            next: 0,
            traffic: Traffic::default(),
            report: None,
            repeats: Repeats::default(),
        }
    }

    /// Places a window. `layouts` says what a scope means.
    ///
    /// # Errors
    /// When the window makes no sense: a value that was never met, an instruction that does not infer.
    pub fn window(
        &mut self,
        window: &Window,
        layouts: &dyn Fn(ScopeId) -> Option<Layout>,
    ) -> Result<PlacedWindow, OpError> {
        let mut draft = Draft::default();
        (draft.out.eager, draft.out.joined) = (window.eager, window.joined);
        let first = first_of(window);
        let last = window.instrs.last().and_then(|i| i.outs.last()).map_or(first, |id| id.0 + 1);
        let defined = last.saturating_sub(first);
        self.meet_all(&window.met, first, defined);
        let inside = window.met.iter().filter(|met| met.is_state && met.id.0.wrapping_sub(first) < defined);
        draft.states.extend(inside.map(|met| met.id));
        let mut scope: Option<(ScopeId, Option<Layout>)> = None;
        let mut payloads = window.uploads.iter().peekable();
        for (at, instr) in window.instrs.iter().enumerate() {
            if scope.as_ref().is_none_or(|(known, _)| *known != instr.scope) {
                scope = Some((instr.scope, layouts(instr.scope)));
            }
            let layout = scope.as_ref().and_then(|(_, layout)| layout.as_ref());
            let payload = payloads.next_if(|p| p.instr as usize == at);
            self.place(&mut draft, instr, layout, payload)?;
        }
        window.frees.iter().for_each(|&id| self.free_value(&mut draft, id));
        overlap(&mut draft.out, &mut |count| self.fresh(count));
        Ok(draft.out)
    }

    /// Takes note of values from outside a window, which defines so many itself (WINDOW-1).
    pub(super) fn meet_all(&mut self, met: &[ExternalValue], first: u64, defined: u64) {
        met.iter().filter(|met| met.id.0.wrapping_sub(first) >= defined).for_each(|met| self.meet(met));
    }

    pub(super) fn free_value(&mut self, draft: &mut Draft, id: TensorId) {
        self.lost.remove(&id);
        match self.values.remove(&id) {
            Some(known) => self.free(draft, &known),
            None => {
                // From before the first signal, and never met: at home.
                let home = draft.index(&Placement::on(self.home));
                draft.out.frees.push((id, home));
            }
        }
    }

    pub(super) fn free(&mut self, draft: &mut Draft, known: &Known) {
        for copy in &known.copies {
            let index = draft.index(&copy.placement);
            draft.out.frees.push((copy.id, index));
            if let Some(report) = &mut self.report {
                report.holds(&known.ty, &copy.placement, false);
            }
        }
    }

    fn meet(&mut self, met: &ExternalValue) {
        let home = self.home;
        if self.lost.contains(&met.id) {
            return;
        }
        let known = self.values.entry(met.id).or_insert_with(|| Known {
            ty: met.ty,
            is_state: met.is_state,
            copies: SmallVec::from_iter([PlacedCopy { id: met.id, placement: Placement::on(home) }]),
            origin: None,
        });
        known.is_state |= met.is_state;
    }

    pub(super) fn known(&self, id: TensorId) -> Result<&Known, OpError> {
        self.values.get(&id).ok_or_else(|| OpError::malformed(format!("{id} has no placement")))
    }

    pub(super) fn fresh(&mut self, count: u64) -> TensorId {
        let first = TensorId::new(LANE, self.next);
        self.next += count;
        first
    }

    /// How to read a value; a value that was never placed is at home, as it is.
    pub fn read(&mut self, id: TensorId) -> ReadPlan {
        let home = self.home;
        let Some(known) = self.values.get(&id) else { return ReadPlan { before: None, worker: home, id } };
        let whole = |copy: &&PlacedCopy| copy.placement.is_replicated();
        let at_home = known.copies.iter().filter(whole).find(|c| c.placement.mesh.rank(home).is_some());
        if let Some(copy) = at_home {
            return ReadPlan { before: None, worker: home, id: copy.id };
        }
        if let Some(copy) = known.copies.iter().find(whole) {
            return ReadPlan { before: None, worker: copy.placement.mesh.workers()[0], id: copy.id };
        }
        // On the group itself if home is none of it: the others need not hear of it.
        let mesh = &known.copies[0].placement.mesh;
        let worker = if mesh.rank(home).is_some() { home } else { mesh.workers()[0] };
        let mut draft = Draft::default();
        let to = Placement::on(worker);
        let nothing = Instr {
            op: gt_ir::ops::Write {}.into(),
            outs: Outs::new(),
            ins: Default::default(),
            scalars: Default::default(),
            scope: ScopeId(0),
            site: Default::default(),
        };
        match self.convert(&mut draft, &nothing, vec![(id, to.clone())]).and_then(|()| self.find_copy(id, &to)) {
            Ok(Some(copy)) => ReadPlan { before: Some(draft.out), worker, id: copy },
            _ => ReadPlan { before: None, worker, id },
        }
    }

    /// Keeps a report from now on.
    pub fn keep_report(&mut self) {
        self.report.get_or_insert_default();
    }

    /// The report, if one is kept.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_deref()
    }

    /// What has travelled so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Whether a value has been placed: one that has not is at home.
    pub fn knows(&self, id: TensorId) -> bool {
        self.values.contains_key(&id)
    }

    /// Whether a value went with a worker, or was made of such a one.
    pub fn is_lost(&self, id: TensorId) -> bool {
        self.lost.contains(&id)
    }

    /// A worker is gone: the values that nobody else has whole, ascending. They are not placed any more; what others still have
    /// of them is freed by the window that comes with them.
    ///
    /// What several others have whole is kept by one of them, home if it can be: what the worker was to send may have reached
    /// some and not the others, and copies of which one has taken a step that the next has not are not copies any more.
    pub fn lose(&mut self, worker: u32) -> (Vec<TensorId>, PlacedWindow) {
        let (mut gone, mut orphans) = (Vec::new(), Vec::new());
        for (&id, known) in &mut self.values {
            let mut kept: SmallVec<[PlacedCopy; 2]> = SmallVec::new();
            for copy in known.copies.drain(..) {
                let mesh = &copy.placement.mesh;
                let is_whole = copy.placement.is_replicated();
                if mesh.rank(worker).is_none() && (!is_whole || mesh.count() == 1) {
                    kept.push(copy);
                    continue;
                }
                let mut others: Vec<u32> = mesh.workers().iter().copied().filter(|&w| w != worker).collect();
                if is_whole && !others.is_empty() {
                    let keeper = others.iter().position(|&w| w == self.home).unwrap_or(0);
                    kept.push(PlacedCopy { placement: Placement::on(others.remove(keeper)), ..copy });
                }
                if !others.is_empty() {
                    orphans.push((copy.id, Placement::replicated(Mesh::row(&others))));
                }
            }
            known.copies = kept;
            if known.copies.is_empty() {
                gone.push(id);
            }
        }
        gone.sort_unstable();
        gone.iter().for_each(|id| _ = self.values.remove(id));
        self.lost.extend(&gone);
        orphans.sort_unstable_by_key(|(id, _)| *id);
        let mut draft = Draft::default();
        for (id, placement) in &orphans {
            let index = draft.index(placement);
            draft.out.frees.push((*id, index));
        }
        (gone, draft.out)
    }
}
