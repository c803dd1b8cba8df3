//! Random streams.

use gt_client::Generator;
use gt_client::rng::{self, Stream};
use pyo3::prelude::*;

use crate::device::{Device, PyDevice};

/// A random stream of its own, apart from the thread's.
///
/// >>> import gt
/// >>> g = gt.Generator().manual_seed(7)
/// >>> g.initial_seed()
/// 7
#[pyclass(frozen, name = "Generator", module = "gt")]
pub struct PyGenerator(pub Generator);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        crate::device::optional(device)?;
        Ok(PyGenerator(Generator::new(Stream::default().seed)))
    }

    /// Starts over at `seed`.
    fn manual_seed<'py>(slf: &Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().0.manual_seed(seed_of(seed)?);
        Ok(slf.clone())
    }

    /// Starts over at a seed from the clock, and returns it.
    fn seed(&self) -> u64 {
        let seed = clock_seed();
        self.0.manual_seed(seed);
        seed
    }

    /// The seed it started from.
    fn initial_seed(&self) -> u64 {
        self.0.seed()
    }

    /// Where it stands, as a tensor.
    fn get_state(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let s = self.0.state();
        state_tensor(py, s)
    }

    /// Puts it where another stood.
    fn set_state(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.set_state(tensor_state(state)?);
        Ok(())
    }

    /// Where it was asked to be.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(Device::Cpu)
    }
}

fn clock_seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64) >> 1
}

/// Any Python int is a seed; negative ones wrap as in PyTorch.
fn seed_of(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(s) => Ok(s),
        Err(_) => value.extract::<i64>().map(|s| s as u64),
    }
}

fn state_tensor(py: Python<'_>, s: Stream) -> PyResult<Py<PyAny>> {
    let mut bytes = s.seed.to_le_bytes().to_vec();
    bytes.extend_from_slice(&s.ordinal.to_le_bytes());
    let t = gt_client::Tensor::from_slice(&bytes, &[16]).map_err(crate::errors::to_py)?;
    Ok(crate::tensor::NewTensor::new(t).into_pyobject(py)?.into_any().unbind())
}

fn tensor_state(state: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let wrong =
        || pyo3::exceptions::PyTypeError::new_err("the state must be a uint8 tensor returned by get_rng_state()");
    let t = state.cast::<crate::tensor::PyTensor>().map_err(|_| wrong())?;
    let bytes = t.get().held().to_vec::<u8>().map_err(crate::errors::to_py)?;
    let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    match (word(0), word(8), bytes.len()) {
        (Some(seed), Some(ordinal), 16) => Ok(Stream { seed, ordinal }),
        _ => Err(wrong()),
    }
}

/// Seeds the calling thread's stream, and the threads that start using GT later.
///
/// >>> generator = gt.manual_seed(7)
/// >>> first = gt.rand(2)
/// >>> generator = gt.manual_seed(7)
/// >>> gt.equal(gt.rand(2), first)
/// True
#[pyfunction]
fn manual_seed(seed: &Bound<'_, PyAny>) -> PyResult<PyGenerator> {
    rng::manual_seed(seed_of(seed)?);
    Ok(PyGenerator(Generator::of_thread()))
}

/// Seeds from the clock, and returns the seed.
///
/// >>> gt.seed() == gt.initial_seed()
/// True
#[pyfunction]
fn seed() -> u64 {
    let s = clock_seed();
    rng::manual_seed(s);
    s
}

/// The seed of the calling thread's stream.
///
/// >>> generator = gt.manual_seed(7)
/// >>> gt.initial_seed()
/// 7
#[pyfunction]
fn initial_seed() -> u64 {
    rng::state().seed
}

/// Where the calling thread's stream stands, as a tensor.
///
/// >>> state = gt.get_rng_state()
/// >>> first = gt.rand(2)
/// >>> gt.set_rng_state(state)
/// >>> gt.equal(gt.rand(2), first)
/// True
#[pyfunction]
fn get_rng_state(py: Python<'_>) -> PyResult<Py<PyAny>> {
    state_tensor(py, rng::state())
}

/// Puts the calling thread's stream where another stood.
///
/// >>> state = gt.get_rng_state()
/// >>> gt.rand(2).shape
/// gt.Size([2])
/// >>> gt.set_rng_state(state)
/// >>> gt.equal(gt.get_rng_state(), state)
/// True
#[pyfunction]
fn set_rng_state(state: &Bound<'_, PyAny>) -> PyResult<()> {
    rng::set_state(tensor_state(state)?);
    Ok(())
}

/// Seed and number of the next draw, without a tensor.
#[pyfunction]
fn rng_state() -> (u64, u64) {
    let s = rng::state();
    (s.seed, s.ordinal)
}

/// The counterpart of `rng_state`.
#[pyfunction]
fn set_rng_state_raw(seed: u64, ordinal: u64) {
    rng::set_state(Stream { seed, ordinal });
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("default_generator", PyGenerator(Generator::of_thread()))?;
    m.add_function(wrap_pyfunction!(manual_seed, m)?)?;
    m.add_function(wrap_pyfunction!(seed, m)?)?;
    m.add_function(wrap_pyfunction!(initial_seed, m)?)?;
    m.add_function(wrap_pyfunction!(get_rng_state, m)?)?;
    m.add_function(wrap_pyfunction!(set_rng_state, m)?)?;
    m.add_function(wrap_pyfunction!(rng_state, m)?)?;
    m.add_function(wrap_pyfunction!(set_rng_state_raw, m)?)
}
