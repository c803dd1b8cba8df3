//! What the server says.

use std::sync::{Arc, Weak};

use gt_ir::Bytes;
use gt_net::protocol::{ToWorker, decode};
use gt_net::{Connection, NetError, Receiver};

use super::group::Standing;
use super::host::Host;
use super::join::News;
use super::reading::Fault;

/// Takes what the server says, on one connection.
pub(super) struct FromServer {
    pub(super) host: Weak<Host>,
    pub(super) news: Arc<News>,
    /// What the worker showed: whoever knows it answers with the same.
    pub(super) shown: Box<[u8]>,
}

impl FromServer {
    fn take(&self, host: &Host, from: &Connection, message: ToWorker<'_>) {
        let (session, done) = match message {
            ToWorker::Joined { id, index: _, secret } => return self.joined(host, from, id, secret),
            ToWorker::Refused { why } => return self.news.refused(why),
            ToWorker::Open { session, secret, variables, max_memory, from, lost } => {
                return host.open(session, &secret, &variables, max_memory, from, lost);
            }
            ToWorker::Close { session } => return host.close(session),
            ToWorker::Stream { session, seq, message } => {
                (session, host.session(session).map(|hosted| hosted.receive(seq, message)))
            }
        };
        match done {
            // A session that was closed here; the server will hear, or has said it.
            None | Some(Ok(())) => {}
            Some(Err(Fault::Broken(reason))) => host.break_off(session, &reason),
            // No connection that keeps order does this: a new one starts from what both know.
            Some(Err(Fault::Gap { .. })) => from.close(),
        }
    }

    fn joined(&self, host: &Host, from: &Connection, id: String, secret: Box<[u8]>) {
        if !self.shown.is_empty() && self.shown != secret {
            // A server that never knew this worker knows none of its sessions.
            host.close_all();
        }
        host.around().group.joined(from, Standing { secret, id });
        host.sessions().iter().for_each(|hosted| hosted.report_again());
        self.news.joined();
    }
}

impl Receiver for FromServer {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        let Some(host) = self.host.upgrade() else { return };
        match decode::<ToWorker<'_>>(head) {
            Ok(message) => self.take(&host, from, message),
            Err(_) => from.close(),
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        if let Some(host) = self.host.upgrade() {
            host.around().group.left(from);
        }
        self.news.closed(why);
    }
}
