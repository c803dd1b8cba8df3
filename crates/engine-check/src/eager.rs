//! An emitter that computes at once: gradient rules and expansions on plain values.

use gt_ir::{Emit, Failure, HostTensor, Op, OpError, Scalar, TensorType, Val};
use smallvec::SmallVec;

use crate::reference::evaluate_within;

/// An emitter that computes at once, on the reference.
pub struct Eager {
    values: Vec<HostTensor>,
    failure: Option<Failure>,
    /// The memory that is left for further values.
    room_bytes: u64,
}

impl Default for Eager {
    fn default() -> Self {
        Eager::within(u64::MAX)
    }
}

impl Eager {
    /// An emitter that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An emitter whose values, and what is on the way to them, take so many bytes at most.
    pub(crate) fn within(room_bytes: u64) -> Self {
        Eager { values: Vec::new(), failure: None, room_bytes }
    }

    /// A value with this content.
    pub fn put(&mut self, tensor: HostTensor) -> Val {
        self.room_bytes = self.room_bytes.saturating_sub(tensor.bytes.len() as u64);
        self.values.push(tensor);
        Val(self.values.len() as u32 - 1)
    }

    /// Why an instruction could not be computed: rules and expansions can only report their own kind of error.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The content of a value.
    pub fn get(&self, value: Val) -> &HostTensor {
        &self.values[value.0 as usize]
    }
}

impl Emit for Eager {
    fn emit(&mut self, op: Op, ins: &[Val], scalars: &[Scalar]) -> Result<SmallVec<[Val; 2]>, OpError> {
        let types: Vec<TensorType> = ins.iter().map(|&v| self.ty(v)).collect();
        op.primitive().infer(&types)?;
        if op.primitive().scalars(&types) != scalars.len() {
            return Err(OpError::argument(format!("{} with {} scalars", op.display_name(), scalars.len())));
        }
        let tensors: Vec<&HostTensor> = ins.iter().map(|&v| self.get(v)).collect();
        let outs = match evaluate_within(self.room_bytes, &op, &tensors, scalars, None) {
            Ok(outs) => outs,
            Err(failure) => {
                let message = failure.to_string();
                self.failure = Some(failure);
                return Err(OpError::argument(message));
            }
        };
        Ok(outs.into_iter().map(|t| self.put(t)).collect())
    }
    fn ty(&self, value: Val) -> TensorType {
        self.get(value).ty
    }
}
