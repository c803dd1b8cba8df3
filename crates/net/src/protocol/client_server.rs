//! Client and server: sessions, their streams, and what becomes of workers.

use gt_ir::{Digest, Failure};

use super::field::wire_enum;
use super::session::{RefusalKind, Resume, SessionLimits, Variable, WorkerInfo};
use crate::Secret;

wire_enum! {
    /// What a client says to its server.
    pub enum ClientToServer<'a> {
        /// The first message: asks for a session, or for its own again.
        1 = Hello {
            /// The client's release, for people.
            release: String,
            /// The server's token; empty where none is asked for.
            token: Secret,
            /// Who it is, for people: host, process, script.
            name: String,
            /// The variables of the session.
            variables: Vec<Variable>,
            /// The session to take up again.
            resume: Option<Resume>,
        },
        /// A numbered message of the session's stream.
        2 = Stream {
            /// Its number.
            seq: u64,
            /// A [`super::StreamMessage`].
            message: &'a [u8],
        },
        /// How many of the server's numbered messages have been received.
        3 = Ack {
            /// The count.
            received: u64,
        },
        /// Asks what was counted.
        4 = Stats {
            /// Comes back with the answer.
            request: u64,
        },
        /// The session is over; nothing of it needs to be kept.
        5 = Goodbye {},
    }
}

wire_enum! {
    /// What a server says to a client.
    pub enum ServerToClient<'a> {
        /// A session, new or taken up again.
        1 = Welcome {
            /// The server's release, for people.
            release: String,
            /// Its number.
            session: u64,
            /// What takes it up again.
            secret: Secret,
            /// The workers it may use.
            workers: Vec<WorkerInfo>,
            /// The one where its unplaced work runs.
            home: u32,
            /// What opens data connections to the workers.
            data_token: Secret,
            /// What it may use.
            limits: SessionLimits,
            /// How many of its numbered messages the server has: the rest is sent again. None for a new session.
            resumed_from: Option<u64>,
        },
        /// No session.
        2 = Refused {
            /// Whose fault.
            kind: RefusalKind,
            /// In words.
            text: String,
        },
        /// How far the session's stream is.
        3 = Ack {
            /// Below it, everything has been received: it need not be sent again.
            received: u64,
            /// Below it, everything has been executed: its credits are free.
            executed: u64,
        },
        /// A hash that nobody knows (any more): the window is needed whole.
        4 = NeedTemplate {
            /// Which.
            hash: Digest,
            /// The message that named it.
            seq: u64,
        },
        /// A worker is gone, with what it held.
        5 = WorkerLost {
            /// Which.
            worker: u32,
            /// Why, in words.
            reason: String,
        },
        /// A worker has come.
        6 = WorkerJoined {
            /// Which.
            worker: WorkerInfo,
        },
        /// Something that was asked for cannot be answered, or the session itself has failed.
        7 = Failed {
            /// The read or synchronize; none for the session.
            request: Option<u64>,
            /// Why.
            failure: Failure,
        },
        /// What was counted.
        8 = Stats {
            /// Which question.
            request: u64,
            /// The counters, as JSON.
            json: &'a [u8],
        },
    }
}
