//! What every engine must pass, as functions that panic with the op, the sample and the dtype.
//!
//! An engine's tests call [`run_all`], or the parts by name so that they run beside each other:
//! ```no_run
//! use gt_engine_check::{Reference, conformance};
//! conformance::run_all(Reference::new);
//! ```
//! The suite builds its plans by hand ([`PlanBuilder`]) and judges results by the reference engine
//! ([`compare`]). The builder leaves decoys where an engine must not look: a plan's own scalars and sites.

pub mod compare;
mod dependent_runs;
mod fleet;
mod fusion;
mod gradient;
mod payloads;
mod plans;
mod repeated_programs;
mod semantics;
mod sharded_programs;
mod sharding;
mod table;
mod values;

pub use dependent_runs::dependent_runs;
pub use fleet::Fleet;
pub use fusion::{fused_chains, fused_random_programs, fused_reductions, random_program};
pub use gradient::check_gradients;
pub use payloads::payloads;
pub use plans::{
    Built, Collector, Grouping, Outcome, PlanBuilder, prepared, run_plan, single_plan, start, upload, within,
};
pub use repeated_programs::{repeated_programs, steps_are_taken_in_parts};
pub use semantics::semantics;
pub use sharded_programs::{gradients_travel_while_others_are_computed, sharded_programs};
pub use sharding::{sharded_positions, sharding};
pub use table::{op_table, special_values_of_rows};
pub use values::{SplitMix, make_input, make_values, special_values};

use gt_engine::Engine;

/// The whole suite, but for [`sharding`]: thousands of tiny runs that ask about ops more than about the engine.
pub fn run_all<E: Engine>(make: impl Fn() -> E) {
    op_table(&mut make());
    special_values_of_rows(&mut make());
    fused_chains(&mut make());
    fused_reductions(&mut make());
    fused_random_programs(&mut make(), 200);
    semantics(&make);
    payloads(&make);
    dependent_runs(&make);
}
