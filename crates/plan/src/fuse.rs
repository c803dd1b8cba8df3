//! Pass 4: which instructions run as one step.
//!
//! Greedy, in program order. Steps are appended to a list and never move, so "defined before" is a comparison of
//! positions. An elementwise instruction joins a fused step of its own extents when every operand exists there:
//! it is an input, or defined by an earlier step, or inside the step and not folded by a reduction. It is tried
//! first with the latest of its producers (a chain stays in registers), then with the latest step of the same
//! extents (independent work over the same extents shares one pass: the many small updates of an optimizer).
//!
//! A reduction of the last axes can be read in its own step (a norm, a softmax): rows are then whole in the loop. What is
//! computed from its results alone has one element a row.
//!
//! FUSE-1: no step reads a slot of a later step.
//! FUSE-2: all elementwise outputs of a fused step, and the inputs of its reductions, have the step's extents; its
//! reductions fold the same axes. FUSE-4 and FUSE-5 have the exceptions.
//! FUSE-3: a step has at most so many instructions and results as its engine's [`EngineLimits`] say.
//! FUSE-4: where the reductions fold the last axes, keep them, and a row is at most `max_row_len` long, the step
//! may read their results, and elementwise outputs may have the extents of the results instead ([`rows_of`]).
//! FUSE-5: a concatenation of the step's extents may be in a step too, with elementwise outputs of the extents of its
//! operands (PARTS-1, PARTS-2). They get there after grouping.

use gt_ir::{AxisSet, Instr, Op, Shape};

use crate::EngineLimits;
use crate::draft::{Draft, Role, role};

/// One step as a list of instructions.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Group {
    /// Whether the step is fused.
    pub fused: bool,
    /// Whether its extents are too many for results to share a step without need.
    pub wide: bool,
    /// Its instructions, ascending.
    pub instrs: Vec<u32>,
}

/// How the instructions of a window are grouped.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Grouping {
    /// The steps, in order.
    pub groups: Vec<Group>,
}

/// The extents of what reductions leave of `space`, if they fold whole rows that a step can hold and keep their axes (FUSE-4).
pub fn rows_of(space: &Shape, axes: AxisSet, keepdim: bool, limits: &EngineLimits) -> Option<Shape> {
    let folded = axes.len();
    let last = (space.rank() - folded..space.rank()).all(|a| axes.contains(a));
    let len: usize = space[space.rank() - folded..].iter().product();
    if !keepdim || !last || folded == 0 || len <= 1 || len > limits.max_row_len {
        return None;
    }
    Some(axes.flatten_in(space))
}

/// Whether results of these extents are too large to share a step without need.
fn is_wide(draft: &Draft, space: &Shape) -> bool {
    space.numel() > draft.limits.side_by_side_elements
}

/// The extents an instruction would loop over in a fused step.
pub(crate) fn space(draft: &Draft, instr: &Instr) -> Shape {
    match role(&instr.op) {
        Role::Reduction => draft.ty(instr.ins[0]).shape,
        Role::Elementwise | Role::Single => draft.ty(instr.outs[0]).shape,
    }
}

/// The extents a fused step loops over.
pub(crate) fn group_space(draft: &Draft, instrs: &[u32]) -> Shape {
    // What leads to a concatenation comes before it, and has extents of its own.
    let concat = instrs.iter().find(|&&i| matches!(draft.instrs[i as usize].op, Op::Concat(_)));
    space(draft, &draft.instrs[*concat.unwrap_or(&instrs[0]) as usize])
}

/// Every instruction a step of its own.
pub(crate) fn separate(draft: &Draft) -> Grouping {
    let alone = |(at, instr): (usize, &Instr)| {
        let wide = is_wide(draft, &space(draft, instr));
        Group { fused: role(&instr.op) != Role::Single, wide, instrs: vec![at as u32] }
    };
    let kept = draft.instrs.iter().enumerate().filter(|(at, _)| draft.kept[*at]);
    Grouping { groups: kept.map(alone).collect() }
}

/// Groups as much as the rules above allow.
pub(crate) fn fuse(draft: &Draft) -> Grouping {
    let mut fuser = Fuser::new(draft);
    for (at, instr) in draft.instrs.iter().enumerate() {
        if !draft.kept[at] {
            continue;
        }
        match role(&instr.op) {
            Role::Single => fuser.open(at, None),
            Role::Elementwise if fuser.waits(at) => {}
            Role::Elementwise => fuser.elementwise(at),
            Role::Reduction => fuser.reduction(at),
        }
    }
    fuser.finish()
}

/// Where a slot comes from, as far as the steps have got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Bound by the run.
    Input,
    /// A fill that waits for its first consumer.
    Waiting(u32),
    /// Defined by a step, to be read by it and later ones.
    Step(u32),
    /// Folded by a step, to be read by later ones.
    Folded(u32),
}

struct Open {
    instrs: Vec<u32>,
    /// The extents of a fused step.
    space: Option<Shape>,
    /// The axes its reductions fold.
    axes: Option<AxisSet>,
    /// The extents of their results, where the step may read them (FUSE-4).
    rows: Option<Shape>,
    /// Slots that may have to be materialised: as many as the step may have results, at most.
    outs: usize,
}

struct Fuser<'a> {
    draft: &'a Draft,
    steps: Vec<Open>,
    places: Vec<Place>,
    /// For each slot, readers that have not joined the step that defines it.
    readers: Vec<u32>,
    /// The latest fused step of each extents.
    latest: Vec<(Shape, u32)>,
    /// For each slot, whether every reader is elementwise or a reduction over the slot's own extents.
    same_space: Vec<bool>,
}

impl<'a> Fuser<'a> {
    fn new(draft: &'a Draft) -> Self {
        let slots = draft.types.len();
        let mut readers = vec![0u32; slots];
        let mut same_space = vec![true; slots];
        for (at, instr) in draft.instrs.iter().enumerate() {
            if !draft.kept[at] {
                continue;
            }
            let part = role(&instr.op);
            for id in &instr.ins {
                readers[id.0 as usize] += 1;
                if part == Role::Single || space(draft, instr) != draft.ty(*id).shape {
                    same_space[id.0 as usize] = false;
                }
            }
        }
        Fuser { draft, steps: Vec::new(), places: vec![Place::Input; slots], readers, latest: Vec::new(), same_space }
    }

    /// A fill costs nothing inside the loop that uses it and a buffer outside, so it waits for its first consumer
    /// when all of them could hold it.
    fn waits(&mut self, at: usize) -> bool {
        let instr = &self.draft.instrs[at];
        let out = instr.outs[0].0 as usize;
        let waits = matches!(instr.op, Op::Fill(_))
            && self.readers[out] > 0
            && self.same_space[out]
            && !self.draft.outlives[out];
        if waits {
            self.places[out] = Place::Waiting(at as u32);
        }
        waits
    }

    fn elementwise(&mut self, at: usize) {
        let instr = &self.draft.instrs[at];
        let space = self.draft.ty(instr.outs[0]).shape;
        // A large result that nobody reads is made and let go by itself, not held beside others.
        let out = instr.outs[0].0 as usize;
        if self.readers[out] == 0 && !self.draft.outlives[out] && is_wide(self.draft, &space) {
            return self.open(at, Some(space));
        }
        // The earliest step that could hold the instruction: operands folded by a step are there only after it.
        let mut earliest = 0;
        let mut producer = None;
        for id in &instr.ins {
            match self.places[id.0 as usize] {
                Place::Input | Place::Waiting(_) => {}
                Place::Step(s) => {
                    // A step of other extents cannot hold the reader, so it must come after.
                    let open = &self.steps[s as usize];
                    let after = !(open.space == Some(space) || open.rows == Some(space)) as u32;
                    earliest = earliest.max(s + after);
                    producer = producer.max(Some(s));
                }
                Place::Folded(s) => {
                    let open = &self.steps[s as usize];
                    let inside = open.rows.is_some() && (open.space == Some(space) || open.rows == Some(space));
                    earliest = earliest.max(s + !inside as u32);
                    producer = producer.max(inside.then_some(s));
                }
            }
        }
        let recent = self.latest.iter().find(|(s, _)| *s == space && !is_wide(self.draft, s)).map(|&(_, step)| step);
        // A fill comes before all else, also before the reductions that give a step its rows: it enters only its own extents.
        let brings_fill = instr.ins.iter().any(|id| matches!(self.places[id.0 as usize], Place::Waiting(_)));
        let holds = |step: u32| !brings_fill || self.steps[step as usize].space == Some(space);
        let fits = |step: &u32| *step >= earliest && holds(*step) && self.has_room(*step, at);
        let chosen = [producer, recent].into_iter().flatten().find(fits);
        match chosen {
            Some(step) => self.join(at, step),
            None => self.open(at, Some(space)),
        }
    }

    fn reduction(&mut self, at: usize) {
        let instr = &self.draft.instrs[at];
        let Op::Reduce(reduce) = &instr.op else { return self.open(at, None) };
        let input = instr.ins[0];
        let space = self.draft.ty(input).shape;
        if let Place::Step(step) = self.places[input.0 as usize] {
            let open = &self.steps[step as usize];
            let agrees = open.axes.is_none_or(|axes| axes == reduce.axes);
            if open.space == Some(space) && agrees && self.has_room(step, at) {
                return self.join(at, step);
            }
        }
        self.open(at, Some(space));
    }

    /// Whether a step can take one more instruction, with the fills that come along.
    fn has_room(&self, step: u32, at: usize) -> bool {
        let open = &self.steps[step as usize];
        let ins = &self.draft.instrs[at].ins;
        let fills = ins.iter().filter(|id| matches!(self.places[id.0 as usize], Place::Waiting(_))).count();
        // Operands whose last reader this is need no buffer any more.
        let released = ins.iter().enumerate().filter(|(k, id)| {
            matches!(self.places[id.0 as usize], Place::Step(s) | Place::Folded(s) if s == step)
                && !ins[..*k].contains(id)
                && !self.draft.outlives[id.0 as usize]
                && self.readers[id.0 as usize] as usize == ins.iter().filter(|other| other == id).count()
        });
        let EngineLimits { max_step_instrs, max_step_outs, .. } = self.draft.limits;
        open.instrs.len() + fills < max_step_instrs && open.outs + fills < max_step_outs + released.count()
    }

    /// Starts a new step with an instruction.
    fn open(&mut self, at: usize, space: Option<Shape>) {
        let step = self.steps.len() as u32;
        self.steps.push(Open { instrs: Vec::new(), space, axes: None, rows: None, outs: 0 });
        if let Some(space) = space {
            match self.latest.iter_mut().find(|(s, _)| *s == space) {
                Some((_, latest)) => *latest = step,
                None => self.latest.push((space, step)),
            }
        }
        self.join(at, step);
    }

    fn join(&mut self, at: usize, step: u32) {
        let draft = self.draft;
        let instr = &draft.instrs[at];
        for id in &instr.ins {
            let operand = id.0 as usize;
            if let Place::Waiting(fill) = self.places[operand] {
                self.place(fill as usize, step);
            }
            if matches!(self.places[operand], Place::Step(s) | Place::Folded(s) if s == step) {
                self.readers[operand] -= 1;
                if self.readers[operand] == 0 && !draft.outlives[operand] {
                    self.steps[step as usize].outs -= 1;
                }
            }
        }
        self.place(at, step);
    }

    /// Puts an instruction into a step.
    fn place(&mut self, at: usize, step: u32) {
        let draft = self.draft;
        let instr = &draft.instrs[at];
        let open = &mut self.steps[step as usize];
        open.instrs.push(at as u32);
        let folded = match &instr.op {
            Op::Reduce(reduce) => {
                let rows = open.space.and_then(|space| rows_of(&space, reduce.axes, reduce.keepdim, &draft.limits));
                // One without the others' axes leaves results of other extents.
                open.rows = if open.axes.is_none() { rows } else { open.rows.filter(|have| Some(*have) == rows) };
                open.axes = Some(reduce.axes);
                true
            }
            _ => false,
        };
        for id in &instr.outs {
            let out = id.0 as usize;
            // Also when nobody reads it: it is computed all the same (LIVE-1).
            open.outs += 1;
            self.places[out] = if folded { Place::Folded(step) } else { Place::Step(step) };
        }
    }

    fn finish(self) -> Grouping {
        let draft = self.draft;
        let close = |mut open: Open| {
            // A fill enters with its first consumer, after instructions that were recorded later.
            open.instrs.sort_unstable();
            let wide = open.space.is_some_and(|space| is_wide(draft, &space));
            Group { fused: open.space.is_some(), wide, instrs: open.instrs }
        };
        Grouping { groups: self.steps.into_iter().map(close).collect() }
    }
}
