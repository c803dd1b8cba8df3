//! What a client says to its worker; the server passes it on unread.

use gt_ir::TensorId;

use super::wire::messages;

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
            /// The template's name.
            digest: u128,
            /// Its binary form.
            template: &'a [u8],
            /// Of this occurrence.
            bindings: &'a [u8],
        },
        /// A window, by its template.
        3 => Replay {
            /// Which template.
            digest: u128,
            /// Of this occurrence.
            bindings: &'a [u8],
        },
        /// A template that was asked for.
        4 => Template {
            /// Which one.
            digest: u128,
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
    }
}
