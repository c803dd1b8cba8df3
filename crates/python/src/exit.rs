//! The end of the interpreter.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use gt_client::Error;
use pyo3::prelude::*;

use crate::errors::to_py;

unsafe extern "C" {
    /// Of the C library: calls the function with the status that the process ends with.
    #[cfg(target_env = "gnu")]
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// How long sessions that have run everything may take to tell of a failure.
const NEWS: Duration = Duration::from_secs(5);

/// Waits until everything recorded has run, in all sessions. The exceptions of failures that nobody was told of, each with the
/// `file:line` that recorded it.
#[pyfunction]
fn _finish() -> Vec<(PyErr, Option<String>)> {
    let with_site = |error: Error| {
        let site = match &error {
            Error::Failed(failed) => failed.site.clone(),
            _ => None,
        };
        (to_py(error), site)
    };
    gt::finish(NEWS).into_iter().map(with_site).collect()
}

/// Ends the session; for interpreter exit.
#[pyfunction]
fn _shutdown() {
    gt::shutdown();
}

/// The status that Python ends with when it cannot write its output, instead of the one that was asked for.
#[cfg(target_env = "gnu")]
const OUTPUT_LOST: c_int = 120;

/// Makes 1 of the status 0 that this process was going to end with, or of that of lost output. Whatever else there is to be done at
/// its end is done.
#[pyfunction]
fn _fail_at_exit() {
    #[cfg(target_env = "gnu")]
    {
        extern "C" fn fail(status: c_int, _: *mut c_void) {
            if status == 0 || status == OUTPUT_LOST {
                // SAFETY: glibc takes another status from a function it calls at exit, and goes on with those that are left.
                unsafe { libc::exit(1) }
            }
        }
        // SAFETY: the function has the type that is asked for, and this library is never unloaded.
        unsafe { on_exit(fail, std::ptr::null_mut()) };
    }
    #[cfg(not(target_env = "gnu"))]
    {
        extern "C" fn fail() {
            // SAFETY: it ends the process at once; the interpreter has flushed its files.
            unsafe { libc::_exit(1) }
        }
        // SAFETY: as above.
        unsafe { libc::atexit(fail) };
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_finish, m)?)?;
    m.add_function(wrap_pyfunction!(_fail_at_exit, m)?)?;
    m.add_function(wrap_pyfunction!(_shutdown, m)?)
}
