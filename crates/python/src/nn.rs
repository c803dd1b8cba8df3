//! Composites for `gt.nn` and `gt.optim`.

use gt_client::Tensor;
use gt_client::ops::Step;
use gt_ir::ops::{Complaint, UpdateKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::args;
use crate::errors::OrRaise;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// Attention of queries `[b, h, t, d]`, keys `[b, g, s, d]` and values `[b, g, s, e]`; `mask` is added to the scores.
#[pyfunction]
#[pyo3(signature = (query, key, value, mask, causal, scale))]
fn attention(
    query: &Bound<'_, PyTensor>,
    key: &Bound<'_, PyTensor>,
    value: &Bound<'_, PyTensor>,
    mask: Option<&Bound<'_, PyTensor>>,
    causal: bool,
    scale: f64,
) -> PyResult<NewTensor> {
    mark(query.py());
    let [q, k, v] = [query, key, value].map(|t| t.get().held());
    let mask = mask.map(|m| m.get().held());
    let out = Tensor::attention(&q, &k, &v, mask.as_deref(), causal, scale).or_raise()?;
    Ok(NewTensor::new(out))
}

/// `input · weightᵀ + bias`, over the last dimension.
#[pyfunction]
#[pyo3(signature = (input, weight, bias=None))]
fn linear(
    input: &Bound<'_, PyTensor>,
    weight: &Bound<'_, PyTensor>,
    bias: Option<&Bound<'_, PyTensor>>,
) -> PyResult<NewTensor> {
    let bias = bias.map(|b| b.get().held());
    input.get().run(input.py(), |x| x.linear(&weight.get().held(), bias.as_deref()))
}

/// The cross-entropy of each row of logits `[n, classes]` with its class.
#[pyfunction]
#[pyo3(signature = (logits, classes, ignore_index))]
fn cross_entropy_rows(
    logits: &Bound<'_, PyTensor>,
    classes: &Bound<'_, PyTensor>,
    ignore_index: i64,
) -> PyResult<NewTensor> {
    mark(logits.py());
    logits.get().held().cross_entropy_rows(&classes.get().held(), ignore_index).or_raise().map(NewTensor::new)
}

/// One optimizer step for many tensors: new values for parameters and states, all or none.
#[pyfunction]
#[pyo3(signature = (kind, params, grads, states, scalars, *, centered=false, maximize=false))]
#[allow(clippy::too_many_arguments)]
fn multi_tensor_update(
    py: Python<'_>,
    kind: &str,
    params: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    states: Vec<Bound<'_, PyAny>>,
    scalars: Vec<f64>,
    centered: bool,
    maximize: bool,
) -> PyResult<()> {
    mark(py);
    let kind = UpdateKind::from_name(kind).ok_or_else(|| PyValueError::new_err(format!("unknown update '{kind}'")))?;
    let states: Vec<Vec<Tensor>> = states.iter().map(args::tensors).collect::<PyResult<_>>()?;
    let step = Step {
        kind,
        params: &args::tensors(params)?,
        grads: &args::tensors(grads)?,
        states: &states,
        scalars: &scalars,
        centered,
        maximize,
    };
    Tensor::step(&step).or_raise()
}

/// The tensor, whose read fails if any element of `wrong` is true; `complaint` names what is wrong then.
#[pyfunction]
fn checked(tensor: &Bound<'_, PyTensor>, wrong: &Bound<'_, PyTensor>, complaint: &str) -> PyResult<NewTensor> {
    let complaint =
        Complaint::from_name(complaint).ok_or_else(|| PyValueError::new_err(format!("unknown check {complaint:?}")))?;
    tensor.get().run(tensor.py(), |t| t.checked(&wrong.get().held(), complaint))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(attention, m)?)?;
    m.add_function(wrap_pyfunction!(linear, m)?)?;
    m.add_function(wrap_pyfunction!(checked, m)?)?;
    m.add_function(wrap_pyfunction!(cross_entropy_rows, m)?)?;
    m.add_function(wrap_pyfunction!(multi_tensor_update, m)?)?;
    Ok(())
}
