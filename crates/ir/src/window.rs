//! A window: the stretch of the stream that is sent, planned and cached as one.

use std::sync::Arc;

use crate::{Instr, TensorId};

/// Immutable payload bytes, shared without copying.
pub type Bytes = Arc<[u8]>;

/// The payload of one `upload` instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// Which instruction of the window it belongs to.
    pub instr: u32,
    /// Packed row-major elements, little endian.
    pub bytes: Bytes,
}

/// Instructions between two cuts, with the payloads of their uploads and the values that die.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// In recorded order; every id is defined before it is used.
    pub instrs: Vec<Instr>,
    /// Payloads, ascending by instruction.
    pub uploads: Vec<Payload>,
    /// Values that nobody can name after this window: a set, its order means nothing.
    pub frees: Vec<TensorId>,
    /// Cut by time rather than by the stream: run op by op, enter no cache.
    pub eager: bool,
    /// Several windows that have repeated together, sent as one: worth compiling at first sight.
    pub joined: bool,
}
