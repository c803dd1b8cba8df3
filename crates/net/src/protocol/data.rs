//! Client and worker, worker and worker: what carries tensors.

use gt_ir::{Failure, TensorId, TensorType};

use super::wire::{messages, record};

record! {
    /// What the client of a session has, and has not, of what came by an earlier connection.
    pub struct Resumption {
        /// The requests below this number that are not awaited any more have been answered.
        pub requests: u64,
        /// Those that are, and how many bytes have come of the body of each answer; ascending.
        pub awaited: Vec<(u64, u64)>,
        /// Uploads that the worker may have, whole or in part.
        pub uploads: Vec<TensorId>,
    }
}

/// More bytes than any upload has: it is there.
pub const WHOLE: u64 = u64::MAX;

messages! {
    /// To a worker.
    pub enum DataRequest<'a> {
        /// The first message of a client.
        1 => Attach {
            /// Its session.
            session: u64,
            /// [`crate::SessionKeys::client`] of it.
            key: &'a [u8],
            /// Where to go on; without it everything comes again that may have been lost.
            resume: Option<Resumption>,
        },
        /// The payload of an upload, as the body.
        2 => Upload {
            /// The value it becomes.
            id: TensorId,
        },
        /// The first message of another worker.
        3 => AttachPeer {
            /// The session that its values are for.
            session: u64,
            /// [`crate::SessionKeys::peer`] of it.
            key: &'a [u8],
            /// The client's number for the worker that speaks.
            from: u32,
            /// As [`super::Peer::epoch`], of that worker.
            epoch: u64,
        },
        /// A value that moves; its bytes are here, or the body.
        4 => Transfer {
            /// Its place among the values that come from the same worker for the same session.
            number: u64,
            /// The name under which it is waited for.
            id: TensorId,
            /// What it is, or why it does not come.
            value: Result<TensorType, Failure>,
            /// Its bytes, if they are not the body.
            bytes: Option<&'a [u8]>,
        },
        /// Wants an echo of the body, for `gt bench net`.
        5 => Echo {
            /// The answer's name.
            request: u64,
        },
        /// Where the client records, on a host that both share: the device's thread had better run elsewhere.
        6 => RecorderAt {
            /// The core's number; one that no core has: it may run anywhere.
            core: u32,
        },
        /// Another message, whose body was cut short by the end of a connection: here is the rest of it.
        7 => Rest {
            /// How many bytes of the body have come before.
            from: u64,
            /// The message.
            message: &'a [u8],
        },
        /// Over a network: the body of an answer has come, and need not be kept any more.
        8 => Got {
            /// Which.
            request: u64,
        },
    }
}

messages! {
    /// What came of a read, a synchronize or a question.
    #[allow(missing_docs)]
    pub enum ReadAnswer<'a> {
        /// The value; its bytes are here, or the body.
        1 => Value { ty: TensorType, bytes: Option<&'a [u8]> },
        /// It is poisoned, or a write was skipped.
        2 => Failed { failure: Failure },
        /// Everything before has run.
        3 => Done {},
        /// What the worker has done for the session, as JSON.
        4 => Stats { json: String },
        /// A loader's next batch: its tensors, and what whoever makes it says of it here or in the body.
        5 => Batch { types: Vec<TensorType>, note: Option<&'a [u8]> },
    }
}

messages! {
    /// From a worker.
    #[allow(missing_docs)]
    pub enum DataReply<'a> {
        /// The client may send payloads and will get answers here. How many bytes have come of the uploads it named, as far as some
        /// have; [`WHOLE`] for those that are here.
        1 => Attached { uploads: Vec<(TensorId, u64)> },
        /// It may not.
        2 => Refused { reason: String },
        /// To a read, a synchronize, a question for statistics.
        3 => Answer { request: u64, answer: ReadAnswer<'a> },
        /// The body comes back.
        4 => Echo { request: u64 },
        /// To another worker, over a network: all its transfers below this number have come.
        5 => Taken { transfers: u64 },
        /// To a client: there is a value for another of its workers, which cannot be reached from here; number and epoch are
        /// those of its [`super::Peer`].
        6 => OutOfReach { number: u32, epoch: u64, reason: String },
        /// Another message, whose body was cut short by the end of a connection: here is what follows its first bytes.
        7 => Rest { from: u64, message: &'a [u8] },
    }
}

impl<'a> super::Wire<'a> for Result<TensorType, Failure> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(ty) => ty.put(out),
            Err(failure) => failure.put(out),
        }
    }
    fn get(r: &mut gt_ir::codec::Reader<'a>) -> Result<Self, gt_ir::OpError> {
        Ok(if bool::get(r)? { Ok(super::Wire::get(r)?) } else { Err(super::Wire::get(r)?) })
    }
}
