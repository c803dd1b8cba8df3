//! Two ends in one process, with no socket between: bodies are passed on, not copied.
//!
//! LOCAL-PAIR-1: messages of both kinds arrive in order; whoever sends delivers, unless somebody is delivering already (perhaps
//!         further up the same stack): then that one goes on to deliver this one too. So no call nests and no lock is held.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gt_ir::Bytes;
use parking_lot::Mutex;

use crate::connection::{Connection, End};
use crate::receiver::{Peer, Receiver};
use crate::{Limits, NetError, Result};

enum Event {
    Opened,
    Message(Vec<u8>, Option<Bytes>),
    Closed(NetError),
}

/// What waits to be delivered at one end.
struct Inbox {
    events: VecDeque<Event>,
    queued_bytes: u64,
    /// Absent while somebody delivers, and once the end has closed.
    receiver: Option<Box<dyn Receiver>>,
    closed: Option<NetError>,
    limits: Limits,
}

/// Both ends.
struct Shared {
    inboxes: [Mutex<Inbox>; 2],
    peer: Peer,
}

/// One end of a pair.
pub(crate) struct PairEnd {
    shared: Arc<Shared>,
    side: usize,
}

/// Connects two receivers: `a` takes what the second connection sends, `b` what the first one sends. Same limits and same
/// order as over a socket; the threads that send also deliver.
pub fn pair(a: Box<dyn Receiver>, b: Box<dyn Receiver>) -> (Connection, Connection) {
    let inbox = |receiver| {
        Mutex::new(Inbox {
            events: VecDeque::from([Event::Opened]),
            queued_bytes: 0,
            receiver: Some(receiver),
            closed: None,
            limits: Limits::default(),
        })
    };
    let peer = Peer { address: "this process".to_string(), same_host: true, user_id: None };
    let shared = Arc::new(Shared { inboxes: [inbox(a), inbox(b)], peer });
    let end = |side| Connection(End::Pair(Arc::new(PairEnd { shared: shared.clone(), side })));
    let ends = (end(0), end(1));
    deliver(&shared, 0);
    deliver(&shared, 1);
    ends
}

impl PairEnd {
    pub(crate) fn send(&self, head: &[u8], body: Option<Bytes>) -> Result<()> {
        let there = 1 - self.side;
        {
            let mut inbox = self.shared.inboxes[there].lock();
            if let Some(why) = &inbox.closed {
                return Err(match why {
                    NetError::Closed => NetError::ClosedHere,
                    _ => NetError::Closed,
                });
            }
            let body_bytes = body.as_ref().map_or(0, |b| b.len() as u64);
            let too_large = |what, bytes, limit| Err(NetError::TooLarge { what, bytes, limit });
            if head.len() as u64 > inbox.limits.max_head_bytes as u64 {
                return too_large("head", head.len() as u64, inbox.limits.max_head_bytes as u64);
            }
            if body_bytes > inbox.limits.max_body_bytes {
                return too_large("body", body_bytes, inbox.limits.max_body_bytes);
            }
            let most = inbox.limits.max_queued_bytes as u64;
            let most = if body.is_some() { most + inbox.limits.max_queued_body_bytes } else { most };
            let bytes = head.len() as u64 + body_bytes;
            if inbox.queued_bytes > 0 && inbox.queued_bytes + bytes > most {
                return Err(NetError::Full { queued_bytes: inbox.queued_bytes });
            }
            inbox.queued_bytes += bytes;
            inbox.events.push_back(Event::Message(head.to_vec(), body));
        }
        deliver(&self.shared, there);
        Ok(())
    }

    pub(crate) fn close(&self) {
        for (side, why) in [(1 - self.side, NetError::Closed), (self.side, NetError::ClosedHere)] {
            let mut inbox = self.shared.inboxes[side].lock();
            if inbox.closed.is_none() {
                inbox.closed = Some(why.clone());
                inbox.events.push_back(Event::Closed(why));
            }
        }
        deliver(&self.shared, 1 - self.side);
        deliver(&self.shared, self.side);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.inboxes[self.side].lock().closed.is_none()
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.shared.inboxes[1 - self.side].lock().queued_bytes
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        self.shared.inboxes[self.side].lock().limits = limits;
    }

    pub(crate) fn is_same(&self, other: &PairEnd) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.side == other.side
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.shared.peer
    }
}

/// Delivers everything that waits at `side`, unless somebody does already (LOCAL-PAIR-1).
fn deliver(shared: &Arc<Shared>, side: usize) {
    let here = Connection(End::Pair(Arc::new(PairEnd { shared: shared.clone(), side })));
    let mut inbox = shared.inboxes[side].lock();
    let Some(mut receiver) = inbox.receiver.take() else { return };
    while let Some(event) = inbox.events.pop_front() {
        if let Event::Message(head, body) = &event {
            inbox.queued_bytes -= head.len() as u64 + body.as_ref().map_or(0, |b| b.len() as u64);
        }
        // After a close on this side the other side's messages are dropped, as they are over a socket.
        let drop_it = matches!((&event, &inbox.closed), (Event::Message(..), Some(NetError::ClosedHere)));
        drop(inbox);
        let last = matches!(event, Event::Closed(_));
        let delivered = catch_unwind(AssertUnwindSafe(|| match event {
            _ if drop_it => {}
            Event::Opened => receiver.opened(&here),
            Event::Message(head, body) => receiver.message(&here, &head, body),
            Event::Closed(why) => receiver.closed(&here, &why),
        }));
        if last {
            return;
        }
        if delivered.is_err()
            && let End::Pair(end) = &here.0
        {
            end.close();
        }
        inbox = shared.inboxes[side].lock();
    }
    inbox.receiver = Some(receiver);
}
