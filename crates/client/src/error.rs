//! What a call into GT can fail with, by whose fault it is.

use std::fmt;

use gt_ir::{Failure, FailureKind, OpError};
use thiserror::Error;

/// An error of the client.
#[derive(Debug, Error)]
pub enum Error {
    /// The caller's: shapes, dtypes or arguments that do not fit; raised at the call.
    #[error(transparent)]
    Op(#[from] OpError),
    /// An instruction that failed while it ran; raised by the read that meets it.
    #[error("{0}")]
    Failed(Box<Failed>),
    /// The caller's: a backward pass that cannot be done.
    #[error("{0}")]
    Autograd(String),
    /// The caller's: an argument of the wrong type.
    #[error("{0}")]
    Type(String),
    /// The caller's: a wrong value for an argument or a variable.
    #[error("{0}")]
    Value(String),
    /// The caller's: arguments that fit their types, and that the operation refuses.
    #[error("{0}")]
    Argument(String),
    /// The caller's: an integer divided by zero.
    #[error("integer division by zero")]
    ZeroDivision,
    /// The caller's: a call that the state of the tensor, the scope or the session does not allow.
    #[error("{0}")]
    State(String),
    /// GT's own.
    #[error("{INTERNAL}{0}")]
    Internal(String),
    /// The network's or the server's: there is no session to be had there.
    #[error("{0}")]
    Connection(String),
    /// A wait took longer than the user allowed.
    #[error("the queued work did not finish within {0:?}")]
    TimedOut(std::time::Duration),
    /// A wait was given up because the user asked.
    #[error("interrupted")]
    Interrupted,
    /// Code of the user's that GT called (a hook, a custom function) failed.
    #[error("{0}")]
    Callback(Box<dyn std::error::Error + Send + Sync>),
}

/// How a message of GT's own fault begins.
const INTERNAL: &str = "internal error in GT, please report it: ";

impl Error {
    /// GT's own fault.
    pub(crate) fn internal(what: impl fmt::Display) -> Self {
        Error::Internal(what.to_string())
    }
}

/// A failed instruction with its source line resolved.
#[derive(Debug)]
pub struct Failed {
    /// What happened.
    pub failure: Failure,
    /// `file:line` of the call that recorded it, where known.
    pub site: Option<String>,
    /// For an allocation over the limit: the largest live tensors by line.
    pub holders: Vec<(u64, String)>,
    /// `file:line` of the write that was skipped because of it, where known.
    pub skipped_at: Option<String>,
}

/// How many of the tensors that kept their values are listed.
const LISTED: usize = 12;

impl Failed {
    /// Whose fault it is.
    pub fn kind(&self) -> FailureKind {
        self.failure.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind() == FailureKind::Internal {
            f.write_str(INTERNAL)?;
        }
        write!(f, "{}", self.failure)?;
        if let Some(site) = &self.site {
            write!(f, "\n  recorded at {site}")?;
        }
        if let Some(write) = &self.failure.skipped {
            let at = self.skipped_at.as_ref().map(|site| format!(" at {site}")).unwrap_or_default();
            let kept: Vec<String> = write.kept.iter().take(LISTED).map(ToString::to_string).collect();
            let more = write.kept.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let whose = match write.kept.len() {
                1 => "one tensor kept its value".to_string(),
                count => format!("{count} tensors kept their values"),
            };
            write!(f, "\n  the update{at} was skipped; {whose}: {}{more}", kept.join(", "))?;
        }
        for (bytes, site) in &self.holders {
            write!(f, "\n  {:>10.1} MiB held by tensors from {site}", *bytes as f64 / (1 << 20) as f64)?;
        }
        Ok(())
    }
}

/// What calls into GT return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
