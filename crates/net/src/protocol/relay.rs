//! Whoever cannot reach a worker, and the server that passes its connection on.

use super::wire::messages;

messages! {
    /// The first message to a server of a connection that is meant for a worker. No code is one of [`super::ToServer`]'s or
    /// [`super::FromWorker`]'s (PROTO-4).
    pub enum ToRelay<'a> {
        /// What follows, once the server has agreed, goes to the worker.
        65 => Relay {
            /// The session that somebody comes to the worker for.
            session: u64,
            /// [`crate::SessionKeys::peer`] of it.
            key: &'a [u8],
            /// The worker's place among the server's.
            worker: u32,
        },
    }
}

messages! {
    /// What the server answers. No code is one of [`super::FromServer`]'s, which a server without a relay answers with.
    pub enum FromRelay {
        /// Everything from here on is between the two.
        65 => Relayed {},
        /// It is not passed on.
        66 => Unreached {
            /// Why.
            reason: String,
            /// It will not be later either.
            never: bool,
        },
    }
}
