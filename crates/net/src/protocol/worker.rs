//! Server and worker.

use gt_ir::Failure;

use super::session::{Refusal, WorkerInfo};
use super::wire::messages;

messages! {
    /// From a worker to its server. No code is one of [`super::ToServer`]'s (PROTO-4).
    pub enum FromWorker<'a> {
        /// The first message: who it is and what it has.
        33 => Join {
            /// Of the worker token, as [`crate::Role::Worker`]; empty where none was given.
            proof: &'a [u8],
            /// Index and name are wishes; the server decides. An empty name leaves it to the server.
            info: WorkerInfo,
            /// What shows that it was here before and still holds what it held; empty for a new one.
            secret: Box<[u8]>,
            /// For each session that it holds: how many messages it has received.
            sessions: Vec<(u64, u64)>,
        },
        /// Messages of a session below this number have been executed.
        34 => Executed {
            /// Whose.
            session: u64,
            /// The number.
            executed: u64,
        },
        /// A template is not there any more.
        35 => NeedTemplate {
            /// Whose.
            session: u64,
            /// The template's number.
            number: u64,
        },
        /// A session sent what cannot be read; it is closed.
        36 => Broken {
            /// Which.
            session: u64,
            /// How.
            reason: String,
        },
        /// How it is doing.
        37 => Load {
            /// Nanoseconds of work so far.
            busy_ns: u64,
            /// Bytes held.
            live_bytes: u64,
            /// Instructions so far.
            instructions: u64,
            /// How many threads it computes with now.
            threads: u32,
            /// How much it may hold now.
            memory_limit: u64,
        },
        /// It leaves, and says so.
        38 => Goodbye {},
    }
}

messages! {
    /// From the server to a worker.
    pub enum ToWorker<'a> {
        /// It belongs to the group.
        1 => Joined {
            /// Its name.
            id: String,
            /// Its place.
            index: u32,
            /// What it shows when it comes back.
            secret: Box<[u8]>,
            /// Of the same token, as [`crate::Role::Server`]; empty where none was asked for.
            proof: Box<[u8]>,
            /// With which the server seals descriptions of workers ([`WorkerInfo::sealed`]).
            seal_key: Box<[u8]>,
        },
        /// It does not.
        2 => Refused {
            /// Why.
            why: Refusal,
        },
        /// A session will live here.
        3 => Open {
            /// Its number.
            session: u64,
            /// What its [`crate::SessionKeys`] are made of.
            key: Box<[u8]>,
            /// The variables that belong to it.
            variables: Vec<(String, String)>,
            /// The most it may hold; 0 for no limit of its own.
            max_memory: u64,
            /// The first message that comes here.
            from: u64,
            /// Set when what it had elsewhere is lost: what to say of values that are not here.
            lost: Option<Failure>,
            /// Its client runs on the server's host and as the server's user, as the system vouches.
            same_user: bool,
        },
        /// The next message of a session's stream.
        4 => Stream {
            /// Whose.
            session: u64,
            /// Its number.
            seq: u64,
            /// See [`super::StreamMessage`].
            message: &'a [u8],
        },
        /// A session is over.
        5 => Close {
            /// Which.
            session: u64,
        },
    }
}
