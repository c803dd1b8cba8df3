//! The `gt` command, as the Python package has it.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command and gives its exit code. `worker_command` starts another worker.
#[pyfunction]
fn cli(py: Python<'_>, arguments: Vec<OsString>, worker_command: Vec<OsString>) -> u8 {
    // The interpreter would keep Ctrl-C for itself; the command has its own way to end.
    py.detach(|| gt_cli::run(arguments, &worker_command))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cli, m)?)
}
