//! What GT's processes say to each other: closed enums, each the head of one message.
//!
//! ```text
//!  client ── ClientToServer / ServerToClient ── server ── ServerToWorker / WorkerToServer ── worker
//!     └──────────────────── DataMessage (bodies: uploads, values) ─────────────────────────────┘ └─ PeerMessage ─ worker
//! ```
//!
//! PROTOCOL-1: decoding never panics, reads every byte or refuses, and allocates no more than the bytes that came justify.
//! PROTOCOL-2: `decode(encode(m)) == m` for every message.
//! PROTOCOL-3: a window travels as bytes that only its worker decodes: the server forwards them as they came.
//! PROTOCOL-4: no secret is seen when a message is printed.
//! PROTOCOL-5: what is declared here is what is on the wire. [`wire_types`] prints it, a test holds it to the checked-in
//!             text, and whoever changes it changes [`crate::VERSION`].

mod client_server;
mod data;
mod failure;
mod field;
mod server_worker;
mod session;
mod stream;

pub use client_server::{ClientToServer, ServerToClient};
pub use data::{DataMessage, Outcome, PeerMessage};
pub use server_worker::{ServerToWorker, WorkerToServer};
pub use session::{RefusalKind, Resume, SessionInventory, SessionLimits, Variable, WorkerInfo};
pub use stream::{ReadRequest, StreamMessage};

use field::{Field, Message};

/// Every type that is on the wire, one line each: kind codes, names, fields.
pub fn wire_types() -> String {
    let mut out = String::new();
    for declare in [
        <ClientToServer<'_> as Message>::declare as fn(&mut String),
        <ServerToClient<'_> as Message>::declare,
        <ServerToWorker<'_> as Message>::declare,
        <WorkerToServer<'_> as Message>::declare,
        <StreamMessage<'_> as Message>::declare,
        <DataMessage as Message>::declare,
        <PeerMessage as Message>::declare,
        <Outcome as Message>::declare,
        <RefusalKind as Message>::declare,
        <Resume as Message>::declare,
        <SessionInventory as Message>::declare,
        <SessionLimits as Message>::declare,
        <Variable as Message>::declare,
        <WorkerInfo as Message>::declare,
        <ReadRequest as Message>::declare,
        <gt_ir::Failure as Message>::declare,
    ] {
        declare(&mut out);
    }
    out
}

/// Reads one whole message.
fn decode_all<'a, T: Field<'a>>(bytes: &'a [u8]) -> Result<T, crate::NetError> {
    let mut reader = gt_ir::codec::Reader::new(bytes);
    let message = T::decode(&mut reader).map_err(|e| crate::NetError::malformed(e.to_string()))?;
    match reader.left() {
        0 => Ok(message),
        left => Err(crate::NetError::malformed(format!("{left} bytes follow a {}", T::NAME))),
    }
}
