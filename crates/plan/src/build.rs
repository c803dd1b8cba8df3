//! A recipe becomes a plan.

use gt_ir::{Cost, TensorType};
use gt_stream::{Occurrence, Recipe};

use crate::draft::Draft;
use crate::{EngineLimits, Immediates, Plan, PlanError, dead, fuse, liveness, pair, parts, sink, tile, unbroadcast};

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

/// Makes the plan of a recipe on inputs of these types.
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
///
/// # Errors
/// When an instruction does not fit its operands.
pub fn build(recipe: &Recipe, input_types: &[TensorType], options: PlanOptions) -> Result<Plan, PlanError> {
    let mut draft = Draft::new(recipe, input_types, options.limits)?;
    if options.fusion {
        unbroadcast::unbroadcast(&mut draft);
    }
    if options.compiled {
        dead::drop_dead(&mut draft);
    }
    let grouping = match options.fusion {
        true => {
            let grouping = parts::parts(&draft, sink::sink(&draft, fuse::fuse(&draft)));
            pair::pair(&draft, grouping)
        }
        false => fuse::separate(&draft),
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
        hash: recipe.hash(input_types),
        live_outs: defined.filter(|&s| draft.outlives[s]).map(|s| s as u32).collect(),
        instrs: draft.instrs,
        types: draft.types,
        inputs: draft.inputs,
        scalar_starts,
        steps,
        limits: draft.limits,
    };
    debug_assert_eq!(crate::verify(&plan), Ok(()), "{}", crate::text::print(&plan));
    Ok(plan)
}

impl Immediates {
    /// What an occurrence adds to the plan of its recipe.
    pub fn of(occurrence: &Occurrence) -> Immediates {
        let bindings = occurrence.bindings();
        let uploads = bindings.uploads.iter().map(|payload| payload.bytes.clone()).collect();
        Immediates { scalars: bindings.scalars.clone(), sites: occurrence.sites().clone(), uploads }
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
