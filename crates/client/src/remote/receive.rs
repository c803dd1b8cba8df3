//! What arrives, on the I/O thread: it takes the state's lock for a moment, and never sends.
//!
//! RECEIVE-1: a thread is woken only by what it waits for. Acks and answers come with every step, and a thread that is woken
//!            for nothing takes its core from the worker.

use std::sync::{Arc, Weak};
use std::time::Instant;

use gt_ir::{Bytes, Failure, FailureKind, HostTensor};
use gt_net::protocol::{DataReply, FromServer, ReadAnswer, decode};
use gt_net::{Connection, NetError, Receiver};

use super::state::{Answer, OutOfReach};
use super::{GIVE_UP, Shared};

/// Takes what the server says. Weak: a link that is gone has nothing to hear.
pub(super) struct FromControl(pub Weak<Shared>);

/// Takes what a worker says.
pub(super) struct FromData {
    pub shared: Weak<Shared>,
    pub worker: String,
}

fn lost(reason: impl ToString) -> Failure {
    Failure::new(FailureKind::WorkerLost, reason.to_string())
}

impl FromControl {
    fn take(shared: &Arc<Shared>, from: &Connection, message: FromServer) -> Result<(), NetError> {
        let mut state = shared.state.lock();
        if state.has_ended() {
            from.close();
            return Ok(());
        }
        match message {
            FromServer::Welcome { session, secret, workers, home, received, credits_instrs, credits_bytes } => {
                state.session = Some((session, secret));
                state.set_credits(credits_instrs, credits_bytes);
                state.home = home.and_then(|index| workers.iter().find(|w| w.index == index).cloned());
                state.workers = workers;
                state.ack(received, 0)?;
                state.control = Some(from.clone());
                state.knocking = None;
                state.resend = true;
                state.attach = state.home.is_some() && state.data.is_none();
            }
            FromServer::Refused { why } => {
                state.end(lost(format!("the server at {} ended the session: {why}", shared.dialer.server())));
            }
            FromServer::Ack { received, executed } => {
                let was_full = !state.has_room();
                state.ack(received, executed)?;
                let (has_room, is_dry) = (state.has_room(), state.is_dry());
                drop(state);
                if was_full && has_room {
                    shared.changed.notify_all();
                }
                if is_dry {
                    shared.upkeep.notify_one();
                }
                return Ok(());
            }
            FromServer::NeedTemplate { digest } => state.wanted_templates.push(digest),
            FromServer::WorkerLost { worker, reason } => state.worker_lost(&worker, &reason),
            FromServer::Home { worker, .. } => {
                state.workers.retain(|w| w.id != worker.id);
                state.workers.insert(0, worker.clone());
                state.home = Some(worker);
                state.news = true;
                state.data = None;
                state.attach = true;
                state.refused_since = None;
                state.unreached_since = None;
            }
            FromServer::Workers { workers } => {
                state.workers = workers;
                state.news = true;
            }
            FromServer::Status { .. } => {}
        }
        drop(state);
        shared.changed.notify_all();
        shared.upkeep.notify_one();
        Ok(())
    }
}

impl Receiver for FromControl {
    fn message(&mut self, from: &Connection, head: &[u8], _: Option<Bytes>) {
        let Some(shared) = self.0.upgrade() else { return from.close() };
        if decode::<FromServer>(head).and_then(|message| Self::take(&shared, from, message)).is_err() {
            from.close();
        }
    }

    fn closed(&mut self, from: &Connection, why: &NetError) {
        let Some(shared) = self.0.upgrade() else { return };
        let mut state = shared.state.lock();
        if state.knocking.as_ref().is_some_and(|c| c.is_same(from)) {
            state.knocking = None;
        }
        if state.control.as_ref().is_none_or(|c| c.is_same(from)) {
            if let (true, NetError::Silent { silent }) = (state.control.is_some(), why) {
                state.silent_for = *silent;
            }
            state.control = None;
            if state.session.is_none() {
                state.end(lost(format!("the server at {}: {why}", shared.dialer.server())));
            }
        }
        drop(state);
        shared.changed.notify_all();
        shared.upkeep.notify_one();
    }
}

impl Receiver for FromData {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        let Some(shared) = self.shared.upgrade() else { return from.close() };
        let mut state = shared.state.lock();
        let is_home = state.home.as_ref().is_some_and(|home| home.id == self.worker);
        match decode::<DataReply<'_>>(head) {
            Ok(DataReply::Answer { request, answer }) => {
                let answer = match answer {
                    ReadAnswer::Value { ty, bytes } => {
                        let bytes = match (bytes, body) {
                            (Some(bytes), _) => bytes.to_vec(),
                            (None, Some(body)) => body.to_vec(),
                            (None, None) => Vec::new(),
                        };
                        match bytes.len() == ty.bytes() {
                            true => Answer::Value(HostTensor { ty, bytes }),
                            false => Answer::Failed(Failure::new(
                                FailureKind::Internal,
                                format!("the worker sent {} bytes for a {ty}", bytes.len()),
                            )),
                        }
                    }
                    ReadAnswer::Failed { mut failure } => {
                        // The worker knows that a value was lost; the lines that made it are known here.
                        if failure.kind == FailureKind::WorkerLost
                            && let Some(told) = state.live.last_loss()
                        {
                            failure.message.clone_from(&told.message);
                        }
                        Answer::Failed(failure)
                    }
                    ReadAnswer::Done {} => Answer::Done,
                    ReadAnswer::Stats { json } => Answer::Stats(json),
                    ReadAnswer::Batch { types, note } => {
                        let note = note.map_or_else(|| body.as_deref().unwrap_or_default().to_vec(), <[u8]>::to_vec);
                        Answer::Batch { types, note }
                    }
                };
                // Batches are announced ahead: mostly nobody waits for one (RECEIVE-1).
                let is_awaited = state.batch_waiters > 0 || !matches!(answer, Answer::Batch { .. });
                state.answer(request, answer);
                drop(state);
                if is_awaited {
                    shared.changed.notify_all();
                }
                return;
            }
            // The session has moved since it asked.
            Ok(DataReply::Attached {} | DataReply::Refused { .. }) if !is_home => from.close(),
            Ok(DataReply::Attached {}) => {
                state.data = Some(from.clone());
                shared.recorder.forget();
                // What was on its way when the last connection broke goes out again; a worker that has it drops it.
                state.attach = false;
                state.resend_uploads = true;
                state.refused_since = None;
                state.unreached_since = None;
            }
            Ok(DataReply::Refused { reason }) => {
                // A worker that is leaving says so too; the server will name another one.
                let since = *state.refused_since.get_or_insert_with(Instant::now);
                if since.elapsed() > GIVE_UP {
                    state.end(lost(format!("a worker refused this session: {reason}")));
                }
            }
            Ok(DataReply::Echo { request }) => state.answer(request, Answer::Done),
            Ok(DataReply::OutOfReach { number, epoch, reason }) => {
                state.out_of_reach.push(OutOfReach { number, epoch, reason });
                state.news = true;
            }
            // Acks of values are for workers.
            Ok(DataReply::Taken { .. }) | Err(_) => from.close(),
        }
        drop(state);
        shared.changed.notify_all();
        shared.upkeep.notify_one();
    }

    fn closed(&mut self, from: &Connection, _: &NetError) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.state.lock();
        if state.data.as_ref().is_none_or(|c| c.is_same(from)) {
            state.data = None;
            state.attach = state.home.is_some();
        }
        drop(state);
        // Whoever waits for an echo learns that there will be none.
        shared.changed.notify_all();
        shared.upkeep.notify_one();
    }
}
