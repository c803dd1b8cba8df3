//! What can be wrong with a window. The client checks before it records, so each of these is a fault of ours
//! or of something that speaks for a client.

use gt_ir::{OpError, TensorId};
use gt_stream::StreamError;
use thiserror::Error;

/// Why a window cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// It is no window at all.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// An upload whose payload is not there.
    #[error("the payload of instruction {instr} is missing")]
    NoPayload {
        /// The instruction's position.
        instr: u32,
    },
    /// A value from outside that does not exist.
    #[error("instruction {instr} reads {id}, which does not exist")]
    UnknownInput {
        /// The instruction's position.
        instr: u32,
        /// The value.
        id: TensorId,
    },
    /// An instruction that does not fit its operands.
    #[error("instruction {instr} ({op}) is malformed: {source}")]
    Malformed {
        /// The instruction's position.
        instr: u32,
        /// The op's name.
        op: &'static str,
        /// What its shape rule said.
        source: OpError,
    },
    /// The planner panicked.
    #[error("the planner panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
}

impl PlanError {
    /// The position of the instruction that is wrong, if it is one.
    pub fn instr(&self) -> Option<u32> {
        match self {
            PlanError::Stream(error) => error.instr(),
            PlanError::NoPayload { instr }
            | PlanError::UnknownInput { instr, .. }
            | PlanError::Malformed { instr, .. } => Some(*instr),
            PlanError::Panicked { .. } => None,
        }
    }
}
