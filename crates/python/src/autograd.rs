//! Backward passes, hooks and custom functions.

use std::sync::Arc;

use gt_client::autograd::{
    self, BackwardOptions, CustomBackward, Hook, HookId, NextStep, Node, grad_enabled, set_grad_enabled,
};
use gt_client::{Error, Tensor};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use crate::args;
use crate::device::Device;
use crate::errors::OrRaise;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// A Python exception on its way through the client.
fn callback_error(e: PyErr) -> Error {
    Error::Callback(Box::new(e))
}

/// A hook that calls Python.
pub fn python_hook(hook: Py<PyAny>, device: Device) -> Hook {
    Arc::new(move |grad: &Tensor| {
        Python::attach(|py| -> PyResult<Option<Tensor>> {
            let given = NewTensor::on(grad.clone(), device);
            let answer = hook.bind(py).call1((given,))?;
            if answer.is_none() {
                return Ok(None);
            }
            Ok(Some(answer.cast::<PyTensor>()?.get().held().clone()))
        })
        .map_err(callback_error)
    })
}

/// A hook that calls Python with the tensor whose gradient was collected. It does not keep the tensor.
pub fn after_collecting_hook(hook: Py<PyAny>, tensor: &Bound<'_, PyTensor>) -> PyResult<Hook> {
    let tensor = PyWeakrefReference::new(tensor)?.unbind();
    Ok(Arc::new(move |_: &Tensor| {
        Python::attach(|py| -> PyResult<Option<Tensor>> {
            if let Some(tensor) = tensor.bind(py).upgrade() {
                hook.bind(py).call1((tensor,))?;
            }
            Ok(None)
        })
        .map_err(callback_error)
    }))
}

/// Takes a hook back when `remove` is called.
#[pyclass(frozen, module = "gt")]
pub struct HookHandle(Mutex<Option<(Tensor, HookId)>>);

impl HookHandle {
    /// A handle on a registered hook.
    pub fn new(tensor: Tensor, id: HookId) -> Self {
        HookHandle(Mutex::new(Some((tensor, id))))
    }
}

#[pymethods]
impl HookHandle {
    /// The hook is called no more.
    fn remove(&self) {
        if let Some((tensor, id)) = self.0.lock().take() {
            tensor.remove_hook(id);
        }
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyTuple>) {
        self.remove();
    }
}

/// A node of the tape: what `x.grad_fn` shows, or where a leaf collects.
#[pyclass(frozen, name = "Node", module = "gt.autograd")]
pub struct PyNode(NextStep);

impl PyNode {
    /// The node of a tensor that is not a leaf.
    pub fn new(node: Arc<Node>) -> Self {
        PyNode(NextStep::Node(node, 0))
    }

    fn address(&self) -> usize {
        match &self.0 {
            NextStep::Node(node, _) => Arc::as_ptr(node) as usize,
            NextStep::Leaf(slot) => Arc::as_ptr(slot) as usize,
        }
    }
}

#[pymethods]
impl PyNode {
    /// What the node computes the gradient of.
    fn name(&self) -> String {
        match &self.0 {
            NextStep::Node(node, _) => node.name(),
            NextStep::Leaf(_) => "AccumulateGrad".into(),
        }
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|n| n.get().address() == self.address())
    }

    fn __hash__(&self) -> usize {
        self.address()
    }

    /// Where the gradients of its inputs go: nodes, each with the position of its output.
    #[getter]
    fn next_functions(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let steps = match &self.0 {
            NextStep::Node(node, _) => node.next_steps(),
            NextStep::Leaf(_) => Vec::new(),
        };
        let next = steps.into_iter().map(|step| {
            let position = if let Some(NextStep::Node(_, i)) = &step { *i } else { 0 };
            Ok((step.map(|s| Py::new(py, PyNode(s))).transpose()?, position))
        });
        Ok(PyTuple::new(py, next.collect::<PyResult<Vec<_>>>()?)?.unbind())
    }

    /// The order in which it was recorded; a leaf stands before all.
    #[getter]
    fn sequence(&self) -> u64 {
        match &self.0 {
            NextStep::Node(node, _) => node.sequence(),
            NextStep::Leaf(_) => 0,
        }
    }
}

/// Tensors or `None`.
fn optional_tensors(value: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
    value
        .try_iter()?
        .map(|v| {
            let v = v?;
            if v.is_none() { Ok(None) } else { Ok(Some(v.cast::<PyTensor>()?.get().held().clone())) }
        })
        .collect()
}

/// A backward pass that collects into `inputs` only.
pub fn backward_into(
    py: Python<'_>,
    roots: Vec<Tensor>,
    grads: Vec<Option<Tensor>>,
    inputs: &Bound<'_, PyAny>,
    options: BackwardOptions,
) -> PyResult<()> {
    let inputs = if inputs.is_instance_of::<PyTensor>() {
        vec![inputs.cast::<PyTensor>()?.get().held().clone()]
    } else {
        args::tensors(inputs)?
    };
    if inputs.is_empty() {
        return Err(PyRuntimeError::new_err("`inputs` argument to `backward()` cannot be empty."));
    }
    mark(py);
    let found = autograd::grad(&roots, &grads, &inputs, options, true).or_raise()?;
    for (t, g) in inputs.iter().zip(found) {
        let Some(g) = g else { continue };
        let sum = match t.grad() {
            Some(have) => autograd::no_grad(|| have.add(&g)).or_raise()?,
            None => g,
        };
        t.set_grad(Some(sum)).or_raise()?;
    }
    Ok(())
}

/// Collects gradients of several tensors into their leaves.
#[pyfunction]
#[pyo3(signature = (tensors, grads, retain_graph=false, create_graph=false))]
fn backward(
    tensors: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    retain_graph: bool,
    create_graph: bool,
) -> PyResult<()> {
    mark(tensors.py());
    let (roots, grads) = (args::tensors(tensors)?, optional_tensors(grads)?);
    autograd::backward(&roots, &grads, BackwardOptions { retain_graph, create_graph }).or_raise()
}

/// Gradients of `outputs` with respect to `inputs`.
#[pyfunction]
#[pyo3(signature = (outputs, grad_outputs, inputs, retain_graph=false, create_graph=false, allow_unused=false))]
fn autograd_grad(
    outputs: &Bound<'_, PyAny>,
    grad_outputs: &Bound<'_, PyAny>,
    inputs: &Bound<'_, PyAny>,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Vec<Option<NewTensor>>> {
    mark(outputs.py());
    let (roots, grads, inputs) = (args::tensors(outputs)?, optional_tensors(grad_outputs)?, args::tensors(inputs)?);
    let options = BackwardOptions { retain_graph, create_graph };
    let found = autograd::grad(&roots, &grads, &inputs, options, allow_unused).or_raise()?;
    Ok(found.into_iter().map(|g| g.map(NewTensor::new)).collect())
}

/// The backward pass of a Python function.
struct PythonBackward {
    backward: Py<PyAny>,
    release: Option<Py<PyAny>>,
}

impl CustomBackward for PythonBackward {
    fn backward(&mut self, grads: Vec<Option<Tensor>>) -> gt_client::Result<Vec<Option<Tensor>>> {
        Python::attach(|py| -> PyResult<Vec<Option<Tensor>>> {
            let given: Vec<Option<NewTensor>> = grads.into_iter().map(|g| g.map(NewTensor::new)).collect();
            let answer = self.backward.bind(py).call1((PyList::new(py, given)?,))?;
            optional_tensors(&answer)
        })
        .map_err(callback_error)
    }

    fn release(&mut self) {
        Python::attach(|py| {
            if let Some(release) = &self.release
                && let Err(e) = release.bind(py).call0()
            {
                e.write_unraisable(py, None);
            }
        });
    }
}

/// Ties tensors that Python code computed without tracking to its backward pass.
#[pyfunction]
#[pyo3(signature = (name, inputs, outputs, differentiable, backward, release=None))]
fn custom_node(
    name: String,
    inputs: &Bound<'_, PyAny>,
    outputs: &Bound<'_, PyAny>,
    differentiable: Vec<bool>,
    backward: Py<PyAny>,
    release: Option<Py<PyAny>>,
) -> PyResult<Vec<NewTensor>> {
    let (ins, outs) = (args::tensors(inputs)?, args::tensors(outputs)?);
    let refs: Vec<&Tensor> = ins.iter().collect();
    let function = Box::new(PythonBackward { backward, release });
    let made = autograd::custom(name, &refs, &outs, &differentiable, function).or_raise()?;
    Ok(made.into_iter().map(NewTensor::new).collect())
}

/// A tensor that was computed without tracking as a function of `inputs` whose slope is zero everywhere.
#[pyfunction]
fn with_zero_gradient(tensor: &Bound<'_, PyTensor>, name: &str, inputs: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
    let (this, ins) = (tensor.get(), args::tensors(inputs)?);
    let made = this.held().clone().with_zero_gradient(name, &ins.iter().collect::<Vec<_>>()).or_raise()?;
    Ok(this.like(made))
}

/// The number the next recorded node will have or exceed.
#[pyfunction]
fn tape_position() -> u64 {
    autograd::position()
}

/// Stand-ins for all that tensors were computed from before `since`.
#[pyfunction]
fn captured(tensors: &Bound<'_, PyAny>, since: u64) -> PyResult<Vec<NewTensor>> {
    mark(tensors.py());
    let found = autograd::captured(&args::tensors(tensors)?, since).or_raise()?;
    Ok(found.into_iter().map(NewTensor::new).collect())
}

/// Gradients of `roots` with respect to the stand-ins that `captured` gave for the same piece of the tape.
#[pyfunction]
fn grad_of_piece(
    roots: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    edges: &Bound<'_, PyAny>,
    since: u64,
    create_graph: bool,
) -> PyResult<Vec<Option<NewTensor>>> {
    mark(roots.py());
    let (roots, grads, edges) = (args::tensors(roots)?, optional_tensors(grads)?, args::tensors(edges)?);
    let found = autograd::grad_of_piece(&roots, &grads, &edges, since, create_graph).or_raise()?;
    Ok(found.into_iter().map(|g| g.map(NewTensor::new)).collect())
}

/// Whether the calling thread tracks gradients.
///
/// >>> with gt.no_grad():
/// ...     gt.is_grad_enabled()
/// False
#[pyfunction]
fn is_grad_enabled() -> bool {
    grad_enabled()
}

/// Switches tracking; returns what it was.
#[pyfunction]
fn set_grad_enabled_raw(on: bool) -> bool {
    set_grad_enabled(on)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(backward, m)?)?;
    m.add_function(wrap_pyfunction!(autograd_grad, m)?)?;
    m.add_function(wrap_pyfunction!(custom_node, m)?)?;
    m.add_function(wrap_pyfunction!(with_zero_gradient, m)?)?;
    m.add_function(wrap_pyfunction!(tape_position, m)?)?;
    m.add_function(wrap_pyfunction!(captured, m)?)?;
    m.add_function(wrap_pyfunction!(grad_of_piece, m)?)?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_grad_enabled_raw, m)?)
}
