//! Where tensors travel: between client and worker, and between workers. Their bytes are the bodies of these messages.

use gt_ir::{Failure, TensorId, TensorType};

use super::field::wire_enum;
use crate::Secret;

wire_enum! {
    /// What a client and a worker say to each other.
    pub enum DataMessage {
        /// The client's first message.
        1 = Hello {
            /// Its session.
            session: u64,
            /// What the server gave it for this.
            data_token: Secret,
        },
        /// The worker's answer to it.
        2 = Ready {},
        /// The body is the payload of an `upload` instruction, whose type says what it is.
        3 = Upload {
            /// The value that the instruction defines.
            id: TensorId,
        },
        /// What became of a read or a synchronize; a value's elements are the body.
        4 = Answer {
            /// Which.
            request: u64,
            /// How it ended.
            outcome: Outcome,
        },
    }
}

wire_enum! {
    /// How a read or a synchronize ended.
    pub enum Outcome {
        /// Everything before it has been executed.
        1 = Done {},
        /// The value's type; its elements are the body, packed and little endian.
        2 = Value {
            /// The type.
            ty: TensorType,
        },
        /// The value is poisoned, or a write was skipped.
        3 = Failed {
            /// By what.
            failure: Failure,
        },
    }
}

wire_enum! {
    /// What workers say to each other.
    pub enum PeerMessage {
        /// The first message of the one that connects.
        1 = Hello {
            /// Its number.
            worker: u32,
            /// What the server gave all of them for this.
            token: Secret,
            /// The group's generation.
            generation: u64,
        },
        /// A value; its elements are the body.
        2 = Transfer {
            /// Whose.
            session: u64,
            /// Which.
            id: TensorId,
            /// Its type.
            ty: TensorType,
            /// The group's generation.
            generation: u64,
        },
        /// A value that cannot come: what is computed from it fails with this.
        3 = Failed {
            /// Whose.
            session: u64,
            /// Which.
            id: TensorId,
            /// Why.
            failure: Failure,
            /// The group's generation.
            generation: u64,
        },
    }
}
