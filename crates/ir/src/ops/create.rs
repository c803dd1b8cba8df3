//! Values from nothing: fill, iota, random, upload.

use super::one;
use crate::attr::{choice, op_struct};
use crate::*;

op_struct! {
    /// Every element is the scalar.
    pub struct Fill {
        /// The element type.
        dtype: DType,
        /// The extents.
        shape: Shape,
    }
}

op_struct! {
    /// `start + i * step` in one dimension; scalars: start, step.
    pub struct Iota {
        /// The element type.
        dtype: DType,
        /// The extents: one of them.
        shape: Shape,
    }
}

choice! {
    /// A distribution.
    pub enum RandomKind {
        /// `[0, 1)`.
        Uniform = "uniform",
        /// Mean 0, variance 1.
        Normal = "normal",
        /// Integers in `low..high`.
        Int = "int",
    }
}

op_struct! {
    /// A draw; scalars: seed, ordinal, and for `int` low and high.
    pub struct Random {
        /// The distribution.
        kind: RandomKind,
        /// The element type.
        dtype: DType,
        /// The extents.
        shape: Shape,
    }
}

op_struct! {
    /// Bytes the client sends along with the window.
    pub struct Upload {
        /// The element type.
        dtype: DType,
        /// The extents.
        shape: Shape,
    }
}

macro_rules! creation {
    ($name:ident, $text:literal, $infer:expr, $scalars:expr, $samples:expr) => {
        impl Primitive for $name {
            fn name(&self) -> &'static str {
                $text
            }
            fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
                arity($text, ins, 0)?;
                let check: fn(&$name) -> Result<(), OpError> = $infer;
                check(self)?;
                one(TensorType { dtype: self.dtype, shape: self.shape })
            }
            fn scalars(&self, _: &[TensorType]) -> usize {
                let count: fn(&$name) -> usize = $scalars;
                count(self)
            }
            fn saves(&self, _: u64) -> Saves {
                Saves::NONE
            }
            fn grad(&self, _: &GradCx<'_>, _: &mut dyn Emit) -> Result<Grads, OpError> {
                Ok(Grads::new())
            }
            fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost {
                elementwise_cost(ins, outs, 1)
            }
            fn samples(dtype: DType) -> Vec<Sample> {
                let samples: fn(DType) -> Vec<Sample> = $samples;
                samples(dtype)
            }
        }
    };
}

creation!(Fill, "fill", |_| Ok(()), |_| 1, |dtype| {
    [&[][..], &[3, 5], &[0, 2]]
        .into_iter()
        .map(|s| Sample::new(Fill { dtype, shape: Shape::new(s) }, &[]).with(&[Scalar::F64(1.0)]))
        .collect()
});

creation!(
    Iota,
    "iota",
    |op| match op.shape.rank() {
        1 => Ok(()),
        n => Err(OpError::shape(format!("iota needs one dimension, got {n}"))),
    },
    |_| 2,
    |dtype| {
        if dtype == DType::Bool {
            return Vec::new();
        }
        let make = |n, a: Scalar, b: Scalar| Sample::new(Iota { dtype, shape: Shape::new(&[n]) }, &[]).with(&[a, b]);
        vec![make(7, 2.into(), 3.into()), make(0, 0.into(), 1.into()), make(2000, 0.into(), 0.into())]
    }
);

creation!(
    Random,
    "random",
    |op| match op.kind {
        RandomKind::Int if op.dtype.is_int() => Ok(()),
        RandomKind::Uniform | RandomKind::Normal if op.dtype.is_float() => Ok(()),
        kind =>
            Err(OpError::dtype(format!("{} random numbers cannot have dtype {}", kind.name(), op.dtype.long_name()))),
    },
    |op| if op.kind == RandomKind::Int { 4 } else { 2 },
    |dtype| {
        let seeded = |kind, shape: &[usize], more: &[Scalar]| {
            let mut scalars = vec![Scalar::I64(42), Scalar::I64(7)];
            scalars.extend_from_slice(more);
            Sample::new(Random { kind, dtype, shape: Shape::new(shape) }, &[]).with(&scalars)
        };
        if dtype.is_float() {
            vec![
                seeded(RandomKind::Uniform, &[3, 7], &[]),
                seeded(RandomKind::Uniform, &[5001], &[]),
                seeded(RandomKind::Normal, &[3, 7], &[]),
                seeded(RandomKind::Normal, &[5001], &[]),
            ]
        } else if dtype.is_int() {
            vec![seeded(RandomKind::Int, &[4, 9], &[2.into(), 100.into()])]
        } else {
            Vec::new()
        }
    }
);

// An upload has no samples: its value is its payload, which the conformance suite uploads for every input.
creation!(Upload, "upload", |_| Ok(()), |_| 0, |_| Vec::new());
