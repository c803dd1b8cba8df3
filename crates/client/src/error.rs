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
    /// The caller's: an operation on a tensor that its state does not allow.
    #[error("{0}")]
    State(String),
    /// The network's or the server's: there is no session to be had there.
    #[error("{0}")]
    Connection(String),
    /// A wait took longer than the user allowed.
    #[error("what was recorded has not run within {0:?}")]
    TimedOut(std::time::Duration),
    /// A wait was given up because the user asked.
    #[error("interrupted")]
    Interrupted,
    /// Code of the user's that GT called (a hook, a custom function) failed.
    #[error("{0}")]
    Callback(Box<dyn std::error::Error + Send + Sync>),
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
}

impl Failed {
    /// Whose fault it is.
    pub fn kind(&self) -> FailureKind {
        self.failure.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.failure)?;
        if let Some(site) = &self.site {
            write!(f, "\n  recorded at {site}")?;
        }
        for (bytes, site) in &self.holders {
            write!(f, "\n  {:>10.1} MiB held by the tensors of {site}", *bytes as f64 / (1 << 20) as f64)?;
        }
        Ok(())
    }
}

/// What calls into GT return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
