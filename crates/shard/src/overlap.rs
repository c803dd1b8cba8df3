//! Sums begin as soon as their addends are there, and end where they are needed: gradients travel while the rest of the
//! backward pass is computed.
//!
//! OVERLAP-1: values, and the order of each reduction, are as without it; only when messages leave changes.

use std::collections::HashMap;

use gt_ir::{IdMap, Op, SiteId, TensorId, moved_bytes};

use super::convert::{Tags, all_reduced, reduce_scattered};
use super::{Conversion, Phase, PlacedStep, PlacedWindow, Placement};

/// Bytes that travel together, at least: messages cost something too.
const BUCKET_BYTES: usize = 1 << 20;

/// Takes large sums of a window apart. `fresh` gives as many names as it is asked for.
pub(super) fn overlap(window: &mut PlacedWindow, fresh: &mut dyn FnMut(u64) -> TensorId) {
    if !window.steps.iter().any(|step| is_splittable(window, step)) {
        return;
    }
    let made = makers(&window.steps);
    // What comes before all steps, and behind each.
    let mut before: Vec<PlacedStep> = Vec::new();
    let mut behind: Vec<Vec<PlacedStep>> = vec![Vec::new(); window.steps.len()];
    let mut instead: HashMap<usize, Vec<PlacedStep>> = HashMap::new();
    for (at, step) in window.steps.iter().enumerate().filter(|(_, step)| is_splittable(window, step)) {
        let PlacedStep::Convert { values, site, .. } = step else { continue };
        let buckets = buckets(values, &made);
        if buckets.len() < 2 {
            continue;
        }
        let (from, to) = travel(window, values);
        let is_given_to_all = all_reduced(from, to).is_some();
        let lots: Vec<Lot> = buckets
            .into_iter()
            .map(|(ready, values)| {
                let first = fresh(Tags::count(from, to, values.len()));
                Lot { ready, values, first, site: *site }
            })
            .collect();
        for (k, lot) in lots.iter().enumerate() {
            let place = lot.ready.map_or(&mut before, |at| &mut behind[at]);
            place.push(lot.part(Phase::Begin));
            if is_given_to_all && k > 0 {
                place.push(lots[k - 1].part(Phase::Middle));
            }
        }
        // What is there already ends first, and its step is taken, while the last addends travel.
        let is_small = |step: &PlacedStep| matches!(step, PlacedStep::Convert { .. }) && !is_splittable(window, step);
        let next = (at + 1..window.steps.len()).find(|&next| !is_small(&window.steps[next]));
        let mut steps = next.map_or_else(Vec::new, |next| updates(&window.steps[next], &lots));
        let update = next.filter(|_| !steps.is_empty());
        steps.resize(lots.len(), None);
        // What each worker has made for itself leaves as soon as it is there.
        let given = update.map_or_else(Vec::new, |update| given_back(window, update + 1, &steps, fresh));
        let last = lots.len() - 1;
        let mut ends = Vec::new();
        for (k, (step, lot)) in steps.into_iter().zip(&lots).enumerate() {
            if is_given_to_all && k == last / 2 {
                ends.push(lots[last].part(Phase::Middle));
            }
            ends.push(lot.part(Phase::End));
            ends.extend(step);
            ends.extend(given.iter().filter(|lot| lot.ready == Some(k)).map(|lot| lot.part(Phase::Begin)));
        }
        ends.extend(given.iter().map(|lot| lot.part(Phase::End)));
        instead.insert(at, Vec::new());
        instead.insert(update.unwrap_or(at), ends);
        if let (Some(update), false) = (update, given.is_empty()) {
            instead.insert(update + 1, Vec::new());
        }
    }
    let mut moved = HashMap::new();
    let mut steps = before;
    for (at, (step, behind)) in window.steps.drain(..).zip(behind).enumerate() {
        moved.insert(at as u32, steps.len() as u32);
        match instead.remove(&at) {
            Some(ends) => steps.extend(ends),
            None => steps.push(step),
        }
        steps.extend(behind);
    }
    window.steps = steps;
    for upload in &mut window.uploads {
        upload.instr = moved.get(&upload.instr).copied().unwrap_or(upload.instr);
    }
}

/// Conversions that travel together.
struct Lot {
    /// After which step they can begin.
    ready: Option<usize>,
    values: Vec<Conversion>,
    first: TensorId,
    site: SiteId,
}

impl Lot {
    fn part(&self, phase: Phase) -> PlacedStep {
        PlacedStep::Reduce { phase, values: self.values.clone(), first: self.first, site: self.site }
    }
}

fn travel<'a>(window: &'a PlacedWindow, values: &[Conversion]) -> (&'a Placement, &'a Placement) {
    (&window.placements[values[0].lies as usize], &window.placements[values[0].wanted as usize])
}

/// Whether a step is a large sum, for all or in parts.
fn is_splittable(window: &PlacedWindow, step: &PlacedStep) -> bool {
    let PlacedStep::Convert { values, .. } = step else { return false };
    if moved_bytes(values.iter().map(|v| &v.ty)) < 2 * BUCKET_BYTES as u64 {
        return false;
    }
    let (from, to) = travel(window, values);
    let is_sum = all_reduced(from, to).is_some() || reduce_scattered(from, to);
    is_sum && from.mesh.count() > 1
}

/// What the parts of an update have made in parts and everybody gets, by the part after which it can leave; nothing if that is
/// not what the step is.
fn given_back(
    window: &PlacedWindow,
    at: usize,
    updates: &[Option<PlacedStep>],
    fresh: &mut dyn FnMut(u64) -> TensorId,
) -> Vec<Lot> {
    let Some(PlacedStep::Convert { values, site, .. }) = window.steps.get(at) else { return Vec::new() };
    let (from, to) = travel(window, values);
    let mut lots = Vec::new();
    for (k, update) in updates.iter().enumerate() {
        let Some(PlacedStep::Run { instr, .. }) = update else { continue };
        let own: Vec<Conversion> = values.iter().filter(|v| instr.outs.contains(&v.from)).cloned().collect();
        if !own.is_empty() {
            let first = fresh(Tags::count(from, to, own.len()));
            lots.push(Lot { ready: Some(k), values: own, first, site: *site });
        }
    }
    let is_all = lots.iter().map(|lot| lot.values.len()).sum::<usize>() == values.len();
    if is_all && !to.is_partial() { lots } else { Vec::new() }
}

/// A step of an optimizer in as many parts as there are lots of gradients; nothing if that is not what it is. What it makes
/// is written by another instruction, all at once, so nobody sees the parts.
fn updates(step: &PlacedStep, lots: &[Lot]) -> Vec<Option<PlacedStep>> {
    let PlacedStep::Run { instr, ins, outs } = step else { return Vec::new() };
    let Op::Update(op) = &instr.op else { return Vec::new() };
    let Some(tensors) = op.tensors(instr.ins.len()) else { return Vec::new() };
    let lot_of = |tensor: usize| {
        let gradient = instr.ins[tensors + tensor];
        lots.iter().position(|lot| lot.values.iter().any(|v| v.to == gradient)).unwrap_or(0)
    };
    let lots_of: Vec<usize> = (0..tensors).map(lot_of).collect();
    let part = |lot: usize| {
        let is_in = |place: usize| lots_of[place % tensors] == lot;
        if !(0..tensors).any(is_in) {
            return None;
        }
        let mut part = instr.clone();
        part.ins = instr.ins.iter().enumerate().filter(|(k, _)| is_in(*k)).map(|(_, &id)| id).collect();
        part.outs = instr.outs.iter().enumerate().filter(|(k, _)| is_in(*k)).map(|(_, &id)| id).collect();
        let ins = ins.iter().enumerate().filter(|(k, _)| is_in(*k)).map(|(_, &placed)| placed).collect();
        let outs = outs.iter().enumerate().filter(|(k, _)| is_in(*k)).map(|(_, &index)| index).collect();
        Some(PlacedStep::Run { instr: part, ins, outs })
    };
    (0..lots.len()).map(part).collect()
}

/// Which step makes each value.
fn makers(steps: &[PlacedStep]) -> IdMap<usize> {
    let mut made = IdMap::default();
    for (at, step) in steps.iter().enumerate() {
        match step {
            PlacedStep::Run { instr, .. } => made.extend(instr.outs.iter().map(|&id| (id, at))),
            PlacedStep::Convert { values, .. } | PlacedStep::Reduce { values, .. } => {
                made.extend(values.iter().map(|v| (v.to, at)));
            }
        }
    }
    made
}

/// Values in the order they are made, in lots that are worth a message: with the step after which each is there.
fn buckets(values: &[Conversion], made: &IdMap<usize>) -> Vec<(Option<usize>, Vec<Conversion>)> {
    let mut order: Vec<(Option<usize>, &Conversion)> = values.iter().map(|v| (made.get(&v.from).copied(), v)).collect();
    order.sort_by_key(|(at, _)| *at);
    let mut buckets: Vec<(Option<usize>, Vec<Conversion>)> = Vec::new();
    let mut bytes = BUCKET_BYTES;
    for (at, value) in order {
        if bytes >= BUCKET_BYTES {
            buckets.push((at, Vec::new()));
            bytes = 0;
        }
        if let Some((ready, bucket)) = buckets.last_mut() {
            *ready = at.max(*ready);
            bucket.push(value.clone());
        }
        bytes = bytes.saturating_add(value.ty.bytes());
    }
    buckets
}
