//! An engine that computes nothing: values are types. For tests of recording, planning and scheduling.

use std::sync::Arc;

use gt_ir::{Failure, HostTensor, TensorType};
use gt_plan::{EngineLimits, Plan};

use crate::stepwise::{self, Compute, StepwiseProgram, Task};
use gt_engine::{Buffer, Done, Engine, Memory, Run, Ticket};

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
    fn storage(&self) -> usize {
        0
    }
    fn read(&self) -> Result<HostTensor, Failure> {
        let mut bytes = gt_ir::vec_for_bytes(self.0.bytes())?;
        bytes.resize(self.0.bytes(), 0);
        Ok(HostTensor { ty: self.0, bytes })
    }
}

impl Compute<NullBuffer> for Null {
    fn instr(&mut self, task: Task<'_, NullBuffer>) -> Result<Vec<NullBuffer>, Failure> {
        Ok(task.outs.iter().map(|&ty| NullBuffer(ty)).collect())
    }
}

impl Engine for Null {
    type Buffer = NullBuffer;
    type Program = StepwiseProgram;

    fn name(&self) -> &'static str {
        "null"
    }
    fn limits(&self) -> EngineLimits {
        EngineLimits::MODERATE
    }
    fn prepare(&mut self, plan: &Arc<Plan>) -> Result<StepwiseProgram, Failure> {
        Ok(StepwiseProgram::new(plan.clone()))
    }
    fn submit(&mut self, program: &Arc<StepwiseProgram>, run: Run<NullBuffer>) -> Box<dyn Ticket> {
        stepwise::run(program, run, self);
        Box::new(Done)
    }
    fn synchronize(&mut self) {}
    fn memory(&self) -> Memory {
        Memory::default()
    }
    fn trim(&mut self) {}
}
