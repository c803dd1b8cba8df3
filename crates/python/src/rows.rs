//! The table of elementwise functions, for what is made from it in Python: functions, stubs, autocast, tests.

use gt_ir::rows::{Accepts, BinaryKind, CompareKind, Names, Surface, UnaryKind};
use gt_ir::{DType, Domain};
use pyo3::prelude::*;

/// A row of the table; the fields are those of `gt_ir::rows`.
#[pyclass(frozen, get_all, name = "_Row", module = "gt._core")]
struct Row {
    /// Each with that of the method that works in place, which may be empty.
    names: Vec<(&'static str, &'static str)>,
    operand: &'static str,
    tensors_only: bool,
    says: &'static str,
    example: (&'static str, &'static str),
    dtypes: Vec<&'static str>,
    to_bool: bool,
    differentiable: bool,
    /// The ranges that tests take operands from.
    domains: Vec<(f64, f64)>,
    points: Vec<(f64, f64)>,
    slack: f64,
    numpy: String,
    autocast: bool,
    special: Vec<&'static str>,
}

impl Row {
    fn new(names: Names, accepts: Accepts, domains: &[Domain], points: &[(f64, f64)], surface: &Surface) -> Row {
        let operands = if names.operand.is_empty() { "x" } else { "x, y" };
        let numpy = match (surface.numpy, names.names.first()) {
            ("", Some((name, _))) if points.is_empty() => format!("np.{name}({operands})"),
            (expression, _) => expression.to_owned(),
        };
        Row {
            names: names.names.to_vec(),
            operand: names.operand,
            tensors_only: names.tensors_only,
            says: names.says,
            example: names.example,
            dtypes: DType::ALL.into_iter().filter(|&dtype| accepts.takes(dtype)).map(DType::long_name).collect(),
            to_bool: false,
            differentiable: false,
            domains: domains.iter().map(|domain| domain.range()).collect(),
            points: points.to_vec(),
            slack: surface.slack,
            numpy,
            autocast: surface.autocast,
            special: surface.special.to_vec(),
        }
    }
}

/// Every elementwise function that has a name.
#[pyfunction]
fn _rows() -> Vec<Row> {
    let unary = UnaryKind::ALL.iter().map(|kind| {
        let row = kind.row();
        Row {
            to_bool: row.to_bool,
            differentiable: row.grad.is_some(),
            ..Row::new(kind.names(), row.accepts, &[row.domain], row.points, &row.surface)
        }
    });
    let binary = BinaryKind::ALL.iter().map(|kind| {
        let row = kind.row();
        Row {
            differentiable: row.left.is_some() || row.right.is_some(),
            ..Row::new(kind.names(), row.accepts, &[row.domains.0, row.domains.1], &[], &row.surface)
        }
    });
    let compare = CompareKind::ALL.iter().map(|kind| {
        let surface = Surface { numpy: kind.row().numpy, ..Surface::EXACT };
        Row { to_bool: true, ..Row::new(kind.names(), Accepts::All, &[Domain::Any; 2], &[], &surface) }
    });
    unary.chain(binary).chain(compare).filter(|row| !row.names.is_empty()).collect()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_rows, m)?)
}
