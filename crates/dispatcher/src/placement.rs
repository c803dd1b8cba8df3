//! Which worker a session lives on.
//!
//! HOME-1: the home is the worker with the fewest sessions, then the least busy one, then the first.
//! HOME-2: a session stays where it is while its worker is there: nothing moves by itself.
//! HOME-3: when its worker is gone, its messages so far count as executed, whether they were or not: they are not run again, as
//!          what they used is gone. Its next message goes to the new home, which knows what to say of values it does not have.
//! HOME-4: a session that is pinned lives on its worker or nowhere: it waits for a worker of that index.

use gt_ir::{Failure, FailureKind};
use gt_net::protocol::{FromServer, ToWorker};

use crate::core::Core;
use crate::session::{Loss, Session, send};

impl Core {
    /// HOME-1, among those that can be reached.
    fn least_loaded(&self) -> Option<u32> {
        let up = self.workers.iter().filter(|(_, worker)| worker.link.is_up());
        up.min_by_key(|(index, worker)| (worker.sessions.len(), worker.load.busy_permille, **index))
            .map(|(index, _)| *index)
    }

    /// HOME-4.
    fn choose(&self, session: &Session) -> Option<u32> {
        match session.pinned {
            Some(pinned) => Some(pinned.to).filter(|to| self.workers.get(to).is_some_and(|worker| worker.link.is_up())),
            None => self.least_loaded(),
        }
    }

    /// Gives a session a home, if there is a worker; true if it has one now.
    pub(crate) fn settle(&mut self, id: u64) -> bool {
        let Some(index) = self.sessions.get(&id).and_then(|session| self.choose(session)) else { return false };
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let Some(worker) = self.workers.get_mut(&index) else { return false };
        session.home = Some(index);
        session.home_from = session.backlog.executed();
        session.in_turns = false;
        worker.sessions.insert(id);
        self.config.log.line(format_args!("session {id}: placed on {}", worker.info.id));
        self.open_at(id, index);
        self.queue_held(id);
        self.flush(index);
        true
    }

    /// Tells a worker of a session that lives there.
    pub(crate) fn open_at(&self, id: u64, index: u32) {
        let (Some(session), Some(worker)) = (self.sessions.get(&id), self.workers.get(&index)) else { return };
        let Some(connection) = worker.link.connection() else { return };
        let opened = send(
            connection,
            &ToWorker::Open {
                session: id,
                key: session.secret.worker_key().as_bytes().into(),
                variables: session.variables.clone(),
                max_memory: self.config.max_session_memory,
                from: session.home_from,
                lost: session.lost.clone(),
                same_user: session.same_user,
            },
        );
        // A worker that cannot be told loses its connection; it is told when it is back, or is gone.
        if opened.is_err() {
            connection.close();
        }
    }

    /// A worker has joined: those that waited for one live there now.
    pub(crate) fn settle_homeless(&mut self) {
        let homeless: Vec<u64> = self.sessions.iter().filter(|(_, s)| s.home.is_none()).map(|(id, _)| *id).collect();
        for id in homeless {
            self.settle_and_tell(id);
        }
    }

    fn settle_and_tell(&mut self, id: u64) {
        if !self.settle(id) {
            return;
        }
        let Some(session) = self.sessions.get(&id) else { return };
        if let Some(home) = session.home.and_then(|index| self.workers.get(&index)) {
            session.tell(&FromServer::Home { worker: home.info.clone(), from: session.home_from });
        }
    }

    /// A worker is gone for good, with all it held (HOME-3).
    pub(crate) fn lose_worker(&mut self, index: u32, reason: &str) {
        let Some(worker) = self.workers.remove(&index) else { return };
        self.generation += 1;
        self.config.log.line(format_args!("worker {}: lost: {reason}", worker.info.id));
        for &id in &worker.sessions {
            self.forget_values(id, &worker.info.id, reason);
        }
        for &id in &worker.sessions {
            self.settle_and_tell(id);
            self.ack_now(id);
        }
    }

    /// A worker is here but does not have what a session had there.
    pub(crate) fn lose_session_values(&mut self, id: u64, index: u32, reason: &str) {
        let Some(worker) = self.workers.get_mut(&index) else { return };
        worker.sessions.remove(&id);
        let name = worker.info.id.clone();
        self.forget_values(id, &name, reason);
        self.settle_and_tell(id);
        self.ack_now(id);
    }

    fn forget_values(&mut self, id: u64, worker: &str, reason: &str) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let returned = session.backlog.lose();
        session.acks.note_executed(returned);
        session.home = None;
        session.in_turns = false;
        session.needed = None;
        session.lost = Some(Failure {
            worker: worker.to_string(),
            ..Failure::new(FailureKind::WorkerLost, format!("it was on {worker}, which is lost ({reason})"))
        });
        self.config.log.line(format_args!("session {id}: lost its values on {worker}: {reason}"));
        let loss = Loss { worker: worker.to_string(), reason: reason.to_string() };
        session.tell(&FromServer::WorkerLost { worker: loss.worker.clone(), reason: loss.reason.clone() });
        session.note_loss(loss);
    }
}
