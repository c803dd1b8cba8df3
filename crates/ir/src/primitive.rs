//! What every op must answer, and the samples that hold it to the answer.

use smallvec::SmallVec;

use crate::shard::Sharding;
use crate::{DType, Emit, GradCx, Grads, Op, OpError, Saves, Scalar, TensorType};

/// The types of an instruction's outputs.
pub type Types = SmallVec<[TensorType; 1]>;

/// Work an instruction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes read and written if nothing is fused.
    pub bytes: u64,
}

/// One op of the table. There are no default bodies: "not differentiable" is written out. How it is split over workers is
/// the other half of what it answers ([`Sharding`]).
pub trait Primitive: Sharding {
    /// The name in the text form.
    fn name(&self) -> &'static str;
    /// The types of the outputs, or what is wrong with the inputs.
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError>;
    /// How many scalars the instruction carries.
    fn scalars(&self, ins: &[TensorType]) -> usize;
    /// What the backward pass needs when the inputs in `needs` want gradients.
    fn saves(&self, needs: u64) -> Saves;
    /// Emits the gradients of the inputs.
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError>;
    /// Flops and bytes.
    fn cost(&self, ins: &[TensorType], outs: &[TensorType]) -> Cost;
    /// Instances for the table tests, with elements of `dtype`; none where the op does not take it.
    fn samples(dtype: DType) -> Vec<Sample>
    where
        Self: Sized;
}

/// An instance of an op for the table tests.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Op,
    /// The inputs to make.
    pub ins: Vec<SampleIn>,
    /// The immediates.
    pub scalars: Vec<Scalar>,
}

/// An input of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleIn {
    /// Its type.
    pub ty: TensorType,
    /// Which values it may take.
    pub domain: Domain,
}

/// The values a sample's input is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Around zero, both signs.
    Any,
    /// Between 0.5 and 2.
    Positive,
    /// Between 1.25 and 3.
    AboveOne,
    /// Between -0.9 and 0.9.
    Unit,
    /// Away from zero, both signs.
    NonZero,
    /// All different and well apart, so that maxima and orders are unique.
    Distinct,
    /// Integers in `0..n`.
    Index(usize),
    /// Integers in `-n..n`.
    Wrapped(usize),
}

impl Domain {
    /// The range that floats are taken from; of either sign, the positive half where both are away from zero.
    pub fn range(self) -> (f64, f64) {
        match self {
            Domain::Positive => (0.5, 2.0),
            Domain::AboveOne => (1.25, 3.0),
            Domain::Unit => (-0.9, 0.9),
            Domain::NonZero => (0.3, 1.9),
            Domain::Any | Domain::Distinct | Domain::Index(_) | Domain::Wrapped(_) => (-2.0, 2.0),
        }
    }
}

impl Sample {
    /// A sample with no scalars.
    pub fn new(op: impl Into<Op>, ins: &[SampleIn]) -> Self {
        Sample { op: op.into(), ins: ins.to_vec(), scalars: Vec::new() }
    }

    /// The same with scalars.
    pub fn with(mut self, scalars: &[Scalar]) -> Self {
        self.scalars = scalars.to_vec();
        self
    }
}

/// An input of a sample, in short.
pub fn input(dtype: DType, shape: &[usize], domain: Domain) -> SampleIn {
    SampleIn { ty: TensorType::new(dtype, shape), domain }
}

/// The cost of an op that does `per_element` operations for each element it writes.
pub fn elementwise_cost(ins: &[TensorType], outs: &[TensorType], per_element: u64) -> Cost {
    let written = total(outs.iter().map(|t| t.numel() as u64));
    Cost { flops: written.saturating_mul(per_element), bytes: moved_bytes(ins.iter().chain(outs)) }
}

/// Bytes of all these tensors together. Costs saturate: a tensor that fits no machine may still be described.
pub fn moved_bytes<'a>(types: impl Iterator<Item = &'a TensorType>) -> u64 {
    total(types.map(|t| t.bytes() as u64))
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Fails unless an op got exactly `n` inputs.
pub fn arity(name: &str, ins: &[TensorType], n: usize) -> Result<(), OpError> {
    if ins.len() == n {
        return Ok(());
    }
    Err(OpError::malformed(format!("{name} needs {n} inputs, got {}", ins.len())))
}

/// Fails unless `axis` is one of a tensor of this rank.
pub fn check_axis(name: &str, axis: u8, rank: usize) -> Result<usize, OpError> {
    if (axis as usize) < rank {
        return Ok(axis as usize);
    }
    Err(OpError::index(format!("{name}: axis {axis} is out of range for a tensor of {rank} dimensions")))
}
