//! What a client says to its worker; the server passes it on unread.

use gt_ir::{Failure, TensorId};

use super::session::WorkerInfo;
use super::wire::{messages, record};

record! {
    /// Another worker of the client, and its session there.
    pub struct Peer {
        /// The client's number for it.
        pub number: u32,
        /// Counts up when what lived there was lost: values of an older one are not taken.
        pub epoch: u64,
        /// How it is reached.
        pub worker: WorkerInfo,
        /// The client's session there.
        pub session: u64,
        /// What lets values in: [`crate::SessionKeys::peer`].
        pub key: Box<[u8]>,
    }
}

messages! {
    /// A message of a session's stream, in order.
    pub enum StreamMessage<'a> {
        /// A window, whole.
        1 => Send {
            /// Its binary form. Uploads without a payload are on their way.
            window: &'a [u8],
        },
        /// A window, and its template for later.
        2 => Define {
            /// The client's number for the template. A template is never redefined.
            number: u64,
            /// Its binary form.
            template: &'a [u8],
            /// Of this occurrence.
            bindings: &'a [u8],
        },
        /// A window, by its template.
        3 => Replay {
            /// The template's number.
            number: u64,
            /// Of this occurrence.
            bindings: &'a [u8],
        },
        /// A template that was asked for.
        4 => Template {
            /// Its number.
            number: u64,
            /// Its binary form.
            template: &'a [u8],
        },
        /// Wants a value.
        5 => Read {
            /// The answer's name.
            request: u64,
            /// Whose.
            id: TensorId,
        },
        /// Wants to know when everything before has run.
        6 => Synchronize {
            /// The answer's name.
            request: u64,
        },
        /// Cached memory goes back to the system.
        7 => Trim {},
        /// Wants to know what the worker has done for the session.
        8 => Stats {
            /// The answer's name.
            request: u64,
        },
        /// Where the worker stands among those of its client. Before the first placed window, and again when it changes.
        9 => Peers {
            /// The client's number for the worker.
            own: u32,
            /// As [`Peer::epoch`], of the worker itself.
            epoch: u64,
            /// The others.
            peers: Vec<Peer>,
        },
        /// A window for several workers, the same for all of them; each does its part.
        10 => Placed {
            /// Its binary form. Uploads without a payload are on their way.
            window: &'a [u8],
        },
        /// What another worker was to send will not come.
        11 => Abandon {
            /// The client's number for that worker.
            from: u32,
            /// What becomes of the values.
            failure: Failure,
        },
        /// A window for several workers that has come before: its template, and this occurrence.
        12 => DefinePlaced {
            /// The template's number, higher than all before it.
            number: u64,
            /// Its binary form.
            template: &'a [u8],
            /// Names and numbers. Uploads without a payload are on their way.
            bindings: &'a [u8],
        },
        /// Another occurrence of a window for several workers.
        13 => ReplayPlaced {
            /// The template's number.
            number: u64,
            /// As of [`StreamMessage::DefinePlaced`].
            bindings: &'a [u8],
        },
        /// Batches of a data set are to be made by the worker.
        14 => OpenLoader {
            /// The client's number for it.
            loader: u64,
            /// What is read and how, for whoever makes batches there.
            description: &'a [u8],
        },
        /// Wants to know of the loader's next batch. As many are made ahead as are asked for.
        15 => Announce {
            /// Which loader.
            loader: u64,
            /// The answer's name.
            request: u64,
        },
        /// Tensors of a batch that was announced become values. Comes behind the windows that define these.
        16 => Bind {
            /// Which loader.
            loader: u64,
            /// Which of its batches, in the order they were announced.
            batch: u64,
            /// Which of its tensors, and the value it becomes. None: nobody wants the batch.
            values: Vec<(u32, TensorId)>,
        },
        /// A loader makes no more batches.
        17 => CloseLoader {
            /// Which.
            loader: u64,
            /// Those before this one are wanted all the same.
            taken: u64,
        },
    }
}
