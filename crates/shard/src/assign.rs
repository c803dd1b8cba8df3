//! Where an instruction runs, by which strategy, and what that needs.

use gt_ir::ops::Upload;
use gt_ir::{IdMap, Instr, Op, OpError, Payload, TensorId, TensorType};
use smallvec::SmallVec;

use super::choose::{Candidate, Work, choose};
use super::placer::{Draft, Known, LANE, PlacedCopy};
use super::{Layout, Mesh, PlacedStep, Placement, Placer};

impl Placer {
    pub(super) fn place(
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
            // Positions go with everything: they are whole wherever they are needed.
            let is_state = matches!(instr.op, Op::Iota(_));
            let placement = match layout {
                Some(layout) => layout.placement(&outs[0], is_state),
                None => Placement::on(self.home),
            };
            return self.create(draft, instr, outs[0], placement);
        }
        if let (Op::Reshape(op), Some(layout)) = (&instr.op, layout)
            && op.shape == types[0].shape
        {
            return self.lay_out(draft, instr, layout, types[0]);
        }
        let tensors = instr.op.primitive().packed_tensors(instr.ins.len());
        if tensors == 1 && !matches!(instr.op, Op::Update(_) | Op::Write(_)) {
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
        let supplied = instr.outs.first().and_then(|id| self.supplied.get(id));
        let placement = match (supplied, layout) {
            (Some(placement), _) => placement.clone(),
            // One worker takes it; it goes to others when they need it.
            (None, Some(layout)) if !layout.mesh.workers().contains(&self.home) => {
                Placement::on(layout.mesh.workers()[0])
            }
            (None, _) => Placement::on(self.home),
        };
        let ty = TensorType { dtype: upload.dtype, shape: upload.shape };
        if let Some(payload) = payload {
            let at = draft.out.steps.len() as u32;
            draft.out.uploads.push(Payload { instr: at, bytes: payload.bytes.clone() });
        }
        self.run(draft, instr, &[], &[(ty, placement)]);
        Ok(())
    }

    /// PLACE-5.
    fn lay_out(&mut self, draft: &mut Draft, instr: &Instr, layout: &Layout, ty: TensorType) -> Result<(), OpError> {
        let placement = layout.placement(&ty, false);
        let wanted = Candidate { ins: SmallVec::from_iter([placement.clone()]), ..Candidate::default() };
        let ins = self.bring(draft, instr, &instr.ins, &wanted)?;
        self.run(draft, instr, &ins, &[(ty, placement)]);
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
            if let Some(report) = &mut self.report {
                report.ran(instr.site, instr.op.display_name(), ty, placement);
                report.holds(ty, placement, true);
            }
            let copy = PlacedCopy { id, placement: placement.clone() };
            let copies = SmallVec::from_iter([copy]);
            self.values.insert(id, Known { ty: *ty, is_state: draft.states.contains(&id), copies, origin: None });
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
                    Some((_, weight)) => *weight = weight.saturating_add(bytes),
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
        let work = if mesh.count() > 1 { Work::of(op, types, outs) } else { Work::Little };
        Ok(choose(mesh, &known, &strategies, outs, work))
    }

    /// Moves values that are not on the mesh yet to it, as the scope says and all at once (PLACE-2).
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
            if self.find_copy(id, placement)?.is_none() && !wanted.iter().any(|(w, p)| *w == id && p == placement) {
                wanted.push((id, placement.clone()));
            }
        }
        self.convert(draft, instr, wanted)?;
        let name = |(&id, placement): (&TensorId, &Placement)| {
            let copy =
                self.find_copy(id, placement)?.ok_or_else(|| OpError::malformed(format!("{id} was not moved")))?;
            Ok((copy, self.known(id)?.ty, placement.clone()))
        };
        ids.iter().zip(&best.ins).map(name).collect()
    }

    /// PLACE-4.
    fn spell_out(
        &mut self,
        draft: &mut Draft,
        instr: &Instr,
        layout: Option<&Layout>,
        types: &[TensorType],
    ) -> Result<(), OpError> {
        let Some(expansion) = gt_plan::expand(&instr.op, types, &instr.scalars).transpose()? else {
            return Err(OpError::malformed(format!("{} has no expansion", instr.op.display_name())));
        };
        let mut names: IdMap<TensorId> = IdMap::default();
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
                *id = *names.get(id).ok_or_else(|| OpError::malformed(format!("{id} has no placement")))?;
            }
            (part.scope, part.site) = (instr.scope, instr.site);
            self.place(draft, &part, layout, None)?;
        }
        for id in passing {
            if let Some(known) = self.values.remove(&id) {
                self.free(draft, &known);
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
            let mesh = match layout {
                Some(layout) => layout.mesh.clone(),
                // A step is taken where the gradient is, and a cell goes where its new value is.
                None => self.known(instr.ins[tensors + k])?.copies[0].placement.mesh.clone(),
            };
            match meshes.iter_mut().find(|(known, _)| *known == mesh) {
                Some((_, members)) => members.push(k),
                None => meshes.push((mesh, vec![k])),
            }
        }
        for (mesh, members) in meshes {
            let all: Vec<TensorId> = members.iter().flat_map(|&k| each(&instr.ins, k)).collect();
            self.pull(draft, instr, &all, &mesh, layout)?;
            let in_parts = match &instr.op {
                Op::Update(_) => self.steps_in_parts(&instr.ins, tensors, &members, &mesh)?,
                _ => Vec::new(),
            };
            let mut ins: Vec<Vec<(TensorId, Placement)>> = Vec::new();
            let mut outs: Vec<Vec<(TensorType, Placement)>> = Vec::new();
            for &k in &members {
                let ids = each(&instr.ins, k);
                let types = self.types(&ids)?;
                let made = instr.op.primitive().infer(&types)?;
                let part = in_parts.iter().find(|part| part.tensor == k);
                let best = match part {
                    Some(part) => part.candidate(ids.len(), made.len()),
                    None => self.best(&instr.op, &ids, &mesh, &types, &made)?,
                };
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
            let back = in_parts.into_iter().map(|part| (instr.outs[part.tensor], part.whole)).collect();
            self.convert(draft, instr, back)?;
        }
        Ok(())
    }
}
