//! How the instructions of a recipe name values.

use gt_ir::TensorId;

/// A value of a recipe. In a recipe's instructions it is written as a [`TensorId`]: even for inputs, odd for values that
/// the window defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A value from outside, numbered in order of first use.
    Input(u32),
    /// A value that the window defines, numbered in order of definition.
    Defined(u32),
}

impl Operand {
    /// The name of this operand in a recipe's instructions.
    #[inline]
    pub fn id(self) -> TensorId {
        match self {
            Operand::Input(k) => TensorId((k as u64) << 1),
            Operand::Defined(k) => TensorId((k as u64) << 1 | 1),
        }
    }

    /// The operand that `id` names in a recipe's instructions.
    #[inline]
    pub fn of(id: TensorId) -> Operand {
        match id.0 & 1 {
            0 => Operand::Input((id.0 >> 1) as u32),
            _ => Operand::Defined((id.0 >> 1) as u32),
        }
    }
}
