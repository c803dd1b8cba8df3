//! Files of tensors: the header is checked as a whole (`gt_data::SafetensorsHeader`), tensors are read one at a time.
//!
//! SAFETENSORS-2: a tensor's bytes are copied once, from the file into what is uploaded; nothing is mapped, so a file that
//! is cut short while it is open is an error and not a signal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use gt_client::Tensor;
use gt_data::{HeaderError, LENGTH_BYTES, MAX_HEADER_BYTES, SafetensorsHeader};
use gt_ir::{DType, Shape, TensorType};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use crate::errors::OrRaise;
use crate::host::{HostBuffer, room_for};
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// GT's dtype for one of the format, where there is one.
fn dtype(of: Dtype) -> Option<DType> {
    Some(match of {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        _ => return None,
    })
}

/// The format's dtype for one of GT's.
fn stored_dtype(of: DType) -> Dtype {
    match of {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I8 => Dtype::I8,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

/// Where the bytes are.
enum Source {
    File(File),
    Memory(Py<PyBytes>),
}

/// A safetensors file that is open for reading.
#[pyclass(frozen, name = "_SafetensorsFile", module = "gt._core")]
pub struct SafetensorsFile {
    /// What errors call the file.
    name: String,
    source: Source,
    header: SafetensorsHeader,
}

impl SafetensorsFile {
    /// The exception for a file that is not what it should be.
    fn broken(name: &str, why: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(format!("{name} is not a valid safetensors file: {why}"))
    }

    fn header(
        name: &str,
        len_bytes: u64,
        read: impl FnMut(u64, &mut [u8]) -> std::io::Result<()>,
    ) -> PyResult<SafetensorsHeader> {
        SafetensorsHeader::read(len_bytes, read).map_err(|e| match e {
            HeaderError::Read(e) => e.into(),
            HeaderError::Invalid(why) => Self::broken(name, why),
        })
    }

    fn info(&self, tensor: &str) -> PyResult<&TensorInfo> {
        self.header.tensor(tensor).ok_or_else(|| PyKeyError::new_err(format!("{} has no tensor {tensor:?}", self.name)))
    }
}

/// The bytes at a place of a slice, as a file would give them.
fn read_slice(bytes: &[u8], at: u64, out: &mut [u8]) -> std::io::Result<()> {
    let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    (&bytes[start..]).read_exact(out)
}

#[pymethods]
impl SafetensorsFile {
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let name = path.display().to_string();
        let file = File::open(&path)?;
        let len_bytes = file.metadata()?.len();
        let read = |at: u64, out: &mut [u8]| py.detach(|| file.read_exact_at(out, at));
        let header = Self::header(&name, len_bytes, read)?;
        Ok(SafetensorsFile { name, source: Source::File(file), header })
    }

    /// The same over bytes in memory.
    #[staticmethod]
    fn from_bytes(bytes: Bound<'_, PyBytes>) -> PyResult<Self> {
        let name = "the given data".to_owned();
        let content = bytes.as_bytes();
        let header = Self::header(&name, content.len() as u64, |at, out| read_slice(content, at, out))?;
        Ok(SafetensorsFile { name, source: Source::Memory(bytes.unbind()), header })
    }

    /// The tensors' names in the order of their bytes.
    fn names(&self) -> Vec<String> {
        self.header.names()
    }

    /// The texts in the file's `__metadata__`, in the order of their names.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (key, text) in self.header.texts() {
            out.set_item(key, text)?;
        }
        Ok(out)
    }

    /// The format's name of a tensor's dtype, its shape and its size in bytes.
    fn describe(&self, name: &str) -> PyResult<(String, Vec<usize>, usize)> {
        let info = self.info(name)?;
        Ok((info.dtype.to_string(), info.shape.clone(), self.header.bytes_of(info).1))
    }

    /// Reads one tensor.
    fn tensor(&self, py: Python<'_>, name: &str) -> PyResult<NewTensor> {
        mark(py);
        let info = self.info(name)?;
        let Some(dtype) = dtype(info.dtype) else {
            return Err(PyValueError::new_err(format!(
                "tensor {name:?} of {} has dtype {}, which GT does not support (it supports BOOL, U8, I8, I32, I64, F16, BF16, F32, F64)",
                self.name, info.dtype
            )));
        };
        let shape = Shape::try_new(&info.shape)
            .map_err(|e| PyValueError::new_err(format!("tensor {name:?} of {}: {e}", self.name)))?;
        let (at, len_bytes) = self.header.bytes_of(info);
        // Looked at first, as what is cleared by the allocator cannot fail.
        drop(room_for(len_bytes)?);
        let mut bytes = vec![0; len_bytes];
        let out = &mut bytes[..];
        let done = match &self.source {
            Source::File(file) => py.detach(|| file.read_exact_at(out, at)),
            Source::Memory(content) => read_slice(content.as_bytes(py), at, out),
        };
        done.map_err(|e| Self::broken(&self.name, format!("cannot read tensor {name:?}: {e}")))?;
        if dtype == DType::Bool {
            // Outside a bool may be any byte; inside it is 0 or 1.
            out.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Tensor::from_bytes(TensorType { dtype, shape }, bytes.into()).or_raise().map(NewTensor::new)
    }
}

/// What a file begins with: the length of its header, and the header. The tensors' bytes follow in the order given.
#[pyfunction]
fn _safetensors_header<'py>(
    py: Python<'py>,
    tensors: Vec<(String, Bound<'py, PyTensor>)>,
    metadata: BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyBytes>> {
    let json = |e: serde_json::Error| PyValueError::new_err(e.to_string());
    let mut entries = Vec::with_capacity(tensors.len() + 1);
    if !metadata.is_empty() {
        entries.push(format!("\"__metadata__\":{}", serde_json::to_string(&metadata).map_err(json)?));
    }
    let mut end = 0;
    for (name, tensor) in &tensors {
        let t = &tensor.get().held();
        let start = end;
        end += t.ty().bytes();
        let info = TensorInfo { dtype: stored_dtype(t.dtype()), shape: t.shape().to_vec(), data_offsets: (start, end) };
        let (name, info) = (serde_json::to_string(name).map_err(json)?, serde_json::to_string(&info).map_err(json)?);
        entries.push(format!("{name}:{info}"));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    // Tensors begin at a multiple of eight, so that others can map the file and look at them in place.
    while !header.len().is_multiple_of(LENGTH_BYTES as usize) {
        header.push(' ');
    }
    if header.len() as u64 > MAX_HEADER_BYTES {
        return Err(PyValueError::new_err(format!(
            "names, shapes and metadata need {} bytes, but a safetensors header has at most {MAX_HEADER_BYTES}",
            header.len()
        )));
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    Ok(PyBytes::new(py, &bytes))
}

/// A tensor's bytes in row-major order. Waits.
#[pyfunction]
fn _tensor_bytes(py: Python<'_>, tensor: &Bound<'_, PyTensor>) -> PyResult<HostBuffer> {
    mark(py);
    tensor.get().held().detach().read().or_raise().map(HostBuffer::new)
}

/// Adds the class and the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<SafetensorsFile>()?;
    m.add_function(wrap_pyfunction!(_safetensors_header, m)?)?;
    m.add_function(wrap_pyfunction!(_tensor_bytes, m)?)
}
