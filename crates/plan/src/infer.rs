//! Pass 1: the type of every slot.

use gt_ir::{Instr, TensorType};

use crate::PlanError;

/// The types of the inputs followed by those of all that the instructions define.
pub(crate) fn types(instrs: &[Instr], inputs: &[TensorType]) -> Result<Vec<TensorType>, PlanError> {
    let mut types = Vec::with_capacity(inputs.len() + instrs.len());
    types.extend_from_slice(inputs);
    let mut ins = Vec::new();
    for (at, instr) in instrs.iter().enumerate() {
        ins.clear();
        ins.extend(instr.ins.iter().map(|id| types[id.0 as usize]));
        let outs = instr.infer(&ins).map_err(|source| PlanError::Malformed {
            instr: at as u32,
            op: instr.op.display_name(),
            source,
        })?;
        types.extend(outs);
    }
    Ok(types)
}
