//! Pass 6: a concatenation is read where its operands lie.
//!
//! `x * cos + cat((-x2, x1), -1) * sin` would write `-x2`, then the concatenation, and read both again. Here a
//! concatenation that one fused step alone reads moves into that step, and after it the elementwise work that leads to
//! one of its operands alone, if fewer bytes move then. The step computes such work for a *part* of its positions.
//!
//! PARTS-1: a concatenation in a fused step has the step's extents and two operands at least, none of them empty; every
//! reader is in the step, which has no reductions and no more parts than its engine allows.
//! PARTS-2: what is computed for a part has the extents of the operand it leads to. It is read for that part only, in
//! this step only, and never materialised.

use gt_ir::{Instr, Op, Shape, TensorId, TensorType};
use smallvec::SmallVec;

use crate::draft::{Draft, Role, role};
use crate::fuse::{Grouping, group_space};
use crate::sink::Sinker;

/// The most parts that any engine may ask for: a tile program numbers them by a byte.
const MOST_PARTS: usize = 1 << u8::BITS;

/// The positions of a fused step that are one operand of a concatenation: of each `period` positions, in row-major order,
/// the `len` from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The operand's extents.
    pub shape: Shape,
    /// Positions after which the operands come round again.
    pub period: usize,
    /// Where the operand starts in a period.
    pub start: usize,
    /// How many positions of a period it has.
    pub len: usize,
}

impl Part {
    /// How many positions of the part lie before position `at` of the step.
    pub fn before(&self, at: usize) -> usize {
        let (periods, rest) = (at / self.period, at % self.period);
        periods * self.len + rest.saturating_sub(self.start).min(self.len)
    }
}

/// The parts of a fused step, and which instruction is computed for which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Those of one concatenation side by side, in the order of its operands.
    pub parts: Vec<Part>,
    /// For each instruction of the step, the part it is computed for; none: all positions. Empty in a step without parts.
    of: Vec<Option<usize>>,
    /// For each instruction of the step that is a concatenation, its first part.
    first: Vec<Option<usize>>,
}

impl Parts {
    /// The part that the step's instruction of this number is computed for.
    pub fn of(&self, nth: usize) -> Option<usize> {
        self.of.get(nth).copied().flatten()
    }

    /// The part for which the step's instruction of this number reads its operand of this number.
    pub fn read_for(&self, nth: usize, operand: usize) -> Option<usize> {
        match self.first.get(nth).copied().flatten() {
            Some(first) => Some(first + operand),
            None => self.of(nth),
        }
    }
}

/// The parts of the step with these of a plan's instructions, or what speaks against it (PARTS-1, PARTS-2).
pub fn parts_of(all: &[Instr], types: &[TensorType], step: &[u32]) -> Result<Parts, String> {
    let instr = |nth: usize| &all[step[nth] as usize];
    let shape = |id: &TensorId| types[id.0 as usize].shape;
    if !(0..step.len()).any(|nth| matches!(instr(nth).op, Op::Concat(_))) {
        return Ok(Parts::default());
    }
    let mut found = Parts { parts: Vec::new(), of: vec![None; step.len()], first: vec![None; step.len()] };
    // Readers come after what they read, so backwards the part of a value is known before the value is met.
    let mut wanted: SmallVec<[(TensorId, Option<usize>); 8]> = SmallVec::new();
    for nth in (0..step.len()).rev() {
        let at = instr(nth);
        let mut reads = wanted.iter().filter(|(id, _)| at.outs.contains(id)).map(|(_, part)| *part);
        let part = reads.next().flatten();
        if reads.any(|other| other != part) {
            return Err(format!("PARTS-2: {at} is read for several parts"));
        }
        found.of[nth] = part;
        if let Op::Concat(concat) = &at.op {
            let out = shape(&at.outs[0]);
            if part.is_some() || at.ins.len() < 2 || at.ins.iter().any(|id| shape(id).numel() == 0) {
                return Err(format!("PARTS-1: {at} has empty operands, or one"));
            }
            let axis = concat.axis as usize;
            let inner: usize = out[axis + 1..].iter().product();
            found.first[nth] = Some(found.parts.len());
            let mut start = 0;
            for id in &at.ins {
                let len = shape(id)[axis] * inner;
                found.parts.push(Part { shape: shape(id), period: out[axis] * inner, start, len });
                start += len;
            }
        } else if part.is_some_and(|part| found.parts[part].shape != shape(&at.outs[0])) {
            return Err(format!("PARTS-2: {at} has not the extents of its part"));
        }
        wanted.extend(at.ins.iter().enumerate().map(|(k, id)| (*id, found.read_for(nth, k))));
    }
    if found.parts.len() > MOST_PARTS || step.iter().any(|&i| role(&all[i as usize].op) == Role::Reduction) {
        return Err("PARTS-1: too many parts, or a reduction beside them".to_string());
    }
    Ok(found)
}

/// Moves concatenations, and what leads to them, into the steps that read them.
pub(crate) fn parts(draft: &Draft, grouping: Grouping) -> Grouping {
    let is_concat = |at: &usize| draft.kept[*at] && matches!(draft.instrs[*at].op, Op::Concat(_));
    let concats: SmallVec<[usize; 8]> = (0..draft.instrs.len()).filter(is_concat).collect();
    if concats.is_empty() {
        return grouping;
    }
    let mut sinker = Sinker::new(draft, grouping.groups);
    // From the last on: what leads to a concatenation may itself read one, which then stays where it is.
    for &at in concats.iter().rev() {
        let Some(target) = target(&sinker, at as u32) else { continue };
        let group = sinker.group_of[at];
        sinker.shift(&[at as u32], group, target);
        for &id in &draft.instrs[at].ins {
            if let Some((definer, group)) = leads_to(&sinker, at as u32, id, target) {
                let cone = sinker.cone(definer, group as usize);
                let room = sinker.groups[target as usize].instrs.len() + cone.len() <= draft.limits.max_step_instrs;
                if room && sinker.pays(definer, &cone, group, target) {
                    sinker.shift(&cone, group, target);
                }
            }
        }
    }
    sinker.finish()
}

/// The fused step that alone reads a concatenation and can hold it (PARTS-1).
fn target(sinker: &Sinker<'_>, at: u32) -> Option<u32> {
    let draft = sinker.draft;
    let instr = &draft.instrs[at as usize];
    let out = instr.outs[0];
    let target = sinker.only_reader(out)?;
    let group = &sinker.groups[target as usize];
    let members = || group.instrs.iter().map(|&i| &draft.instrs[i as usize]);
    let parts: usize = members().filter(|i| matches!(i.op, Op::Concat(_))).map(|i| i.ins.len()).sum();
    let holds = group.fused
        && group_space(draft, &group.instrs) == draft.ty(out).shape
        && members().all(|i| role(&i.op) != Role::Reduction)
        && group.instrs.len() < draft.limits.max_step_instrs
        && parts + instr.ins.len() <= draft.limits.max_parts.min(MOST_PARTS)
        && instr.ins.len() > 1
        && instr.ins.iter().all(|id| draft.ty(*id).numel() > 0);
    holds.then_some(target)
}

/// The instruction that defines an operand which nothing but this concatenation reads, once, and its fused step.
fn leads_to(sinker: &Sinker<'_>, concat: u32, id: TensorId, target: u32) -> Option<(u32, u32)> {
    let draft = sinker.draft;
    let definer = sinker.definer(id)?;
    let group = sinker.group_of[definer as usize];
    let alone = sinker.readers(id) == [concat] && !draft.outlives[id.0 as usize] && group != target;
    let elementwise = role(&draft.instrs[definer as usize].op) == Role::Elementwise;
    (alone && elementwise && sinker.groups[group as usize].fused).then_some((definer, group))
}
