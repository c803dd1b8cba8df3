//! A plan in the making: what the passes hand to one another.

use gt_ir::{Instr, Op, TensorId, TensorType};
use gt_stream::{Operand, Recipe};

use crate::{EngineLimits, PlanError, Slot, infer};

/// A window whose ids are slots, with the types of all of them.
pub(crate) struct Draft {
    pub(crate) instrs: Vec<Instr>,
    pub(crate) types: Vec<TensorType>,
    pub(crate) inputs: usize,
    /// For each slot: whether someone can name it after the window.
    pub(crate) outlives: Vec<bool>,
    /// For each instruction: whether it is to run at all.
    pub(crate) kept: Vec<bool>,
    /// How large steps may be.
    pub(crate) limits: EngineLimits,
}

impl Draft {
    /// Renames operands to slots and infers all types.
    pub(crate) fn new(recipe: &Recipe, input_types: &[TensorType], limits: EngineLimits) -> Result<Draft, PlanError> {
        let inputs = recipe.inputs();
        let slot = |id: TensorId| match Operand::of(id) {
            Operand::Input(k) => TensorId(k as u64),
            Operand::Defined(k) => TensorId(inputs as u64 + k as u64),
        };
        let mut instrs = recipe.instrs().to_vec();
        for instr in &mut instrs {
            instr.ins.iter_mut().chain(&mut instr.outs).for_each(|id| *id = slot(*id));
        }
        let types = infer::types(&instrs, input_types)?;
        let outlives = recipe.dying().iter().chain(recipe.dead()).map(|&freed| !freed).collect();
        let kept = vec![true; instrs.len()];
        Ok(Draft { instrs, types, inputs, outlives, kept, limits })
    }

    /// The type of an operand or result.
    pub(crate) fn ty(&self, id: TensorId) -> &TensorType {
        &self.types[id.0 as usize]
    }
}

/// The slot an id of a plan's instruction stands for.
#[inline]
pub(crate) fn slot(id: TensorId) -> Slot {
    id.0 as Slot
}

/// Which part an op can play in a fused step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes each element of its output from the same element of its inputs.
    Elementwise,
    /// Folds axes of its input.
    Reduction,
    /// Stands alone.
    Single,
}

/// The role of an op. Written out for every op, so that a new one does not compile until it is answered.
pub fn role(op: &Op) -> Role {
    match op {
        Op::Fill(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select(_) | Op::Cast(_) => Role::Elementwise,
        Op::Reduce(_) => Role::Reduction,
        Op::Iota(_) | Op::Random(_) | Op::Upload(_) => Role::Single,
        Op::ArgReduce(_) | Op::Scan(_) | Op::Sort(_) | Op::Matmul(_) => Role::Single,
        Op::Reshape(_) | Op::Permute(_) | Op::Broadcast(_) | Op::Slice(_) => Role::Single,
        Op::UpdateSlice(_) | Op::Pad(_) | Op::Concat(_) => Role::Single,
        Op::Take(_) | Op::Put(_) | Op::Gather(_) | Op::Scatter(_) | Op::Write(_) | Op::Check(_) => Role::Single,
        Op::Attention(_) | Op::AttentionGrad(_) | Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) => Role::Single,
        Op::Update(_) => Role::Single,
    }
}
