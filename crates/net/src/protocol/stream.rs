//! The numbered part of a session: what is recorded, sent once, and executed in order. The server passes these bytes on to
//! the worker as they came (PROTOCOL-3).

use gt_ir::{Digest, TensorId};

use super::field::{wire_enum, wire_struct};

wire_struct! {
    /// A value that somebody waits for.
    pub struct ReadRequest {
        /// Comes back with the answer.
        request: u64,
        /// Which value.
        id: TensorId,
    }
}

wire_enum! {
    /// A message of a session's stream.
    pub enum StreamMessage<'a> {
        /// A window.
        1 = Send {
            /// The lane that recorded it.
            lane: u16,
            /// The window's binary form.
            window: &'a [u8],
            /// Values to answer as soon as they are computed.
            reads: Vec<ReadRequest>,
        },
        /// A window that was seen before: keep it under its hash.
        2 = Define {
            /// The lane that recorded it.
            lane: u16,
            /// Its name from now on.
            hash: Digest,
            /// The window's binary form.
            window: &'a [u8],
            /// Values to answer as soon as they are computed.
            reads: Vec<ReadRequest>,
        },
        /// A window that was kept, with other ids and numbers.
        3 = Replay {
            /// The lane that recorded it.
            lane: u16,
            /// Which window.
            hash: Digest,
            /// What differs.
            bindings: &'a [u8],
            /// Values to answer as soon as they are computed.
            reads: Vec<ReadRequest>,
        },
        /// A value of an earlier window.
        4 = Read {
            /// Comes back with the answer.
            request: u64,
            /// Which value.
            id: TensorId,
        },
        /// Asks for an answer when everything before it has been executed.
        5 = Synchronize {
            /// Comes back with the answer.
            request: u64,
        },
    }
}
