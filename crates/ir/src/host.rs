//! Values at rest in ordinary memory.

use crate::TensorType;

/// Packed row-major elements, little endian: what a read gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// What the bytes are.
    pub ty: TensorType,
    /// `ty.bytes()` of them.
    pub bytes: Vec<u8>,
}
