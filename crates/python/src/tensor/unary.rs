//! Functions of one tensor.

use gt_ir::rows::UnaryKind;
use pyo3::prelude::*;

use super::inplace::written;
use super::{NewTensor, PyTensor};
use crate::errors::OrRaise;
use crate::site::mark;

/// The methods of a row: one for each of its names, and that which works in place.
macro_rules! methods {
    ($kind:ident $says:literal [$($name:ident $($in_place:ident)?),*]) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = concat!($says, ".")]
                fn $name(&self, py: Python<'_>) -> PyResult<NewTensor> {
                    self.run(py, |t| t.unary(UnaryKind::$kind))
                }
                $(
                    #[doc = concat!("In place: ", $says, ".")]
                    fn $in_place<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
                        mark(slf.py());
                        slf.get().held().unary_(UnaryKind::$kind).or_raise()?;
                        Ok(slf.clone())
                    }
                )?
            )*
        }
    };
    ($kind:ident []) => {};
}

macro_rules! every_row {
    ($($kind:ident $text:literal $names:tt $($says:literal $(, $example:literal => $result:literal)?)?;)*) => {
        $(methods!($kind $($says)? $names);)*
    };
}

gt_ir::unary_rows!(every_row);

#[pymethods]
impl PyTensor {
    /// Rounded to the nearest even, or to `decimals` places.
    #[pyo3(signature = (*, decimals=0))]
    fn round(&self, py: Python<'_>, decimals: i32) -> PyResult<NewTensor> {
        let scale = 10f64.powi(decimals.abs());
        self.run(py, |t| match decimals {
            0 => t.unary(UnaryKind::Round),
            d if d > 0 => t.mul(scale)?.unary(UnaryKind::Round)?.div(scale),
            _ => t.div(scale)?.unary(UnaryKind::Round)?.mul(scale),
        })
    }

    /// In place: rounded to the nearest even.
    #[pyo3(signature = (*, decimals=0))]
    fn round_<'py>(slf: &Bound<'py, Self>, decimals: i32) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.round(slf.py(), decimals))
    }

    /// The Gaussian error linear unit, exact or by `approximate="tanh"`.
    #[pyo3(signature = (approximate="none"))]
    fn gelu(&self, py: Python<'_>, approximate: &str) -> PyResult<NewTensor> {
        match approximate {
            "none" => self.run(py, |t| t.unary(UnaryKind::Gelu)),
            "tanh" => self.run(py, |t| t.gelu_tanh()),
            other => Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
                "approximate argument must be either none or tanh, not {other}"
            ))),
        }
    }

    /// `nan` and infinities replaced by numbers.
    #[pyo3(signature = (nan=0.0, posinf=None, neginf=None))]
    fn nan_to_num(
        &self,
        py: Python<'_>,
        nan: Option<f64>,
        posinf: Option<f64>,
        neginf: Option<f64>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.nan_to_num(nan.unwrap_or(0.0), posinf, neginf))
    }
}
