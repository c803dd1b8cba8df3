//! What can be wrong with a window. The client checks before it records, so each of these is a fault of ours
//! or of something that speaks for a client.

use gt_ir::{OpError, TensorId};
use thiserror::Error;

/// Why a window cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
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
    /// A value from outside that does not exist.
    #[error("instruction {instr} reads {id}, which does not exist")]
    UnknownInput {
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
    /// More instructions than a window may have.
    #[error("a window of {instrs} instructions exceeds the limit of {limit}")]
    TooLong {
        /// How many there are.
        instrs: usize,
        /// How many there may be.
        limit: usize,
    },
}
