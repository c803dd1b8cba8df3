//! A failure as a value: what poisons a tensor and is raised by the read that meets it.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Instr, OpKind, SiteId, TensorId, TensorType};

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

/// The value whose content made an instruction fail. A kernel knows which input it is, the engine which slot of its plan that
/// is, the worker which value of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The input of this number of the instruction that failed.
    Input(u8),
    /// This slot of the plan that runs.
    Slot(u32),
    /// This value of the stream.
    Value(TensorId),
}

impl Cause {
    /// As a slot of the plan that `failed` is an instruction of.
    pub fn in_plan(self, failed: &Instr) -> Option<Cause> {
        match self {
            Cause::Input(k) => failed.ins.get(k as usize).map(|id| Cause::Slot(id.0 as u32)),
            Cause::Slot(_) | Cause::Value(_) => Some(self),
        }
    }
}

/// A write that did not happen because a new value was poisoned.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedWrite {
    /// The source line of the write.
    pub site: SiteId,
    /// The types of the values that stayed as they were.
    pub kept: Vec<TensorType>,
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
    /// For [`FailureKind::Memory`]: the lines whose live values hold most, with the bytes that all values of a line hold together.
    pub holders: Vec<(u64, SiteId)>,
    /// What was wrong with the data, where that is one value: failures with one cause are raised once.
    pub cause: Option<Cause>,
    /// The write that was skipped because of it, if that is why it is raised.
    pub skipped: Option<SkippedWrite>,
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
            cause: None,
            skipped: None,
        }
    }

    /// The lines that hold most, largest first: values as bytes and the line that made them, summed by line.
    pub fn largest_holders(values: impl IntoIterator<Item = (u64, SiteId)>, most: usize) -> Vec<(u64, SiteId)> {
        let mut by_line: BTreeMap<u32, u64> = BTreeMap::new();
        for (bytes, site) in values {
            let sum = by_line.entry(site.0).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let mut lines: Vec<_> = by_line.into_iter().map(|(site, bytes)| (bytes, SiteId(site))).collect();
        lines.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
        lines.truncate(most);
        lines
    }

    /// A failure because of what the input of this number holds.
    pub fn in_input(kind: FailureKind, input: u8, message: impl Into<String>) -> Self {
        Failure { cause: Some(Cause::Input(input)), ..Failure::new(kind, message) }
    }

    /// Roughly what it takes in memory.
    pub fn len_bytes(&self) -> usize {
        let types = self.ins.len() + self.skipped.as_ref().map_or(0, |skipped| skipped.kept.len());
        let texts = self.message.len() + self.op.len() + self.worker.len();
        size_of::<Failure>() + texts + types * size_of::<TensorType>() + self.holders.len() * size_of::<(u64, SiteId)>()
    }

    /// The same, cut to a length that costs little however often it is kept. For failures that another process sends.
    #[must_use]
    pub fn shortened(mut self) -> Failure {
        const TEXT_CHARS: usize = 1000;
        for text in [&mut self.message, &mut self.op, &mut self.worker] {
            if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) {
                text.truncate(end);
                text.shrink_to_fit();
            }
        }
        self.ins.truncate(16);
        self.ins.shrink_to_fit();
        self.holders.truncate(8);
        self.holders.shrink_to_fit();
        self.skipped = None;
        self
    }

    /// The value of the stream that is to blame.
    pub fn bad_value(&self) -> Option<TensorId> {
        match self.cause {
            Some(Cause::Value(id)) => Some(id),
            Some(Cause::Input(_) | Cause::Slot(_)) | None => None,
        }
    }

    /// Whether both have one cause: a reader who was told of one has no use for the other. Steps that fail in the same way with
    /// other data do not; see [`Failure::repeats`].
    pub fn has_cause_of(&self, other: &Failure) -> bool {
        self.bad_value().is_some_and(|id| other.bad_value() == Some(id))
    }

    /// Whether it says nothing that the other does not say: a loop that fails in every step is one error.
    pub fn repeats(&self, other: &Failure) -> bool {
        let said = |f: &Failure| (f.kind, f.site, f.ins.clone(), f.holders.clone());
        let words = self.message == other.message && self.op == other.op && self.worker == other.worker;
        self.has_cause_of(other) || words && said(self) == said(other)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        // A check stands beside the op that users called, and has nothing to say of its own.
        let is_check = self.op == OpKind::Check.name();
        if self.op.is_empty() || is_check && self.worker.is_empty() {
            return Ok(());
        }
        if is_check {
            return write!(f, " (on {})", self.worker);
        }
        write!(f, " (in {}", self.op)?;
        for (i, ty) in self.ins.iter().enumerate() {
            write!(f, "{}{ty}", if i == 0 { " on " } else { ", " })?;
        }
        if !self.worker.is_empty() {
            write!(f, ", {}", self.worker)?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Failure {}
