//! An engine that computes nothing: values are types. For tests of recording, planning and scheduling.

use std::sync::Arc;

use gt_ir::{Failure, HostTensor, TensorType};
use gt_plan::Plan;

use crate::engine::{Buffer, Done, Engine, Memory, Run, Ticket};
use crate::stepwise::{self, StepwiseProgram};

/// Succeeds at everything at once; every value reads as zeros. Poison that comes in spreads as it must.
#[derive(Default)]
pub struct Null;

/// A value of the null engine: only its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NullBuffer(TensorType);

impl NullBuffer {
    /// A value of this type.
    pub fn new(ty: TensorType) -> Self {
        NullBuffer(ty)
    }
}

impl Buffer for NullBuffer {
    fn ty(&self) -> TensorType {
        self.0
    }
    fn bytes(&self) -> usize {
        0
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        Ok(HostTensor { ty: self.0, bytes: vec![0; self.0.bytes()] })
    }
}

impl Engine for Null {
    type Buffer = NullBuffer;
    type Program = StepwiseProgram;

    fn name(&self) -> &'static str {
        "null"
    }
    fn prepare(&mut self, plan: Arc<Plan>) -> StepwiseProgram {
        StepwiseProgram::new(plan)
    }
    fn submit(&mut self, program: &Arc<StepwiseProgram>, run: Run<NullBuffer>) -> Box<dyn Ticket> {
        stepwise::run(program, run, &mut |task| Ok(task.outs.iter().map(|&ty| NullBuffer(ty)).collect()));
        Box::new(Done)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        Memory::default()
    }
    fn trim(&mut self) {}
}
