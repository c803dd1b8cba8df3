//! A window becomes a plan.

use std::sync::Arc;

use gt_ir::{Cost, Window};

use crate::draft::Draft;
use crate::fuse::{self, Grouping};
use crate::{
    Canonical, EngineLimits, Immediates, Plan, PlanError, dead, liveness, pair, parts, sink, tile, unbroadcast,
};

/// How a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// Whether instructions are grouped; without, each is a step of its own.
    pub fusion: bool,
    /// Whether what nobody can see is left out.
    pub compiled: bool,
    /// How large steps may be: those of the engine that runs the plan.
    pub limits: EngineLimits,
}

impl PlanOptions {
    /// Plans for an engine of moderate limits, fused but not compiled.
    pub const DEFAULT: PlanOptions = PlanOptions { fusion: true, compiled: false, limits: EngineLimits::MODERATE };
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions::DEFAULT
    }
}

/// A plan, and the grouping that a window of the same structure can reuse.
pub struct Built {
    /// The plan.
    pub plan: Plan,
    /// How its instructions are grouped.
    pub grouping: Arc<Grouping>,
    /// Whether the grouping was one from before.
    pub reused: bool,
}

/// Makes the plan of a window.
pub fn build(window: &Window, canonical: &Canonical, options: PlanOptions) -> Result<Plan, PlanError> {
    build_from(window, canonical, options, None).map(|built| built.plan)
}

/// Makes the plan of a window, with the grouping of a window of the same structure if there is one.
///
/// The passes, in order:
/// 1. `infer`: everything after it asks for extents.
/// 2. `unbroadcast`: before `dead`, which drops the broadcasts that nobody reads then.
/// 3. `dead`: before grouping, so that what is left out neither fills groups nor keeps chains apart.
/// 4. `fuse`: before liveness, because a value that lives and dies inside a step needs no buffer.
/// 5. `sink`: after grouping, which is greedy and cannot know where a value's readers will be.
/// 6. `parts`: after sinking, when it is settled which step reads a concatenation.
/// 7. `pair`: when it is clear which steps there are.
/// 8. `liveness`: after all that moves instructions, since it needs the final order of reads.
/// 9. `tile`: last, since a program writes the results that others need.
pub fn build_from(
    window: &Window,
    canonical: &Canonical,
    options: PlanOptions,
    known: Option<&Arc<Grouping>>,
) -> Result<Built, PlanError> {
    let mut draft = Draft::new(window, canonical, options.limits)?;
    if options.fusion {
        unbroadcast::unbroadcast(&mut draft);
    }
    if options.compiled {
        dead::drop_dead(&mut draft);
    }
    let (grouping, reused) = match known {
        Some(grouping) if grouping.fits(&draft) => (grouping.clone(), true),
        _ if options.fusion => {
            let grouping = parts::parts(&draft, sink::sink(&draft, fuse::fuse(&draft)));
            (Arc::new(pair::pair(&draft, grouping)), false)
        }
        _ => (Arc::new(fuse::separate(&draft)), false),
    };
    let mut steps = liveness::steps(&draft, &grouping);
    tile::write_programs(&draft, &grouping, &mut steps);

    let mut scalar_starts = Vec::with_capacity(draft.instrs.len());
    let mut scalars = 0;
    for instr in &draft.instrs {
        scalar_starts.push(scalars);
        scalars += instr.scalars.len() as u32;
    }
    let defined = draft.inputs..draft.types.len();
    let plan = Plan {
        hash: draft.hash,
        live_outs: defined.filter(|&s| draft.outlives[s]).map(|s| s as u32).collect(),
        instrs: draft.instrs,
        types: draft.types,
        inputs: draft.inputs,
        scalar_starts,
        steps,
        limits: draft.limits,
    };
    debug_assert_eq!(crate::verify(&plan), Ok(()), "{}", crate::text::print(&plan));
    Ok(Built { plan, grouping, reused })
}

impl Immediates {
    /// What this occurrence of a window brings to its plan.
    pub fn of(window: &Window) -> Immediates {
        let mut scalars = Vec::with_capacity(window.instrs.len());
        window.instrs.iter().for_each(|instr| scalars.extend_from_slice(&instr.scalars));
        let sites = window.instrs.iter().map(|instr| instr.site).collect();
        Immediates { scalars, sites, uploads: window.uploads.iter().map(|p| p.bytes.clone()).collect() }
    }
}

impl Plan {
    /// The work of one run, were nothing fused.
    pub fn cost(&self) -> Cost {
        let mut total = Cost::default();
        let types = |ids: &[gt_ir::TensorId]| ids.iter().map(|id| self.types[id.0 as usize]).collect::<Vec<_>>();
        for &i in self.steps.iter().flat_map(|s| &s.instrs) {
            let instr = &self.instrs[i as usize];
            let cost = instr.op.primitive().cost(&types(&instr.ins), &types(&instr.outs));
            total.flops = total.flops.saturating_add(cost.flops);
            total.bytes = total.bytes.saturating_add(cost.bytes);
        }
        total
    }

    /// How many instructions run.
    pub fn instrs_run(&self) -> usize {
        self.steps.iter().map(|s| s.instrs.len()).sum()
    }
}
