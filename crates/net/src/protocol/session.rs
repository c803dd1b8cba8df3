//! What several messages speak of: sessions and workers.

use super::field::{wire_enum, wire_struct};
use crate::Secret;

wire_struct! {
    /// A variable that belongs to a session.
    pub struct Variable {
        /// Its name, `GT_…`.
        name: String,
        /// Its value.
        value: String,
    }
}

wire_struct! {
    /// What a client shows to take its session up again.
    pub struct Resume {
        /// Which session.
        session: u64,
        /// The secret it was given with the session.
        secret: Secret,
        /// How many of the server's numbered messages it has received.
        received: u64,
    }
}

wire_struct! {
    /// What a session may use.
    pub struct SessionLimits {
        /// Instructions that may be sent ahead of what was executed.
        instructions_ahead: u64,
        /// Bytes of windows and uploads that may be sent ahead of what was executed.
        bytes_ahead: u64,
        /// Bytes of tensors it may hold on one worker; 0 is no limit of its own.
        memory_bytes: u64,
    }
}

wire_struct! {
    /// A worker, as a client sees it.
    pub struct WorkerInfo {
        /// Its number on this server; never given again.
        index: u32,
        /// Its name.
        id: String,
        /// Where it takes uploads and gives values.
        data_address: String,
        /// What it runs on: `cpu`, `cuda`, `reference`.
        engine: String,
        /// Threads it computes with.
        threads: u32,
        /// Bytes it may use.
        memory_bytes: u64,
    }
}

wire_struct! {
    /// What a worker still holds of a session when it comes back to its server.
    pub struct SessionInventory {
        /// Which session.
        session: u64,
        /// Below it, every numbered message has been executed.
        executed: u64,
        /// Bytes of tensors.
        bytes: u64,
    }
}

wire_enum! {
    /// Whose fault a refusal is.
    pub enum RefusalKind {
        /// The token is missing or wrong.
        1 = Token {},
        /// The other side's release does not fit this one's.
        2 = Release {},
        /// There are as many sessions, workers or bytes as are allowed.
        3 = Limit {},
        /// The session is over, or the secret is not its own.
        4 = Session {},
        /// A worker of that name is here already.
        5 = Name {},
        /// There is no worker to run anything on.
        6 = NoWorkers {},
        /// The server is shutting down.
        7 = ShuttingDown {},
    }
}
