//! What the server says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use gt_ir::Bytes;
use gt_net::protocol::{ToWorker, decode};
use gt_net::{Connection, NetError, Receiver, Role, Secret};

use super::group::Standing;
use super::host::{Host, Opened};
use super::hosted::Hosted;
use super::join::News;
use super::reading::Fault;

/// Takes what the server says, on one connection.
pub(super) struct FromServer {
    pub(super) host: Weak<Host>,
    pub(super) news: Arc<News>,
    /// What the worker showed: whoever knows it answers with the same.
    pub(super) shown: Box<[u8]>,
    /// What the server has to know as well, over a network.
    pub(super) token: Option<Secret>,
    /// Nothing else is heard before the server has taken the worker.
    pub(super) is_joined: bool,
}

impl FromServer {
    fn take(&mut self, host: &Host, from: &Connection, message: ToWorker<'_>) {
        let (session, done) = match message {
            ToWorker::Joined { id, index: _, secret, proof, seal_key } => {
                self.is_joined = self.is_its_server(from, &proof);
                return match self.is_joined {
                    true => self.joined(host, from, Standing { secret, id, seal_key: Secret::from_bytes(&seal_key) }),
                    false => self.turn_away(from),
                };
            }
            ToWorker::Refused { why } => return self.news.refused(why),
            _ if !self.is_joined => return from.close(),
            ToWorker::Open { session, key, variables, max_memory, from: first, lost, same_user } => {
                // A server elsewhere, or one that others may have started, vouches for nobody on this host.
                let same_user = same_user && from.is_same_host();
                let opened = Opened { number: session, key: &key, max_memory, from: first, lost, same_user };
                return host.open(opened, &variables);
            }
            ToWorker::Close { session } => return host.close(session),
            ToWorker::Stream { session, seq, message } => {
                let read = |hosted: Arc<Hosted>| catch_unwind(AssertUnwindSafe(|| hosted.receive(seq, message)));
                let received = host.session(session).map(read);
                // A panic in reading one session's message ends that session. The connection is everybody's.
                let panicked = |_| {
                    Err(Fault::Broken("internal error in GT, please report it: a message was not read".to_string()))
                };
                (session, received.map(|received| received.unwrap_or_else(panicked)))
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

    /// Whether the other side knows the worker token. The Unix socket of this user is its server's.
    fn is_its_server(&self, from: &Connection, proof: &[u8]) -> bool {
        let token = self.token.as_ref().filter(|_| !from.peer().same_host);
        token.is_none_or(|token| from.is_proven(token, Role::Server, proof))
    }

    fn turn_away(&self, from: &Connection) {
        from.close();
        let (what, reason) = (
            from.peer().address.clone(),
            "the process there does not know this worker's token, so it is not the right server".to_string(),
        );
        self.news.closed(&NetError::Credentials { what, reason });
    }

    fn joined(&self, host: &Host, from: &Connection, standing: Standing) {
        if !self.shown.is_empty() && self.shown != standing.secret {
            // A server that never knew this worker knows none of its sessions.
            host.close_all();
        }
        host.around().group.joined(from, standing);
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
