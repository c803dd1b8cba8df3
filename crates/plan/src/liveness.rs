//! Pass 8: what each step reads, makes, may overwrite, drops and publishes (PLAN-3, PLAN-4).
//!
//! LIVE-1: a single step makes all results of its instruction; a fused one makes those that something outside it sees and
//! those that nothing reads at all: what was recorded is computed, and no step is without results.
//! LIVE-2: values inside a fused step that are never materialised are dropped by it too. Slots of instructions
//! that a compiled plan leaves out exist nowhere and are named nowhere.
//!
//! Views share their source's buffer; that is the engine's to know, so last uses are counted by slot alone.

use gt_ir::{Instr, Op, TensorId};

use crate::draft::{Draft, slot};
use crate::fuse::{Group, Grouping};
use crate::{Slot, Step, StepKind};

const NEVER: u32 = u32::MAX;

/// When a slot is defined and read, in numbers of steps.
#[derive(Clone, Copy)]
struct Uses {
    defined: u32,
    last: u32,
    before_last: u32,
}

/// The steps of a plan; fused ones without their programs.
pub(crate) fn steps(draft: &Draft, grouping: &Grouping) -> Vec<Step> {
    let mut uses = vec![Uses { defined: NEVER, last: NEVER, before_last: NEVER }; draft.types.len()];
    for (step, group) in grouping.groups.iter().enumerate() {
        for &i in &group.instrs {
            draft.instrs[i as usize].outs.iter().for_each(|id| uses[id.0 as usize].defined = step as u32);
        }
    }
    let mut steps: Vec<Step> = Vec::with_capacity(grouping.groups.len());
    for (step, group) in grouping.groups.iter().enumerate() {
        let mut ins: Vec<Slot> = Vec::new();
        for &i in &group.instrs {
            for id in &draft.instrs[i as usize].ins {
                let used = &mut uses[id.0 as usize];
                if used.defined == step as u32 || used.last == step as u32 {
                    continue;
                }
                used.before_last = used.last;
                used.last = step as u32;
                ins.push(slot(*id));
            }
        }
        let (kind, instrs) = (StepKind::Single, group.instrs.clone());
        steps.push(Step { kind, instrs, ins, outs: vec![], takes: vec![], drops: vec![], publish: vec![] });
    }

    for at in 0..steps.len() {
        let (takes, drops) = ends(draft, &uses, &steps, at);
        let step = &mut steps[at];
        (step.takes, step.drops) = (takes, drops);
        results(draft, &uses, step, &grouping.groups[at]);
    }
    if let Some(first) = steps.first_mut() {
        // Only a compiled plan has inputs that nothing reads.
        let unread = (0..draft.inputs).filter(|&k| uses[k].last == NEVER && !draft.outlives[k]);
        first.drops.extend(unread.map(|k| k as Slot));
    }
    steps
}

/// What a step may overwrite and what it drops among the slots it reads.
fn ends(draft: &Draft, uses: &[Uses], steps: &[Step], at: usize) -> (Vec<Slot>, Vec<Slot>) {
    let (mut takes, mut drops) = (Vec::new(), Vec::new());
    for &s in steps[at].ins.iter().filter(|&&s| !draft.outlives[s as usize]) {
        let used = uses[s as usize];
        if used.last == at as u32 {
            takes.push(s);
            drops.push(s);
        } else if used.before_last == at as u32 && is_write_back(draft, uses, &steps[used.last as usize], s, at) {
            takes.push(s);
        }
    }
    (takes, drops)
}

/// Whether `later` is a write that replaces `old`, once, by values that step `at` defines, all of them.
fn is_write_back(draft: &Draft, uses: &[Uses], later: &Step, old: Slot, at: usize) -> bool {
    let instr = &draft.instrs[later.instrs[0] as usize];
    matches!(instr.op, Op::Write(_)) && replaces_once(instr, old, |new| uses[new as usize].defined == at as u32)
}

/// Whether a write reads `old` as one of its old values only, and all its new values pass `here`: it then needs old ones only
/// when the step that was to make the new ones failed as a whole.
pub(crate) fn replaces_once(write: &Instr, old: Slot, here: impl Fn(Slot) -> bool) -> bool {
    let (olds, news) = write.ins.split_at(write.ins.len() / 2);
    let reads = write.ins.iter().filter(|id| slot(**id) == old).count();
    reads == 1 && olds.iter().any(|id| slot(*id) == old) && news.iter().all(|id| here(slot(*id)))
}

/// What a step makes, publishes, and drops of its own.
fn results(draft: &Draft, uses: &[Uses], step: &mut Step, group: &Group) {
    let defined = |step: &Step| -> Vec<TensorId> {
        step.instrs.iter().flat_map(|&i| draft.instrs[i as usize].outs.iter().copied()).collect()
    };
    let defined = defined(step);
    for &id in &defined {
        let (outlives, read_later) = (draft.outlives[id.0 as usize], uses[id.0 as usize].last != NEVER);
        let read_inside = || step.instrs.iter().any(|&i| draft.instrs[i as usize].ins.contains(&id));
        if !group.fused || outlives || read_later || !read_inside() {
            step.outs.push(slot(id));
        }
        if outlives {
            step.publish.push(slot(id));
        } else if !read_later {
            step.drops.push(slot(id));
        }
    }
}
