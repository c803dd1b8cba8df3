//! One instruction of the stream.

use std::fmt;

use smallvec::SmallVec;

use crate::{DType, Op, OpError, Scalar, Shape};

/// What a tensor is made of: dtype and extents.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Shape,
}

impl TensorType {
    /// The type of a tensor with this dtype and these extents.
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        TensorType { dtype, shape: Shape::new(shape) }
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// Bytes of a packed copy.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// The same extents with another dtype.
    #[inline]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        TensorType { dtype, ..*self }
    }

    /// The same dtype with other extents.
    #[inline]
    pub fn with_shape(&self, shape: Shape) -> Self {
        TensorType { dtype: self.dtype, shape }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a value: a lane and that lane's counter. Clients make them, nobody else.
///
/// ```
/// use gt_ir::TensorId;
/// let id = TensorId::new(3, 17);
/// assert_eq!((id.lane(), id.n()), (3, 17));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u64);

impl TensorId {
    const LANE_SHIFT: u32 = 48;
    /// How many values a lane has names for.
    pub const MOST: u64 = 1 << Self::LANE_SHIFT;

    /// The id of a lane's `n`-th value.
    #[inline]
    pub fn new(lane: u16, n: u64) -> Self {
        TensorId((lane as u64) << Self::LANE_SHIFT | n)
    }

    /// The lane that made it.
    #[inline]
    pub fn lane(self) -> u16 {
        (self.0 >> Self::LANE_SHIFT) as u16
    }

    /// Its number in that lane.
    #[inline]
    pub fn n(self) -> u64 {
        self.0 & ((1 << Self::LANE_SHIFT) - 1)
    }
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lane() {
            0 => write!(f, "%{}", self.n()),
            lane => write!(f, "%{lane}.{}", self.n()),
        }
    }
}

impl fmt::Debug for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An interned signal scope; 0 is none. Part of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ScopeId(pub u32);

/// An interned `file:line`; 0 is unknown. Not part of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SiteId(pub u32);

/// The values an instruction reads.
pub type Ins = SmallVec<[TensorId; 3]>;
/// The values an instruction defines.
pub type Outs = SmallVec<[TensorId; 1]>;
/// The immediates of an instruction.
pub type Scalars = SmallVec<[Scalar; 2]>;

/// What an instruction takes in memory, lists of operands left out.
pub const INSTR_BYTES: usize = 200;

/// A pure instruction: `outs = op(ins; scalars)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Instr {
    /// What is done, with its attributes.
    pub op: Op,
    /// The values it defines.
    pub outs: Outs,
    /// The values it reads.
    pub ins: Ins,
    /// Its immediates.
    pub scalars: Scalars,
    /// The signal it was recorded under.
    pub scope: ScopeId,
    /// The user's source line.
    pub site: SiteId,
}

impl Instr {
    /// What it takes in memory.
    pub fn held_bytes(&self) -> usize {
        let ids = size_of_val(&self.ins[..]) + size_of_val(&self.outs[..]);
        INSTR_BYTES + ids + size_of_val(&self.scalars[..])
    }

    /// Checks the counts of ins, outs and scalars and infers the types of the outs.
    pub fn infer(&self, ins: &[TensorType]) -> Result<crate::Types, OpError> {
        let primitive = self.op.primitive();
        let outs = primitive.infer(ins)?;
        let wanted = primitive.scalars(ins);
        if outs.len() != self.outs.len() || wanted != self.scalars.len() {
            return Err(OpError::malformed(format!(
                "{} has {} outputs and {} scalars, but expected {} and {wanted}",
                primitive.name(),
                self.outs.len(),
                self.scalars.len(),
                outs.len()
            )));
        }
        Ok(outs)
    }
}
