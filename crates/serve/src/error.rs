//! Why a service cannot be, or is no more.

use gt_net::NetError;
use gt_net::protocol::Refusal;
use thiserror::Error;

/// What ends a service, or keeps it from starting.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ServeError {
    /// The machine's or the user's: a socket, a thread or a certificate could not be had.
    #[error("the worker cannot listen: {0}")]
    Listen(#[from] NetError),
    /// The user's: the server will not have this worker.
    #[error("the server at {server} refused this worker: {why}")]
    Refused {
        /// Where it is.
        server: String,
        /// In its words.
        why: Refusal,
    },
}
