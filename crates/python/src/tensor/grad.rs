//! Autograd on tensors.

use std::sync::Arc;

use gt_client::autograd::{BackwardOptions, backward};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

use super::{NewTensor, PyTensor};
use crate::autograd::{HookHandle, PyNode, after_collecting_hook, python_hook};
use crate::errors::OrRaise;
use crate::site::mark;

impl PyTensor {
    /// The object that `.grad` last gave, if somebody still holds it.
    fn known_grad<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTensor>> {
        let known = self.grad_object.lock().as_ref().map(|k| k.clone_ref(py))?;
        known.bind(py).upgrade()?.cast_into().ok()
    }

    fn know_grad(&self, grad: Option<&Bound<'_, PyTensor>>) -> PyResult<()> {
        if let (Some(grad), Some(slot)) = (grad, self.held().grad_slot()) {
            // A tensor that is the gradient of several parameters goes on as that of the first.
            let _ = grad.get().grad_of.set(Arc::downgrade(&slot));
        }
        let new = grad.map(|g| PyWeakrefReference::new(g).map(Bound::unbind)).transpose()?;
        // What it replaces is dropped with the lock free.
        let old = std::mem::replace(&mut *self.grad_object.lock(), new);
        drop(old);
        Ok(())
    }
}

#[pymethods]
impl PyTensor {
    /// Whether gradients flow to or through the tensor.
    #[getter]
    fn get_requires_grad(&self) -> bool {
        let held = self.held();
        let _ = held.id();
        held.requires_grad() || held.is_left_behind()
    }

    #[setter]
    fn set_requires_grad(&self, on: bool) -> PyResult<()> {
        self.held().set_requires_grad(on).or_raise()
    }

    /// Makes the tensor a leaf that collects gradients, or stops it.
    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_<'py>(slf: &Bound<'py, Self>, requires_grad: bool) -> PyResult<Bound<'py, Self>> {
        slf.get().held().set_requires_grad(requires_grad).or_raise()?;
        Ok(slf.clone())
    }

    /// Whether no tracked operation made the tensor.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.held().is_leaf()
    }

    /// The gradient collected so far.
    #[getter]
    fn get_grad<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTensor>>> {
        let Some(grad) = self.held().grad() else {
            if !self.held().is_leaf() && !self.held().retains_grad() {
                let message = c"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.";
                PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), message, 1)?;
            }
            return Ok(None);
        };
        if let Some(known) = self.known_grad(py)
            && known.get().held().is(&grad)
        {
            return Ok(Some(known));
        }
        let made = self.like(grad).into_pyobject(py)?;
        self.know_grad(Some(&made))?;
        Ok(Some(made))
    }

    #[setter]
    fn set_grad(&self, grad: Option<&Bound<'_, PyTensor>>) -> PyResult<()> {
        self.held().set_grad(grad.map(|g| g.get().held().clone())).or_raise()?;
        self.know_grad(grad)
    }

    #[deleter]
    fn delete_grad(&self) -> PyResult<()> {
        self.held().set_grad(None).or_raise()
    }

    /// The operation that made the tensor, as a node of the tape.
    #[getter]
    fn grad_fn(&self) -> Option<PyNode> {
        self.held().grad_fn().map(PyNode::new)
    }

    /// Collects the gradient of a tensor that is not a leaf too.
    fn retain_grad(&self) -> PyResult<()> {
        self.held().retain_grad().or_raise()
    }

    /// Whether `retain_grad` was called on a tensor that is not a leaf.
    #[getter]
    fn retains_grad(&self) -> bool {
        self.held().retains_grad()
    }

    /// Calls `hook` with the tensor's gradient on every backward pass; what it returns replaces the gradient.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<HookHandle> {
        let id = self.held().register_hook(python_hook(hook, self.device())).or_raise()?;
        Ok(HookHandle::new(self.held().clone(), id))
    }

    /// Calls `hook` with the tensor itself each time a gradient was added to its `.grad`.
    fn register_post_accumulate_grad_hook(slf: &Bound<'_, Self>, hook: Py<PyAny>) -> PyResult<HookHandle> {
        let t = slf.get().held().clone();
        let id = t.register_hook_after_collecting(after_collecting_hook(hook, slf)?).or_raise()?;
        Ok(HookHandle::new(t, id))
    }

    /// Collects gradients into the leaves this tensor was computed from.
    #[pyo3(signature = (gradient=None, retain_graph=None, create_graph=false, inputs=None))]
    fn backward(
        &self,
        py: Python<'_>,
        gradient: Option<&Bound<'_, PyAny>>,
        retain_graph: Option<bool>,
        create_graph: bool,
        inputs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        mark(py);
        let gradient = match gradient.filter(|g| !g.is_none()) {
            None => None,
            Some(g) => match g.cast::<PyTensor>() {
                Ok(g) => Some(g.get().held().clone()),
                Err(_) => {
                    return Err(PyTypeError::new_err(format!(
                        "gradients can be either Tensors or None, but got {}",
                        g.get_type().name()?
                    )));
                }
            },
        };
        let options = BackwardOptions { retain_graph: retain_graph.unwrap_or(create_graph), create_graph };
        if let Some(inputs) = inputs.filter(|i| !i.is_none()) {
            return crate::autograd::backward_into(py, vec![self.held().clone()], vec![gradient], inputs, options);
        }
        backward(std::slice::from_ref(&self.held()), &[gradient], options).or_raise()
    }

    /// An alias without history.
    fn detach(&self) -> NewTensor {
        self.like(self.held().detach())
    }

    /// In place: forgets how the tensor was made.
    fn detach_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().held().forget_history().or_raise()?;
        Ok(slf.clone())
    }

    /// The content without history; writing through it is not seen by autograd.
    #[getter]
    fn get_data(&self) -> NewTensor {
        self.like(self.held().data())
    }

    #[setter]
    fn set_data(&self, py: Python<'_>, data: &Bound<'_, PyTensor>) -> PyResult<()> {
        mark(py);
        let new = self.held().with_data(&data.get().held()).or_raise()?;
        self.become_tensor(new)?;
        self.set_device(data.get().device());
        Ok(())
    }
}
