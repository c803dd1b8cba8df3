//! Sessions with a server.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Connects this process to a server.
#[pyfunction]
#[pyo3(signature = (address, token=None, fingerprint=None, workers=0, timeout=10.0))]
fn connect(
    address: &str,
    token: Option<String>,
    fingerprint: Option<String>,
    workers: u32,
    timeout: f64,
) -> PyResult<()> {
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    gt::connect(address, &gt::ConnectOptions { token, fingerprint, workers, timeout }).or_raise()
}

/// Leaves the server; without one, waits for what was recorded.
#[pyfunction]
fn disconnect() -> PyResult<()> {
    gt::disconnect().or_raise()
}

/// Gives the session `n` workers.
#[pyfunction]
fn gpu_workers(n: i64) -> PyResult<()> {
    match usize::try_from(n) {
        Ok(n) if n > 0 => gt::gpu_workers(n).or_raise(),
        _ => Err(PyValueError::new_err(format!("gpu_workers needs at least one worker, got {n}"))),
    }
}

/// How many workers the session has.
#[pyfunction]
fn worker_count() -> usize {
    gt::worker_count()
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(connect, m)?)?;
    m.add_function(wrap_pyfunction!(disconnect, m)?)?;
    m.add_function(wrap_pyfunction!(gpu_workers, m)?)?;
    m.add_function(wrap_pyfunction!(worker_count, m)?)
}
