//! Axes as users write them: from the front or, negative, from the back.

use gt_ir::{AxisSet, OpError, Shape};

use crate::error::Result;
use crate::tensor::Tensor;

/// The axis a user means; a 0-d tensor accepts 0 and -1 as PyTorch does.
///
/// # Errors
/// [`OpError::Index`] when it is out of range.
pub fn axis(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if dim < -n || dim >= n {
        return Err(OpError::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        ))
        .into());
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

impl Tensor {
    /// The axis a user means, of a tensor that must have it: a 0-d tensor has none.
    ///
    /// # Errors
    /// [`OpError::Index`] when there is no such axis.
    pub fn own_axis(&self, dim: i64) -> Result<usize> {
        if self.rank() == 0 {
            return Err(OpError::index(format!("Dimension specified as {dim} but tensor has no dimensions")).into());
        }
        axis(dim, self.rank())
    }
}

/// A set of axes; no dims means all of them.
///
/// # Errors
/// When one is out of range or named twice.
pub fn axis_set(dims: &[i64], rank: usize) -> Result<AxisSet> {
    if dims.is_empty() {
        return Ok(AxisSet::all(rank));
    }
    let mut set = AxisSet::default();
    for &d in dims {
        let a = axis(d, rank)?;
        if set.contains(a) {
            return Err(OpError::argument(format!("dim {a} appears multiple times in the list of dims")).into());
        }
        set.0 |= 1 << a;
    }
    // A 0-d tensor takes an axis and has none.
    Ok(if rank == 0 { AxisSet::default() } else { set })
}

/// A shape as users write it: one extent may be -1.
pub(crate) fn infer_shape(dims: &[i64], numel: usize) -> Result<Shape> {
    let text = || format!("[{}]", dims.iter().map(|d| d.to_string()).collect::<Vec<_>>().join(", "));
    let mut known = 1usize;
    let mut hole = None;
    for (i, &d) in dims.iter().enumerate() {
        match d {
            -1 if hole.is_some() => return Err(OpError::argument("only one dimension can be inferred").into()),
            -1 => hole = Some(i),
            d if d < 0 => return Err(OpError::argument(format!("invalid shape dimension {d}")).into()),
            d => {
                known = known
                    .checked_mul(d as usize)
                    .ok_or_else(|| OpError::shape(format!("shape '{}' is too large", text())))?;
            }
        }
    }
    let mut out: Vec<usize> = dims.iter().map(|&d| d.max(0) as usize).collect();
    let wrong = || OpError::shape(format!("shape '{}' is invalid for input of size {numel}", text()));
    match hole {
        Some(_) if known == 0 => {
            return Err(OpError::shape(format!(
                "cannot reshape tensor of {numel} elements into shape {} because the unspecified dimension size -1 can be \
                 any value and is ambiguous",
                text()
            ))
            .into());
        }
        Some(i) if numel.is_multiple_of(known) => out[i] = numel / known,
        None if known == numel => {}
        _ => return Err(wrong().into()),
    }
    Ok(Shape::try_new(&out)?)
}
