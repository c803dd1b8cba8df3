//! Messages on their way: from a client into its session's backlog, from there to its home, and acks back.
//!
//! FORWARD-1: a session's messages leave in order; one that cannot leave holds those behind it.
//! FORWARD-2: while more than `worker_queue_bytes` wait on a worker's connection, its sessions take turns, one message each: a
//!            session that sends much delays nobody but itself.
//! FORWARD-4: messages of all sessions together take at most [`MAX_BACKLOGS_BYTES`] here. A session may always hold
//!            [`FREE_BACKLOG_BYTES`], and more only while as much is free as it holds.
//! FORWARD-3: a message costs one allocation here: it is kept, as it went out, until its worker has executed it.

use gt_net::NetError;
use gt_net::protocol::{FromServer, Refusal, ToWorker, Wire};

use crate::acks::Due;
use crate::backlog::Cost;
use crate::clock::HELD_INTERVAL;
use crate::core::Core;
use crate::session::{Session, send};
use crate::worker::Worker;

/// What is in front of a message for a worker, at most: a code, and three numbers.
const MAX_ENVELOPE_BYTES: usize = 1 + 3 * 10;

/// What the messages of all sessions may take (FORWARD-4).
const MAX_BACKLOGS_BYTES: u64 = 1 << 30;
const FREE_BACKLOG_BYTES: u64 = 1 << 20;

/// What came of sending a session's next message.
enum Sent {
    Yes,
    Nothing,
    NoRoom,
    /// No worker of this kind takes it.
    Never(NetError),
}

impl Core {
    /// Takes the next message of a session.
    pub(crate) fn stream(&mut self, id: u64, seq: u64, instrs: u32, bytes: u64, message: &[u8]) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let expected = session.backlog.received();
        if seq < expected {
            return Ok(()); // sent again after a reconnect, and not needed
        }
        if seq > expected {
            let reason = format!("received message {seq}, expected {expected}");
            return Err(Refusal::Malformed { reason });
        }
        let cost = Cost::of(instrs, bytes, message.len());
        let credits = (self.config.credits_instrs, self.config.credits_bytes);
        if let Some(what) = session.backlog.overrun(cost, credits.0, credits.1) {
            let reason =
                format!("the client sent more than twice its credits of {what} without waiting for acknowledgements");
            return Err(Refusal::Malformed { reason });
        }
        if session.backlog.held_bytes() > FREE_BACKLOG_BYTES && !self.has_room_for(id, message.len() as u64) {
            let reason =
                "the server has no room for more messages of this session until its worker runs them".to_string();
            return Err(Refusal::Malformed { reason });
        }
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let mut head = Vec::with_capacity(message.len() + MAX_ENVELOPE_BYTES);
        ToWorker::Stream { session: id, seq, message }.put(&mut head);
        session.acks.note_received(head.len());
        session.instrs_received += instrs as u64;
        session.backlog.push(head, cost);
        if let Some(worker) = session.home.and_then(|index| self.workers.get_mut(&index))
            && !session.in_turns
        {
            match send_one(session, worker, self.config.worker_queue_bytes) {
                Sent::Yes | Sent::Nothing => {}
                Sent::NoRoom => {
                    session.in_turns = true;
                    worker.turns.push_back(id);
                    self.look_again_at_held();
                }
                Sent::Never(why) => return Err(Refusal::Malformed { reason: why.to_string() }),
            }
        }
        self.ack_if_due(id);
        Ok(())
    }

    /// FORWARD-4.
    fn has_room_for(&self, id: u64, len_bytes: u64) -> bool {
        let all: u64 = self.sessions.values().map(|session| session.backlog.held_bytes()).sum();
        let own = self.sessions.get(&id).map_or(0, |session| session.backlog.held_bytes());
        own.saturating_add(len_bytes) <= MAX_BACKLOGS_BYTES.saturating_sub(all)
    }

    /// Sends what waits for a worker, a message of each session in turn, while there is room (FORWARD-2).
    pub(crate) fn flush(&mut self, index: u32) {
        let Some(worker) = self.workers.get_mut(&index) else { return };
        let mut refused = Vec::new();
        while let Some(id) = worker.turns.pop_front() {
            let Some(session) = self.sessions.get_mut(&id).filter(|s| s.home == Some(index)) else { continue };
            match send_one(session, worker, self.config.worker_queue_bytes) {
                Sent::Yes if session.backlog.has_unsent() => worker.turns.push_back(id),
                Sent::Yes | Sent::Nothing => session.in_turns = false,
                Sent::NoRoom => {
                    worker.turns.push_front(id);
                    break;
                }
                Sent::Never(why) => refused.push((id, why)),
            }
        }
        if !worker.turns.is_empty() && worker.link.is_up() {
            self.look_again_at_held();
        }
        for (id, why) in refused {
            self.refuse_session(id, Refusal::Malformed { reason: why.to_string() });
        }
    }

    /// Has everything that a session holds for its home go out, in its turn.
    pub(crate) fn queue_held(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(worker) = session.home.and_then(|index| self.workers.get_mut(&index)) else { return };
        if session.backlog.has_unsent() && !session.in_turns {
            session.in_turns = true;
            worker.turns.push_back(id);
        }
    }

    /// Nobody says when a connection has room again; a worker's own messages do, and time.
    fn look_again_at_held(&mut self) {
        self.look_again(self.clock.now() + HELD_INTERVAL);
    }

    /// ACK-1, ACK-2, ACK-3.
    pub(crate) fn ack_if_due(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id).filter(|s| s.link.is_up()) else { return };
        match session.acks.due(&session.backlog, &self.config, || self.clock.now()) {
            Due::Now => self.ack_now(id),
            Due::By(at) => self.look_again(at),
            Due::No => {}
        }
    }

    pub(crate) fn ack_now(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(connection) = session.link.connection() else { return };
        let (received, executed) = (session.backlog.received(), session.backlog.executed());
        // One that is not taken says nothing that the next does not.
        if send(connection, &FromServer::Ack { received, executed }).is_ok() {
            session.acks.sent(&session.backlog, self.clock.now());
        }
    }
}

/// Sends the next message of a session.
fn send_one(session: &mut Session, worker: &Worker, queue_bytes: u64) -> Sent {
    let Some(message) = session.backlog.unsent() else { return Sent::Nothing };
    let Some(connection) = worker.link.connection() else { return Sent::NoRoom };
    if connection.queued_bytes() >= queue_bytes {
        return Sent::NoRoom;
    }
    match connection.send(message) {
        Ok(()) => {
            session.backlog.mark_sent();
            Sent::Yes
        }
        Err(why @ NetError::TooLarge { .. }) => Sent::Never(why),
        // The message stays: it goes out when there is room, or when the worker is back.
        Err(_) => Sent::NoRoom,
    }
}
