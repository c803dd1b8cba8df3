//! Sessions with a server: the process's, or a thread's own.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Connects to a server: the calling thread alone, if `own`.
#[pyfunction]
#[pyo3(signature = (address, token=None, fingerprint=None, workers=0, timeout=10.0, own=false))]
fn connect(
    address: &str,
    token: Option<String>,
    fingerprint: Option<String>,
    workers: u32,
    timeout: f64,
    own: bool,
) -> PyResult<()> {
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    gt::open_session(address, &gt::ConnectOptions { token, fingerprint, workers, timeout }, own).or_raise()
}

/// The session that this thread opened last is its own until it leaves it. False if it is in use already.
#[pyfunction]
fn enter_session() -> bool {
    gt::enter_opened()
}

/// Ends the session that this thread has entered.
#[pyfunction]
fn leave_session() -> PyResult<()> {
    gt::leave_entered().or_raise()
}

/// The session that this thread opened last is what its statement says it is: nobody has entered it.
#[pyfunction]
fn settle_session() -> PyResult<()> {
    gt_client::session::settle().or_raise()
}

/// Whether this thread has a session of its own.
#[pyfunction]
fn has_own_session() -> PyResult<bool> {
    gt_client::session::settle().or_raise()?;
    Ok(!gt_client::session::is_process())
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
    m.add_function(wrap_pyfunction!(enter_session, m)?)?;
    m.add_function(wrap_pyfunction!(leave_session, m)?)?;
    m.add_function(wrap_pyfunction!(settle_session, m)?)?;
    m.add_function(wrap_pyfunction!(has_own_session, m)?)?;
    m.add_function(wrap_pyfunction!(gpu_workers, m)?)?;
    m.add_function(wrap_pyfunction!(worker_count, m)?)
}
