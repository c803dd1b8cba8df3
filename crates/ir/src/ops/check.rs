//! The check: a condition on data, whose failure is a value as any other.

use super::one;
use crate::attr::{choice, op_struct};
use crate::*;

choice! {
    /// What is wrong when a check fails.
    pub enum Complaint {
        /// An integer was divided by zero.
        ZeroDivision = "zero_division",
        /// A probability of a Bernoulli distribution.
        Bernoulli = "bernoulli",
        /// A weight of a multinomial distribution.
        Weight = "weight",
        /// The weights of a multinomial distribution together.
        Weights = "weights",
        /// A standard deviation.
        Deviation = "deviation",
        /// The rate of a Poisson distribution.
        Rate = "rate",
        /// The input of a binary cross-entropy.
        Probability = "probability",
        /// The target of a binary cross-entropy.
        Target = "target",
        /// A class below zero.
        NegativeClass = "negative_class",
        /// A class that there is not.
        LargeClass = "large_class",
        /// A class that a loss is asked for and the input does not have.
        ClassOutOfBounds = "class_out_of_bounds",
        /// The class of a margin loss.
        TargetOutOfRange = "target_out_of_range",
        /// A matrix without an inverse.
        Singular = "singular",
        /// A matrix without a Cholesky factor.
        NotPositiveDefinite = "not_positive_definite",
        /// Bounds of a histogram.
        Range = "range",
        /// A length of a sequence.
        Length = "length",
        /// A position along an axis.
        Position = "position",
        /// A position along an axis at which slices are read or written.
        Index = "index",
        /// Rows to write where a mask is true: not as many as it has true elements.
        Rows = "rows",
    }
}

impl Complaint {
    /// The sentence that PyTorch's users know.
    pub fn message(self) -> &'static str {
        match self {
            Complaint::ZeroDivision => "ZeroDivisionError: integer division by zero",
            Complaint::Bernoulli => "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
            Complaint::Weight => "probability tensor contains either `inf`, `nan` or element < 0",
            Complaint::Weights => "invalid multinomial distribution (sum of probabilities <= 0)",
            Complaint::Deviation => "normal expects all elements of std >= 0.0",
            Complaint::Rate => "invalid Poisson rate, expected rate to be non-negative",
            Complaint::Probability => "all elements of input should be between 0 and 1",
            Complaint::Target => "all elements of target should be between 0 and 1",
            Complaint::NegativeClass => "Class values must be non-negative.",
            Complaint::LargeClass => "Class values must be smaller than num_classes.",
            Complaint::ClassOutOfBounds => "Target is out of bounds.",
            Complaint::TargetOutOfRange => "target out of range",
            Complaint::Singular => "The input matrix is singular: a diagonal element is zero.",
            Complaint::NotPositiveDefinite => {
                "The factorization could not be completed because the input is not positive-definite."
            }
            Complaint::Range => "the range of the histogram is not finite",
            Complaint::Position | Complaint::Index => "an index is out of bounds",
            Complaint::Rows => {
                "shape mismatch: value tensor cannot be broadcast to indexing result: the number of true \
                 elements in the mask differs from the number of rows in the value"
            }
            Complaint::Length => "a length exceeds the length of the sequence",
        }
    }

    /// Whose fault it is: the user's, one way or the other.
    pub fn kind(self) -> FailureKind {
        match self {
            Complaint::ClassOutOfBounds | Complaint::Index => FailureKind::Index,
            Complaint::ZeroDivision
            | Complaint::Bernoulli
            | Complaint::Weight
            | Complaint::Weights
            | Complaint::Deviation
            | Complaint::Rate
            | Complaint::Probability
            | Complaint::Target
            | Complaint::NegativeClass
            | Complaint::LargeClass
            | Complaint::TargetOutOfRange
            | Complaint::Singular
            | Complaint::NotPositiveDefinite
            | Complaint::Range
            | Complaint::Position
            | Complaint::Rows
            | Complaint::Length => FailureKind::Domain,
        }
    }

    /// What poisons the output of a check that failed.
    pub fn failure(self) -> Failure {
        // The condition, which gradients are checked with too.
        Failure::in_input(self.kind(), 1, self.message())
    }
}

op_struct! {
    /// The first input, unless the second, one bool, is true: then the instruction fails.
    ///
    /// So a question about data is asked without waiting for the answer, and whoever reads a result that depends on
    /// the input meets the failure. An engine passes the input on without copying it.
    pub struct Check {
        /// What is wrong then.
        complaint: Complaint,
    }
}

impl Primitive for Check {
    fn name(&self) -> &'static str {
        "check"
    }
    fn infer(&self, ins: &[TensorType]) -> Result<Types, OpError> {
        arity("check", ins, 2)?;
        if ins[1] != TensorType::new(DType::Bool, &[]) {
            return Err(OpError::malformed(format!("check takes one bool as its condition, but got {}", ins[1])));
        }
        one(ins[0])
    }
    fn scalars(&self, _: &[TensorType]) -> usize {
        0
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::ins((needs & 1) << 1)
    }
    fn grad(&self, cx: &GradCx<'_>, e: &mut dyn Emit) -> Result<Grads, OpError> {
        let mut grads: Grads = smallvec::smallvec![None, None];
        if let (Some(g), true) = (cx.grads[0], cx.needs(0)) {
            // A step with a gradient of what failed must not be taken.
            let wrong = cx.input(1)?;
            grads[0] = Some(e.one(self.clone().into(), &[g, wrong], &[])?);
        }
        Ok(grads)
    }
    fn cost(&self, _: &[TensorType], _: &[TensorType]) -> Cost {
        Cost::default()
    }
    fn samples(dtype: DType) -> Vec<Sample> {
        // The only index below one is zero, which is false.
        let fine = input(DType::Bool, &[], Domain::Index(1));
        [&[][..], &[3], &[2, 3], &[0, 2]]
            .into_iter()
            .map(|shape| {
                Sample::new(Check { complaint: Complaint::Probability }, &[input(dtype, shape, Domain::Any), fine])
            })
            .collect()
    }
}
