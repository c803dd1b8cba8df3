//! What a plan is: the agreement between the planner, the worker and the engines.
//!
//! PLAN-1: every slot is defined before it is used; slots below `inputs` are bound by the run.
//! PLAN-2: steps run in order; a step reads only inputs and the `outs` of earlier steps.
//! PLAN-3: a slot in `takes` is read by no later step, so its buffer may be overwritten by this one, if nobody
//! else holds it and once nothing in the step can fail any more. The one exception is a later `write` all
//! of whose new values this step defines: it needs the old values only when this step failed.
//! PLAN-4: `drops` of all steps together name every slot exactly once, except those that outlive the window.

use std::sync::Arc;

use gt_ir::{Digest, Instr, Scalar, Shape, SiteId, TensorType};

use crate::EngineLimits;
use crate::tile::TileProgram;

/// A value inside a plan. In a plan's instructions, ids are slots.
pub type Slot = u32;

/// A window made ready to run any number of times.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names it in logs; engines may cache by it.
    pub hash: Digest,
    /// The instructions, their ids replaced by slots; scalars and sites are those of the first window
    /// and are *not* to be used by engines, who get them with each run.
    pub instrs: Vec<Instr>,
    /// The type of every slot.
    pub types: Vec<TensorType>,
    /// How many slots the run binds.
    pub inputs: usize,
    /// Which slots outlive the window, ascending.
    pub live_outs: Vec<Slot>,
    /// Where each instruction's scalars start in the run's flat list.
    pub scalar_starts: Vec<u32>,
    /// In the order they run.
    pub steps: Vec<Step>,
    /// Within which the steps were made.
    pub limits: EngineLimits,
}

/// A part of a plan that an engine runs as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What kind of step.
    pub kind: StepKind,
    /// Which instructions, in order.
    pub instrs: Vec<u32>,
    /// Slots read from outside the step, each once, in order of first use.
    pub ins: Vec<Slot>,
    /// Slots that must exist after the step.
    pub outs: Vec<Slot>,
    /// Slots among `ins` whose buffers this step may overwrite (PLAN-3).
    pub takes: Vec<Slot>,
    /// Slots that nobody reads after this step.
    pub drops: Vec<Slot>,
    /// Slots among `outs` that outlive the window: publish them as soon as the step is done.
    pub publish: Vec<Slot>,
}

/// How a step's instructions belong together.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// One instruction that is neither elementwise nor a reduction.
    Single,
    /// Elementwise instructions (unary, binary, compare, select, cast, fill) whose outputs all have the extents
    /// of the program's `space`, and reductions of such outputs. Values from outside are broadcast to `space`. Reductions of one step
    /// all reduce the same axes; only where they are the last ones does the step read their outputs, and may then have
    /// elementwise outputs of their extents too ([`crate::rows_of`]). A step without reductions may have concatenations of
    /// the extents `space`, and elementwise outputs that are a part of one ([`crate::parts_of`]). A step of one elementwise
    /// instruction is fused too, so engines have a single path for them; a lone reduction may be `Fused` with
    /// its input coming from outside.
    Fused {
        /// What it computes.
        program: Box<TileProgram>,
    },
}

impl Step {
    /// What a fused step computes.
    pub fn program(&self) -> Option<&TileProgram> {
        match &self.kind {
            StepKind::Fused { program } => Some(program),
            StepKind::Single => None,
        }
    }

    /// The extents that the loops of a fused step run over.
    pub fn space(&self) -> Option<Shape> {
        self.program().map(|program| program.space)
    }
}

/// What changes from run to run of one plan.
#[derive(Clone, Debug, Default)]
pub struct Immediates {
    /// All scalars of all instructions, in order; see [`Plan::scalar_starts`].
    pub scalars: Vec<Scalar>,
    /// The source line of each instruction: those of a window that repeats are always the same.
    pub sites: Arc<[SiteId]>,
    /// Payloads of the uploads, in instruction order.
    pub uploads: Vec<gt_ir::Bytes>,
}

impl Plan {
    /// The scalars of one instruction.
    pub fn scalars<'a>(&self, instr: u32, immediates: &'a Immediates) -> &'a [Scalar] {
        let start = self.scalar_starts[instr as usize] as usize;
        &immediates.scalars[start..start + self.instrs[instr as usize].scalars.len()]
    }
}
