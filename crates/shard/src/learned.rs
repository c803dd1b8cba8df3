//! What placing a window has done, so that it can be done again under other names.

use std::sync::Arc;

use gt_ir::{IdMap, OpError, Scalar, Scalars, ScopeId, TensorId, Window};
use smallvec::SmallVec;

use super::placer::{Known, PlacedCopy};
use super::repeat::{Repeated, UploadStep};
use super::repeat_key::bits;
use super::template::{DEFINED, INPUT, PLACED, PlacedBindings, PlacedTemplate, rename};
use super::{Layout, PlacedStep, PlacedWindow, Placer, Traffic};

/// The instructions' scalars, and the steps that have them.
struct Numbers {
    first: usize,
    count: usize,
    steps: SmallVec<[u32; 1]>,
}

/// A template, and what the window does to the placer.
pub(super) struct Learned {
    pub(super) template: Arc<PlacedTemplate>,
    /// What stands behind the template's inputs: which copy of which of the window's inputs.
    inputs: Vec<(usize, usize)>,
    scalars: Vec<Scalar>,
    numbers: Vec<Numbers>,
    /// Copies that are made of inputs.
    copies: Vec<(usize, PlacedCopy)>,
    /// Inputs that die.
    gone: Vec<usize>,
    /// Values that outlive the window, by their place in it.
    made: Vec<(u64, Known)>,
    /// Names that it takes.
    fresh: u64,
    traffic: Traffic,
    pub(super) workers: Arc<[u32]>,
    pub(super) uploads: Arc<[UploadStep]>,
}

impl Placer {
    /// Places a window and learns what that does; nothing is learned where a name in it stands for nothing known.
    #[allow(clippy::type_complexity)]
    pub(super) fn learn(
        &mut self,
        window: &Window,
        layouts: &dyn Fn(ScopeId) -> Option<Layout>,
        inputs: Vec<TensorId>,
        scalars: Vec<Scalar>,
    ) -> Result<(PlacedWindow, Option<(Learned, PlacedBindings)>), OpError> {
        let (base, counted) = (self.next, self.traffic.clone());
        let before: Vec<SmallVec<[TensorId; 2]>> = inputs
            .iter()
            .map(|id| self.values.get(id).map_or_else(SmallVec::new, |k| k.copies.iter().map(|c| c.id).collect()))
            .collect();
        let placed = self.window(window, layouts)?;
        let first = window.instrs.first().and_then(|i| i.outs.first()).copied().unwrap_or_default();
        let defined: u64 = window.instrs.iter().map(|i| i.outs.len() as u64).sum();
        let mut places: IdMap<(usize, usize)> = IdMap::default();
        for (input, copies) in before.iter().enumerate() {
            places.extend(copies.iter().enumerate().map(|(copy, &id)| (id, (input, copy))));
        }
        let mut named: IdMap<u64> = IdMap::default();
        let mut bound: Vec<(TensorId, (usize, usize))> = Vec::new();
        let mut name = |id: TensorId| {
            if id.lane() == PLACED && id.n() >= base {
                return Ok(TensorId::new(PLACED, id.n() - base));
            }
            if id.0.wrapping_sub(first.0) < defined {
                return Ok(TensorId::new(DEFINED, id.0 - first.0));
            }
            let place = places.get(&id).ok_or_else(|| OpError::malformed(format!("{id} is not an input")))?;
            let next = bound.len() as u64;
            let n = *named.entry(id).or_insert_with(|| {
                bound.push((id, *place));
                next
            });
            Ok(TensorId::new(INPUT, n))
        };
        let mut plain = PlacedWindow { uploads: Vec::new(), ..placed.clone() };
        if rename(&mut plain, &mut name).is_err() {
            return Ok((placed, None));
        }
        let (mut copies, mut gone) = (Vec::new(), Vec::new());
        for (input, id) in inputs.iter().enumerate() {
            match self.values.get(id) {
                None => gone.push(input),
                Some(known) => {
                    for copy in known.copies.iter().skip(before[input].len()) {
                        copies.push((input, PlacedCopy { id: name(copy.id)?, placement: copy.placement.clone() }));
                    }
                }
            }
        }
        let mut made = Vec::new();
        for k in 0..defined {
            if let Some(known) = self.values.get(&TensorId(first.0 + k)) {
                let mut known = known.clone();
                for copy in &mut known.copies {
                    copy.id = name(copy.id)?;
                }
                made.push((k, known));
            }
        }
        let bindings = PlacedBindings {
            first,
            fresh: TensorId::new(PLACED, base),
            inputs: bound.iter().map(|(id, _)| *id).collect(),
            ..PlacedBindings::default()
        };
        let learned = Learned {
            numbers: numbers(window, &plain),
            uploads: uploads(window, &plain),
            workers: placed.workers().into(),
            inputs: bound.into_iter().map(|(_, place)| place).collect(),
            template: Arc::new(PlacedTemplate { window: plain }),
            scalars,
            copies,
            gone,
            made,
            fresh: self.next - base,
            traffic: self.traffic.since(&counted),
        };
        Ok((placed, Some((learned, bindings))))
    }

    /// What [`Placer::learn`] learned, once more.
    pub(super) fn replay(
        &mut self,
        learned: &Learned,
        number: u64,
        window: &gt_stream::Bindings,
        before: Option<PlacedWindow>,
    ) -> Repeated {
        let input = |&(input, copy): &(usize, usize)| self.values[&window.inputs[input]].copies[copy].id;
        let mut bindings = PlacedBindings {
            first: window.first,
            fresh: TensorId::new(PLACED, self.next),
            inputs: learned.inputs.iter().map(input).collect(),
            ..PlacedBindings::default()
        };
        let mut changed: Vec<(u32, Scalars)> = Vec::new();
        for Numbers { first, count, steps } in &learned.numbers {
            let range = *first..first + count;
            let (old, new) = (&learned.scalars[range.clone()], &window.scalars[range]);
            if old.iter().map(bits).ne(new.iter().map(bits)) {
                changed.extend(steps.iter().map(|&step| (step, Scalars::from_slice(new))));
            }
        }
        changed.sort_unstable_by_key(|(step, _)| *step);
        bindings.scalars = changed;
        // Every name in it was learned from this template, and the inputs are as many as there were.
        let name = |id: TensorId| bindings.name(id).unwrap_or(id);
        for (input, copy) in &learned.copies {
            let copy = PlacedCopy { id: name(copy.id), placement: copy.placement.clone() };
            if let Some(known) = self.values.get_mut(&window.inputs[*input]) {
                known.copies.push(copy);
            }
        }
        for &input in &learned.gone {
            self.values.remove(&window.inputs[input]);
        }
        for (k, known) in &learned.made {
            let mut known = known.clone();
            known.copies.iter_mut().for_each(|copy| copy.id = name(copy.id));
            self.values.insert(TensorId(window.first.0 + k), known);
        }
        self.next += learned.fresh;
        self.traffic.add(&learned.traffic);
        Repeated {
            before,
            number,
            template: None,
            bindings,
            workers: learned.workers.clone(),
            steps: learned.template.steps(),
            uploads: learned.uploads.clone(),
        }
    }
}

/// Which steps of a template have the scalars of which instructions.
fn numbers(window: &Window, template: &PlacedWindow) -> Vec<Numbers> {
    let mut by_value: IdMap<usize> = IdMap::default();
    let (mut numbers, mut first, mut value) = (Vec::new(), 0, 0u64);
    for instr in &window.instrs {
        let count = instr.scalars.len();
        if count > 0 {
            let outs = value..value + instr.outs.len() as u64;
            by_value.extend(outs.map(|n| (TensorId::new(DEFINED, n), numbers.len())));
            numbers.push(Numbers { first, count, steps: SmallVec::new() });
        }
        first += count;
        value += instr.outs.len() as u64;
    }
    for (at, step) in (0u32..).zip(&template.steps) {
        let PlacedStep::Run { instr, .. } = step else { continue };
        let of = instr.outs.first().and_then(|id| by_value.get(id));
        // What a composite was spelled out into has numbers of its own (PLACED-REPEAT-4).
        if let Some(numbers) = of.map(|&n| &mut numbers[n]).filter(|n| n.count == instr.scalars.len()) {
            numbers.steps.push(at);
        }
    }
    numbers
}

fn uploads(window: &Window, template: &PlacedWindow) -> Arc<[UploadStep]> {
    let mut places: IdMap<u32> = IdMap::default();
    let mut value = 0u64;
    for (at, instr) in (0u32..).zip(&window.instrs) {
        places.insert(TensorId::new(DEFINED, value), at);
        value += instr.outs.len() as u64;
    }
    let shares = template.upload_shares().into_iter();
    shares
        .filter_map(|share| Some(UploadStep { instr: *places.get(&share.id)?, defined: share.id.n(), share }))
        .collect()
}
