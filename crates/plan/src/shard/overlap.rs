//! Sums begin as soon as their addends are there, and end where they are needed: gradients travel while the rest of the
//! backward pass is computed.
//!
//! OVERLAP-1: values, and the order of each reduction, are as without it; only when messages leave changes.

use std::collections::HashMap;

use gt_ir::{IdMap, Op, TensorId};

use super::convert::{Tags, all_reduced};
use super::{Conversion, Phase, PlacedStep, PlacedWindow};

/// Bytes that travel together, at least: messages cost something too.
const BUCKET_BYTES: usize = 1 << 20;

/// Takes large sums of a window apart. `fresh` gives as many names as it is asked for.
pub(super) fn overlap(window: &mut PlacedWindow, fresh: &mut dyn FnMut(u64) -> TensorId) {
    let is_large = |values: &[Conversion]| values.iter().map(|v| v.ty.bytes()).sum::<usize>() >= 2 * BUCKET_BYTES;
    let splittable = |step: &PlacedStep| match step {
        PlacedStep::Convert { values, .. } if is_large(values) => {
            let (from, to) =
                (&window.placements[values[0].lies as usize], &window.placements[values[0].wanted as usize]);
            all_reduced(from, to).is_some() && from.mesh.count() > 1
        }
        _ => false,
    };
    if !window.steps.iter().any(splittable) {
        return;
    }
    let made = makers(&window.steps);
    // What comes before all steps, and behind each.
    let mut before: Vec<PlacedStep> = Vec::new();
    let mut behind: Vec<Vec<PlacedStep>> = vec![Vec::new(); window.steps.len()];
    let mut instead: HashMap<usize, Vec<PlacedStep>> = HashMap::new();
    for (at, step) in window.steps.iter().enumerate().filter(|(_, step)| splittable(step)) {
        let PlacedStep::Convert { values, site, .. } = step else { continue };
        let buckets = buckets(values, &made);
        if buckets.len() < 2 {
            continue;
        }
        let (from, to) = (&window.placements[values[0].lies as usize], &window.placements[values[0].wanted as usize]);
        let part = |phase, values: &[Conversion], first| PlacedStep::Reduce {
            phase,
            values: values.to_vec(),
            first,
            site: *site,
        };
        let firsts: Vec<TensorId> =
            buckets.iter().map(|(_, values)| fresh(Tags::count(from, to, values.len()))).collect();
        for (k, (ready, values)) in buckets.iter().enumerate() {
            let place = ready.map_or(&mut before, |at| &mut behind[at]);
            place.push(part(Phase::Begin, values, firsts[k]));
            if k > 0 {
                place.push(part(Phase::Middle, &buckets[k - 1].1, firsts[k - 1]));
            }
        }
        // What is there already ends first, and its step is taken, while the last addends travel.
        let mut steps = match window.steps.get(at + 1) {
            Some(next) => updates(next, &buckets),
            None => Vec::new(),
        };
        let is_split = !steps.is_empty();
        steps.resize(buckets.len(), None);
        let last = buckets.len() - 1;
        let mut ends = Vec::new();
        for (k, (step, ((_, values), &first))) in steps.into_iter().zip(buckets.iter().zip(&firsts)).enumerate() {
            if k == last / 2 {
                ends.push(part(Phase::Middle, &buckets[last].1, firsts[last]));
            }
            ends.push(part(Phase::End, values, first));
            ends.extend(step);
        }
        instead.insert(at, ends);
        if is_split {
            instead.insert(at + 1, Vec::new());
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

/// A step of an optimizer in as many parts as there are lots of gradients; nothing if that is not what it is. What it makes
/// is written by another instruction, all at once, so nobody sees the parts.
fn updates(step: &PlacedStep, buckets: &[(Option<usize>, Vec<Conversion>)]) -> Vec<Option<PlacedStep>> {
    let PlacedStep::Run { instr, ins, outs } = step else { return Vec::new() };
    let Op::Update(op) = &instr.op else { return Vec::new() };
    let Some(tensors) = op.tensors(instr.ins.len()) else { return Vec::new() };
    let bucket_of = |tensor: usize| {
        let gradient = instr.ins[tensors + tensor];
        buckets.iter().position(|(_, values)| values.iter().any(|v| v.to == gradient)).unwrap_or(0)
    };
    let buckets_of: Vec<usize> = (0..tensors).map(bucket_of).collect();
    let part = |bucket: usize| {
        let is_in = |place: usize| buckets_of[place % tensors] == bucket;
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
    (0..buckets.len()).map(part).collect()
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
        bytes += value.ty.bytes();
    }
    buckets
}
