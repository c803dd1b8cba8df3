//! Windows that repeat on a group give what one worker gives, each time, though they are placed and lowered only once.

use std::collections::HashMap;
use std::ops::Range;

use gt_ir::shard::Split;
use gt_ir::{DType, ExternalValue, HostTensor, Instr, Op, Scalar, ScopeId, TensorId, TensorType, Window};
use gt_shard::{Collective, Layout, Mesh, Placed, Placer};
use gt_stream::Occurrence;

use super::Fleet;
use super::sharded_programs::{Program, close, program};
use crate::evaluate;
use gt_engine::Engine;

const OCCURRENCES: u64 = 4;
/// Names of one occurrence.
const NAMES: u64 = 10_000;

/// An occurrence of a program: under names of its own, and with other numbers where they may change. What each value is.
fn occurrence(program: &Program, k: u64) -> (Window, Vec<(TensorId, HostTensor)>) {
    let mut window = Window { uploads: program.uploads.clone(), ..Window::default() };
    let mut values: HashMap<TensorId, HostTensor> = HashMap::new();
    let mut order = Vec::new();
    for (at, instr) in program.instrs.iter().enumerate() {
        let mut instr = instr.clone();
        instr.ins.iter_mut().chain(&mut instr.outs).for_each(|id| id.0 += k * NAMES);
        match (&instr.op, instr.scalars.as_mut_slice()) {
            (Op::Random(_), [_, Scalar::I64(ordinal), ..]) => *ordinal += k as i64,
            (Op::Binary(_), [Scalar::F64(number)]) => *number += k as f64 / 4.0,
            _ => {}
        }
        let args: Vec<&HostTensor> = instr.ins.iter().map(|id| &values[id]).collect();
        let payload = program.uploads.iter().find(|p| p.instr as usize == at).map(|p| p.bytes.clone());
        let made = evaluate(&instr.op, &args, &instr.scalars, payload.as_ref()).expect("it ran before");
        order.extend(instr.outs.iter().copied().zip(made.iter().cloned()));
        values.extend(instr.outs.iter().copied().zip(made));
        window.instrs.push(instr);
    }
    (window, order)
}

/// Random programs, one for each seed, each run several times.
///
/// # Panics
/// When an occurrence gives something else than one worker, or a window that repeats is placed again.
pub fn repeated_programs<E: Engine>(make: &impl Fn() -> E, seeds: Range<u64>) {
    for seed in seeds {
        let (mut program, layouts, workers) = program(seed, 4 + seed as usize % 20);
        let home = program.random.below(workers as u64) as u32;
        let (mut fleet, mut placer) = (Fleet::new(workers, make), Placer::new(home));
        let of = |scope: ScopeId| layouts[scope.0 as usize].clone();
        let mut kept: Vec<TensorId> = Vec::new();
        for k in 0..OCCURRENCES {
            let (mut window, values) = occurrence(&program, k);
            // Some die where they are made, others later, where nobody uses them.
            window.frees = std::mem::take(&mut kept);
            let (dying, living): (Vec<_>, Vec<_>) = values.into_iter().partition(|(id, _)| id.0 % 2 == 0);
            window.frees.extend(dying.iter().map(|(id, _)| *id));
            let mut placed =
                placer.place_window(&of_window(&window), &of).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            if let Placed::Repeated(again) = &mut placed {
                again.add_payloads(&window.uploads);
            }
            let is_right = match &placed {
                Placed::Whole(_) => k == 0,
                Placed::Repeated(again) => again.template.is_some() == (k == 1) && k > 0,
            };
            assert!(is_right, "seed {seed}: occurrence {k} goes out as {placed:?}");
            fleet.run_placed(&placed);
            for (id, want) in &living {
                let plan = placer.read(*id);
                if let Some(before) = &plan.before {
                    fleet.run(before);
                }
                let have = fleet.value(plan.worker, plan.id);
                assert!(close(&have, want), "seed {seed}, occurrence {k}: {id} is {have:?}, not {want:?}");
                kept.push(*id);
            }
        }
        let counted: u64 = placer.traffic().sent_bytes.values().sum();
        assert_eq!(counted, fleet.sent_bytes.iter().sum::<usize>() as u64, "seed {seed}");
        fleet.run(&placer.window(&Window { frees: kept, ..Window::default() }, &of).unwrap());
        assert_eq!(fleet.held(), 0, "seed {seed}: something is left over");
    }
}

/// A training loop on data in parts: sums of gradients in parts, the step of the optimizer on them, new parameters for all.
///
/// # Panics
/// When it gives something else than one worker, or moves more than theory says.
pub fn steps_are_taken_in_parts<E: Engine>(make: &impl Fn() -> E) {
    let line = |text: &str| -> Instr { text.parse().unwrap_or_else(|e| panic!("{text}: {e}")) };
    let (tall, wide) = (6, 50_000);
    let ty = TensorType::new(DType::F32, &[tall, wide]);
    // The parameter and its states: the last values of lane 1, written by each step.
    let steps = 4u64;
    let run = |workers: u32| -> Vec<HostTensor> {
        let (mut fleet, mut placer) = (Fleet::new(workers, make), Placer::new(0));
        let mesh = Mesh::row(&(0..workers).collect::<Vec<_>>());
        let layout = Layout { mesh, splits: smallvec::smallvec![Split::shard(0)] };
        let of = |scope: ScopeId| Some(layout.clone()).filter(|_| scope.0 == 1 && workers > 1);
        let shape = format!("[{tall},{wide}]");
        let mut create = Window::default();
        create.instrs.push(line(&format!("%1.0 = random() kind=uniform dtype=f32 shape={shape} $ 7 0")));
        create.instrs.push(line(&format!("%1.1 = fill() dtype=f32 shape={shape} $ 0.0")));
        create.instrs.push(line(&format!("%1.2 = fill() dtype=f32 shape={shape} $ 0.0")));
        create.instrs.push(line(&format!("%1.3 = random() kind=uniform dtype=f32 shape=[6,{tall},{wide}] $ 7 1")));
        fleet.run_placed(&placer.place_window(&of_window(&create), &of).unwrap());
        let mut state = [0, 1, 2].map(|n| TensorId::new(1, n));
        for step in 0..steps {
            let n = step * 8;
            let [p, m, v] = state;
            let lines = [
                format!("%{n} = binary(%1.3, {p}) kind=mul scalar=none"),
                format!("%{} = reduce(%{n}) kind=sum axes=[0] keepdim=false", n + 1),
                format!(
                    "%{}, %{}, %{} = update({p}, %{}, {m}, {v}) kind=adamw states=2 centered=false maximize=false $ {} 0.1 0.9 0.99 0.001 {}.0",
                    n + 2,
                    n + 3,
                    n + 4,
                    n + 1,
                    0.1 / (1.0 + step as f64),
                    step + 1
                ),
                format!(
                    "%{}, %{}, %{} = write({p}, {m}, {v}, %{}, %{}, %{})",
                    n + 5,
                    n + 6,
                    n + 7,
                    n + 2,
                    n + 3,
                    n + 4
                ),
            ];
            let instrs = lines.iter().map(|text| Instr { scope: ScopeId(1), ..line(text) }).collect();
            let mut met: Vec<ExternalValue> =
                state.iter().map(|&id| ExternalValue { id, ty, is_state: true }).collect();
            met.push(ExternalValue {
                id: TensorId::new(1, 3),
                ty: TensorType::new(DType::F32, &[6, tall, wide]),
                is_state: false,
            });
            let mut frees = state.to_vec();
            frees.extend((n..n + 5).map(TensorId));
            let window = Window { instrs, met, frees, ..Window::default() };
            let placed = placer.place_window(&of_window(&window), &of).unwrap();
            fleet.run_placed(&placed);
            state = [n + 5, n + 6, n + 7].map(TensorId);
            let is_again = matches!(&placed, Placed::Repeated(again) if again.template.is_none());
            assert!(workers == 1 || step + 1 < steps || is_again, "the last step is one that came before: {placed:?}");
        }
        let travelled = placer.traffic().clone();
        let read = |id: TensorId| {
            let plan = placer.read(id);
            plan.before.iter().for_each(|before| fleet.run(before));
            fleet.value(plan.worker, plan.id)
        };
        let values = state.map(read).to_vec();
        if workers > 1 {
            let count = |kind| travelled.collectives.get(&kind).map_or((0, 0), |(n, bytes)| (*n, *bytes));
            // The whole is summed in parts and given to all: each of the two moves (n - 1) / n of it, from each worker.
            let bytes = (workers as u64 - 1) * ty.bytes() as u64;
            assert_eq!(count(Collective::ReduceScatter), (steps, steps * bytes));
            assert_eq!(count(Collective::AllGather), (steps, steps * bytes));
            assert_eq!(count(Collective::AllReduce), (0, 0));
        }
        values
    };
    let alone = run(1);
    for workers in [2, 3] {
        let many = run(workers);
        assert!(alone.iter().zip(&many).all(|(one, many)| close(many, one)), "{workers} workers");
    }
}

fn of_window(window: &Window) -> Occurrence {
    Occurrence::of(window.clone()).expect("an occurrence")
}
