//! Matrix product.

use super::one;
use crate::attr::op_struct;
use crate::shape::broadcast_extents;
use crate::*;

op_struct! {
    /// `[…, m, k] @ […, k, n]`, the leading axes broadcast. Engines read permuted operands in place.
    pub struct Matmul {
        /// The first input is read with its last two axes swapped.
        turn_a: bool,
        /// The second input is read so: what a linear layer does with its weight.
        turn_b: bool,
    }
}

impl Matmul {
    /// The product of the inputs as they are.
    pub const PLAIN: Matmul = Matmul { turn_a: false, turn_b: false };
}

/// The extents with the last two swapped, if they are to be.
fn turned(shape: &Shape, turn: bool) -> Shape {
    let rank = shape.rank();
    if turn && rank >= 2 { shape.swapped(rank - 1, rank - 2) } else { *shape }
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
        let (a, b) = (a.with_shape(turned(&a.shape, self.turn_a)), b.with_shape(turned(&b.shape, self.turn_b)));
        if ra < 2 || rb < 2 || a.shape[ra - 1] != b.shape[rb - 2] {
            return Err(OpError::shape(format!(
                "mat1 and mat2 shapes cannot be multiplied ({} and {})",
                dims(&a.shape),
                dims(&b.shape)
            )));
        }
        let mut extents = broadcast_extents(&a.shape.leading(ra - 2), &b.shape.leading(rb - 2)).ok_or_else(|| {
            OpError::shape(format!("matmul: batch dimensions of shapes {} and {} do not broadcast", a.shape, b.shape))
        })?;
        extents.push(a.shape[ra - 2]);
        extents.push(b.shape[rb - 1]);
        one(a.with_shape(Shape::try_from(extents)?))
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
        let (sa, sb) = (cx.ins[0].shape, cx.ins[1].shape);
        let product = |e: &mut dyn Emit, x: Val, turn_a: bool, y: Val, turn_b: bool| {
            e.one(Matmul { turn_a, turn_b }.into(), &[x, y], &[])
        };
        if cx.needs(0) {
            // g bᵀ, or its transpose where the input was read transposed; b is turned once more than it was.
            let b = cx.input(1)?;
            let full = match self.turn_a {
                false => product(e, g, false, b, !self.turn_b)?,
                true => product(e, b, self.turn_b, g, true)?,
            };
            grads[0] = Some(e.sum_to(full, &sa)?);
        }
        if cx.needs(1) {
            let mut a = cx.input(0)?;
            let mut g = g;
            // A weight without batch axes: one product over all rows instead of a batch of them and a sum.
            if sb.rank() == 2 && sa.rank() > 2 && !self.turn_a {
                let rows = sa.leading(sa.rank() - 1).numel();
                let columns = turned(&sb, self.turn_b)[1];
                a = e.reshape(a, Shape::try_new(&[rows, sa[sa.rank() - 1]])?)?;
                g = e.reshape(g, Shape::try_new(&[rows, columns])?)?;
            }
            let full = match self.turn_b {
                false => product(e, a, !self.turn_a, g, false)?,
                true => product(e, g, true, a, self.turn_a)?,
            };
            grads[1] = Some(e.sum_to(full, &sb)?);
        }
        Ok(grads)
    }
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
        let k = turned(&ins[0].shape, self.turn_a).last().copied().unwrap_or(1) as u64;
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
            (&[5, 1, 4, 3], &[1, 3, 3, 4]),
        ];
        let mut samples = Vec::new();
        for (a, b) in pairs {
            for (turn_a, turn_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let ins = [(a, turn_a), (b, turn_b)]
                    .map(|(s, turn)| input(dtype, &turned(&Shape::new(s), turn), Domain::Any));
                samples.push(Sample::new(Matmul { turn_a, turn_b }, &ins));
            }
        }
        samples
    }
}

/// `2x3`, as PyTorch prints matrix shapes in its message.
fn dims(shape: &Shape) -> String {
    shape.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("x")
}
