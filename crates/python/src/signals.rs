//! Signals: configs as plain values, scopes, and warnings as Python's.

use std::ffi::CString;

use gt_client::signal::{self, ShardConfig, SignalConfig, WorkerName, Workers};
use gt_client::{Error, Result};
use gt_ir::ScopeId;
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString};

use crate::errors::OrRaise;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// Warns at the line that entered the scope. A filter may make it an exception.
fn warn(message: &str) -> Result<()> {
    let Ok(text) = CString::new(message) else { return Ok(()) };
    let warned = Python::try_attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2));
    warned.unwrap_or(Ok(())).map_err(|e| Error::Callback(Box::new(e)))
}

/// Tells the client how to warn.
pub fn install() {
    gt_client::set_warning_hook(warn);
}

/// Enters a scope of the calling thread.
#[pyfunction]
#[pyo3(signature = (name, backward=None))]
fn signal_enter(py: Python<'_>, name: &str, backward: Option<&str>) -> PyResult<()> {
    mark(py);
    signal::enter(name, backward).or_raise()
}

/// Leaves the innermost scope.
#[pyfunction]
fn signal_exit(name: &str) -> PyResult<()> {
    signal::exit(name).or_raise()
}

/// A copy of a tensor that lies as a signal says.
#[pyfunction]
#[pyo3(signature = (x, name, backward=None))]
fn signal_tensor(x: &Bound<'_, PyTensor>, name: &str, backward: Option<&str>) -> PyResult<NewTensor> {
    mark(x.py());
    let scope = signal::scope_of(name, backward).or_raise()?;
    signal::check_rank(scope, x.get().held().shape().len()).or_raise()?;
    x.get().held().laid_out(scope).or_raise().map(|t| x.get().like(t))
}

/// The scope that the calling thread records under, as a number.
#[pyfunction]
fn signal_scope() -> u32 {
    signal::current().0
}

/// Records under that scope from now on; gives the one before.
#[pyfunction]
fn set_signal_scope(scope: u32) -> u32 {
    signal::exchange(ScopeId(scope)).0
}

/// The name of the innermost signal that the calling thread has entered.
#[pyfunction]
fn current_signal() -> Option<String> {
    signal::innermost()
}

/// The name of a scope by its number.
#[pyfunction]
fn signal_name(scope: u32) -> Option<String> {
    signal::name(ScopeId(scope))
}

/// Whether signals mean something in this process.
#[pyfunction]
fn signals_in_use() -> bool {
    signal::in_use()
}

/// What Python says of workers: nothing, a number, or a list of indices and ids.
fn workers_from(value: Option<&Bound<'_, PyAny>>) -> PyResult<Workers> {
    let wrong = PyValueError::new_err::<String>;
    let Some(value) = value.filter(|v| !v.is_none()) else { return Ok(Workers::All) };
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return Workers::count(value.extract()?).map_err(wrong);
    }
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "workers must be a list of indices or names, or a number of workers, not a single name",
        ));
    }
    let mut names = Vec::new();
    for item in value.try_iter()? {
        let item = item?;
        names.push(match item.extract::<String>() {
            Ok(id) => WorkerName::Id(id),
            Err(_) if item.is_instance_of::<PyBool>() => {
                return Err(PyTypeError::new_err("a worker must be an index or a name, not a bool"));
            }
            Err(_) => Workers::index(item.extract()?).map_err(wrong)?,
        });
    }
    Workers::listed(names).map_err(wrong)
}

fn workers_to(py: Python<'_>, workers: &Workers) -> PyResult<Py<PyAny>> {
    Ok(match workers {
        Workers::All => py.None(),
        Workers::Count(n) => n.into_pyobject(py)?.into_any().unbind(),
        Workers::Listed(names) => {
            let list = PyList::empty(py);
            for name in names {
                match name {
                    WorkerName::Index(i) => list.append(i)?,
                    WorkerName::Id(id) => list.append(id)?,
                }
            }
            list.into_any().unbind()
        }
    })
}

/// Gives a signal a meaning: the axes of its mesh with their workers, the workers of all of it, its backward signal, and
/// whether it is compiled by itself.
#[pyfunction]
fn register_config(
    name: &str,
    shard: Vec<(Option<i64>, Option<Bound<'_, PyAny>>)>,
    workers: Option<&Bound<'_, PyAny>>,
    backward: Option<String>,
    compile: bool,
) -> PyResult<()> {
    let shard = shard.into_iter().map(|(axis, workers)| {
        let workers = workers_from(workers.as_ref())?;
        match axis {
            Some(axis) => ShardConfig::along(axis, workers).map_err(PyValueError::new_err),
            None => Ok(ShardConfig { axis: None, workers }),
        }
    });
    let shard = shard.collect::<PyResult<_>>()?;
    gt::register_config(name, SignalConfig { shard, workers: workers_from(workers)?, backward, compile }).or_raise()
}

/// Takes the signals of a file's text.
#[pyfunction]
fn load_config(text: &str, file: &str) -> PyResult<()> {
    gt::load_config(text, file).or_raise()
}

type ShardParts = Vec<(Option<u8>, Py<PyAny>)>;

/// All signals: name, axes, workers, backward signal, compile.
#[pyfunction]
fn signal_configs(py: Python<'_>) -> PyResult<Vec<(String, ShardParts, Py<PyAny>, Option<String>, bool)>> {
    let configs = gt::signal_configs().or_raise()?;
    configs
        .into_iter()
        .map(|(name, config)| {
            let shard = config.shard.iter().map(|s| Ok((s.axis, workers_to(py, &s.workers)?)));
            let shard = shard.collect::<PyResult<_>>()?;
            Ok((name, shard, workers_to(py, &config.workers)?, config.backward, config.compile))
        })
        .collect()
}

#[pymethods]
impl PyTensor {
    /// Says whether the tensor is a parameter, a buffer or the like: what workers that share data keep whole.
    #[pyo3(signature = (on=true))]
    fn _mark_state(&self, on: bool) {
        self.held().mark_state(on);
    }

    /// Whether it is.
    #[getter]
    fn _is_state(&self) -> bool {
        self.held().is_state()
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(signal_enter, m)?)?;
    m.add_function(wrap_pyfunction!(signal_exit, m)?)?;
    m.add_function(wrap_pyfunction!(current_signal, m)?)?;
    m.add_function(wrap_pyfunction!(signal_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(signal_scope, m)?)?;
    m.add_function(wrap_pyfunction!(set_signal_scope, m)?)?;
    m.add_function(wrap_pyfunction!(signal_name, m)?)?;
    m.add_function(wrap_pyfunction!(register_config, m)?)?;
    m.add_function(wrap_pyfunction!(load_config, m)?)?;
    m.add_function(wrap_pyfunction!(signals_in_use, m)?)?;
    m.add_function(wrap_pyfunction!(signal_configs, m)?)
}
