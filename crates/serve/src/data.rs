//! What clients and other workers say.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use gt_ir::{Bytes, Failure};
use gt_net::protocol::{DataReply, DataRequest, decode, encode};
use gt_net::{Admission, Connection, NetError, Receiver};

use super::arrivals::Origin;
use super::host::{Guest, Host, Identified, Who, refuse};
use super::hosted::Hosted;
use gt_worker::Supplied;

/// How much may wait to leave before another echo is refused: whoever asks for them and does not read would fill the worker's memory.
const ECHO_AHEAD_BYTES: u64 = 16 << 20;

/// How long a body waits for room before it fails: what is in its way may be about to run.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// Takes what comes by one data connection.
///
/// GUEST-1: a body and its head count on their session's account from before the body's first byte is taken until nobody holds its bytes. While there is no
/// room, its connection is not read; a payload or a value for which there is none in time fails, and what waits for it goes on.
pub(super) struct FromGuest {
    host: Weak<Host>,
    identified: Identified,
    /// Since when a body waits for room.
    waits_since: Option<Instant>,
}

impl FromGuest {
    pub(super) fn new(host: &Weak<Host>) -> Self {
        FromGuest { host: host.clone(), identified: Arc::new(OnceLock::new()), waits_since: None }
    }

    /// The session that a body is for, if there is one here.
    fn hosted(&self) -> Option<Arc<Hosted>> {
        match self.identified.get()? {
            Guest::Client(hosted) | Guest::Peer(hosted, _) => hosted.upgrade(),
        }
    }

    /// There was no room for a body: who waits for it hears of that.
    fn refuse_body(&self, from: &Connection, head: &[u8], failure: Failure) {
        let message = match decode::<DataRequest<'_>>(head) {
            Ok(DataRequest::Rest { message, .. }) => message,
            _ => head,
        };
        match (decode::<DataRequest<'_>>(message), self.identified.get()) {
            (Ok(DataRequest::Upload { id }), Some(Guest::Client(hosted))) => {
                hosted.upgrade().iter().for_each(|hosted| hosted.refuse_upload(id, failure.clone()));
            }
            (Ok(DataRequest::Transfer { number, id, .. }), Some(Guest::Peer(hosted, origin))) => {
                if let Some(hosted) = hosted.upgrade() {
                    let transfers = hosted.transferred(*origin, number, id, Err(failure));
                    if !from.is_same_host() {
                        let _ = from.send(&encode(&DataReply::Taken { transfers }));
                    }
                }
            }
            _ => refuse(from, &failure.message),
        }
    }

    fn take(&self, host: &Host, from: &Connection, request: DataRequest<'_>, body: Option<Bytes>) {
        let body_or_nothing = || body.clone().unwrap_or_else(|| Bytes::from([]));
        match (request, self.identified.get()) {
            (DataRequest::Attach { session, key, resume }, None) => {
                let who = Who::Client(resume.map(Arc::new));
                host.attach(session, key, who, from, &self.identified)
            }
            (DataRequest::AttachPeer { session, key, from: number, epoch }, None) => {
                host.attach(session, key, Who::Peer(Origin { number, epoch }), from, &self.identified);
            }
            (DataRequest::Upload { id }, Some(Guest::Client(hosted))) => {
                let Some(hosted) = hosted.upgrade() else { return from.close() };
                if let Err(too_much) = hosted.upload(id, body_or_nothing()) {
                    refuse(from, &too_much.to_string());
                }
            }
            (DataRequest::Rest { from: before, message }, Some(Guest::Client(hosted))) => {
                let Some(hosted) = hosted.upgrade() else { return from.close() };
                let Ok(DataRequest::Upload { id }) = decode(message) else {
                    return refuse(from, "only uploads can be resumed");
                };
                match hosted.upload_rest(id, before, &body_or_nothing()) {
                    Some(Ok(())) => {}
                    Some(Err(too_much)) => refuse(from, &too_much),
                    // What came before is not here any more: on the next connection it is sent from its beginning.
                    None => from.close(),
                }
            }
            (DataRequest::Got { request }, Some(Guest::Client(hosted))) => {
                if let Some(hosted) = hosted.upgrade() {
                    hosted.got(request);
                }
            }
            (DataRequest::Transfer { number, id, value, bytes }, Some(Guest::Peer(hosted, origin))) => {
                // A session that is not here any more needs nothing.
                let Some(hosted) = hosted.upgrade() else { return from.close() };
                let arrived = value.map_err(Failure::shortened).and_then(|ty| {
                    let bytes = match bytes {
                        Some(small) => {
                            Bytes::from(small).accompanied_by(Box::new(hosted.make_room(small.len() as u64)?))
                        }
                        None => body_or_nothing(),
                    };
                    Ok((ty, Supplied::Bytes(bytes)))
                });
                let transfers = hosted.transferred(*origin, number, id, arrived);
                // On one host what was sent has come (ROUTE-2).
                if !from.is_same_host() {
                    let _ = from.send(&encode(&DataReply::Taken { transfers }));
                }
            }
            (DataRequest::Echo { .. }, Some(_)) if from.queued_bytes() > ECHO_AHEAD_BYTES => {
                refuse(from, "the peer does not read its echo replies")
            }
            (DataRequest::Echo { request }, Some(_)) => {
                let _ = from.send_with_body(&encode(&DataReply::Echo { request }), body_or_nothing());
            }
            (DataRequest::RecorderAt { core }, Some(Guest::Client(_))) => {
                // Elsewhere its cores mean nothing here.
                if let Some(moved) = host.around().recorder_moved.as_ref().filter(|_| from.is_same_host()) {
                    moved(core);
                }
            }
            (DataRequest::Attach { .. } | DataRequest::AttachPeer { .. }, Some(_)) => {
                refuse(from, "the connection is already attached");
            }
            (_, None) => refuse(from, "the first message must be Attach or AttachPeer"),
            (
                DataRequest::Upload { .. }
                | DataRequest::RecorderAt { .. }
                | DataRequest::Rest { .. }
                | DataRequest::Got { .. },
                Some(Guest::Peer(..)),
            ) => refuse(from, "workers may send only transfers"),
            (DataRequest::Transfer { .. }, Some(Guest::Client(_))) => refuse(from, "clients may not send transfers"),
        }
    }
}

impl Receiver for FromGuest {
    fn opened(&mut self, connection: &Connection) {
        if let Some(host) = self.host.upgrade() {
            host.greet(connection, &self.identified);
        }
    }

    fn admit(&mut self, from: &Connection, head: &[u8], len_bytes: u64) -> Admission {
        // Before it has said whose it is, a connection may send no bodies; a session that is over takes none.
        let Some(hosted) = self.hosted() else { return Admission::Discard };
        // The head stays here until the body has come.
        let len_bytes = len_bytes.saturating_add(head.len() as u64);
        let failure = match hosted.make_room(len_bytes) {
            Ok(charge) => {
                self.waits_since = None;
                return Admission::Take(Some(Box::new(charge)));
            }
            Err(failure) => failure,
        };
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if since.elapsed() < ROOM_PATIENCE && hosted.could_have(len_bytes) {
            return Admission::Wait;
        }
        self.waits_since = None;
        self.refuse_body(from, head, failure);
        Admission::Discard
    }

    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        let Some(host) = self.host.upgrade() else { return };
        match decode::<DataRequest<'_>>(head) {
            Ok(request) => self.take(&host, from, request, body),
            Err(error) => refuse(from, &error.to_string()),
        }
    }

    fn cut_short(&mut self, _: &Connection, head: &[u8], arrived: &[u8]) {
        let Some(Guest::Client(hosted)) = self.identified.get() else { return };
        let (before, message) = match decode::<DataRequest<'_>>(head) {
            Ok(DataRequest::Rest { from, message }) => (from, message),
            _ => (0, head),
        };
        if let (Ok(DataRequest::Upload { id }), Some(hosted)) = (decode(message), hosted.upgrade()) {
            hosted.keep_part(id, before, arrived);
        }
    }

    fn closed(&mut self, from: &Connection, _: &NetError) {
        if let Some(host) = self.host.upgrade() {
            host.forget(from, &self.identified);
        }
    }
}
