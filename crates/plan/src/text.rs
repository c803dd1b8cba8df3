//! A plan as text, one line a step.
//!
//! ```text
//! in %0 f32[4, 8]
//! in %1 f32[8] dies
//! 0 fused[4, 8] %2=mul(%0, %1); %3=exp(%2) -> %3 | takes %1 | drops %1 %2 | publish %3
//! ```

use std::fmt::Write as _;

use gt_ir::{Instr, TensorId};

use crate::{Plan, Slot, Step, StepKind};

/// The plan in lines: its inputs, then its steps.
pub fn print(plan: &Plan) -> String {
    let mut out = String::new();
    for input in 0..plan.inputs {
        let dies = plan.steps.iter().any(|s| s.drops.contains(&(input as Slot)));
        let _ = writeln!(out, "in %{input} {}{}", plan.types[input], if dies { " dies" } else { "" });
    }
    for (at, step) in plan.steps.iter().enumerate() {
        print_step(&mut out, plan, at, step);
    }
    out
}

fn print_step(out: &mut String, plan: &Plan, at: usize, step: &Step) {
    let _ = write!(out, "{at} ");
    match &step.kind {
        StepKind::Single => out.push_str("single"),
        StepKind::Fused { program } => {
            let _ = write!(out, "fused{}", program.space);
        }
    }
    for (k, &i) in step.instrs.iter().enumerate() {
        out.push_str(if k == 0 { " " } else { "; " });
        print_instr(out, &plan.instrs[i as usize]);
    }
    out.push_str(" ->");
    for &s in &step.outs {
        let _ = write!(out, " %{s}:{}", plan.types[s as usize]);
    }
    for (name, slots) in [("takes", &step.takes), ("drops", &step.drops), ("publish", &step.publish)] {
        if !slots.is_empty() {
            let _ = write!(out, " | {name}");
            slots.iter().for_each(|s| {
                let _ = write!(out, " %{s}");
            });
        }
    }
    out.push('\n');
}

fn print_instr(out: &mut String, instr: &Instr) {
    let list = |ids: &[TensorId]| ids.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(", ");
    let _ = write!(out, "{}={}({})", list(&instr.outs), instr.op.display_name(), list(&instr.ins));
}
