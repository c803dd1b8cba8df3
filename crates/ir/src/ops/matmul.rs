//! Matrix product.

use super::one;
use crate::attr::op_struct;
use crate::*;

op_struct! {
    /// `[…, m, k] @ […, k, n]`, the leading axes broadcast. Engines read permuted operands in place.
    pub struct Matmul {}
}

impl Primitive for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("matmul", ins, 2)?;
        let (a, b) = (ins[0], ins[1]);
        if a.dtype != b.dtype || a.dtype == DType::Bool {
            return Err(OpError::dtype(format!(
                "expected m1 and m2 to have the same dtype, but got: {} != {}",
                a.dtype.long_name(),
                b.dtype.long_name()
            )));
        }
        let (ra, rb) = (a.shape.rank(), b.shape.rank());
        if ra < 2 || rb < 2 || a.shape[ra - 1] != b.shape[rb - 2] {
            return Err(OpError::shape(format!(
                "mat1 and mat2 shapes cannot be multiplied ({} and {})",
                dims(&a.shape),
                dims(&b.shape)
            )));
        }
        let (la, lb) = (Shape::new(&a.shape[..ra - 2]), Shape::new(&b.shape[..rb - 2]));
        let mut shape = broadcast(&la, &lb).ok_or_else(|| {
            OpError::shape(format!("matmul: batch dimensions of shapes {} and {} do not broadcast", a.shape, b.shape))
        })?;
        shape.push(a.shape[ra - 2]);
        shape.push(b.shape[rb - 1]);
        if shape.checked_numel().is_none() {
            return Err(OpError::shape(format!("matmul: shape {shape} is too large")));
        }
        one(a.with_shape(shape))
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::ins((needs & 1) << 1 | (needs >> 1 & 1))
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None];
        let Some(g) = cx.grads[0] else { return Ok(grads) };
        if cx.needs(0) {
            let b = cx.input(1)?;
            let bt = e.transpose(b)?;
            let full = e.matmul(g, bt)?;
            grads[0] = Some(e.sum_to(full, cx.ins[0].shape)?);
        }
        if cx.needs(1) {
            let a = cx.input(0)?;
            let (sa, sb) = (cx.ins[0].shape, cx.ins[1].shape);
            // A weight without batch axes: one product over all rows instead of a batch of them and a sum.
            let full = if sb.rank() == 2 && sa.rank() > 2 {
                let rows = Shape::new(&sa[..sa.rank() - 1]).numel();
                let flat_a = e.reshape(a, Shape::new(&[rows, sa[sa.rank() - 1]]))?;
                let flat_g = e.reshape(g, Shape::new(&[rows, sb[1]]))?;
                let at = e.transpose(flat_a)?;
                e.matmul(at, flat_g)?
            } else {
                let at = e.transpose(a)?;
                e.matmul(at, g)?
            };
            grads[1] = Some(e.sum_to(full, sb)?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        let k = ins[0].shape.last().copied().unwrap_or(1) as u64;
        let flops = (outs[0].numel() as u64).saturating_mul(2).saturating_mul(k);
        Cost { flops, bytes: moved_bytes(ins.iter().chain(outs)) }
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        if dtype == DType::Bool {
            return Vec::new();
        }
        let pairs: &[(&[usize], &[usize])] = &[
            (&[3, 4], &[4, 5]),
            (&[1, 1], &[1, 1]),
            (&[2, 3, 4], &[4, 5]),
            (&[2, 3, 4], &[2, 4, 5]),
            (&[2, 1, 3, 4], &[3, 4, 2]),
            (&[3, 0], &[0, 2]),
            (&[0, 3], &[3, 2]),
            (&[17, 33], &[33, 19]),
            (&[1, 70], &[70, 9]),
        ];
        pairs
            .iter()
            .map(|(a, b)| Sample::new(Matmul {}, &[input(dtype, a, Domain::Any), input(dtype, b, Domain::Any)]))
            .collect()
    }
}

/// `2x3`, as PyTorch prints matrix shapes in its message.
fn dims(shape: &Shape) -> String {
    shape.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("x")
}
