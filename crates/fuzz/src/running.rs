//! A window from outside: decoded, planned, run on both engines under a small limit of memory, and read.

use std::cell::RefCell;
use std::sync::Arc;

use gt_engine::{Buffer, Engine};
use gt_engine_check::Reference;
use gt_engine_check::conformance::{Collector, prepared, start};
use gt_engine_cpu::{Config, CpuEngine};
use gt_ir::codec::Reader;
use gt_ir::{TensorId, TensorType, Window, moved_bytes};
use gt_plan::{Immediates, Plan, PlanOptions, build, expand, verify};
use gt_stream::{Checker, Occurrence};

/// What an engine may use: enough for everything small.
const LIMIT_BYTES: u64 = 4 << 20;
/// The most work that is run: a window may ask for years of it, which is nothing that a fuzzer could wait for.
const MOST_WORK: u64 = 1 << 21;
/// The most bytes of a value that is read.
const MOST_READ: usize = 1 << 20;

pub fn window(bytes: &[u8]) -> bool {
    let Ok(window) = Checker::default().decode(&mut Reader::new(bytes)) else { return false };
    let (mut again, spelled) = (Vec::new(), window.window());
    window.encode(usize::MAX, &mut again);
    let decoded = Checker::default().decode(&mut Reader::new(&again)).expect("what was encoded can be decoded");
    assert_eq!(decoded.window(), spelled, "CODEC-2");
    let mut again = Vec::new();
    spelled.encode(&mut again);
    assert_eq!(Window::decode(&mut Reader::new(&again)).as_ref(), Ok(&spelled), "CODEC-2");
    let same = Occurrence::of(spelled).expect("an occurrence is a window");
    assert_eq!(same.recipe().instrs(), window.recipe().instrs());
    run_window(&window)
}

/// Everything a worker does with a window that no value from outside is known to; whether it was planned.
pub fn run_window(window: &Occurrence) -> bool {
    if !window.bindings().inputs.is_empty() || window.missing().next().is_some() {
        return false;
    }
    let mut planned = false;
    for options in [
        PlanOptions { compiled: window.bindings().joined, ..PlanOptions::DEFAULT },
        PlanOptions { fusion: false, ..PlanOptions::DEFAULT },
    ] {
        let Ok(plan) = build(window.recipe(), &[], options) else { continue };
        assert_eq!(verify(&plan), Ok(()));
        expect_values_that_can_exist(&plan);
        planned = true;
        if !runs(&plan) {
            continue;
        }
        let (plan, immediates) = (Arc::new(plan), Immediates::of(window));
        thread_local! {
            static CPU: RefCell<CpuEngine> =
                RefCell::new(CpuEngine::new(Config { threads: 1, memory_limit_bytes: LIMIT_BYTES }));
        }
        CPU.with_borrow_mut(|engine| run(engine, &plan, &immediates));
        run(&mut Reference::with_limit(LIMIT_BYTES), &plan, &immediates);
    }
    planned
}

/// SHAPE-1, counted in numbers that cannot overflow.
fn expect_values_that_can_exist(plan: &Plan) {
    for ty in &plan.types {
        let elements = ty.shape.iter().fold(1u128, |n, &d| n.saturating_mul(d.max(1) as u128));
        assert!(elements.saturating_mul(ty.dtype.size() as u128) <= 1 << 62, "{ty} cannot exist");
    }
}

/// Whether the plan is little work, on little memory in the reference engine, which holds every value whole and more.
fn runs(plan: &Plan) -> bool {
    let mut work = work_of(plan);
    for instr in &plan.instrs {
        let ins: Vec<TensorType> = instr.ins.iter().map(|id| plan.types[id.0 as usize]).collect();
        // Composites may hold far more inside than they take and make.
        let Some(expansion) = expand(&instr.op, &ins, &instr.scalars) else { continue };
        let Ok(expansion) = expansion else { return false };
        let of = |id: &TensorId| expansion.inputs.iter().position(|input| input == id).map(|at| ins[at]);
        let window = Occurrence::of(expansion.window).expect("an expansion is a window");
        let types: Vec<TensorType> = window.bindings().inputs.iter().filter_map(of).collect();
        let spelled = build(window.recipe(), &types, PlanOptions::default()).expect("its types were inferred");
        expect_values_that_can_exist(&spelled);
        work = work.saturating_add(work_of(&spelled));
    }
    work <= MOST_WORK
}

/// Arithmetic, elements walked over, bytes.
fn work_of(plan: &Plan) -> u64 {
    let elements = plan.types.iter().map(|ty| ty.numel() as u64).fold(0, u64::saturating_add);
    plan.cost().flops.saturating_add(elements).saturating_add(moved_bytes(plan.types.iter()))
}

fn run<E: Engine>(engine: &mut E, plan: &Arc<Plan>, immediates: &Immediates) {
    let program = prepared(engine, plan);
    let (ticket, collector): (_, Arc<Collector<E::Buffer>>) = start(engine, &program, immediates, Vec::new());
    ticket.wait();
    for value in collector.finish(plan).values.into_values().flatten() {
        if value.ty().bytes() <= MOST_READ {
            let tensor = value.read().expect("a value in memory can be read");
            assert_eq!(tensor.bytes.len(), tensor.ty.bytes());
        }
    }
}
