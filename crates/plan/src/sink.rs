//! Pass 5: moves elementwise work down to the one step that reads it, where that saves memory traffic.
//!
//! Grouping puts an instruction beside its producers as early as it can, so `silu(a @ b) * (c @ d)` would write the
//! `silu` to memory before the second product and read it again after. Here a result that only one later step
//! reads moves into that step, together with everything that leads to it alone, if fewer bytes move then.
//!
//! SINK-1: a value moves only into a step of the same extents that holds all its readers, so FUSE-1 to FUSE-3 hold.

use gt_ir::TensorId;

use crate::draft::{Draft, Role, role};
use crate::fuse::{Group, Grouping, space};

/// Sinks what is worth it.
pub(crate) fn sink(draft: &Draft, grouping: Grouping) -> Grouping {
    let mut sinker = Sinker::new(draft, grouping.groups);
    // From the last step on: what sinks into a step finds it as it will be.
    for group in (0..sinker.groups.len()).rev() {
        if sinker.groups[group].fused {
            sinker.visit(group);
        }
    }
    sinker.finish()
}

const NOWHERE: u32 = u32::MAX;

/// A grouping whose instructions move from one step to a later one.
pub(crate) struct Sinker<'a> {
    pub(crate) draft: &'a Draft,
    pub(crate) groups: Vec<Group>,
    /// For each instruction, its group.
    pub(crate) group_of: Vec<u32>,
    /// For each slot, the instruction that defines it.
    definer: Vec<u32>,
    /// For each slot, where its readers start in `readers`.
    starts: Vec<u32>,
    readers: Vec<u32>,
}

impl<'a> Sinker<'a> {
    pub(crate) fn new(draft: &'a Draft, groups: Vec<Group>) -> Self {
        let slots = draft.types.len();
        let mut group_of = vec![NOWHERE; draft.instrs.len()];
        for (g, group) in groups.iter().enumerate() {
            group.instrs.iter().for_each(|&i| group_of[i as usize] = g as u32);
        }
        let mut definer = vec![NOWHERE; slots];
        let mut starts = vec![0u32; slots + 1];
        for (at, instr) in draft.instrs.iter().enumerate() {
            instr.outs.iter().for_each(|id| definer[id.0 as usize] = at as u32);
            if draft.kept[at] {
                instr.ins.iter().for_each(|id| starts[id.0 as usize + 1] += 1);
            }
        }
        for s in 0..slots {
            starts[s + 1] += starts[s];
        }
        let mut next = starts.clone();
        let mut readers = vec![0; starts[slots] as usize];
        for (at, instr) in draft.instrs.iter().enumerate().filter(|(at, _)| draft.kept[*at]) {
            for id in &instr.ins {
                readers[next[id.0 as usize] as usize] = at as u32;
                next[id.0 as usize] += 1;
            }
        }
        Sinker { draft, groups, group_of, definer, starts, readers }
    }

    /// What is left of the steps.
    pub(crate) fn finish(self) -> Grouping {
        Grouping { groups: self.groups.into_iter().filter(|g| !g.instrs.is_empty()).collect() }
    }

    pub(crate) fn definer(&self, id: TensorId) -> Option<u32> {
        Some(self.definer[id.0 as usize]).filter(|&at| at != NOWHERE)
    }

    pub(crate) fn readers(&self, id: TensorId) -> &[u32] {
        let s = id.0 as usize;
        &self.readers[self.starts[s] as usize..self.starts[s + 1] as usize]
    }

    fn bytes(&self, id: TensorId) -> u64 {
        self.draft.ty(id).bytes() as u64
    }

    /// Whether the group has an instruction outside `but` that reads the slot.
    fn reads(&self, group: u32, id: TensorId, but: &[u32]) -> bool {
        self.readers(id).iter().any(|&r| self.group_of[r as usize] == group && !but.contains(&r))
    }

    fn visit(&mut self, group: usize) {
        let members = self.groups[group].instrs.clone();
        for &i in members.iter().rev() {
            if self.group_of[i as usize] != group as u32 {
                continue;
            }
            let Some(target) = self.target(i, group as u32) else { continue };
            let cone = self.cone(i, group);
            let room = self.groups[target as usize].instrs.len() + cone.len() <= self.draft.limits.max_step_instrs;
            if room && self.pays(i, &cone, group as u32, target) {
                self.shift(&cone, group as u32, target);
            }
        }
    }

    /// Moves instructions from one step to another.
    pub(crate) fn shift(&mut self, moved: &[u32], from: u32, to: u32) {
        moved.iter().for_each(|&i| self.group_of[i as usize] = to);
        self.groups[from as usize].instrs.retain(|i| !moved.contains(i));
        let instrs = &mut self.groups[to as usize].instrs;
        instrs.extend(moved);
        instrs.sort_unstable();
    }

    /// The one step that holds all readers of a slot that nobody can name after the window.
    pub(crate) fn only_reader(&self, id: TensorId) -> Option<u32> {
        let (&first, rest) = self.readers(id).split_first()?;
        let group = self.group_of[first as usize];
        let alone = rest.iter().all(|&r| self.group_of[r as usize] == group);
        (alone && !self.draft.outlives[id.0 as usize]).then_some(group)
    }

    /// The one later step of the same extents that holds all readers of an instruction's result.
    fn target(&self, i: u32, group: u32) -> Option<u32> {
        let instr = &self.draft.instrs[i as usize];
        let out = instr.outs[0];
        if role(&instr.op) != Role::Elementwise {
            return None;
        }
        let target = self.only_reader(out)?;
        if target == group || !self.groups[target as usize].fused {
            return None;
        }
        let reader = &self.draft.instrs[self.groups[target as usize].instrs[0] as usize];
        (space(self.draft, reader) == self.draft.ty(out).shape).then_some(target)
    }

    /// The instruction with all of its step that leads to it alone, the last first.
    pub(crate) fn cone(&self, i: u32, group: usize) -> Vec<u32> {
        let mut cone = vec![i];
        for &j in self.groups[group].instrs.iter().rev().filter(|&&j| j < i) {
            let instr = &self.draft.instrs[j as usize];
            let out = instr.outs[0];
            let readers = self.readers(out);
            let leads = !readers.is_empty() && readers.iter().all(|r| cone.contains(r));
            // Row values stay with the reduction they come from (FUSE-4).
            let same = self.draft.ty(out).shape == self.draft.ty(self.draft.instrs[i as usize].outs[0]).shape;
            if leads && same && role(&instr.op) == Role::Elementwise && !self.draft.outlives[out.0 as usize] {
                cone.push(j);
            }
        }
        cone
    }

    /// Whether fewer bytes move when the cone is in `target`.
    pub(crate) fn pays(&self, i: u32, cone: &[u32], group: u32, target: u32) -> bool {
        let draft = self.draft;
        // The result is neither written nor read again.
        let mut saved: u64 = 2 * self.bytes(draft.instrs[i as usize].outs[0]);
        let mut cost = 0u64;
        let mut materialised = 0;
        let mut seen: Vec<TensorId> = Vec::new();
        for &id in cone.iter().flat_map(|&c| &draft.instrs[c as usize].ins) {
            let definer = self.definer[id.0 as usize];
            if cone.contains(&definer) || seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let inside = definer != NOWHERE && self.group_of[definer as usize] == group;
            if inside {
                let outside = |&r: &u32| self.group_of[r as usize] != group;
                if !draft.outlives[id.0 as usize] && !self.readers(id).iter().any(outside) {
                    // It stayed inside the step; now it must be written.
                    cost = cost.saturating_add(self.bytes(id));
                    materialised += 1;
                }
            } else if !self.reads(group, id, cone) {
                saved = saved.saturating_add(self.bytes(id));
            }
            if !self.reads(target, id, &[]) {
                cost = cost.saturating_add(self.bytes(id));
            }
        }
        // One result goes, so one may come without the step growing past its limit.
        saved > cost && materialised <= 1
    }
}
