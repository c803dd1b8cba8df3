//! The suite on the reference engine: the reference agrees with itself however plans are cut, and the suite is sound.

use std::time::Duration;

use gt_engine_check::Reference;
use gt_engine_check::conformance::{self, within};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn op_table() {
    within(LIMIT, || conformance::op_table(&mut Reference::new()));
}

#[test]
fn special_values() {
    within(LIMIT, || conformance::special_values_of_rows(&mut Reference::new()));
}

#[test]
fn fused_steps() {
    within(LIMIT, || {
        conformance::fused_chains(&mut Reference::new());
        conformance::fused_reductions(&mut Reference::new());
        conformance::fused_random_programs(&mut Reference::new(), 200);
    });
}

#[test]
fn semantics() {
    within(LIMIT, || conformance::semantics(&Reference::new));
}

#[test]
fn payloads() {
    within(LIMIT, || conformance::payloads(&Reference::new));
}

#[test]
fn gradients() {
    within(LIMIT, conformance::check_gradients);
}

#[test]
fn sharding() {
    within(LIMIT, || {
        conformance::sharding(&mut Reference::new());
        conformance::sharded_positions(&mut Reference::new());
    });
}

#[test]
fn sharded_programs() {
    within(LIMIT, || {
        conformance::sharded_programs(&Reference::new, 0..1000);
        conformance::gradients_travel_while_others_are_computed(&Reference::new);
        conformance::steps_are_taken_in_parts(&Reference::new);
    });
}

#[test]
fn repeated_programs() {
    within(LIMIT, || conformance::repeated_programs(&Reference::new, 0..300));
}
