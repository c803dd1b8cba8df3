//! `gt.dtype`.

use gt_ir::DType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

/// The type of a tensor's elements: `gt.float32`, `gt.int64`, …
///
/// >>> import gt
/// >>> gt.float32.itemsize
/// 4
#[pyclass(frozen, name = "dtype", module = "gt")]
pub struct PyDType(pub DType);

static ALL: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

fn all(py: Python<'_>) -> &Vec<Py<PyDType>> {
    ALL.get_or_init(py, || {
        DType::ALL.iter().map(|&d| Py::new(py, PyDType(d)).expect("a dtype is a plain object")).collect()
    })
}

/// The one object of a dtype.
pub fn object(py: Python<'_>, dtype: DType) -> Py<PyDType> {
    all(py)[dtype as usize].clone_ref(py)
}

/// A dtype from what users pass: `gt.float32`, its name, Python's own types, or a NumPy dtype.
pub fn extract(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(d) = value.cast::<PyDType>() {
        return Ok(d.get().0);
    }
    let py = value.py();
    for (class, dtype) in [("float", DType::F32), ("int", DType::I64), ("bool", DType::Bool)] {
        if value.is(&py.import("builtins")?.getattr(class)?) {
            return Ok(dtype);
        }
    }
    if let Some(d) = named(value) {
        return Ok(d);
    }
    if let Ok(name) = value.extract::<String>() {
        let names = DType::ALL.map(DType::long_name).join(", ");
        return Err(PyTypeError::new_err(format!("unknown dtype '{name}': GT has {names}")));
    }
    let kind = value.get_type().name()?;
    let expected = "dtype must be a gt.dtype, a name such as 'float32' or a NumPy dtype";
    Err(PyTypeError::new_err(format!("{expected}, not {kind}")))
}

/// The dtype that a name, a NumPy dtype or a class of NumPy scalars stands for.
fn named(value: &Bound<'_, PyAny>) -> Option<DType> {
    if let Ok(name) = value.extract::<String>() {
        return DType::from_name(&name);
    }
    let is_scalar_class = value.is_instance_of::<PyType>()
        && value.getattr("__module__").and_then(|m| m.extract::<String>()).is_ok_and(|module| module == "numpy");
    let name = value.getattr(if is_scalar_class { "__name__" } else { "name" }).ok()?.extract::<String>().ok()?;
    // `bool_`, as NumPy called it for long.
    DType::from_name(name.strip_suffix('_').unwrap_or(&name))
}

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        format!("gt.{}", self.0.long_name())
    }

    /// That of the name, which is equal.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::intern(py, self.0.long_name()).hash()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        match other.cast::<PyDType>() {
            Ok(d) => d.get().0 == self.0,
            Err(_) => named(other) == Some(self.0),
        }
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        Ok((py.import("gt._core")?.getattr("_dtype")?.unbind(), (self.0.long_name().into(),)))
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// Whether elements are floats.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    /// Always false: GT has no complex numbers.
    #[getter]
    fn is_complex(&self) -> bool {
        false
    }

    /// Whether elements may be negative.
    #[getter]
    fn is_signed(&self) -> bool {
        !matches!(self.0, DType::Bool | DType::U8)
    }

    /// The name without the module: `float32`.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.long_name()
    }
}

#[pyfunction]
fn _dtype(py: Python<'_>, name: &str) -> PyResult<Py<PyDType>> {
    DType::from_name(name).map(|d| object(py, d)).ok_or_else(|| PyTypeError::new_err(format!("unknown dtype {name}")))
}

/// The dtype two dtypes promote to.
///
/// >>> gt.promote_types(gt.int64, gt.float16)
/// gt.float16
#[pyfunction]
fn promote_types(py: Python<'_>, a: &Bound<'_, PyDType>, b: &Bound<'_, PyDType>) -> Py<PyDType> {
    object(py, a.get().0.promote(b.get().0))
}

/// Whether a result of one dtype may be written into another.
///
/// >>> gt.can_cast(gt.int64, gt.float32), gt.can_cast(gt.float32, gt.int64)
/// (True, False)
#[pyfunction]
fn can_cast(from: &Bound<'_, PyDType>, to: &Bound<'_, PyDType>) -> bool {
    from.get().0.category() <= to.get().0.category()
}

/// The dtype of floats that say nothing else: float32 unless `set_default_dtype` changed it.
///
/// >>> gt.get_default_dtype()
/// gt.float32
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> Py<PyDType> {
    object(py, gt_client::ops::default_dtype())
}

/// Changes the dtype of floats that say nothing else.
///
/// >>> gt.set_default_dtype(gt.float64)
/// >>> gt.tensor(1.5).dtype
/// gt.float64
/// >>> gt.set_default_dtype(gt.float32)
#[pyfunction]
fn set_default_dtype(d: &Bound<'_, PyDType>) -> PyResult<()> {
    gt_client::ops::set_default_dtype(d.get().0).map_err(crate::errors::to_py)
}

/// Adds the dtypes themselves and their functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for d in DType::ALL {
        m.add(d.long_name(), object(m.py(), d))?;
    }
    m.add_function(wrap_pyfunction!(_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(get_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(promote_types, m)?)?;
    m.add_function(wrap_pyfunction!(can_cast, m)?)
}
