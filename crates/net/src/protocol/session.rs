//! Client and server.

use super::wire::{messages, record};

record! {
    /// What a client shows to go on with a session whose connection was lost.
    pub struct Resume {
        /// Which one.
        pub session: u64,
        /// That it is the client's.
        pub secret: Box<[u8]>,
        /// How many [`FromServer::WorkerLost`] it has been told: it gets those it missed, and none twice.
        pub losses: u64,
    }
}

record! {
    /// What a session says that belongs to another one of the same client and lives on one worker of its choice.
    pub struct Pin {
        /// Where it lives, and nowhere else.
        pub worker: u32,
        /// The session it belongs to: it ends with that one, and counts with it.
        pub home: u64,
        /// That this is the client's too.
        pub secret: Box<[u8]>,
    }
}

record! {
    /// A worker, as a client needs to know it.
    pub struct WorkerInfo {
        /// Its place among the server's workers.
        pub index: u32,
        /// Its name: `worker_0`.
        pub id: String,
        /// Where clients on its host reach it.
        pub unix: Option<String>,
        /// Where all others do.
        pub tcp: Option<String>,
        /// What its certificate must be, if it speaks TLS there.
        pub fingerprint: Option<Box<[u8]>>,
        /// Of its host, while that runs: whoever has the same one shares its memory.
        pub host: String,
        /// What runs there.
        pub engine: String,
        /// With how many threads.
        pub threads: u32,
        /// How much it may allocate.
        pub memory_limit: u64,
        /// The server's seal ([`WorkerInfo::sealed`]).
        pub seal: Box<[u8]>,
    }
}

messages! {
    /// Why a server turns somebody away.
    #[allow(missing_docs)]
    pub enum Refusal {
        /// Its token is wrong, or missing.
        1 => Token {},
        /// There are as many sessions as there may be.
        2 => Sessions { most: u64 },
        /// Nobody knows the session it wants to go on with: its lease ran out, or the server is a new one.
        3 => UnknownSession {},
        /// A variable of the session has no such value.
        4 => Variable { reason: String },
        /// It broke the protocol.
        5 => Malformed { reason: String },
        /// The server is about to end.
        6 => Ending {},
        /// It does not show that it is a worker of this server; whether the server has a worker token.
        7 => WorkerToken { asked: bool },
        /// There is no token, and it is not a process of the user who started the server.
        8 => OtherUser {},
        /// It has as many sessions that have run nothing as one address may have while others want places.
        9 => Unused { most: u64 },
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Token {} => {
                f.write_str("the token is wrong or missing: set GT_TOKEN to the contents of the server's --token-file")
            }
            Refusal::WorkerToken { asked: true } => f.write_str(
                "the worker token is wrong or missing: start the worker with the same --worker-token-file as the server, or set \
                 GT_WORKER_TOKEN to its contents; a client's token does not admit workers",
            ),
            Refusal::WorkerToken { asked: false } => f.write_str(
                "this server has no worker token, so it accepts only workers of its own user on its own machine. For other workers, \
                 create a token (umask 077; head -c 32 /dev/urandom | base64 > worker.token) and start both the server and the \
                 worker with --worker-token-file worker.token",
            ),
            Refusal::OtherUser {} => f.write_str(
                "this server has no token, so it accepts only processes of the user who started it. To accept others, start it with \
                 --token-file and set GT_TOKEN to the contents of that file",
            ),
            Refusal::Sessions { most } => write!(f, "the server already has {most} sessions, its maximum"),
            Refusal::Unused { most } => write!(
                f,
                "{most} sessions from this address have not run anything yet; use or close them before opening more"
            ),
            Refusal::UnknownSession {} => f.write_str("the server no longer knows this session"),
            Refusal::Variable { reason } => f.write_str(reason),
            Refusal::Malformed { reason } => write!(f, "the server could not read a message: {reason}"),
            Refusal::Ending {} => f.write_str("the server is shutting down"),
        }
    }
}

messages! {
    /// From a client to the server.
    pub enum ToServer<'a> {
        /// The first message of a session's connection.
        1 => Hello {
            /// Of the token, as [`crate::Role::Client`]; empty for a server that asks for none.
            proof: &'a [u8],
            /// Who it is, for people: host, process, script.
            name: String,
            /// The variables that belong to the session.
            variables: Vec<(String, String)>,
            /// How many workers it wants at most; 0 for all.
            workers: u32,
            /// The session to go on with.
            resume: Option<Resume>,
            /// Where a new one has to live, if it is one of several of its client's.
            pin: Option<Pin>,
        },
        /// The next message of the session's stream; see [`super::StreamMessage`].
        2 => Stream {
            /// Its number.
            seq: u64,
            /// What it takes of the credits.
            instrs: u32,
            /// What its payloads take, those that travel apart included.
            bytes: u64,
            /// For the worker.
            message: &'a [u8],
        },
        /// The first message of somebody who only wants to look.
        3 => Observe {
            /// Of the token, as [`crate::Role::Observer`].
            proof: &'a [u8],
        },
        /// The session ends.
        4 => Goodbye {},
    }
}

messages! {
    /// From the server to a client.
    pub enum FromServer {
        /// The session is open, or goes on.
        1 => Welcome {
            /// Its number.
            session: u64,
            /// What resumes it, and what [`crate::SessionKeys`] are made of.
            secret: Box<[u8]>,
            /// Of the token, as [`crate::Role::Server`]; empty where none was asked for.
            proof: Box<[u8]>,
            /// How long the session is kept once the connection is lost, in milliseconds.
            lease_ms: u64,
            /// The server's workers.
            workers: Vec<WorkerInfo>,
            /// Which of them holds the session; none has joined yet otherwise.
            home: Option<u32>,
            /// How many of its messages have been received.
            received: u64,
            /// Instructions that may be sent and not yet executed.
            credits_instrs: u64,
            /// Payload bytes that may be sent and not yet executed.
            credits_bytes: u64,
        },
        /// There is no session, and the connection ends.
        2 => Refused {
            /// Why.
            why: Refusal,
        },
        /// Everything below these numbers has been received and executed.
        3 => Ack {
            /// Need not be sent again.
            received: u64,
            /// Gives its credits back.
            executed: u64,
        },
        /// A worker does not have a template any more.
        4 => NeedTemplate {
            /// The template's number.
            number: u64,
        },
        /// A worker is gone, with all it held.
        5 => WorkerLost {
            /// Its name.
            worker: String,
            /// How it was noticed.
            reason: String,
        },
        /// From message `from` on, the session lives here.
        6 => Home {
            /// The worker.
            worker: WorkerInfo,
            /// The first message that goes there.
            from: u64,
        },
        /// What an observer sees, as JSON.
        7 => Status {
            /// The document.
            json: String,
        },
        /// Another worker has joined: those that the session may use are these.
        8 => Workers {
            /// All of them.
            workers: Vec<WorkerInfo>,
        },
    }
}
