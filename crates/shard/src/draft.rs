//! A placed window on its way to what one worker does (LOWER-1 to LOWER-3).

use std::collections::{BTreeSet, HashMap};

use gt_ir::codec::MAX_WINDOW_INSTRS;
use gt_ir::ops::{Reshape, Upload};
use gt_ir::shard::{LocalCx, Part, Split};
use gt_ir::{
    Emit, IdMap, Instr, Op, OpError, Outs, Payload, Scalar, Scalars, ScopeId, SiteId, TensorId, TensorType, Val, Window,
};
use smallvec::SmallVec;

use super::all_reduce::{self, Flight};
use super::convert::convert;
use super::lower::LANE;
use super::{LocalStep, PlacedStep, PlacedWindow, Placement};

/// The most parts of values, of all workers, that lowering one window may look at: a fraction of a second of work. Without a limit, a
/// short message that names a thousand workers could keep its receiver busy for hours.
const MAX_PARTS: usize = 1 << 20;

/// What is being made of a window.
pub(super) struct Draft<'a> {
    placements: &'a [Placement],
    pub(super) worker: u32,
    names: &'a IdMap<TensorId>,
    pub(super) next: u64,
    /// The worker's own names of what the window makes.
    pub(super) made: IdMap<TensorId>,
    /// Behind each [`Val`].
    values: Vec<(TensorId, TensorType)>,
    pub(super) window: Window,
    waits: Vec<(u32, TensorId)>,
    /// What dies with the next cut, or with the window.
    passing: Passing,
    pub(super) steps: Vec<LocalStep<Window>>,
    /// Reductions between their rounds, by the first of their names.
    pub(super) flights: IdMap<Flight>,
    /// Other conversions of which the first half is done.
    pub(super) begun: BTreeSet<TensorId>,
    site: SiteId,
    /// The worker's ranks in placements, as far as they were asked for.
    ranks: HashMap<u32, Option<usize>>,
    /// Parts of values and emitted instructions so far; both are limited (LOWER-4).
    parts: usize,
    emitted: usize,
}

/// Values that die, in the order they were added. Finding and removing one takes constant time, however many a window makes.
#[derive(Default)]
struct Passing {
    order: Vec<Option<TensorId>>,
    places: IdMap<usize>,
}

impl Passing {
    fn push(&mut self, id: TensorId) {
        self.places.insert(id, self.order.len());
        self.order.push(Some(id));
    }

    /// Removes a value; whether it was there.
    fn remove(&mut self, id: TensorId) -> bool {
        let Some(place) = self.places.remove(&id) else { return false };
        self.order[place] = None;
        true
    }

    fn take(&mut self) -> impl Iterator<Item = TensorId> + use<> {
        self.places.clear();
        std::mem::take(&mut self.order).into_iter().flatten()
    }
}

impl<'a> Draft<'a> {
    /// For a window with these placements.
    pub(super) fn new(worker: u32, window: &'a PlacedWindow, names: &'a IdMap<TensorId>, next: u64) -> Draft<'a> {
        Draft {
            placements: &window.placements,
            worker,
            names,
            next,
            made: IdMap::default(),
            values: Vec::new(),
            window: Window { eager: window.eager, joined: window.joined, ..Window::default() },
            waits: Vec::new(),
            passing: Passing::default(),
            steps: Vec::new(),
            flights: IdMap::default(),
            begun: BTreeSet::new(),
            site: SiteId::default(),
            ranks: HashMap::new(),
            parts: 0,
            emitted: 0,
        }
    }

    /// Counts parts of values that are about to be looked at.
    pub(super) fn look_at_parts(&mut self, parts: usize) -> Result<(), OpError> {
        self.parts = self.parts.saturating_add(parts);
        match self.parts <= MAX_PARTS {
            true => Ok(()),
            false => Err(OpError::malformed("a window moves too many values between too many workers at once")),
        }
    }

    /// Counts instructions, sends and receives that are about to be added.
    fn add_emitted(&mut self, count: usize) -> Result<(), OpError> {
        self.emitted = self.emitted.saturating_add(count);
        match self.emitted <= MAX_WINDOW_INSTRS {
            true => Ok(()),
            false => Err(OpError::malformed(format!(
                "a window becomes more than {MAX_WINDOW_INSTRS} instructions on one worker"
            ))),
        }
    }

    /// The next step of the window.
    pub(super) fn step(&mut self, step: &PlacedStep, payload: Option<&Payload>) -> Result<(), OpError> {
        match step {
            PlacedStep::Run { instr, ins, outs } => self.run(instr, ins, outs, payload),
            PlacedStep::Convert { values, first, site } => {
                self.site = *site;
                convert(self, values, *first)
            }
            PlacedStep::Reduce { phase, values, first, site } => {
                self.site = *site;
                all_reduce::phase(self, values, *first, *phase)
            }
        }
    }

    /// Ends it: the placed names of what dies here.
    pub(super) fn finish(&mut self, window: &PlacedWindow) -> Result<Vec<TensorId>, OpError> {
        if !self.flights.is_empty() || !self.begun.is_empty() {
            return Err(OpError::malformed("a conversion has no end"));
        }
        let mut gone = Vec::new();
        for &(id, index) in &window.frees {
            if self.rank(index)?.is_some() {
                self.passing.push(self.local(id));
                gone.push(id);
            }
        }
        self.end();
        Ok(gone)
    }

    pub(super) fn placement(&self, index: u32) -> Result<&Placement, OpError> {
        self.placements.get(index as usize).ok_or_else(|| OpError::malformed(format!("there is no placement {index}")))
    }

    /// The worker's rank in a placement. Windows name few placements in many instructions.
    fn rank(&mut self, index: u32) -> Result<Option<usize>, OpError> {
        if let Some(&rank) = self.ranks.get(&index) {
            return Ok(rank);
        }
        let rank = self.placement(index)?.mesh.rank(self.worker);
        self.ranks.insert(index, rank);
        Ok(rank)
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
        let local = match self.passing.remove(local) {
            true => local,
            false => {
                let same = self.emit(Reshape { shape: ty.shape }.into(), &[val], &[])?;
                let copy = self.values[same[0].0 as usize].0;
                self.passing.remove(copy);
                copy
            }
        };
        match self.made.insert(id, local).is_none() && !self.names.contains_key(&id) {
            true => Ok(()),
            false => Err(OpError::malformed(format!("{id} is defined twice"))),
        }
    }

    fn run(
        &mut self,
        instr: &Instr,
        ins: &[(TensorType, u32)],
        outs: &[u32],
        payload: Option<&Payload>,
    ) -> Result<(), OpError> {
        if let Op::Upload(upload) = &instr.op {
            return match self.parts(instr, ins, outs)? {
                Some((_, made)) => {
                    let shape = made.first().map_or(upload.shape, |part| part.region.size);
                    self.upload(instr.outs[0], Upload { shape, dtype: upload.dtype }, payload)
                }
                None => Ok(()),
            };
        }
        let made = self.compute(instr, ins, outs)?;
        instr.outs.iter().zip(made).try_for_each(|(&id, val)| self.give(id, val))
    }

    /// The worker's parts of what an instruction takes and makes; `None` if it has none.
    fn parts(
        &mut self,
        instr: &Instr,
        ins: &[(TensorType, u32)],
        outs: &[u32],
    ) -> Result<Option<(Parts, Parts)>, OpError> {
        let types: SmallVec<[TensorType; 4]> = ins.iter().map(|(ty, _)| *ty).collect();
        let made = instr.infer(&types)?;
        let Some(&first) = outs.first() else { return Err(OpError::malformed("an instruction defines nothing")) };
        let Some(rank) = self.rank(first)? else { return Ok(None) };
        let mesh = &self.placement(first)?.mesh;
        let part = |ty: &TensorType, index: u32| -> Result<Part, OpError> {
            let placement = self.placement(index)?;
            if placement.mesh != *mesh {
                return Err(OpError::malformed(format!("{} is spread over several meshes", instr.op.display_name())));
            }
            fits(placement, ty)?;
            Ok(Part { ty: *ty, region: placement.region(&ty.shape, rank) })
        };
        let in_parts = ins.iter().map(|(ty, index)| part(ty, *index)).collect::<Result<Parts, _>>()?;
        let out_parts = made.iter().zip(outs).map(|(ty, &index)| part(ty, index)).collect::<Result<Parts, _>>()?;
        Ok(Some((in_parts, out_parts)))
    }

    /// Emits what the worker does of an instruction: its parts of the results, none if it takes no part.
    pub(super) fn compute(
        &mut self,
        instr: &Instr,
        ins: &[(TensorType, u32)],
        outs: &[u32],
    ) -> Result<SmallVec<[Val; 2]>, OpError> {
        self.site = instr.site;
        let Some((in_parts, out_parts)) = self.parts(instr, ins, outs)? else { return Ok(SmallVec::new()) };
        let vals: SmallVec<[Val; 4]> =
            instr.ins.iter().zip(&in_parts).map(|(&id, part)| self.value(id, part.local())).collect();
        let cx = LocalCx { ins: &in_parts, outs: &out_parts, scalars: &instr.scalars };
        let made = instr.op.primitive().local(&cx, &vals, self)?;
        if made.len() != instr.outs.len() || made.len() != out_parts.len() {
            return Err(OpError::malformed(format!("{} makes {} values", instr.op.display_name(), made.len())));
        }
        for (&val, part) in made.iter().zip(&out_parts) {
            let ty = self.ty(val);
            if ty != part.local() {
                let name = instr.op.display_name();
                return Err(OpError::malformed(format!("{name} makes {ty} where its part is {}", part.local())));
            }
        }
        Ok(made)
    }

    fn upload(&mut self, id: TensorId, upload: Upload, payload: Option<&Payload>) -> Result<(), OpError> {
        let at = self.window.instrs.len() as u32;
        match payload {
            Some(payload) => self.window.uploads.push(Payload { instr: at, bytes: payload.bytes.clone() }),
            None => self.waits.push((at, id)),
        }
        let made = self.emit(upload.into(), &[], &[])?;
        self.give(id, made[0])
    }

    /// Ends the window being made: what follows may send what it makes.
    fn cut(&mut self) {
        if self.window.instrs.is_empty() && self.window.frees.is_empty() {
            return;
        }
        let fresh = Window { eager: self.window.eager, joined: self.window.joined, ..Window::default() };
        let window = std::mem::replace(&mut self.window, fresh);
        self.steps.push(LocalStep::Run { window, waits: std::mem::take(&mut self.waits) });
    }

    /// Ends the last window. What dies, dies in the window that uses it last: there it need not be kept at all.
    fn end(&mut self) {
        self.cut();
        let mut last: IdMap<usize> = IdMap::default();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                LocalStep::Run { window, .. } => {
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
            if matches!(step, LocalStep::Run { .. }) {
                next = at;
            }
            windows[at] = next;
        }
        for id in self.passing.take() {
            let at = last.get(&id).map_or(self.steps.len(), |&at| windows[at]);
            match self.steps.get_mut(at) {
                Some(LocalStep::Run { window, .. }) => window.frees.push(id),
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
    ) -> Result<Vec<Val>, OpError> {
        self.add_emitted(sends.len() + receives.len())?;
        if !sends.is_empty() {
            self.cut();
        }
        for &(val, name, to) in sends {
            let id = self.values[val.0 as usize].0;
            self.steps.push(LocalStep::Send { id, name, to });
        }
        if receives.is_empty() {
            return Ok(Vec::new());
        }
        self.cut();
        let received = receives.iter().map(|&(name, ty, from)| {
            let id = TensorId::new(LANE, self.next);
            self.next += 1;
            self.steps.push(LocalStep::Receive { id, name, ty, from });
            self.passing.push(id);
            self.put(id, ty)
        });
        Ok(received.collect())
    }
}

type Parts = SmallVec<[Part; 4]>;

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
        self.add_emitted(1)?;
        let outs: Outs = (0..made.len() as u64).map(|i| TensorId::new(LANE, self.next + i)).collect();
        self.next += made.len() as u64;
        outs.iter().for_each(|&id| self.passing.push(id));
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
