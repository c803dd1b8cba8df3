//! What time does: leases end, guests that say nothing are shown out, held messages and late acks go out.

use std::time::Instant;

use gt_net::protocol::{FromServer, Refusal, ToWorker};

use crate::core::{Core, Role};
use crate::session::{Link, send};

impl Core {
    /// Does everything whose time has come, and has somebody look again when the next will have.
    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        self.end_guests(now);
        self.end_workers(now);
        self.end_sessions(now);
        let workers: Vec<u32> = self.workers.keys().copied().collect();
        for index in workers {
            self.flush(index);
        }
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for id in sessions {
            self.ack_if_due(id);
        }
    }

    fn end_guests(&mut self, now: Instant) {
        let mut late = Vec::new();
        let mut next = None;
        for (id, (connection, role)) in &self.peers {
            match role {
                Role::Guest { until } if *until <= now => late.push((*id, connection.clone())),
                Role::Guest { until } => next = earlier(next, *until),
                _ => {}
            }
        }
        for (id, connection) in late {
            let reason = "no message arrived in time".to_string();
            self.refuse_client(id, &connection, Refusal::Malformed { reason });
        }
        self.look_again_if(next);
    }

    fn end_workers(&mut self, now: Instant) {
        let mut late = Vec::new();
        let mut next = None;
        for (index, worker) in &self.workers {
            match &worker.link {
                Link::Away { until, why } if *until <= now => late.push((*index, why.clone())),
                Link::Away { until, .. } => next = earlier(next, *until),
                Link::Up(..) => {}
            }
        }
        for (index, why) in late {
            self.lose_worker(index, &why);
        }
        self.look_again_if(next);
    }

    fn end_sessions(&mut self, now: Instant) {
        let mut late = Vec::new();
        let mut next = None;
        for (id, session) in &self.sessions {
            match &session.link {
                Link::Away { until, .. } if *until <= now => late.push(*id),
                Link::Away { until, .. } => next = earlier(next, *until),
                Link::Up(..) => {}
            }
        }
        for id in late {
            self.close_session(id, "its client did not reconnect in time");
        }
        self.look_again_if(next);
    }

    fn look_again_if(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.look_again(at);
        }
    }

    /// Tells everyone that the server ends, and lets nobody in any more.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        let peers: Vec<_> =
            self.peers.iter().map(|(id, (connection, role))| (*id, connection.clone(), *role)).collect();
        for (id, connection, role) in peers {
            let why = Refusal::Ending {};
            let _ = match role {
                Role::Guest { .. } | Role::Client(_) => send(&connection, &FromServer::Refused { why }),
                Role::Worker(_) => send(&connection, &ToWorker::Refused { why }),
                Role::Leaving => Ok(()),
            };
            self.let_go(id, &connection);
        }
        self.sessions.clear();
        self.workers.clear();
    }
}

fn earlier(next: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(next.map_or(at, |next| next.min(at)))
}
