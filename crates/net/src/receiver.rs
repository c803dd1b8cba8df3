//! Who takes what a connection brings.

use std::time::Duration;

use gt_ir::{Bytes, Companion};

use crate::{Connection, NetError};

/// What a receiver says to a body that begins to arrive.
pub enum Admission {
    /// It may come. What is given goes with its bytes ([`Bytes::accompanied_by`]): the account they count on.
    Take(Option<Box<dyn Companion>>),
    /// There is no room for it now: nothing more is read from the connection, and the question comes again.
    Wait,
    /// It is not wanted: what comes of it is thrown away, and its message is not delivered.
    Discard,
}

/// Takes the messages of one connection. The calls come one at a time, from the I/O thread (for [`crate::pair`], from a
/// thread that sends), and must not wait: every connection of the process waits with them.
///
/// RECEIVE-1: messages without a body come in the order in which they were sent.
/// RECEIVE-2: a message with a body comes when its last byte has: later messages may overtake it. What belongs together is
///            matched by keys in the heads.
/// RECEIVE-3: `closed` comes once, and nothing after it. Just before it, `cut_short` tells of each body that was on its way: what has
///            come of it need not come again.
pub trait Receiver: Send {
    /// Both sides have introduced themselves; comes before any message.
    fn opened(&mut self, connection: &Connection) {
        let _ = connection;
    }

    /// A message. `head` is lent; `body` is the receiver's.
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>);

    /// A body of so many bytes begins to arrive over a socket, for a message with this head: whether there is room for it. Asked before
    /// any memory is taken for it.
    fn admit(&mut self, from: &Connection, head: &[u8], len_bytes: u64) -> Admission {
        let _ = (from, head, len_bytes);
        Admission::Take(None)
    }

    /// The other side has answered a [`Connection::ping`], which took so long.
    fn ponged(&mut self, from: &Connection, rtt: Duration) {
        let _ = (from, rtt);
    }

    /// The connection ends before the message was whole: its head, and what has come of its body from the front. Both are lent.
    fn cut_short(&mut self, from: &Connection, head: &[u8], arrived: &[u8]) {
        let _ = (from, head, arrived);
    }

    /// The connection is over. For an accepted one this comes also when it never opened.
    fn closed(&mut self, from: &Connection, why: &NetError);
}

/// The other side of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it is, for people.
    pub address: String,
    /// Whether it shares this host's memory.
    pub same_host: bool,
    /// The user it runs as, where the system vouches for that.
    pub user_id: Option<u32>,
}
