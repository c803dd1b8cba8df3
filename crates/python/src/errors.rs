//! The one place where errors become exceptions.

use gt_client::Error;
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
            let message = failed.to_string();
            match failed.kind() {
                FailureKind::Index => PyIndexError::new_err(message),
                FailureKind::Domain => PyRuntimeError::new_err(message),
                FailureKind::Value => PyValueError::new_err(message),
                FailureKind::Memory => from_package("OutOfMemoryError", message),
                FailureKind::WorkerLost => from_package("WorkerLost", message),
                FailureKind::Internal => from_package("GTError", message),
            }
        }
        Error::Autograd(m) | Error::State(m) => match m.strip_prefix("ZeroDivisionError") {
            Some(_) => PyRuntimeError::new_err("ZeroDivisionError: integer division by zero"),
            None => PyRuntimeError::new_err(m),
        },
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
