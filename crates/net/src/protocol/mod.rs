//! What GT's processes say to each other: closed sets of messages, one file for each pair of speakers.
//!
//! | file | who speaks |
//! |---|---|
//! | `session.rs` | client and server |
//! | `worker.rs` | server and worker |
//! | `data.rs` | client and worker, worker and worker |
//! | `stream.rs` | client to worker, through the server, which does not look inside |
//! | `relay.rs` | who cannot reach a worker, and the server that passes its connection on |
//!
//! PROTO-1: decoding never panics and allocates no more than the bytes at hand allow (CODEC-1).
//! PROTO-2: `decode(encode(m)) == m`; a message with bytes left over is refused.
//! PROTO-3: what a server only passes on is lent, never copied into a message of its own kind.
//! PROTO-4: clients and workers reach a server at one address: the codes of `ToServer`, `FromWorker` and `ToRelay` are disjoint, so
//!          that the first byte of a connection says who speaks.

mod data;
mod failure;
mod relay;
mod session;
mod stream;
mod wire;
mod worker;

pub use data::{DataReply, DataRequest, ReadAnswer, Resumption, WHOLE};
pub use relay::{FromRelay, ToRelay};
pub use session::{FromServer, Pin, Refusal, Resume, ToServer, WorkerInfo};
pub use stream::{Peer, StreamMessage};
pub use wire::{Wire, decode, encode};
pub use worker::{FromWorker, ToWorker};
