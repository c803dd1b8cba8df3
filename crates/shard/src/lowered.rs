//! A template as one worker has lowered it: an occurrence is made by giving names, without looking at placements again. The
//! worker's own windows are templates too, so that an occurrence of them is a few lists of names.
//!
//! LOWERED-1: an occurrence is what [`super::Lowerer::window`] makes of the window that the template stands for.
//! LOWERED-2: the steps that scalars become may depend on them (a slice is cut by where it starts). So those that have changed are lowered
//! again, and if more than scalars comes out differently, so is the whole window.

use std::collections::{BTreeSet, HashMap};

use gt_ir::{IdMap, Instr, OpError, Payload, Scalars, TensorId, Window};
use gt_stream::{Bindings, Checker, Occurrence};

use super::PlacedStep;
use super::draft::Draft;
use super::lower::{LANE, LocalStep, Lowerer, occurrence};
use super::template::{PlacedBindings, PlacedTemplate};

/// Where the instructions of a step with scalars are.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    /// The placed step.
    step: u32,
    /// The local one, the first instruction and the number of those that it has there, and the place of their scalars.
    local: usize,
    first: usize,
    count: usize,
    scalars: usize,
    /// The first of the worker's names that they take.
    next: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lowered {
    template: PlacedTemplate,
    steps: Vec<LocalStep>,
    /// The worker's names of everything that is made, counted from the first.
    names: IdMap<TensorId>,
    /// Those that outlive the window, in order.
    kept: Vec<(TensorId, TensorId)>,
    /// What dies.
    gone: Vec<TensorId>,
    /// How many names it takes.
    taken: u64,
    numbered: Vec<Numbered>,
    /// Steps that upload something, by what they make.
    uploads: IdMap<u32>,
}

impl Lowered {
    /// Lowers a template.
    pub(super) fn new(worker: u32, template: PlacedTemplate) -> Result<Lowered, OpError> {
        let none = IdMap::default();
        let mut draft = Draft::new(worker, &template.window, &none, 0);
        let (mut numbered, mut uploads) = (Vec::new(), IdMap::default());
        for (step, placed) in (0u32..).zip(&template.window.steps) {
            let (local, first, next) = (draft.steps.len(), draft.window.instrs.len(), draft.next);
            draft.step(placed, None)?;
            let PlacedStep::Run { instr, .. } = placed else { continue };
            if let gt_ir::Op::Upload(_) = &instr.op {
                uploads.extend(instr.outs.first().map(|&id| (id, step)));
            } else if !instr.scalars.is_empty() {
                let count = draft.window.instrs.len() - first;
                let scalars = draft.window.instrs[..first].iter().map(|instr| instr.scalars.len()).sum();
                numbered.push(Numbered { step, local, first, count, scalars, next });
            }
        }
        let gone = draft.finish(&template.window)?;
        let Draft { next, made, steps, .. } = draft;
        let mut kept: Vec<(TensorId, TensorId)> = made.iter().map(|(&id, &local)| (id, local)).collect();
        let dead: BTreeSet<TensorId> = gone.iter().copied().collect();
        kept.retain(|(id, _)| !dead.contains(id));
        kept.sort_unstable();
        let steps = steps.into_iter().map(LocalStep::finished).collect::<Result<_, _>>()?;
        Ok(Lowered { template, steps, names: made, kept, gone, taken: next, numbered, uploads })
    }

    /// What it takes in memory.
    pub(super) fn held_bytes(&self) -> usize {
        // A name is kept in two tables.
        let names = 4 * self.names.len() * size_of::<(TensorId, TensorId)>();
        let lists = size_of_val(&self.numbered[..])
            + self.uploads.len() * size_of::<(TensorId, u32)>()
            + size_of_val(&self.gone[..]);
        self.template.held_bytes() + self.steps.iter().map(LocalStep::held_bytes).sum::<usize>() + names + lists
    }

    /// What a worker does of an occurrence.
    pub(super) fn bind(&self, lowerer: &mut Lowerer, bindings: &PlacedBindings) -> Result<Vec<LocalStep>, OpError> {
        let Some(changed) = self.changed(lowerer, bindings)? else {
            return lowerer.window(&self.template.window(bindings)?);
        };
        let base = lowerer.next;
        if base + self.taken > TensorId::MOST {
            return Err(OpError::malformed("a worker has no names left"));
        }
        let names = &lowerer.names;
        let name = |id: TensorId| match id.lane() {
            LANE => Ok(TensorId(id.0.wrapping_add(base))),
            _ => bindings.name(id).map(|id| names.get(&id).copied().unwrap_or(id)),
        };
        let payloads: HashMap<u32, &Payload> =
            bindings.uploads.iter().map(|payload| (payload.instr, payload)).collect();
        let mut changed = changed.into_iter().peekable();
        let mut steps = Vec::with_capacity(self.steps.len());
        for (at, step) in self.steps.iter().enumerate() {
            steps.push(match step {
                LocalStep::Run { window, waits } => {
                    let mut bound = Bindings {
                        // A window that only frees values has none of its own.
                        first: if window.is_empty() { TensorId(0) } else { name(window.bindings().first)? },
                        inputs: window.bindings().inputs.iter().map(|&id| name(id)).collect::<Result<_, _>>()?,
                        scalars: window.bindings().scalars.clone(),
                        older_frees: window
                            .bindings()
                            .older_frees
                            .iter()
                            .map(|&id| name(id))
                            .collect::<Result<_, _>>()?,
                        uploads: Vec::new(),
                        ..*window.bindings()
                    };
                    while let Some((_, place, scalars)) = changed.next_if(|(local, ..)| *local == at) {
                        bound.scalars[place..place + scalars.len()].copy_from_slice(&scalars);
                    }
                    let mut missing = Vec::new();
                    for &(instr, id) in waits {
                        match self.uploads.get(&id).and_then(|step| payloads.get(step)) {
                            Some(payload) => bound.uploads.push(Payload { instr, bytes: payload.bytes.clone() }),
                            None => missing.push((instr, bindings.name(id)?)),
                        }
                    }
                    LocalStep::Run { window: bind(&mut lowerer.checker, window, bound, &name)?, waits: missing }
                }
                LocalStep::Send { id, name: way, to } => {
                    LocalStep::Send { id: name(*id)?, name: bindings.name(*way)?, to: *to }
                }
                LocalStep::Receive { id, name: way, ty, from } => {
                    LocalStep::Receive { id: name(*id)?, name: bindings.name(*way)?, ty: *ty, from: *from }
                }
            });
        }
        let gone = self.gone.iter().map(|&id| bindings.name(id)).collect::<Result<Vec<_>, _>>()?;
        let kept = self.kept.iter().map(|&(id, local)| Ok((bindings.name(id)?, TensorId(local.0 + base))));
        let kept = kept.collect::<Result<Vec<_>, OpError>>()?;
        if kept.iter().any(|(id, _)| lowerer.names.contains_key(id)) {
            return Err(OpError::malformed("a window is defined twice"));
        }
        lowerer.next += self.taken;
        lowerer.names.extend(kept);
        gone.iter().for_each(|id| _ = lowerer.names.remove(id));
        Ok(steps)
    }

    /// The scalars that are not the template's, by local step and place among its scalars; `None` if the steps themselves change
    /// (LOWERED-2).
    #[allow(clippy::type_complexity)]
    fn changed(
        &self,
        lowerer: &Lowerer,
        bindings: &PlacedBindings,
    ) -> Result<Option<Vec<(usize, usize, Scalars)>>, OpError> {
        let mut changed = Vec::new();
        for (step, scalars) in &bindings.scalars {
            let found = self.numbered.binary_search_by_key(step, |numbered| numbered.step);
            let Some(numbered) = found.ok().map(|at| self.numbered[at]) else { return Ok(None) };
            let Some(PlacedStep::Run { instr, ins, outs }) = self.template.window.steps.get(*step as usize) else {
                return Ok(None);
            };
            if instr.scalars.len() != scalars.len() {
                return Err(OpError::malformed("a step has a different number of scalars"));
            }
            if numbered.count == 0 {
                continue;
            }
            let mut instr = instr.clone();
            instr.scalars.clone_from(scalars);
            let mut draft = Draft::new(lowerer.worker(), &self.template.window, &self.names, numbered.next);
            draft.compute(&instr, ins, outs)?;
            let Some(LocalStep::Run { window, .. }) = self.steps.get(numbered.local) else { return Ok(None) };
            let before =
                window.recipe().instrs().get(numbered.first..numbered.first + numbered.count).unwrap_or_default();
            let now = std::mem::take(&mut draft.window.instrs);
            let is_same = |(now, before): (&Instr, &Instr)| {
                let bound = |ids: &[TensorId]| ids.iter().map(|&id| window.bound(id)).collect::<Vec<_>>();
                now.op == before.op
                    && now.scalars.len() == before.scalars.len()
                    && now.ins[..] == bound(&before.ins)
                    && now.outs[..] == bound(&before.outs)
            };
            // A name for what has one already comes behind it, and has no scalars.
            let same = before.len() >= now.len()
                && now.iter().zip(before).all(is_same)
                && before[now.len()..].iter().all(|instr| instr.scalars.is_empty());
            if !same {
                return Ok(None);
            }
            let mut place = numbered.scalars;
            for instr in now {
                let next = place + instr.scalars.len();
                changed.push((numbered.local, place, instr.scalars));
                place = next;
            }
        }
        Ok(Some(changed))
    }
}

/// An occurrence of a worker's own window. Two of its inputs may have become one value: then it is another window.
fn bind(
    checker: &mut Checker,
    window: &Occurrence,
    bindings: Bindings,
    name: &dyn Fn(TensorId) -> Result<TensorId, OpError>,
) -> Result<Occurrence, OpError> {
    let uploads = bindings.uploads.clone();
    let scalars = bindings.scalars.clone();
    if let Ok(bound) = checker.bind(window.template().clone(), bindings) {
        return Ok(bound);
    }
    let mut spelled: Window = window.window();
    spelled.uploads = uploads;
    let mut scalars = &scalars[..];
    for instr in &mut spelled.instrs {
        for id in instr.ins.iter_mut().chain(&mut instr.outs) {
            *id = name(*id)?;
        }
        let (own, others) = scalars.split_at(instr.scalars.len());
        instr.scalars.copy_from_slice(own);
        scalars = others;
    }
    for id in &mut spelled.frees {
        *id = name(*id)?;
    }
    occurrence(spelled)
}
