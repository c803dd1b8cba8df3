//! Server and worker: who is there, whose work is to be done, and how far it is.

use gt_ir::{Digest, TensorId};

use super::field::wire_enum;
use super::session::{RefusalKind, SessionInventory, SessionLimits, Variable};
use crate::Secret;

wire_enum! {
    /// What a server says to a worker.
    pub enum ServerToWorker<'a> {
        /// The worker belongs to the server now.
        1 = Welcome {
            /// Its number; never given again.
            index: u32,
            /// Its name.
            id: String,
            /// The group's generation: messages of older ones are refused.
            generation: u64,
            /// What workers show each other.
            peer_token: Secret,
            /// How often the worker should show that it lives.
            heartbeat_ms: u32,
        },
        /// It does not.
        2 = Refused {
            /// Whose fault.
            kind: RefusalKind,
            /// In words.
            text: String,
        },
        /// A session will send work.
        3 = SessionOpen {
            /// Its number.
            session: u64,
            /// What its client shows when it opens a data connection.
            data_token: Secret,
            /// Its variables.
            variables: Vec<Variable>,
            /// What it may use.
            limits: SessionLimits,
        },
        /// A session is over: everything of it can go.
        4 = SessionClose {
            /// Which.
            session: u64,
        },
        /// A message of a session's stream, as the client sent it.
        5 = Stream {
            /// Whose.
            session: u64,
            /// Its number.
            seq: u64,
            /// A [`super::StreamMessage`].
            message: &'a [u8],
        },
        /// A value is needed on another worker.
        6 = Move {
            /// Whose.
            session: u64,
            /// Which value.
            id: TensorId,
            /// The worker that needs it.
            to: u32,
            /// Where that one listens.
            address: String,
            /// The group's generation.
            generation: u64,
        },
        /// Asks what was counted.
        7 = Stats {
            /// Comes back with the answer.
            request: u64,
        },
        /// Finish what there is, then leave.
        8 = Drain {},
    }
}

wire_enum! {
    /// What a worker says to its server.
    pub enum WorkerToServer<'a> {
        /// The first message: offers itself, or comes back.
        1 = Join {
            /// The worker's release, for people.
            release: String,
            /// The server's token; empty where none is asked for.
            token: Secret,
            /// The name it would like; empty for the next free one.
            id: String,
            /// What it runs on: `cpu`, `cuda`, `reference`.
            engine: String,
            /// Threads it computes with.
            threads: u32,
            /// Bytes it may use.
            memory_bytes: u64,
            /// Where it takes uploads and gives values.
            data_address: String,
            /// What it still holds from before.
            inventory: Vec<SessionInventory>,
        },
        /// Shows that it lives, however busy it is.
        2 = Heartbeat {
            /// Windows that wait.
            queued_windows: u64,
            /// Bytes of tensors it holds.
            memory_used_bytes: u64,
        },
        /// How far a session's stream is.
        3 = Executed {
            /// Whose.
            session: u64,
            /// Below it, everything has been executed.
            executed: u64,
        },
        /// A hash that it does not know (any more).
        4 = NeedTemplate {
            /// Whose.
            session: u64,
            /// Which.
            hash: Digest,
            /// The message that named it.
            seq: u64,
        },
        /// What was counted.
        5 = Stats {
            /// Which question.
            request: u64,
            /// The counters, as JSON.
            json: &'a [u8],
        },
        /// It will leave once its work is done.
        6 = Leaving {
            /// Why, in words.
            reason: String,
        },
    }
}
