//! What can be wrong with an instruction before it runs. Every kind is the caller's fault.

use thiserror::Error;

/// A mistake found while an instruction is recorded or decoded.
///
/// The kind decides which exception a Python user sees; the message names both sides of the mismatch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpError {
    /// Shapes that do not fit each other.
    #[error("{message}")]
    Shape {
        /// What did not fit.
        message: String,
    },
    /// A dtype the operation does not take.
    #[error("{message}")]
    DType {
        /// Which dtype, and what is allowed.
        message: String,
    },
    /// An axis or index out of range.
    #[error("{message}")]
    Index {
        /// The index and its range.
        message: String,
    },
    /// An argument with a value that makes no sense.
    #[error("{message}")]
    Argument {
        /// The argument and what it should be.
        message: String,
    },
    /// Bytes or text that are not an instruction.
    #[error("{message}")]
    Malformed {
        /// Where and why.
        message: String,
    },
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $fn:ident => $kind:ident),* $(,)?) => {
        impl OpError {
            $($(#[$doc])* pub fn $fn(message: impl Into<String>) -> Self {
                OpError::$kind { message: message.into() }
            })*
        }
    };
}

shorthand! {
    /// An [`OpError::Shape`].
    shape => Shape,
    /// An [`OpError::DType`].
    dtype => DType,
    /// An [`OpError::Index`].
    index => Index,
    /// An [`OpError::Argument`].
    argument => Argument,
    /// An [`OpError::Malformed`].
    malformed => Malformed,
}
