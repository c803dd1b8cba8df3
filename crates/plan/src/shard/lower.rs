//! A placed window as one worker runs it: local windows, with sends and receives between them.
//!
//! LOWER-1: the ids a local window defines are consecutive (WINDOW-1), so a worker has names of its own: [`Lowerer::name`]
//! tells which. They are counters of one lane that no client has.
//! LOWER-2: what arrives is not trusted: a window that makes no sense is refused whole, before anything of it is done.
//! LOWER-3: all workers go through sends and receives in one order, and a send never waits: nobody waits in a circle.

use gt_ir::ops::{Reshape, Upload};
use gt_ir::shard::{LocalCx, Part, Split};
use gt_ir::{
    Emit, IdMap, Instr, Op, OpError, Outs, Payload, Scalar, Scalars, ScopeId, SiteId, TensorId, TensorType, Val, Window,
};
use smallvec::SmallVec;

use super::all_reduce::{self, Flight};
use super::convert::convert;
use super::{PlacedStep, PlacedWindow, Placement};

/// The lane of a worker's own names.
const LANE: u16 = u16::MAX;

/// What a worker does, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalStep {
    /// Runs a window on its parts.
    Window {
        /// With names of the worker's own.
        window: Window,
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
    names: IdMap<TensorId>,
    next: u64,
}

impl Lowerer {
    /// For the worker of this number.
    pub fn new(worker: u32) -> Lowerer {
        Lowerer { worker, names: IdMap::default(), next: 0 }
    }

    /// The worker's own name of a value; a value that was never placed has the one it came with.
    pub fn name(&self, id: TensorId) -> TensorId {
        self.names.get(&id).copied().unwrap_or(id)
    }

    /// What the worker does of a placed window.
    ///
    /// # Errors
    /// When the window makes no sense; nothing of it counts then.
    pub fn window(&mut self, window: &PlacedWindow) -> Result<Vec<LocalStep>, OpError> {
        let mut draft = Draft {
            placements: &window.placements,
            worker: self.worker,
            names: &self.names,
            next: self.next,
            made: IdMap::default(),
            values: Vec::new(),
            window: Window { eager: window.eager, joined: window.joined, ..Window::default() },
            waits: Vec::new(),
            passing: Vec::new(),
            steps: Vec::new(),
            flights: IdMap::default(),
            site: SiteId::default(),
        };
        let mut payloads = window.uploads.iter().peekable();
        for (at, step) in window.steps.iter().enumerate() {
            let payload = payloads.next_if(|p| p.instr as usize == at);
            match step {
                PlacedStep::Run { instr, ins, outs } => draft.run(instr, ins, outs, payload)?,
                PlacedStep::Convert { values, first, site } => {
                    draft.site = *site;
                    convert(&mut draft, values, *first)?;
                }
                PlacedStep::Reduce { phase, values, first, site } => {
                    draft.site = *site;
                    all_reduce::phase(&mut draft, values, *first, *phase)?;
                }
            }
        }
        if !draft.flights.is_empty() {
            return Err(OpError::malformed("a reduction is begun and not ended"));
        }
        let mut gone = Vec::new();
        for &(id, index) in &window.frees {
            if draft.placement(index)?.mesh.rank(self.worker).is_some() {
                draft.passing.push(draft.local(id));
                gone.push(id);
            }
        }
        draft.end();
        let Draft { next, made, steps, .. } = draft;
        self.next = next;
        self.names.extend(made);
        gone.iter().for_each(|id| _ = self.names.remove(id));
        Ok(steps)
    }
}

/// What is being made of a window.
pub(super) struct Draft<'a> {
    placements: &'a [Placement],
    pub(super) worker: u32,
    names: &'a IdMap<TensorId>,
    next: u64,
    /// The worker's own names of what the window makes.
    made: IdMap<TensorId>,
    /// Behind each [`Val`].
    values: Vec<(TensorId, TensorType)>,
    window: Window,
    waits: Vec<(u32, TensorId)>,
    /// What dies with the next cut, or with the window.
    passing: Vec<TensorId>,
    steps: Vec<LocalStep>,
    /// Reductions between their rounds, by the first of their names.
    pub(super) flights: IdMap<Flight>,
    site: SiteId,
}

impl Draft<'_> {
    pub(super) fn placement(&self, index: u32) -> Result<&Placement, OpError> {
        self.placements.get(index as usize).ok_or_else(|| OpError::malformed(format!("there is no placement {index}")))
    }

    fn local(&self, id: TensorId) -> TensorId {
        self.made.get(&id).or_else(|| self.names.get(&id)).copied().unwrap_or(id)
    }

    /// The value behind a placed name, of which the worker has a part of this type.
    pub(super) fn value(&mut self, id: TensorId, ty: TensorType) -> Val {
        let local = self.local(id);
        self.put(local, ty)
    }

    fn put(&mut self, id: TensorId, ty: TensorType) -> Val {
        self.values.push((id, ty));
        Val(self.values.len() as u32 - 1)
    }

    /// Gives a placed name to a value. One that has a name already gets another of its own, or it would be freed twice.
    pub(super) fn give(&mut self, id: TensorId, val: Val) -> Result<(), OpError> {
        let (local, ty) = self.values[val.0 as usize];
        let is_fresh = self.passing.iter().rposition(|&p| p == local);
        let local = match is_fresh {
            Some(at) => {
                self.passing.swap_remove(at);
                local
            }
            None => {
                let same = self.emit(Reshape { shape: ty.shape }.into(), &[val], &[])?;
                self.passing.pop();
                self.values[same[0].0 as usize].0
            }
        };
        match self.made.insert(id, local).is_none() && !self.names.contains_key(&id) {
            true => Ok(()),
            false => Err(OpError::malformed(format!("{id} is made twice"))),
        }
    }

    fn run(
        &mut self,
        instr: &Instr,
        ins: &[(TensorType, u32)],
        outs: &[u32],
        payload: Option<&Payload>,
    ) -> Result<(), OpError> {
        self.site = instr.site;
        let types: SmallVec<[TensorType; 4]> = ins.iter().map(|(ty, _)| *ty).collect();
        let made = instr.infer(&types)?;
        let Some(&first) = outs.first() else { return Err(OpError::malformed("an instruction makes nothing")) };
        let mesh = &self.placement(first)?.mesh;
        let Some(rank) = mesh.rank(self.worker) else { return Ok(()) };
        let part = |draft: &Self, ty: &TensorType, index: u32| -> Result<Part, OpError> {
            let placement = draft.placement(index)?;
            if placement.mesh != draft.placement(first)?.mesh {
                return Err(OpError::malformed(format!("{} is spread over several meshes", instr.op.display_name())));
            }
            fits(placement, ty)?;
            Ok(Part { ty: *ty, region: placement.region(&ty.shape, rank) })
        };
        let in_parts = ins.iter().map(|(ty, i)| part(self, ty, *i)).collect::<Result<SmallVec<[Part; 4]>, _>>()?;
        let out_parts =
            made.iter().zip(outs).map(|(ty, &i)| part(self, ty, i)).collect::<Result<SmallVec<[Part; 4]>, _>>()?;
        if let Op::Upload(upload) = &instr.op {
            return self.upload(instr.outs[0], upload, payload);
        }
        let vals: SmallVec<[Val; 4]> =
            instr.ins.iter().zip(&in_parts).map(|(&id, part)| self.value(id, part.local())).collect();
        let cx = LocalCx { ins: &in_parts, outs: &out_parts, scalars: &instr.scalars };
        let made = instr.op.primitive().local(&cx, &vals, self)?;
        if made.len() != instr.outs.len() {
            return Err(OpError::malformed(format!("{} makes {} values", instr.op.display_name(), made.len())));
        }
        for ((&id, val), part) in instr.outs.iter().zip(made).zip(&out_parts) {
            let ty = self.ty(val);
            if ty != part.local() {
                let name = instr.op.display_name();
                return Err(OpError::malformed(format!("{name} makes {ty} where its part is {}", part.local())));
            }
            self.give(id, val)?;
        }
        Ok(())
    }

    fn upload(&mut self, id: TensorId, upload: &Upload, payload: Option<&Payload>) -> Result<(), OpError> {
        let at = self.window.instrs.len() as u32;
        match payload {
            Some(payload) => self.window.uploads.push(Payload { instr: at, bytes: payload.bytes.clone() }),
            None => self.waits.push((at, id)),
        }
        let made = self.emit(upload.clone().into(), &[], &[])?;
        self.give(id, made[0])
    }

    /// Ends the window being made: what follows may send what it makes.
    fn cut(&mut self) {
        if self.window.instrs.is_empty() && self.window.frees.is_empty() {
            return;
        }
        let fresh = Window { eager: self.window.eager, joined: self.window.joined, ..Window::default() };
        let window = std::mem::replace(&mut self.window, fresh);
        self.steps.push(LocalStep::Window { window, waits: std::mem::take(&mut self.waits) });
    }

    /// Ends the last window. What dies, dies in the window that uses it last: there it need not be kept at all.
    fn end(&mut self) {
        self.cut();
        let mut last: IdMap<usize> = IdMap::default();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                LocalStep::Window { window, .. } => {
                    let used = window.instrs.iter().flat_map(|i| i.ins.iter().chain(&i.outs));
                    last.extend(used.map(|&id| (id, at)));
                }
                LocalStep::Send { id, .. } | LocalStep::Receive { id, .. } => _ = last.insert(*id, at),
            }
        }
        // For each step the window that comes with it or behind it.
        let mut next = self.steps.len();
        let mut windows = vec![next; self.steps.len()];
        for (at, step) in self.steps.iter().enumerate().rev() {
            if matches!(step, LocalStep::Window { .. }) {
                next = at;
            }
            windows[at] = next;
        }
        for id in std::mem::take(&mut self.passing) {
            let at = last.get(&id).map_or(self.steps.len(), |&at| windows[at]);
            match self.steps.get_mut(at) {
                Some(LocalStep::Window { window, .. }) => window.frees.push(id),
                _ => self.window.frees.push(id),
            }
        }
        self.cut();
    }

    /// Sends values and waits for others, in one go: no part of the window runs between them.
    pub(super) fn exchange(
        &mut self,
        sends: &[(Val, TensorId, u32)],
        receives: &[(TensorId, TensorType, u32)],
    ) -> Vec<Val> {
        if !sends.is_empty() {
            self.cut();
        }
        for &(val, name, to) in sends {
            let id = self.values[val.0 as usize].0;
            self.steps.push(LocalStep::Send { id, name, to });
        }
        if receives.is_empty() {
            return Vec::new();
        }
        self.cut();
        let received = receives.iter().map(|&(name, ty, from)| {
            let id = TensorId::new(LANE, self.next);
            self.next += 1;
            self.steps.push(LocalStep::Receive { id, name, ty, from });
            self.passing.push(id);
            self.put(id, ty)
        });
        received.collect()
    }
}

/// Fails unless a placement can be that of a tensor of this type.
pub(super) fn fits(placement: &Placement, ty: &TensorType) -> Result<(), OpError> {
    let cuts = |split: &Split| match split {
        Split::Shard { axis, .. } => (*axis as usize) < ty.shape.rank(),
        _ => true,
    };
    match placement.splits.iter().all(cuts) {
        true => Ok(()),
        false => Err(OpError::malformed(format!("{ty} has no such axis to be cut along"))),
    }
}

impl Emit for Draft<'_> {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: SmallVec<[TensorType; 4]> = ins.iter().map(|&v| self.ty(v)).collect();
        let made = op.primitive().infer(&types)?;
        if op.primitive().scalars(&types) != scalars.len() {
            return Err(OpError::malformed(format!("{} with {} scalars", op.display_name(), scalars.len())));
        }
        let outs: Outs = (0..made.len() as u64).map(|i| TensorId::new(LANE, self.next + i)).collect();
        self.next += made.len() as u64;
        self.passing.extend_from_slice(&outs);
        self.window.instrs.push(Instr {
            op,
            outs: outs.clone(),
            ins: ins.iter().map(|&v| self.values[v.0 as usize].0).collect(),
            scalars: Scalars::from_slice(scalars),
            scope: ScopeId(0),
            site: self.site,
        });
        Ok(outs.iter().zip(made).map(|(&id, ty)| self.put(id, ty)).collect())
    }

    fn ty(&self, v: Val) -> TensorType {
        self.values[v.0 as usize].1
    }
}
