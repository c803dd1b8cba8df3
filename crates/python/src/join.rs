//! Functions of several tensors.

use gt_client::Tensor;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyTuple};

use crate::args::{self, Operand};
use crate::errors::OrRaise;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// A result, or the tensor given as `out=` with the result written to it.
fn placed<'py>(py: Python<'py>, made: NewTensor, out: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let made = made.into_pyobject(py)?.into_any();
    match out.filter(|out| !out.is_none()) {
        None => Ok(made),
        Some(out) => py.import("gt._functions")?.getattr("write_out")?.call1((out, made)),
    }
}

/// Tensors behind one another along an axis.
///
/// >>> gt.cat([gt.zeros(1, 2), gt.ones(2, 2)])
/// tensor([[0., 0.],
///         [1., 1.],
///         [1., 1.]])
#[pyfunction]
#[pyo3(signature = (tensors, dim=0, *, axis=None, out=None))]
fn cat<'py>(
    tensors: &Bound<'py, PyAny>,
    dim: i64,
    axis: Option<i64>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    mark(tensors.py());
    let parts = args::tensors(tensors)?;
    let refs: Vec<&Tensor> = parts.iter().collect();
    let made = Tensor::cat(&refs, axis.unwrap_or(dim)).or_raise()?;
    placed(tensors.py(), NewTensor::new(made), out)
}

/// Tensors of one shape beside one another along a new axis.
///
/// >>> gt.stack([gt.zeros(2), gt.ones(2)], dim=1)
/// tensor([[0., 1.],
///         [0., 1.]])
#[pyfunction]
#[pyo3(signature = (tensors, dim=0, *, axis=None, out=None))]
fn stack<'py>(
    tensors: &Bound<'py, PyAny>,
    dim: i64,
    axis: Option<i64>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    mark(tensors.py());
    let parts = args::tensors(tensors)?;
    let refs: Vec<&Tensor> = parts.iter().collect();
    let made = Tensor::stack(&refs, axis.unwrap_or(dim)).or_raise()?;
    placed(tensors.py(), NewTensor::new(made), out)
}

/// The letters of a list of axis numbers; `...` stands for itself.
fn axis_letters(list: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut out = String::new();
    for axis in list.try_iter()? {
        let axis = axis?;
        if axis.is_instance_of::<PyEllipsis>() {
            out.push_str("...");
            continue;
        }
        match args::int(&axis)? {
            n @ 0..26 => out.push((b'A' + n as u8) as char),
            n @ 26..52 => out.push((b'a' + (n - 26) as u8) as char),
            n => return Err(PyValueError::new_err(format!("einsum(): axis number {n} must be between 0 and 51"))),
        }
    }
    Ok(out)
}

/// Operands and lists of axis numbers in turn: `gt.einsum(a, [0, 1], b, [1, 2], [0, 2])`.
fn einsum_of_lists(entries: &Bound<'_, PyTuple>) -> PyResult<NewTensor> {
    let (mut parts, mut lists) = (Vec::new(), Vec::new());
    let mut equation = String::new();
    for (i, entry) in entries.iter().enumerate() {
        if i % 2 == 0 && i + 1 < entries.len() {
            parts.push(entry.cast::<PyTensor>()?.get().held().clone());
        } else if i % 2 == 0 {
            equation = format!("->{}", axis_letters(&entry)?);
        } else {
            lists.push(axis_letters(&entry)?);
        }
    }
    let refs: Vec<&Tensor> = parts.iter().collect();
    Tensor::einsum(&format!("{}{equation}", lists.join(",")), &refs).or_raise().map(NewTensor::new)
}

/// Sums of products as an equation says: `gt.einsum("bij,bjk->bik", a, b)`.
///
/// >>> gt.einsum("ij,j->i", gt.tensor([[1.0, 2.0], [3.0, 4.0]]), gt.ones(2))
/// tensor([3., 7.])
#[pyfunction]
#[pyo3(signature = (equation, *operands))]
fn einsum(equation: &Bound<'_, PyAny>, operands: &Bound<'_, PyTuple>) -> PyResult<NewTensor> {
    mark(operands.py());
    if equation.is_instance_of::<PyTensor>() {
        let mut entries = vec![equation.clone()];
        entries.extend(operands.iter());
        return einsum_of_lists(&PyTuple::new(equation.py(), entries)?);
    }
    let equation: &str = &equation.extract::<String>()?;
    let first = operands.get_item(0).ok();
    let parts = match first {
        Some(list) if operands.len() == 1 && !list.is_instance_of::<PyTensor>() => args::tensors(&list)?,
        _ => args::tensors(operands.as_any())?,
    };
    let refs: Vec<&Tensor> = parts.iter().collect();
    Tensor::einsum(equation, &refs).or_raise().map(NewTensor::new)
}

/// `input` where `condition`, else `other`; with the condition alone, the positions where it holds.
///
/// >>> x = gt.tensor([-1.0, 2.0])
/// >>> gt.where(x > 0, x, 0.0)
/// tensor([0., 2.])
#[pyfunction]
#[pyo3(signature = (condition, input=None, other=None, *, out=None))]
fn r#where<'py>(
    condition: &Bound<'py, PyTensor>,
    input: Option<&Bound<'py, PyAny>>,
    other: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = condition.py();
    mark(py);
    let this = condition.get();
    let (Some(a), Some(b)) = (input, other) else {
        if input.is_some() || other.is_some() {
            return Err(PyTypeError::new_err(
                "where() takes either a condition alone, or a condition with both input and other",
            ));
        }
        // A 0-d condition counts as one of one element.
        let positions = |t: &Tensor| if t.rank() == 0 { t.reshape(&[1])?.nonzero_tuple() } else { t.nonzero_tuple() };
        return Ok(this.run_many(py, positions)?.into_bound(py).into_any());
    };
    let (a, b) = (Operand::require(a, "input")?, Operand::require(b, "other")?);
    let made = Tensor::select_by(&this.held(), a.arg(), b.arg()).or_raise()?;
    placed(py, this.like(made), out)
}

/// Coordinates of a grid, one tensor per axis.
///
/// >>> rows, columns = gt.meshgrid(gt.arange(2), gt.arange(3), indexing="ij")
/// >>> rows
/// tensor([[0, 0, 0],
///         [1, 1, 1]])
#[pyfunction]
#[pyo3(signature = (*tensors, indexing=None))]
fn meshgrid<'py>(tensors: &Bound<'py, PyTuple>, indexing: Option<&str>) -> PyResult<Bound<'py, PyTuple>> {
    let py = tensors.py();
    mark(py);
    let parts = match tensors.get_item(0) {
        Ok(list) if tensors.len() == 1 && !list.is_instance_of::<PyTensor>() => args::tensors(&list)?,
        _ => args::tensors(tensors.as_any())?,
    };
    if parts.is_empty() {
        return Err(pyo3::exceptions::PyRuntimeError::new_err("meshgrid expects a non-empty TensorList"));
    }
    if let Some(t) = parts.iter().find(|t| t.rank() > 1) {
        return Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
            "meshgrid: expected 0D or 1D tensor in the tensor list but got a tensor of shape {}",
            t.shape()
        )));
    }
    let swapped = match indexing {
        None | Some("ij") => false,
        Some("xy") => parts.len() > 1,
        Some(other) => {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
                "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
            )));
        }
    };
    let mut order: Vec<usize> = (0..parts.len()).collect();
    if swapped {
        order.swap(0, 1);
    }
    let shape: Vec<i64> = order.iter().map(|&i| parts[i].numel() as i64).collect();
    let grids = parts
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mut dims = vec![1i64; parts.len()];
            dims[order.iter().position(|&o| o == i).unwrap_or(i)] = t.numel() as i64;
            t.reshape(&dims)?.expand(&shape)
        })
        .collect::<gt_client::Result<Vec<_>>>()
        .or_raise()?;
    PyTuple::new(py, grids.into_iter().map(NewTensor::new).collect::<Vec<_>>())
}

/// Whether the object is a tensor.
///
/// >>> gt.is_tensor(gt.ones(1)), gt.is_tensor([1.0])
/// (True, False)
#[pyfunction]
fn is_tensor(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyTensor>()
}

/// The dtype an operation on both would have.
///
/// >>> gt.result_type(gt.tensor([1, 2]), 1.5)
/// gt.float32
#[pyfunction]
fn result_type(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Py<crate::dtype::PyDType>> {
    let (a, b) = (Operand::require(a, "tensor1")?, Operand::require(b, "tensor2")?);
    Ok(crate::dtype::object(py, gt_client::ops::result_type(&[a.arg(), b.arg()])))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cat, m)?)?;
    m.add_function(wrap_pyfunction!(stack, m)?)?;
    m.add_function(wrap_pyfunction!(einsum, m)?)?;
    m.add_function(wrap_pyfunction!(r#where, m)?)?;
    m.add_function(wrap_pyfunction!(meshgrid, m)?)?;
    m.add_function(wrap_pyfunction!(is_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(result_type, m)?)
}
