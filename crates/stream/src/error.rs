//! What is wrong with a window that has no recipe. The client checks what it records, so each of these errors is a bug
//! in GT, or comes from a hostile peer.

use gt_ir::TensorId;
use thiserror::Error;

/// Why a window has no recipe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// WINDOW-1 does not hold.
    #[error("instruction {instr} defines {found}, but {expected} comes next")]
    NotConsecutive {
        /// The instruction's position.
        instr: u32,
        /// The id it defines.
        found: TensorId,
        /// The id it should define.
        expected: TensorId,
    },
    /// An instruction that defines nothing.
    #[error("instruction {instr} ({op}) defines nothing")]
    NoOuts {
        /// The instruction's position.
        instr: u32,
        /// The op's name.
        op: &'static str,
    },
    /// A value used before its definition.
    #[error("instruction {instr} reads {id} before it is defined")]
    NotYetDefined {
        /// The instruction's position.
        instr: u32,
        /// The value.
        id: TensorId,
    },
    /// A value freed before its definition.
    #[error("{id} is freed before it is defined")]
    FreedUndefined {
        /// The value.
        id: TensorId,
    },
    /// Payloads that are not those of the uploads.
    #[error("the payload of instruction {instr} is wrong: {message}")]
    Payload {
        /// The instruction's position.
        instr: u32,
        /// What does not fit.
        message: String,
    },
    /// More instructions than a window may have.
    #[error("a window of {instrs} instructions exceeds the limit of {limit}")]
    TooLong {
        /// How many there are.
        instrs: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl StreamError {
    /// The position of the instruction that is wrong, if it is one.
    pub fn instr(&self) -> Option<u32> {
        match self {
            StreamError::NotConsecutive { instr, .. }
            | StreamError::NoOuts { instr, .. }
            | StreamError::NotYetDefined { instr, .. }
            | StreamError::Payload { instr, .. } => Some(*instr),
            StreamError::FreedUndefined { .. } | StreamError::TooLong { .. } => None,
        }
    }
}
