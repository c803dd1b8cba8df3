//! The one place where errors become exceptions.

use gt_client::{Error, Failed};
use gt_ir::{FailureKind, OpError};
use pyo3::exceptions::{
    PyConnectionError, PyIndexError, PyKeyboardInterrupt, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;

/// The exception PyTorch users expect for an error.
pub fn to_py(error: Error) -> PyErr {
    match error {
        Error::Op(OpError::Index { message }) => PyIndexError::new_err(message),
        Error::Op(e) => PyRuntimeError::new_err(e.to_string()),
        Error::Failed(failed) => {
            let mut message = failed.to_string();
            if let Some(parameters) = parameters_of(&failed) {
                message.push_str("\n  ");
                message.push_str(&parameters);
            }
            let raised = match failed.kind() {
                FailureKind::Index => PyIndexError::new_err(message),
                FailureKind::Domain => PyRuntimeError::new_err(message),
                FailureKind::Value => PyValueError::new_err(message),
                FailureKind::Memory => from_package("OutOfMemoryError", message),
                FailureKind::WorkerLost => from_package("WorkerLost", message),
                FailureKind::Internal => from_package("GTError", message),
            };
            mark(raised, failed.site.as_deref())
        }
        Error::Autograd(m) | Error::Argument(m) | Error::State(m) => PyRuntimeError::new_err(m),
        Error::ZeroDivision => PyRuntimeError::new_err(format!("ZeroDivisionError: {error}")),
        Error::Internal(_) => PyRuntimeError::new_err(error.to_string()),
        Error::Type(m) => PyTypeError::new_err(m),
        Error::Value(m) => PyValueError::new_err(m),
        Error::Connection(m) => PyConnectionError::new_err(m),
        late @ Error::TimedOut(_) => PyTimeoutError::new_err(late.to_string()),
        // The signal handler's own exception is waiting where there is one.
        Error::Interrupted => Python::attach(PyErr::take).unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        Error::Callback(e) => match e.downcast::<PyErr>() {
            Ok(e) => *e,
            Err(e) => PyRuntimeError::new_err(e.to_string()),
        },
    }
}

/// The exception of a failed op, with the `file:line` that recorded it: `gt._exit` knows it by that.
fn mark(raised: PyErr, site: Option<&str>) -> PyErr {
    // Without the mark the exception is the same.
    let _ = Python::attach(|py| raised.value(py).setattr("_gt_site", site));
    raised
}

/// The parameters that kept their values because their update was skipped, where the package knows them.
fn parameters_of(failed: &Failed) -> Option<String> {
    let write = failed.failure.skipped.as_ref()?;
    let kept: Vec<String> = write.kept.iter().map(ToString::to_string).collect();
    Python::attach(|py| {
        let find = py.import("gt.optim.skipped_updates").ok()?.getattr("parameters_of").ok()?;
        find.call1((failed.skipped_at.as_deref(), kept)).ok()?.extract().ok()?
    })
}

/// An exception class of `gt.errors`.
pub(crate) fn from_package(name: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("gt.errors")?.getattr(name)?;
            Ok(PyErr::from_value(class.call1((message.as_str(),))?))
        };
        make().unwrap_or_else(|_| PyRuntimeError::new_err(message.clone()))
    })
}

/// What `f` gives, or its error as an exception. A panic is an error of ours, and must not end the user's program: as
/// `PanicException` it would pass every `except Exception`.
#[inline]
pub fn guarded<T>(f: impl FnOnce() -> gt_client::Result<T>) -> PyResult<T> {
    // What a panic leaves half done are tensors that nobody has yet; locks do not stay taken.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(result) => result.or_raise(),
        Err(panic) => Err(panicked(&*panic)),
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
    PyRuntimeError::new_err(format!("internal error in GT, please report it: {text}"))
}

/// Shorthand for results of the client.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for gt_client::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(to_py)
    }
}
