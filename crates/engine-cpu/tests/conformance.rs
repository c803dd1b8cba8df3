//! The suite every engine must pass, part by part so that they run beside each other.

use gt_engine::Engine;
use gt_engine_check::{Late, conformance};
use gt_engine_cpu::{Config, CpuEngine};
use gt_plan::EngineLimits;

fn engine(threads: usize) -> CpuEngine {
    CpuEngine::new(Config { threads, memory_limit_bytes: 1 << 30 })
}

/// Golden plans, and those of the reference engine, are made within the same limits: they are the plans that run here.
#[test]
fn plans_recorded_elsewhere_are_those_of_this_engine() {
    assert_eq!(engine(1).limits(), EngineLimits::MODERATE);
}

#[test]
fn op_table() {
    conformance::op_table(&mut engine(2));
}

#[test]
fn special_values_of_rows() {
    conformance::special_values_of_rows(&mut engine(2));
}

#[test]
fn fused_chains() {
    conformance::fused_chains(&mut engine(2));
}

#[test]
fn fused_reductions() {
    conformance::fused_reductions(&mut engine(2));
}

#[test]
fn fused_random_programs() {
    conformance::fused_random_programs(&mut engine(2), 400);
}

#[test]
fn semantics() {
    conformance::semantics(&|| engine(2));
}

#[test]
fn payloads() {
    conformance::payloads(&|| engine(2));
}

#[test]
fn sharding() {
    conformance::sharding(&mut engine(2));
    conformance::sharded_positions(&mut engine(2));
}

#[test]
fn everything_through_an_engine_that_finishes_late() {
    conformance::run_all(|| Late::new(engine(2), 7));
}

#[test]
fn sharded_programs() {
    conformance::sharded_programs(&|| engine(1), 0..1000);
    conformance::gradients_travel_while_others_are_computed(&|| engine(1));
    conformance::steps_are_taken_in_parts(&|| engine(1));
}

#[test]
fn repeated_programs() {
    conformance::repeated_programs(&|| engine(1), 0..300);
}
