//! What the runtime tells of itself.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::OrRaise;
use crate::site::mark;

/// One dict per worker with everything it counted.
#[pyfunction]
fn worker_stats(py: Python<'_>) -> PyResult<Py<PyList>> {
    let out = PyList::empty(py);
    let collectives = PyDict::new(py);
    for (kind, (count, bytes)) in gt::traffic().collectives {
        let row = PyDict::new(py);
        row.set_item("count", count)?;
        row.set_item("bytes", bytes)?;
        collectives.set_item(kind.name(), row)?;
    }
    for s in gt::stats().or_raise()? {
        let d = PyDict::new(py);
        d.set_item("worker", &s.worker)?;
        d.set_item("engine", &s.engine)?;
        macro_rules! put {
            ($($field:ident),*) => { $(d.set_item(stringify!($field), s.$field)?;)* };
        }
        put!(total_instructions, windows, idle_cuts, plan_hits, plan_misses, cached_plans);
        put!(compiled_windows, compiled_instructions, round_trips, syncs, bytes_in, bytes_out);
        put!(transfers, moved_bytes_out, moved_bytes_in, loaded_bytes);
        // Of the session: each of them is made by several workers.
        d.set_item("collectives", &collectives)?;
        put!(live_bytes, peak_bytes, cached_bytes, limit_bytes, live_tensors, flops, busy_ns, planning_ns, failures);
        put!(unique_sequences, hot_sequences, hot_instructions, hot_threshold);
        let top = PyList::empty(py);
        for q in &s.top_sequences {
            let row = PyDict::new(py);
            row.set_item("hash", &q.hash)?;
            row.set_item("count", q.count)?;
            row.set_item("instructions", q.instrs)?;
            top.append(row)?;
        }
        d.set_item("top_sequences", top)?;
        let families = PyDict::new(py);
        for (family, nanos) in &s.family_ns {
            families.set_item(family, nanos)?;
        }
        d.set_item("family_ns", families)?;
        out.append(d)?;
    }
    Ok(out.unbind())
}

/// Says whether every run is measured for `family_ns`, or a part of them.
#[pyfunction]
fn profile_families(on: bool) {
    gt::measure_every_run(on);
}

/// Waits until everything recorded has run, for `timeout` seconds at most; raises the error of an op that failed, or of a write
/// that was skipped, if no read has raised it.
///
/// >>> x = gt.ones(3) * 2
/// >>> gt.synchronize()
#[pyfunction]
#[pyo3(signature = (timeout=None))]
fn synchronize(py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
    mark(py);
    let within = timeout.map(Duration::try_from_secs_f64).transpose();
    let within = within.map_err(|e| PyValueError::new_err(format!("synchronize: timeout={timeout:?}: {e}")))?;
    gt_client::session::synchronize_within(within).or_raise()
}

/// Sends what this thread has recorded without waiting for it.
#[pyfunction]
fn cut() -> PyResult<()> {
    gt::cut().or_raise()
}

/// Gives cached memory back to the system.
///
/// >>> gt.empty_cache()
#[pyfunction]
fn empty_cache() -> PyResult<()> {
    gt::empty_cache().or_raise()
}

/// Sets the number of threads the engine computes with; results do not depend on it.
///
/// >>> before = gt.get_num_threads()
/// >>> gt.set_num_threads(1)
/// >>> gt.get_num_threads()
/// 1
/// >>> gt.set_num_threads(before)
#[pyfunction]
fn set_num_threads(n: i64) -> PyResult<()> {
    gt::set_num_threads(usize::try_from(n).unwrap_or(0)).or_raise()
}

/// The number of threads the engine computes with.
///
/// >>> gt.get_num_threads() >= 1
/// True
#[pyfunction]
fn get_num_threads() -> usize {
    gt::num_threads()
}

/// Says whether denormal numbers (in float32 below about 1.2e-38) are taken for zeros; returns whether that is possible. Many
/// processors compute a hundred times slower with them. It holds for what is recorded afterwards. In a session with a server, or of
/// several workers, it is asked for before `gt.connect` and the first operation (or by `GT_FLUSH_DENORMAL=1`); later the answer
/// is `False`. Other sessions do not notice.
///
/// >>> flushes = gt.set_flush_denormal(True)
/// >>> bool((gt.tensor([1e-40]) * 2.0).item() == 0.0) == flushes
/// True
/// >>> restored = gt.set_flush_denormal(False)
/// >>> (gt.tensor([1e-40]) * 2.0).item() > 0.0
/// True
#[pyfunction]
fn set_flush_denormal(mode: bool) -> PyResult<bool> {
    gt::set_flush_denormal(mode).or_raise()
}

/// Bytes in live tensors.
#[pyfunction]
fn memory_allocated() -> PyResult<u64> {
    gt::memory().map(|m| m.live_bytes).or_raise()
}

/// The most bytes there ever were in live tensors.
#[pyfunction]
fn max_memory_allocated() -> PyResult<u64> {
    gt::memory().map(|m| m.peak_bytes).or_raise()
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident),*) => { $(m.add_function(wrap_pyfunction!($f, m)?)?;)* };
    }
    add!(
        worker_stats,
        profile_families,
        synchronize,
        cut,
        empty_cache,
        set_num_threads,
        get_num_threads,
        set_flush_denormal,
        memory_allocated,
        max_memory_allocated
    );
    Ok(())
}
