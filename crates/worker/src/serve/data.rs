//! What clients and other workers say.

use std::sync::{Arc, OnceLock, Weak};

use gt_ir::Bytes;
use gt_net::protocol::{DataReply, DataRequest, decode, encode};
use gt_net::{Connection, NetError, Receiver};

use super::arrivals::Origin;
use super::host::{Guest, Host, Identified, Who, refuse};
use crate::moved::Supplied;

/// How much may wait to leave before another echo is refused: whoever asks for them and does not read would fill the worker's memory.
const ECHO_AHEAD_BYTES: u64 = 16 << 20;

/// Takes what comes by one data connection.
pub(super) struct FromGuest {
    host: Weak<Host>,
    identified: Identified,
}

impl FromGuest {
    pub(super) fn new(host: &Weak<Host>) -> Self {
        FromGuest { host: host.clone(), identified: Arc::new(OnceLock::new()) }
    }

    fn take(&self, host: &Host, from: &Connection, request: DataRequest<'_>, body: Option<Bytes>) {
        let body_or_nothing = || body.clone().unwrap_or_else(|| Bytes::from([]));
        match (request, self.identified.get()) {
            (DataRequest::Attach { session, secret, resume }, None) => {
                let who = Who::Client(resume.map(Arc::new));
                host.attach(session, secret, who, from, &self.identified)
            }
            (DataRequest::AttachPeer { session, secret, from: number, epoch }, None) => {
                host.attach(session, secret, Who::Peer(Origin { number, epoch }), from, &self.identified);
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
                    return refuse(from, "only uploads have a rest");
                };
                match hosted.upload_rest(id, before, &body_or_nothing()) {
                    Some(Ok(())) => {}
                    Some(Err(too_much)) => refuse(from, &too_much.to_string()),
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
                let bytes = || bytes.map_or_else(body_or_nothing, Bytes::from);
                let arrived = value.map(|ty| (ty, Supplied::Bytes(bytes())));
                let transfers = hosted.transferred(*origin, number, id, arrived);
                // On one host what was sent has come (ROUTE-2).
                if !from.is_same_host() {
                    let _ = from.send(&encode(&DataReply::Taken { transfers }));
                }
            }
            (DataRequest::Echo { .. }, Some(_)) if from.queued_bytes() > ECHO_AHEAD_BYTES => {
                refuse(from, "echoes are not read")
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
                refuse(from, "the connection is attached already");
            }
            (_, None) => refuse(from, "the first message says who it is"),
            (
                DataRequest::Upload { .. }
                | DataRequest::RecorderAt { .. }
                | DataRequest::Rest { .. }
                | DataRequest::Got { .. },
                Some(Guest::Peer(..)),
            ) => refuse(from, "workers send transfers"),
            (DataRequest::Transfer { .. }, Some(Guest::Client(_))) => refuse(from, "clients send uploads"),
        }
    }
}

impl Receiver for FromGuest {
    fn opened(&mut self, connection: &Connection) {
        if let Some(host) = self.host.upgrade() {
            host.greet(connection, &self.identified);
        }
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
