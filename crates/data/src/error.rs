//! What can go wrong between a file and a batch, and whose fault it is.

use std::io;
use std::path::Path;

use crate::files::Named;

use serde::{Deserialize, Serialize};

/// A failure while data is opened, indexed, read or decoded. Those about a file name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The user's: no such file, or no file fits the pattern.
    #[error("{}", missing(path))]
    Missing {
        /// The file, or the pattern.
        path: String,
    },
    /// The user's: the file may not be read.
    #[error("{path}: permission denied")]
    Denied {
        /// The file.
        path: String,
    },
    /// Nobody's: who reads here for others may not open this for them.
    #[error("{path}: this worker does not serve the file to this script (see gt worker {option})")]
    NotServed {
        /// The file or address.
        path: String,
        /// What would allow it.
        option: String,
    },
    /// The system's: reading or writing failed.
    #[error("{path}: {why}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
    /// The file's: its content is not what its format demands.
    #[error("{path}: the file is corrupt or truncated: {why}")]
    Corrupt {
        /// The file.
        path: String,
        /// What does not fit.
        why: String,
    },
    /// The file's: its columns are not those of the first file, or of an earlier look at it.
    #[error("{path}: {why}")]
    Schema {
        /// The file.
        path: String,
        /// What differs.
        why: String,
    },
    /// The user's: a wrong argument.
    #[error("{0}")]
    Argument(String),
    /// Nobody's: the format has it and GT does not read it.
    #[error("{path}: {why}")]
    Unsupported {
        /// The file.
        path: String,
        /// What is not supported.
        why: String,
    },
    /// The user's: what batches need is more than the loader may have.
    #[error("{0}; to use less memory, lower batch_size, prefetch_factor or shuffle_pool")]
    Memory(String),
    /// The caller asked for the wait to end.
    #[error("interrupted")]
    Interrupted,
    /// Ours.
    #[error("internal error of gt.data: {0}")]
    Internal(String),
}

fn missing(path: &str) -> String {
    match path.contains(['*', '?', '[']) {
        true => format!("no file matches {path}"),
        false => format!("{path}: no such file"),
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

impl DataError {
    /// What the system said of a file.
    pub fn io(file: &(impl Named + ?Sized), error: &io::Error) -> DataError {
        // Where bytes pass through `std::io::Read`, an error of ours does too.
        if let Some(ours) = error.get_ref().and_then(|e| e.downcast_ref::<DataError>()) {
            return ours.clone();
        }
        let path = file.name();
        match error.kind() {
            io::ErrorKind::NotFound => DataError::Missing { path },
            io::ErrorKind::PermissionDenied => DataError::Denied { path },
            io::ErrorKind::UnexpectedEof => DataError::Corrupt { path, why: "the file ends too early".into() },
            _ => DataError::Io { path, why: error.to_string() },
        }
    }

    /// A file whose content is not what its format demands.
    pub fn corrupt(file: &(impl Named + ?Sized), why: impl std::fmt::Display) -> DataError {
        DataError::Corrupt { path: file.name(), why: why.to_string() }
    }

    /// A file whose columns do not fit.
    pub fn schema(file: &(impl Named + ?Sized), why: impl std::fmt::Display) -> DataError {
        DataError::Schema { path: file.name(), why: why.to_string() }
    }

    /// Something in a file that GT does not read.
    pub fn unsupported(file: &(impl Named + ?Sized), why: impl std::fmt::Display) -> DataError {
        DataError::Unsupported { path: file.name(), why: why.to_string() }
    }

    /// What it is about, and what is said of that.
    fn place(&mut self) -> Option<&mut String> {
        match self {
            DataError::Missing { path }
            | DataError::Denied { path }
            | DataError::NotServed { path, .. }
            | DataError::Io { path, .. }
            | DataError::Corrupt { path, .. }
            | DataError::Schema { path, .. }
            | DataError::Unsupported { path, .. } => Some(path),
            DataError::Argument(_) | DataError::Memory(_) | DataError::Interrupted | DataError::Internal(_) => None,
        }
    }

    /// The same, with its file named as from `folder`, if it lies below.
    #[must_use]
    pub fn seen_from(mut self, folder: &Path) -> DataError {
        if let Some(path) = self.place()
            && let Ok(below) = Path::new(path.as_str()).strip_prefix(folder)
        {
            *path = below.display().to_string();
        }
        self
    }

    /// Whether `on_error="skip"` may leave the file out: it is about one file, not about the call.
    pub fn is_of_one_file(&self) -> bool {
        match self {
            DataError::Missing { .. }
            | DataError::Denied { .. }
            | DataError::Io { .. }
            | DataError::Corrupt { .. }
            | DataError::Schema { .. }
            | DataError::Unsupported { .. } => true,
            // To leave out what others may open would make another data set.
            DataError::NotServed { .. } => false,
            DataError::Argument(_) | DataError::Memory(_) | DataError::Interrupted | DataError::Internal(_) => false,
        }
    }
}
