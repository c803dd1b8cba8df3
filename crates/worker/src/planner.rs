//! Finds the plan of a recipe, or makes it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use gt_engine::Engine;
use gt_ir::{Failure, FailureKind, TensorType};
use gt_observe::Counters;
use gt_plan::{Plan, PlanCache, PlanError, PlanOptions, text};
use gt_stream::Recipe;

use crate::CompilePolicy;
use crate::launch::Sender;
use crate::session::Session;

/// What is made once per plan.
pub(crate) struct Prepared<P> {
    pub(crate) program: Arc<P>,
    /// The instruction that defines each slot past the inputs.
    pub(crate) definers: Arc<[u32]>,
    pub(crate) flops: u64,
}

/// Why there is no program.
pub(crate) enum Unplanned {
    Refused(PlanError),
    /// The engine has no program for the plan.
    Failed(Arc<Plan>, Arc<Failure>),
}

/// A plan, what the engine made of it, and whether it is compiled.
pub(crate) type Ready<E> = (Arc<Plan>, Arc<Prepared<<E as Engine>::Program>>, bool);

/// That, or why there is none.
pub(crate) type Planned<E> = Result<Ready<E>, Unplanned>;

/// Finds or makes plans.
pub(crate) struct Planner<'a, E: Engine> {
    pub(crate) engine: &'a mut E,
    pub(crate) cache: &'a mut PlanCache<Prepared<E::Program>>,
    pub(crate) session: &'a Session<E::Buffer>,
}

impl<E: Engine> Planner<'_, E> {
    /// A plan for a window that was cut by time: op by op, kept nowhere.
    pub(crate) fn eager(&mut self, recipe: &Recipe, input_types: &[TensorType]) -> Planned<E> {
        let options = PlanOptions { fusion: false, compiled: false, limits: self.engine.limits() };
        let plan = gt_plan::build(recipe, input_types, options).map_err(Unplanned::Refused)?;
        let (plan, prepared) = self.prepare(plan)?;
        Ok((plan, prepared, false))
    }

    /// The plan of a window that may come again.
    pub(crate) fn cached(
        &mut self,
        recipe: &Arc<Recipe>,
        input_types: &[TensorType],
        joined: bool,
        sender: Sender,
    ) -> Planned<E> {
        let (counters, config) = (&self.session.counters, &self.session.config);
        let counts = sender == Sender::Client;
        let policy = if counts { config.compile } else { CompilePolicy::Never };
        if counts {
            self.count_sequence(recipe, joined);
        }
        if let Some(cached) = self.cache.get(config.plan_variant(), recipe, input_types) {
            Counters::add(&counters.plan_hits, counts as u64);
            let (plan, program) = (cached.plan.clone(), cached.program.clone());
            return match is_due(policy, cached.options, cached.hits) {
                true => self.compile(recipe, input_types, plan, program),
                false => Ok((plan, program, cached.options.compiled)),
            };
        }
        // Joined windows have repeated in parts: this is their compiling, not a window nobody expected.
        Counters::add(&counters.plan_misses, (counts && !joined) as u64);
        let compiled = joined || policy == CompilePolicy::Always;
        let options = PlanOptions { fusion: config.fusion, compiled, limits: self.engine.limits() };
        let plan = gt_plan::build(recipe, input_types, options).map_err(Unplanned::Refused)?;
        let (plan, prepared) = self.prepare(plan)?;
        self.session.worker.debug.print(|| format!("plan {:032x}\n{}", plan.hash, text::print(&plan)));
        self.cache.insert(config.plan_variant(), recipe, plan.clone(), prepared.clone(), options);
        Ok((plan, prepared, options.compiled))
    }

    /// Counts a window of the client. Joined windows have repeated in parts, so they are hot.
    fn count_sequence(&self, recipe: &Recipe, joined: bool) {
        let threshold = if joined { 0 } else { self.session.config.hotpath_threshold };
        let seen = self.session.sequences.lock().count(recipe.digest(), recipe.len(), threshold);
        if seen > threshold {
            Counters::add(&self.session.counters.hot_instructions, recipe.len() as u64);
        }
    }

    /// Makes the plan of a hot window again, without what nobody can see.
    fn compile(
        &mut self,
        recipe: &Arc<Recipe>,
        input_types: &[TensorType],
        plan: Arc<Plan>,
        program: Arc<Prepared<E::Program>>,
    ) -> Planned<E> {
        let start = Instant::now();
        let (fusion, limits) = (self.session.config.fusion, self.engine.limits());
        let options = PlanOptions { fusion, compiled: true, limits };
        let better = gt_plan::build(recipe, input_types, options).map_err(Unplanned::Refused)?;
        // Where nothing can be left out the plan is the same, and what the engine made of it stays.
        let (plan, program) = match better.instrs_run() == plan.instrs_run() {
            true => (plan, program),
            false => self.prepare(better)?,
        };
        self.cache.insert(self.session.config.plan_variant(), recipe, plan.clone(), program.clone(), options);
        let took = start.elapsed();
        self.session.worker.debug_compile.print(|| {
            let (hash, instrs, steps) = (plan.hash, plan.instrs.len(), plan.steps.len());
            let left_out = instrs - plan.instrs_run();
            format!("plan {hash:032x}: {instrs} instructions, {left_out} left out, {steps} steps, {took:?}")
        });
        if let Some(journal) = &self.session.journal {
            journal.compiled(&plan, took);
        }
        Ok((plan, program, true))
    }

    #[allow(clippy::type_complexity)]
    fn prepare(&mut self, plan: Plan) -> Result<(Arc<Plan>, Arc<Prepared<E::Program>>), Unplanned> {
        let plan = Arc::new(plan);
        let engine = &mut *self.engine;
        let failure = match catch_unwind(AssertUnwindSafe(|| engine.prepare(&plan))) {
            Ok(Ok(program)) => {
                let prepared =
                    Prepared { program: Arc::new(program), definers: definers(&plan), flops: plan.cost().flops };
                return Ok((plan, Arc::new(prepared)));
            }
            Ok(Err(failure)) => Arc::new(failure),
            Err(panic) => panicked(&self.session.worker.name, panic),
        };
        Err(Unplanned::Failed(plan, failure))
    }
}

/// Whether a plan found so often is to be compiled now.
fn is_due(compile: CompilePolicy, options: PlanOptions, hits: u64) -> bool {
    match compile {
        CompilePolicy::AfterRepeats(n) => !options.compiled && hits >= n,
        CompilePolicy::Never | CompilePolicy::Always => false,
    }
}

/// The instruction that defines each slot past the inputs.
pub(crate) fn definers(plan: &Plan) -> Arc<[u32]> {
    plan.instrs.iter().enumerate().flat_map(|(at, instr)| instr.outs.iter().map(move |_| at as u32)).collect()
}

/// A panic as a failure.
pub(crate) fn panicked(worker: &str, panic: Box<dyn Any + Send>) -> Arc<Failure> {
    let mut failure = Failure::new(FailureKind::Internal, format!("the engine panicked: {}", panic_text(&panic)));
    failure.worker = worker.to_string();
    Arc::new(failure)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &Box<dyn Any + Send>) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_string(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_string(),
    }
}
