//! Operators: `+`, `@`, `<`, `~` and the rest, with their reflected and in-place forms.

use gt_client::{Arg, Tensor};
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;

use super::arith::{augmented, power};
use super::{NewTensor, PyTensor};
use crate::args::Operand;
use crate::errors::OrRaise;
use crate::site::mark;

/// An operator's result, or `NotImplemented` for an operand GT does not know.
type Answer = PyResult<Py<PyAny>>;

#[inline]
fn answer(py: Python<'_>, this: &PyTensor, result: gt_client::Result<Tensor>) -> Answer {
    Ok(this.like(result.or_raise()?).into_pyobject(py)?.into_any().unbind())
}

#[inline]
fn operator(
    this: &PyTensor,
    other: &Bound<'_, PyAny>,
    reflected: bool,
    f: impl Fn(Arg<'_>, Arg<'_>) -> gt_client::Result<Tensor>,
) -> Answer {
    let py = other.py();
    mark(py);
    // The common case first: a tensor beside a tensor.
    if let Ok(t) = other.cast::<PyTensor>() {
        let (a, b) = (Arg::Tensor(&this.held()), Arg::Tensor(&t.get().held()));
        return answer(py, this, if reflected { f(b, a) } else { f(a, b) });
    }
    let Some(operand) = Operand::from(other)? else { return Ok(py.NotImplemented()) };
    let (a, b) = (Arg::Tensor(&this.held()), operand.arg());
    answer(py, this, if reflected { f(b, a) } else { f(a, b) })
}

/// The operators that are one instruction. Everything up to its recording is one function, for all of them.
#[inline(never)]
fn binary(this: &PyTensor, other: &Bound<'_, PyAny>, reflected: bool, kind: BinaryKind) -> Answer {
    operator(this, other, reflected, |a, b| Tensor::binary(kind, a, b))
}

macro_rules! operators {
    ($($kind:ident $op:ident $rop:ident $iop:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $op(&self, other: &Bound<'_, PyAny>) -> Answer {
                    binary(self, other, false, BinaryKind::$kind)
                }
                fn $rop(&self, other: &Bound<'_, PyAny>) -> Answer {
                    binary(self, other, true, BinaryKind::$kind)
                }
                fn $iop<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<()> {
                    augmented(slf, other, |a, b| Tensor::binary(BinaryKind::$kind, a, b))
                }
            )*
        }
    };
}

operators! {
    Add __add__ __radd__ __iadd__;
    Sub __sub__ __rsub__ __isub__;
    Mul __mul__ __rmul__ __imul__;
    Div __truediv__ __rtruediv__ __itruediv__;
    FloorDiv __floordiv__ __rfloordiv__ __ifloordiv__;
    Rem __mod__ __rmod__ __imod__;
    And __and__ __rand__ __iand__;
    Or __or__ __ror__ __ior__;
    Xor __xor__ __rxor__ __ixor__;
    Shl __lshift__ __rlshift__ __ilshift__;
    Shr __rshift__ __rrshift__ __irshift__;
}

#[pymethods]
impl PyTensor {
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> Answer {
        if modulo.is_some() {
            return Err(PyTypeError::new_err("pow() with a modulus is not defined on tensors"));
        }
        operator(self, other, false, power)
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> Answer {
        operator(self, other, true, power)
    }

    fn __ipow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        _modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        augmented(slf, other, power)
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> Answer {
        let py = other.py();
        mark(py);
        match other.cast::<PyTensor>() {
            Ok(t) => answer(py, self, self.held().matmul(&t.get().held())),
            Err(_) => match Operand::from(other)? {
                Some(Operand::Made(t)) => answer(py, self, self.held().matmul(&t)),
                _ => Ok(py.NotImplemented()),
            },
        }
    }

    fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> Answer {
        mark(other.py());
        match Operand::from(other)? {
            Some(Operand::Made(t)) => answer(other.py(), self, t.matmul(&self.held())),
            _ => Ok(other.py().NotImplemented()),
        }
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Answer {
        let kind = match op {
            CompareOp::Eq => CompareKind::Eq,
            CompareOp::Ne => CompareKind::Ne,
            CompareOp::Lt => CompareKind::Lt,
            CompareOp::Le => CompareKind::Le,
            CompareOp::Gt => CompareKind::Gt,
            CompareOp::Ge => CompareKind::Ge,
        };
        operator(self, other, false, |a, b| Tensor::compare(kind, a, b))
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<NewTensor> {
        if self.held().dtype() == gt_ir::DType::Bool {
            return Err(PyRuntimeError::new_err(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            ));
        }
        self.run(py, |t| t.unary(UnaryKind::Neg))
    }

    fn __pos__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<NewTensor> {
        self.run(py, |t| t.unary(UnaryKind::Abs))
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<NewTensor> {
        match self.held().dtype() {
            gt_ir::DType::Bool => self.run(py, |t| t.unary(UnaryKind::LogicalNot)),
            d if d.is_float() => Err(PyTypeError::new_err(format!(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {}",
                d.long_name()
            ))),
            _ => self.run(py, |t| t.unary(UnaryKind::BitwiseNot)),
        }
    }
}
