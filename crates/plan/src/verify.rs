//! Holds a plan to its invariants. Runs on every plan of a debug build and in the property tests.

use gt_ir::{Op, Shape, TensorId, broadcast};

use crate::draft::{Role, role, slot};
use crate::liveness::replaces_once;
use crate::parts::parts_of;
use crate::{Plan, Slot, Step, StepKind, fuse};

/// Checks PLAN-1 to PLAN-4, FUSE-1 to FUSE-5, PARTS-1, PARTS-2 and PROGRAM-1 to PROGRAM-4; says what is broken.
pub fn verify(plan: &Plan) -> Result<(), String> {
    let mut defined_by = vec![None; plan.types.len()];
    let mut dropped_by = vec![None; plan.types.len()];
    let mut run_by = vec![None; plan.instrs.len()];
    let mut live = vec![false; plan.types.len()];
    plan.live_outs.iter().for_each(|&s| live[s as usize] = true);
    for (at, step) in plan.steps.iter().enumerate() {
        let say = |message: String| Err(format!("step {at}: {message}"));
        if step.instrs.is_empty() || step.outs.is_empty() {
            return say("is empty".into());
        }
        let mut reads: Vec<Slot> = Vec::new();
        for &i in &step.instrs {
            if run_by[i as usize].replace(at).is_some() {
                return say(format!("runs instruction {i} again"));
            }
            for id in &plan.instrs[i as usize].ins {
                let s = slot(*id);
                match defined_by[s as usize] {
                    Some(by) if by == at => {}
                    None if s as usize >= plan.inputs => return say(format!("PLAN-1: reads undefined %{s}")),
                    _ if reads.contains(&s) => {}
                    _ => reads.push(s),
                }
                if let Some(by) = dropped_by[s as usize] {
                    return say(format!("PLAN-4: reads %{s}, dropped by step {by}"));
                }
            }
            for id in &plan.instrs[i as usize].outs {
                if defined_by[id.0 as usize].replace(at).is_some() {
                    return say(format!("PLAN-1: defines {id} again"));
                }
            }
        }
        if reads != step.ins {
            return say(format!("PLAN-2: reads {reads:?} but lists {:?}", step.ins));
        }
        for &s in &step.drops {
            let exists = (s as usize) < plan.inputs || defined_by[s as usize].is_some();
            if !exists || dropped_by[s as usize].replace(at).is_some() || live[s as usize] {
                return say(format!("PLAN-4: may not drop %{s}"));
            }
        }
        if let Some(&s) = step.outs.iter().find(|&&s| defined_by[s as usize] != Some(at)) {
            return say(format!("lists %{s} as a result"));
        }
        let published: Vec<Slot> = step.outs.iter().copied().filter(|&s| live[s as usize]).collect();
        if published != step.publish {
            return say(format!("publishes {:?}, expected {published:?}", step.publish));
        }
        if let StepKind::Fused { program } = &step.kind {
            verify_fused(plan, step, &program.space).or_else(say)?;
            program.verify(plan, step).or_else(say)?;
        } else if step.instrs.len() != 1 {
            return say("is single but runs several instructions".into());
        }
    }
    for (s, by) in defined_by.iter().enumerate() {
        let outlives = live[s];
        if by.is_some() && outlives == dropped_by[s].is_some() {
            return Err(format!("PLAN-4: %{s} is neither dropped nor live, or both"));
        }
        if by.is_none() && outlives {
            return Err(format!("live %{s} is defined nowhere"));
        }
    }
    verify_takes(plan, &defined_by, &live)
}

fn verify_fused(plan: &Plan, step: &Step, space: &gt_ir::Shape) -> Result<(), String> {
    if step.instrs.len() > plan.limits.max_step_instrs || step.outs.len() > plan.limits.max_step_outs {
        return Err(format!("FUSE-3: {} instructions, {} results", step.instrs.len(), step.outs.len()));
    }
    let parts = parts_of(&plan.instrs, &plan.types, &step.instrs)?;
    if parts.parts.len() > plan.limits.max_parts {
        return Err(format!("PARTS-1: {} parts", parts.parts.len()));
    }
    let mut axes = None;
    // What reductions made, and what it can be read as.
    let mut folded: Vec<(TensorId, Option<Shape>)> = Vec::new();
    for (nth, &i) in step.instrs.iter().enumerate() {
        let instr = &plan.instrs[i as usize];
        let part = parts.of(nth);
        let shape = |id: &TensorId| plan.types[id.0 as usize].shape;
        let rows = folded.iter().find_map(|(_, rows)| *rows);
        let fits = match (role(&instr.op), &instr.op) {
            (Role::Reduction, Op::Reduce(reduce)) => {
                folded.push((instr.outs[0], fuse::rows_of(space, reduce.axes, reduce.keepdim, &plan.limits)));
                *axes.get_or_insert(reduce.axes) == reduce.axes && shape(&instr.ins[0]) == *space
            }
            (Role::Elementwise, _) => {
                let own = shape(&instr.outs[0]);
                own == *space || rows == Some(own) || part.is_some_and(|_| !step.outs.contains(&slot(instr.outs[0])))
            }
            (Role::Single, Op::Concat(_)) => shape(&instr.outs[0]) == *space,
            _ => false,
        };
        let broadcasts = instr.ins.iter().enumerate().all(|(k, id)| {
            let read_over = parts.read_for(nth, k).map_or(*space, |part| parts.parts[part].shape);
            broadcast(&shape(id), &read_over) == Some(read_over)
        });
        let unreadable = |id: &TensorId| folded.iter().any(|(out, rows)| out == id && rows.is_none());
        if !fits || !broadcasts || instr.ins.iter().any(unreadable) {
            return Err(format!("FUSE-2: {instr} does not belong"));
        }
    }
    Ok(())
}

/// PLAN-3.
fn verify_takes(plan: &Plan, defined_by: &[Option<usize>], live: &[bool]) -> Result<(), String> {
    let mut readers = vec![[None; 2]; plan.types.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        step.ins.iter().for_each(|&s| readers[s as usize] = [readers[s as usize][1], Some(at)]);
    }
    for (at, step) in plan.steps.iter().enumerate() {
        for &s in &step.takes {
            let allowed = match readers[s as usize] {
                [_, Some(last)] if last == at => step.drops.contains(&s),
                [Some(before), Some(last)] if before == at => {
                    let reader = &plan.steps[last];
                    let instr = &plan.instrs[reader.instrs[0] as usize];
                    matches!(instr.op, Op::Write(_))
                        && replaces_once(instr, s, |new| defined_by[new as usize] == Some(at))
                        && reader.drops.contains(&s)
                }
                _ => false,
            };
            if !allowed || live[s as usize] {
                return Err(format!("PLAN-3: step {at} may not take %{s}"));
            }
        }
    }
    Ok(())
}
