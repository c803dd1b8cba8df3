//! A window: the stretch of the stream that is sent, planned and cached as one.

use crate::{Bytes, Instr, TensorId, TensorType};

/// The payload of one `upload` instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// Which instruction of the window it belongs to.
    pub instr: u32,
    /// Packed row-major elements, little endian.
    pub bytes: Bytes,
}

/// A value from before that a window uses, or state that it makes itself, as its client knows it. Written down only under
/// signals: whoever places the window has to know what moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalValue {
    /// Its name.
    pub id: TensorId,
    /// What it is.
    pub ty: TensorType,
    /// A parameter or a buffer, which a group keeps whole, rather than data, which it splits.
    pub is_state: bool,
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
    /// Under signals: values from before and state, in the order of their first use in the window. It does not travel.
    pub met: Vec<ExternalValue>,
}

impl Window {
    /// What it takes in memory, payloads left out.
    pub fn held_bytes(&self) -> usize {
        self.instrs.iter().map(Instr::held_bytes).sum::<usize>() + size_of_val(&self.frees[..])
    }
}
