//! Small windows as lines of text, and their plans.

use std::collections::BTreeMap;

use gt_ir::attr::Attr;
use gt_ir::{DType, TensorId, TensorType, Window, text::Parser};
use gt_plan::{Plan, PlanOptions, build, text, verify};
use gt_stream::Occurrence;

/// `f32[4, 8]` as a type.
fn ty(text: &str) -> TensorType {
    let (dtype, _) = text.split_once('[').expect("a type like f32[2, 3]");
    let shape = Attr::parse(&mut Parser::new(&text[dtype.len()..])).expect("extents");
    TensorType { dtype: DType::from_name(dtype).expect("a dtype"), shape }
}

/// A window of these lines on inputs `%1`, `%2`, ... of these types; all but `kept` is freed.
pub struct Case {
    pub window: Window,
    pub inputs: BTreeMap<TensorId, TensorType>,
}

impl Case {
    pub fn new(inputs: &[&str], lines: &[&str], kept: &[u64]) -> Case {
        let instrs: Vec<gt_ir::Instr> =
            lines.iter().map(|l| l.parse().unwrap_or_else(|e| panic!("{l}: {e}"))).collect();
        let inputs: BTreeMap<TensorId, TensorType> =
            inputs.iter().enumerate().map(|(i, text)| (TensorId(i as u64 + 1), ty(text))).collect();
        let read = |id: &TensorId| instrs.iter().any(|i| i.ins.contains(id));
        let given = inputs.keys().copied().filter(read);
        let made = instrs.iter().flat_map(|i| i.outs.iter().copied());
        let frees = given.chain(made).filter(|id| !kept.contains(&id.0)).collect();
        Case { window: Window { instrs, frees, ..Window::default() }, inputs }
    }

    pub fn plan(&self, options: PlanOptions) -> Plan {
        let occurrence = Occurrence::of(self.window.clone()).expect("an occurrence");
        let types: Vec<TensorType> = occurrence.bindings().inputs.iter().map(|id| self.inputs[id]).collect();
        let plan = build(occurrence.recipe(), &types, options).expect("a plan");
        assert_eq!(verify(&plan), Ok(()), "{}", text::print(&plan));
        plan
    }

    pub fn fused(&self) -> Plan {
        self.plan(PlanOptions::default())
    }
}

/// Which instructions share a step, by number.
pub fn groups(plan: &Plan) -> Vec<Vec<u32>> {
    plan.steps.iter().map(|s| s.instrs.clone()).collect()
}
