//! The `gt` command, as the Python package has it.

use std::ffi::OsString;
use std::path::PathBuf;

use gt_observe::output;
use pyo3::prelude::*;

/// Runs the command and gives its exit code. `worker_command` starts another worker.
#[pyfunction]
fn cli(py: Python<'_>, arguments: Vec<OsString>, worker_command: Vec<OsString>) -> u8 {
    // The interpreter would keep Ctrl-C for itself; the command has its own way to end.
    py.detach(|| gt_cli::run(arguments, &worker_command))
}

/// Whether `gt plan` runs this process.
#[pyfunction]
#[pyo3(name = "_is_planned")]
fn is_planned() -> bool {
    output::is_planned()
}

/// Whether GT may write to a path; where it may not, stderr says so once.
#[pyfunction]
#[pyo3(name = "_may_write")]
fn may_write(path: PathBuf) -> bool {
    output::may_write(&path)
}

/// The paths that were not written because `gt plan` runs this process.
#[pyfunction]
#[pyo3(name = "_left_out")]
fn left_out() -> Vec<PathBuf> {
    output::left_out()
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cli, m)?)?;
    m.add_function(wrap_pyfunction!(is_planned, m)?)?;
    m.add_function(wrap_pyfunction!(left_out, m)?)?;
    m.add_function(wrap_pyfunction!(may_write, m)?)
}
