//! Where each value of a stream lies, and which strategy each instruction takes.
//!
//! PLACE-1: a scope fixes the workers of what is recorded inside. Without one an instruction runs where most bytes of its
//! inputs are; what has no inputs is made at home.
//! PLACE-2: what is created inside a scope is split as the scope says. What comes from outside is split so too, except for
//! state (parameters, buffers), which is whole on every worker from then on. A tensor with too few axes, or fewer rows
//! than workers, is whole.
//! PLACE-3: of the legal strategies the one is taken that moves the fewest bytes; among equals the one that leaves most
//! inputs as they are, then the first. A copy that was made stays until its value dies, and counts.
//! PLACE-4: a composite none of whose strategies keeps its inputs where they are is spelled out, and its primitives placed.
//! PLACE-5: decisions depend on the stream alone, never on time or the order of a hash map.

use std::collections::HashMap;

use gt_ir::ops::Upload;
use gt_ir::shard::Split;
use gt_ir::{Instr, Met, Op, OpError, Outs, Payload, ScopeId, TensorId, TensorType, Window};
use smallvec::SmallVec;

use super::choose::{Candidate, choose};
use super::convert::{Tags, quiet};
use super::cost::moved;
use super::{Conversion, Mesh, PlacedStep, PlacedWindow, Placement, PlacementIndex};

/// The lane of names that a placer makes.
const LANE: u16 = u16::MAX - 1;

/// What a signal says about what happens inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The workers.
    pub mesh: Mesh,
    /// How what is created inside is split, along each axis of the mesh: `Replicate` or `Shard`.
    pub splits: SmallVec<[Split; 2]>,
}

impl Layout {
    /// Where a tensor of this type belongs (PLACE-2).
    fn placement(&self, ty: &TensorType, is_state: bool) -> Placement {
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
pub(super) struct Copy {
    pub(super) id: TensorId,
    pub(super) placement: Placement,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) ty: TensorType,
    is_state: bool,
    pub(super) copies: SmallVec<[Copy; 2]>,
    /// What made it, where that is cheaper than moving it.
    pub(super) origin: Option<Box<Instr>>,
}

/// Places a session's windows.
pub struct Placer {
    home: u32,
    values: HashMap<TensorId, Known>,
    /// Values that went with a worker, and what was made of them.
    lost: std::collections::BTreeSet<TensorId>,
    next: u64,
}

/// A window being placed.
#[derive(Default)]
struct Draft {
    out: PlacedWindow,
    index: HashMap<Placement, PlacementIndex>,
}

impl Draft {
    fn index(&mut self, placement: &Placement) -> PlacementIndex {
        if let Some(&index) = self.index.get(placement) {
            return index;
        }
        let index = self.out.placements.len() as PlacementIndex;
        self.out.placements.push(placement.clone());
        self.index.insert(placement.clone(), index);
        index
    }
}

impl Placer {
    /// A placer for a session whose unplaced values are on worker `home`.
    pub fn new(home: u32) -> Placer {
        Placer { home, values: HashMap::new(), lost: Default::default(), next: 0 }
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
        for met in &window.met {
            self.meet(met);
        }
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
        for &id in &window.frees {
            self.lost.remove(&id);
            let Some(known) = self.values.remove(&id) else {
                // From before the first signal, and never met: at home.
                let home = draft.index(&Placement::on(self.home));
                draft.out.frees.push((id, home));
                continue;
            };
            for copy in &known.copies {
                let index = draft.index(&copy.placement);
                draft.out.frees.push((copy.id, index));
            }
        }
        Ok(draft.out)
    }

    fn meet(&mut self, met: &Met) {
        let home = self.home;
        if self.lost.contains(&met.id) {
            return;
        }
        let known = self.values.entry(met.id).or_insert_with(|| Known {
            ty: met.ty,
            is_state: met.is_state,
            copies: SmallVec::from_iter([Copy { id: met.id, placement: Placement::on(home) }]),
            origin: None,
        });
        known.is_state |= met.is_state;
    }

    fn known(&self, id: TensorId) -> Result<&Known, OpError> {
        self.values.get(&id).ok_or_else(|| OpError::malformed(format!("nobody knows {id}")))
    }

    fn fresh(&mut self, count: u64) -> TensorId {
        let first = TensorId::new(LANE, self.next);
        self.next += count;
        first
    }

    fn place(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        layout: Option<&Layout>,
        payload: Option<&Payload>,
    ) -> Result<(), OpError> {
        if !self.lost.is_empty() && self.depends_on_lost(instr) {
            self.lost.extend(&instr.outs);
            return Ok(());
        }
        if let Op::Upload(upload) = &instr.op {
            return self.upload(draft, instr, upload, layout, payload);
        }
        let types = self.types(&instr.ins)?;
        let outs = instr.infer(&types)?;
        if instr.ins.is_empty() {
            let placement = match layout {
                Some(layout) => layout.placement(&outs[0], false),
                None => Placement::on(self.home),
            };
            return self.create(draft, instr, outs[0], placement);
        }
        let tensors = instr.op.primitive().beside(instr.ins.len());
        if tensors == 1 {
            return self.place_one(draft, instr, layout, &types, &outs);
        }
        self.place_side_by_side(draft, instr, layout, tensors)
    }

    /// Whether an instruction cannot run because of what was lost. A write needs its new values only.
    fn depends_on_lost(&self, instr: &Instr) -> bool {
        let needed = match &instr.op {
            Op::Write(_) => &instr.ins[instr.ins.len() / 2..],
            _ => &instr.ins[..],
        };
        needed.iter().any(|id| self.lost.contains(id))
    }

    fn types(&self, ids: &[TensorId]) -> Result<SmallVec<[TensorType; 4]>, OpError> {
        ids.iter().map(|&id| self.known(id).map(|k| k.ty)).collect()
    }

    fn upload(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        upload: &Upload,
        layout: Option<&Layout>,
        payload: Option<&Payload>,
    ) -> Result<(), OpError> {
        // One worker takes it; it goes to others when they need it.
        let worker = match layout {
            Some(layout) if !layout.mesh.workers().contains(&self.home) => layout.mesh.workers()[0],
            _ => self.home,
        };
        let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
        if let Some(payload) = payload {
            let at = draft.out.steps.len() as u32;
            draft.out.uploads.push(Payload { instr: at, bytes: payload.bytes.clone() });
        }
        self.run(draft, instr, &[], &[(ty, Placement::on(worker))]);
        Ok(())
    }

    fn create(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        ty: TensorType,
        placement: Placement,
    ) -> Result<(), OpError> {
        self.run(draft, instr, &[], &[(ty, placement)]);
        if matches!(instr.op, Op::Fill(_) | Op::Iota(_))
            && let Some(known) = self.values.get_mut(&instr.outs[0])
        {
            known.origin = Some(Box::new(instr.clone()));
        }
        Ok(())
    }

    /// Puts an instruction into the window, on values that lie as it wants them.
    fn run(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        ins: &[(TensorId, TensorType, Placement)],
        outs: &[(TensorType, Placement)],
    ) {
        let mut instr = instr.clone();
        instr.ins = ins.iter().map(|(id, ..)| *id).collect();
        let placed = ins.iter().map(|(_, ty, placement)| (*ty, draft.index(placement))).collect();
        let indices = outs.iter().map(|(_, placement)| draft.index(placement)).collect();
        for (&id, (ty, placement)) in instr.outs.iter().zip(outs) {
            let copy = Copy { id, placement: placement.clone() };
            let copies = SmallVec::from_iter([copy]);
            self.values.insert(id, Known { ty: *ty, is_state: false, copies, origin: None });
        }
        draft.out.steps.push(PlacedStep::Run { instr, ins: placed, outs: indices });
    }

    /// PLACE-1.
    fn mesh_of(&self, ids: &[TensorId], layout: Option<&Layout>) -> Result<Mesh, OpError> {
        if let Some(layout) = layout {
            return Ok(layout.mesh.clone());
        }
        let mut weights: Vec<(&Mesh, usize)> = Vec::new();
        for &id in ids {
            let known = self.known(id)?;
            // What costs nothing to make again draws nobody.
            let bytes = if known.origin.is_some() { 0 } else { known.ty.bytes().max(1) };
            for copy in &known.copies {
                match weights.iter_mut().find(|(mesh, _)| *mesh == &copy.placement.mesh) {
                    Some((_, weight)) => *weight += bytes,
                    None => weights.push((&copy.placement.mesh, bytes)),
                }
            }
        }
        // The most bytes; then the larger group, since its values were put there on purpose; then the first.
        let best = weights.iter().rev().max_by_key(|(mesh, weight)| (*weight, mesh.count()));
        Ok(best.map_or_else(|| Mesh::row(&[self.home]), |(mesh, _)| (*mesh).clone()))
    }

    fn place_one(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        layout: Option<&Layout>,
        types: &[TensorType],
        outs: &[TensorType],
    ) -> Result<(), OpError> {
        let mesh = self.mesh_of(&instr.ins, layout)?;
        self.pull(draft, instr, &instr.ins, &mesh, layout)?;
        let best = self.best(&instr.op, &instr.ins, &mesh, types, outs)?;
        if best.moves_whole && instr.op.composite().is_some() {
            return self.spell_out(draft, instr, layout, types);
        }
        let ins = self.bring(draft, instr, &instr.ins, &best)?;
        let outs: SmallVec<[(TensorType, Placement); 2]> =
            outs.iter().zip(best.outs).map(|(ty, splits)| (*ty, Placement { mesh: mesh.clone(), splits })).collect();
        self.run(draft, instr, &ins, &outs);
        Ok(())
    }

    /// PLACE-3.
    fn best(
        &self,
        op: &Op,
        ids: &[TensorId],
        mesh: &Mesh,
        types: &[TensorType],
        outs: &[TensorType],
    ) -> Result<Candidate, OpError> {
        let known = ids.iter().map(|&id| self.known(id)).collect::<Result<SmallVec<[&Known; 4]>, _>>()?;
        let strategies = if mesh.count() > 1 { op.primitive().shard(types, outs) } else { Vec::new() };
        Ok(choose(mesh, &known, &strategies, outs.len()))
    }

    /// PLACE-2: what is not on the mesh yet comes there as the scope says, all of it at once.
    fn pull(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        ids: &[TensorId],
        mesh: &Mesh,
        layout: Option<&Layout>,
    ) -> Result<(), OpError> {
        // Without a scope nothing is known about it but what it costs.
        let Some(layout) = layout else { return Ok(()) };
        let mut wanted: Vec<(TensorId, Placement)> = Vec::new();
        for &id in ids {
            let known = self.known(id)?;
            let is_there = known.copies.iter().any(|c| c.placement.mesh == *mesh);
            if is_there || known.origin.is_some() || wanted.iter().any(|(w, _)| *w == id) {
                continue;
            }
            wanted.push((id, layout.placement(&known.ty, known.is_state)));
        }
        self.convert(draft, instr, wanted)
    }

    /// Has every input lie as a strategy wants it, and gives the names under which it does.
    fn bring(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        ids: &[TensorId],
        best: &Candidate,
    ) -> Result<Vec<(TensorId, TensorType, Placement)>, OpError> {
        let mut wanted: Vec<(TensorId, Placement)> = Vec::new();
        for (&id, placement) in ids.iter().zip(&best.ins) {
            if self.lies(id, placement)?.is_none() && !wanted.iter().any(|(w, p)| *w == id && p == placement) {
                wanted.push((id, placement.clone()));
            }
        }
        self.convert(draft, instr, wanted)?;
        let name = |(&id, placement): (&TensorId, &Placement)| {
            let copy = self.lies(id, placement)?.ok_or_else(|| OpError::malformed(format!("{id} did not move")))?;
            Ok((copy, self.known(id)?.ty, placement.clone()))
        };
        ids.iter().zip(&best.ins).map(name).collect()
    }

    /// The name under which a value lies so that every worker has just what this placement says.
    fn lies(&self, id: TensorId, placement: &Placement) -> Result<Option<TensorId>, OpError> {
        let known = self.known(id)?;
        let same =
            |copy: &&Copy| copy.placement.mesh == placement.mesh && same_parts(&copy.placement, placement, &known.ty);
        Ok(known.copies.iter().find(same).map(|copy| copy.id))
    }

    /// Makes copies: those that travel the same way go together.
    fn convert(&mut self, draft: &mut Draft, instr: &Instr, wanted: Vec<(TensorId, Placement)>) -> Result<(), OpError> {
        let mut groups: Vec<(Placement, Placement, Vec<Conversion>)> = Vec::new();
        for (id, to) in wanted {
            let known = self.known(id)?;
            let ty = known.ty;
            if let Some(origin) = known.origin.clone()
                && !to.is_partial()
            {
                // Made again where it is needed.
                let copy = self.fresh(1);
                let again = Instr { outs: Outs::from_iter([copy]), ..*origin };
                let index = draft.index(&to);
                draft.out.steps.push(PlacedStep::Run {
                    instr: again,
                    ins: SmallVec::new(),
                    outs: SmallVec::from_iter([index]),
                });
                self.add_copy(id, Copy { id: copy, placement: to });
                continue;
            }
            let source = known.copies.iter().min_by_key(|copy| moved(&copy.placement, &to, &ty));
            let source = source.ok_or_else(|| OpError::malformed(format!("{id} is nowhere")))?.clone();
            let through = on_the_way(&source.placement, &to, &ty);
            let made = self.fresh(1);
            if let Some(through) = through {
                self.convert(draft, instr, vec![(id, through.clone())])?;
                let from = self.lies(id, &through)?.unwrap_or(source.id);
                push(&mut groups, draft, (from, made, ty), (&through, &to));
            } else {
                push(&mut groups, draft, (source.id, made, ty), (&source.placement, &to));
            }
            self.add_copy(id, Copy { id: made, placement: to });
        }
        for (from, to, values) in groups {
            let first = self.fresh(Tags::count(&from, &to));
            draft.out.steps.push(PlacedStep::Convert { values, first, site: instr.site });
        }
        Ok(())
    }

    fn add_copy(&mut self, id: TensorId, copy: Copy) {
        if let Some(known) = self.values.get_mut(&id) {
            known.copies.push(copy);
        }
    }

    /// PLACE-4.
    fn spell_out(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        layout: Option<&Layout>,
        types: &[TensorType],
    ) -> Result<(), OpError> {
        let Some(expansion) = crate::expand(&instr.op, types, &instr.scalars).transpose()? else {
            return Err(OpError::malformed(format!("{} has no expansion", instr.op.display_name())));
        };
        let mut names: HashMap<TensorId, TensorId> = HashMap::new();
        names.extend(expansion.inputs.iter().copied().zip(instr.ins.iter().copied()));
        names.extend(expansion.outs.iter().copied().zip(instr.outs.iter().copied()));
        let mut passing = Vec::new();
        for mut part in expansion.window.instrs {
            for out in &mut part.outs {
                *out = *names.entry(*out).or_insert_with(|| {
                    let id = TensorId::new(LANE, self.next);
                    self.next += 1;
                    passing.push(id);
                    id
                });
            }
            for id in &mut part.ins {
                *id = *names.get(id).ok_or_else(|| OpError::malformed(format!("nobody knows {id}")))?;
            }
            (part.scope, part.site) = (instr.scope, instr.site);
            self.place(draft, &part, layout, None)?;
        }
        for id in passing {
            let Some(known) = self.values.remove(&id) else { continue };
            for copy in &known.copies {
                let index = draft.index(&copy.placement);
                draft.out.frees.push((copy.id, index));
            }
        }
        Ok(())
    }

    /// An instruction on several tensors at once: each goes where it is best, and those of one mesh together.
    fn place_side_by_side(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        layout: Option<&Layout>,
        tensors: usize,
    ) -> Result<(), OpError> {
        let each =
            |ids: &[TensorId], k: usize| -> Vec<TensorId> { ids.iter().copied().skip(k).step_by(tensors).collect() };
        let mut meshes: Vec<(Mesh, Vec<usize>)> = Vec::new();
        for k in 0..tensors {
            let mesh = self.mesh_of(&each(&instr.ins, k), layout)?;
            match meshes.iter_mut().find(|(known, _)| *known == mesh) {
                Some((_, members)) => members.push(k),
                None => meshes.push((mesh, vec![k])),
            }
        }
        for (mesh, members) in meshes {
            let all: Vec<TensorId> = members.iter().flat_map(|&k| each(&instr.ins, k)).collect();
            self.pull(draft, instr, &all, &mesh, layout)?;
            let mut ins: Vec<Vec<(TensorId, Placement)>> = Vec::new();
            let mut outs: Vec<Vec<(TensorType, Placement)>> = Vec::new();
            for &k in &members {
                let ids = each(&instr.ins, k);
                let types = self.types(&ids)?;
                let made = instr.op.primitive().infer(&types)?;
                let best = self.best(&instr.op, &ids, &mesh, &types, &made)?;
                ins.push(ids.iter().copied().zip(best.ins.iter().cloned()).collect());
                let placement = |(ty, splits)| (ty, Placement { mesh: mesh.clone(), splits });
                outs.push(made.into_iter().zip(best.outs).map(placement).collect());
            }
            let rows = ins[0].len();
            let flat: Vec<(TensorId, Placement)> =
                (0..rows).flat_map(|row| ins.iter().map(move |tensor| tensor[row].clone())).collect();
            let ids: Vec<TensorId> = flat.iter().map(|(id, _)| *id).collect();
            let best = Candidate { ins: flat.into_iter().map(|(_, p)| p).collect(), ..Candidate::default() };
            let placed = self.bring(draft, instr, &ids, &best)?;
            let made: Vec<(TensorType, Placement)> =
                (0..outs[0].len()).flat_map(|row| outs.iter().map(move |tensor| tensor[row].clone())).collect();
            let part = Instr {
                outs: (0..outs[0].len())
                    .flat_map(|row| members.iter().map(move |&k| instr.outs[row * tensors + k]))
                    .collect(),
                ..instr.clone()
            };
            self.run(draft, &part, &placed, &made);
        }
        Ok(())
    }

    /// How to read a value; a value that was never placed is at home, as it is.
    pub fn read(&mut self, id: TensorId) -> ReadPlan {
        let home = self.home;
        let Some(known) = self.values.get(&id) else { return ReadPlan { before: None, worker: home, id } };
        let whole = |copy: &&Copy| copy.placement.is_replicated();
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
        match self.convert(&mut draft, &nothing, vec![(id, to.clone())]).and_then(|()| self.lies(id, &to)) {
            Ok(Some(copy)) => ReadPlan { before: Some(draft.out), worker, id: copy },
            _ => ReadPlan { before: None, worker, id },
        }
    }

    /// Whether a value went with a worker, or was made of such a one.
    pub fn is_lost(&self, id: TensorId) -> bool {
        self.lost.contains(&id)
    }

    /// A worker is gone: the values that nobody else has whole, ascending. They are not placed any more.
    pub fn lose(&mut self, worker: u32) -> Vec<TensorId> {
        let mut gone = Vec::new();
        for (&id, known) in &mut self.values {
            let mut kept: SmallVec<[Copy; 2]> = SmallVec::new();
            for copy in known.copies.drain(..) {
                match copy.placement.mesh.rank(worker) {
                    None => kept.push(copy),
                    Some(_) if copy.placement.is_replicated() => {
                        let others: Vec<u32> =
                            copy.placement.mesh.workers().iter().copied().filter(|&w| w != worker).collect();
                        if !others.is_empty() {
                            kept.push(Copy { placement: Placement::replicated(Mesh::row(&others)), ..copy });
                        }
                    }
                    Some(_) => {}
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
        gone
    }
}

type Travel<'a> = (&'a Placement, &'a Placement);

fn push(
    groups: &mut Vec<(Placement, Placement, Vec<Conversion>)>,
    draft: &mut Draft,
    (from, to, ty): (TensorId, TensorId, TensorType),
    (lies, wanted): Travel<'_>,
) {
    let conversion = Conversion { from, to, ty, lies: draft.index(lies), wanted: draft.index(wanted) };
    let together = groups.iter_mut().find(|(a, b, values)| a == lies && b == wanted && values[0].ty.dtype == ty.dtype);
    match together {
        Some((.., values)) => values.push(conversion),
        None => groups.push((lies.clone(), wanted.clone(), vec![conversion])),
    }
}

/// Whether both give every worker the same part.
pub(super) fn same_parts(a: &Placement, b: &Placement, ty: &TensorType) -> bool {
    if a == b {
        return true;
    }
    let partial = |p: &Placement, k: usize| if let Split::Partial(kind) = p.splits[k] { Some(kind) } else { None };
    (0..a.splits.len()).all(|k| partial(a, k) == partial(b, k))
        && (0..a.mesh.count()).all(|rank| a.region(&ty.shape, rank) == b.region(&ty.shape, rank))
}

/// What a value becomes first, where one conversion does not do.
fn on_the_way(from: &Placement, to: &Placement, ty: &TensorType) -> Option<Placement> {
    let whole = |splits: &[Split]| {
        splits.iter().map(|s| if matches!(s, Split::Partial(_)) { Split::Replicate } else { *s }).collect()
    };
    if to.is_partial() && quiet(from, to, &ty.shape).is_none() {
        return Some(Placement { mesh: to.mesh.clone(), splits: whole(&to.splits) });
    }
    // A sum that goes to another group is made first, where its addends are: then each byte travels once.
    let crosses = from.is_partial() && !to.is_partial() && from.mesh != to.mesh && to.mesh.count() > 1;
    crosses.then(|| Placement { mesh: from.mesh.clone(), splits: whole(&from.splits) })
}
