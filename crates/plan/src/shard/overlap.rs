//! Sums begin as soon as their addends are there, and end where they are needed: gradients travel while the rest of the
//! backward pass is computed.
//!
//! OVERLAP-1: values, and the order of each reduction, are as without it; only when messages leave changes.

use std::collections::HashMap;

use gt_ir::TensorId;

use super::convert::all_reduced;
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
        let names = {
            let (from, to) =
                (&window.placements[values[0].lies as usize], &window.placements[values[0].wanted as usize]);
            super::convert::Tags::count(from, to)
        };
        let part = |phase, values: &[Conversion], first| PlacedStep::Reduce {
            phase,
            values: values.to_vec(),
            first,
            site: *site,
        };
        let firsts: Vec<TensorId> = buckets.iter().map(|_| fresh(names)).collect();
        for (k, (ready, values)) in buckets.iter().enumerate() {
            let place = ready.map_or(&mut before, |at| &mut behind[at]);
            place.push(part(Phase::Begin, values, firsts[k]));
            if k > 0 {
                place.push(part(Phase::Middle, &buckets[k - 1].1, firsts[k - 1]));
            }
        }
        let last = buckets.len() - 1;
        let mut ends = vec![part(Phase::Middle, &buckets[last].1, firsts[last])];
        ends.extend(buckets.iter().zip(&firsts).map(|((_, values), &first)| part(Phase::End, values, first)));
        instead.insert(at, ends);
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

/// Which step makes each value.
fn makers(steps: &[PlacedStep]) -> HashMap<TensorId, usize> {
    let mut made = HashMap::new();
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
fn buckets(values: &[Conversion], made: &HashMap<TensorId, usize>) -> Vec<(Option<usize>, Vec<Conversion>)> {
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
