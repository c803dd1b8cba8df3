//! The methods that multiply matrices and vectors.

use pyo3::prelude::*;

use super::{NewTensor, PyTensor};

#[pymethods]
impl PyTensor {
    /// The product of matrices, vectors or batches of them.
    fn matmul(&self, other: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(other.py(), |t| t.matmul(&other.get().held()))
    }

    /// The product of two matrices.
    fn mm(&self, mat2: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(mat2.py(), |t| t.mm(&mat2.get().held()))
    }

    /// The products of two batches of matrices.
    fn bmm(&self, mat2: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(mat2.py(), |t| t.bmm(&mat2.get().held()))
    }

    /// `beta * self + alpha * (mat1 @ mat2)`.
    #[pyo3(signature = (mat1, mat2, *, beta=1.0, alpha=1.0))]
    fn addmm(
        &self,
        py: Python<'_>,
        mat1: &Bound<'_, PyTensor>,
        mat2: &Bound<'_, PyTensor>,
        beta: f64,
        alpha: f64,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.addmm(&mat1.get().held(), &mat2.get().held(), beta.into(), alpha.into()))
    }

    /// The sum of products of two vectors.
    fn dot(&self, other: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(other.py(), |t| t.dot(&other.get().held()))
    }

    /// All products of two vectors' elements.
    fn outer(&self, vec2: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(vec2.py(), |t| t.outer(&vec2.get().held()))
    }
}
