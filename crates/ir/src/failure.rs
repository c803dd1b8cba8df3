//! A failure as a value: what poisons a tensor and is raised by the read that meets it.

use std::fmt;

use crate::{SiteId, TensorType};

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The user's: an index out of range.
    Index,
    /// The user's: a value that the op does not take.
    Value,
    /// The user's: a value outside what a function is defined for.
    Domain,
    /// The machine's: no memory under the limit.
    Memory,
    /// A worker that is gone.
    WorkerLost,
    /// Ours.
    Internal,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [FailureKind; 6] = [
        FailureKind::Index,
        FailureKind::Value,
        FailureKind::Domain,
        FailureKind::Memory,
        FailureKind::WorkerLost,
        FailureKind::Internal,
    ];
}

/// An instruction that failed, with all its reader needs to find it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Whose fault.
    pub kind: FailureKind,
    /// What happened, in a sentence.
    pub message: String,
    /// The op's name.
    pub op: String,
    /// The types of its inputs.
    pub ins: Vec<TensorType>,
    /// The worker it ran on.
    pub worker: String,
    /// The source line that recorded it.
    pub site: SiteId,
    /// For [`FailureKind::Memory`]: the largest live values, as bytes and the line that made them.
    pub holders: Vec<(u64, SiteId)>,
}

impl Failure {
    /// A failure with no place yet; the engine that meets it fills in the rest.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
            op: String::new(),
            ins: Vec::new(),
            worker: String::new(),
            site: SiteId(0),
            holders: Vec::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if !self.op.is_empty() {
            write!(f, " (in {}", self.op)?;
            for (i, ty) in self.ins.iter().enumerate() {
                write!(f, "{}{ty}", if i == 0 { " on " } else { ", " })?;
            }
            if !self.worker.is_empty() {
                write!(f, ", {}", self.worker)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
