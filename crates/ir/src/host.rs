//! Values at rest in ordinary memory.

use crate::{Failure, FailureKind, TensorType};

/// Packed row-major elements, little endian: what a read gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// What the bytes are.
    pub ty: TensorType,
    /// `ty.bytes()` of them.
    pub bytes: Vec<u8>,
}

/// An empty vector with room for so many bytes.
///
/// A tensor's extents say how many elements it has, not that anybody has memory for them: what is sized by them is asked for here,
/// or of an engine's allocator, and its lack is an error.
///
/// # Errors
/// When the system does not have them.
pub fn vec_for_bytes(len_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut room = Vec::new();
    let refused = |_| Failure::new(FailureKind::Memory, format!("out of memory: cannot allocate {len_bytes} bytes"));
    room.try_reserve_exact(len_bytes).map_err(refused)?;
    Ok(room)
}
