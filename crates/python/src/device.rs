//! `gt.device`: a hint. `cpu`, `cuda` and nothing at all mean the session's own placement; an index means one worker.

use gt_client::signal;
use gt_ir::ScopeId;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Where a tensor was asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// Not asked.
    #[default]
    Unset,
    /// `cpu`.
    Cpu,
    /// `cuda` or `cuda:i`.
    Cuda(Option<u16>),
    /// `worker:i`.
    Worker(u16),
}

impl Device {
    /// The device as a number, to be kept in an atomic.
    pub fn code(self) -> u32 {
        match self {
            Device::Unset => 0,
            Device::Cpu => 1,
            Device::Cuda(None) => 2,
            Device::Cuda(Some(i)) => 1 << 16 | i as u32,
            Device::Worker(i) => 2 << 16 | i as u32,
        }
    }

    /// Undoes [`Device::code`].
    pub fn from_code(code: u32) -> Device {
        match (code >> 16, code as u16) {
            (0, 0) => Device::Unset,
            (0, 1) => Device::Cpu,
            (0, _) => Device::Cuda(None),
            (1, i) => Device::Cuda(Some(i)),
            (_, i) => Device::Worker(i),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Device::Unset | Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Worker(_) => "worker",
        }
    }

    fn index(self) -> Option<u16> {
        match self {
            Device::Cuda(i) => i,
            Device::Worker(i) => Some(i),
            _ => None,
        }
    }

    /// The scope of what is made there; none where the session has one worker, or may choose.
    pub fn scope(self) -> PyResult<Option<ScopeId>> {
        match self.index() {
            Some(i) if gt::worker_count() > 1 => signal::worker(i as usize).or_raise().map(Some),
            _ => Ok(None),
        }
    }

    fn checked(kind: &str, index: Option<i64>) -> PyResult<Device> {
        if let Some(i) = index
            && kind != "cpu"
            && i != 0
        {
            // The first op decides how many there are; this may come before it.
            gt_client::session::session().or_raise()?;
            let workers = gt::worker_count();
            if !(0..workers.min(u16::MAX as usize) as i64).contains(&i) {
                return Err(PyRuntimeError::new_err(format!(
                    "device '{kind}:{i}' does not exist: this session has {workers} worker(s), numbered from 0"
                )));
            }
        }
        match (kind, index) {
            ("cpu", _) => Ok(Device::Cpu),
            ("cuda", i) => {
                gt::tell_of_hint();
                Ok(Device::Cuda(i.map(|i| i as u16)))
            }
            ("worker", Some(i)) => Ok(Device::Worker(i as u16)),
            _ => Err(PyRuntimeError::new_err(format!(
                "Expected one of cpu, cuda, worker device type at start of device string: {kind}"
            ))),
        }
    }
}

/// A device: `gt.device("cpu")`, `gt.device("cuda", 0)`, `gt.device("worker:0")`.
///
/// >>> import gt
/// >>> gt.device("cuda:0").index
/// 0
#[pyclass(frozen, name = "device", module = "gt", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyDevice(pub Device);

/// A device from what users pass.
pub fn extract(value: &Bound<'_, PyAny>) -> PyResult<Device> {
    if let Ok(d) = value.cast::<PyDevice>() {
        return Ok(d.get().0);
    }
    if let Ok(text) = value.extract::<String>() {
        let (kind, index) = match text.split_once(':') {
            Some((k, i)) => {
                let i = i.parse().map_err(|_| PyRuntimeError::new_err(format!("Invalid device string: '{text}'")))?;
                (k.to_owned(), Some(i))
            }
            None => (text, None),
        };
        return Device::checked(&kind, index);
    }
    if let Ok(i) = value.extract::<i64>() {
        return Device::checked("cuda", Some(i));
    }
    Err(PyTypeError::new_err(format!(
        "device must be a string, an index or a gt.device, not {}",
        value.get_type().name()?
    )))
}

/// The same for an argument that may be missing.
pub fn optional(value: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    match value {
        Some(v) if !v.is_none() => extract(v),
        _ => Ok(Device::Unset),
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index=None))]
    fn new(r#type: &Bound<'_, PyAny>, index: Option<i64>) -> PyResult<Self> {
        match index {
            Some(i) => Ok(PyDevice(Device::checked(&r#type.extract::<String>()?, Some(i))?)),
            None => Ok(PyDevice(extract(r#type)?)),
        }
    }

    /// `cpu`, `cuda` or `worker`.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.0.kind()
    }

    /// The number, where one was given.
    #[getter]
    fn index(&self) -> Option<u16> {
        self.0.index()
    }

    fn __repr__(&self) -> String {
        match self.0.index() {
            Some(i) => format!("device(type='{}', index={i})", self.0.kind()),
            None => format!("device(type='{}')", self.0.kind()),
        }
    }

    fn __str__(&self) -> String {
        match self.0.index() {
            Some(i) => format!("{}:{i}", self.0.kind()),
            None => self.0.kind().into(),
        }
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        Ok((py.import("gt._core")?.getattr("device")?.unbind(), (self.__str__(),)))
    }
}
