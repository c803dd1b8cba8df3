//! What arrives, on the I/O thread: it takes the state's lock for a moment, and sends nothing that could wait.
//!
//! CLIENT-RECEIVE-1: a thread is woken only by what it waits for. Acks and answers come with every step, and a thread that is woken
//!            for nothing takes its core from the worker.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use gt_ir::{Bytes, Failure, FailureKind, HostTensor};
use gt_net::protocol::{DataReply, DataRequest, FromServer, ReadAnswer, decode, encode};
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
            FromServer::Welcome { proof, .. } if !shared.is_its_server(from, &proof) => {
                let server = shared.dialer.server();
                state.end(lost(format!(
                    "the process at {server} does not know the token in GT_TOKEN, so it is not the server that the token is for"
                )));
                from.close();
            }
            FromServer::Welcome {
                session,
                secret,
                lease_ms,
                workers,
                home,
                received,
                credits_instrs,
                credits_bytes,
                ..
            } => {
                state.lease = Duration::from_millis(lease_ms);
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
                if was_full && has_room || is_dry {
                    shared.changed.notify_all();
                }
                if is_dry {
                    shared.upkeep.notify_one();
                }
                return Ok(());
            }
            FromServer::NeedTemplate { number } => state.wanted_templates.push(number),
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

impl FromData {
    /// An answer, with its body where it has one.
    fn answered(shared: &Shared, request: u64, answer: ReadAnswer<'_>, body: Option<Vec<u8>>) {
        let mut state = shared.state.lock();
        let answer = match answer {
            ReadAnswer::Value { ty, bytes } => {
                let bytes = bytes.map(<[u8]>::to_vec).or(body).unwrap_or_default();
                match bytes.len() == ty.bytes() {
                    true => Answer::Value(HostTensor { ty, bytes }),
                    false => Answer::Failed(Failure::new(
                        FailureKind::Internal,
                        format!("the worker sent {} bytes for a tensor of type {ty}", bytes.len()),
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
                Answer::Batch { types, note: note.map(<[u8]>::to_vec).or(body).unwrap_or_default() }
            }
        };
        // Batches are announced ahead: mostly nobody waits for one (CLIENT-RECEIVE-1).
        let is_awaited = state.batch_waiters > 0 || !matches!(answer, Answer::Batch { .. });
        state.answer(request, answer);
        drop(state);
        if is_awaited {
            shared.changed.notify_all();
        }
    }

    /// The body of an answer has come: over a network the worker keeps it until it hears so.
    fn got(from: &Connection, request: u64) {
        if !from.is_same_host() {
            let _ = from.send(&encode(&DataRequest::Got { request }));
        }
    }

    /// The rest of an answer whose beginning came by another connection.
    fn rest(shared: &Shared, from: &Connection, before: u64, message: &[u8], rest: &[u8]) {
        let Ok(DataReply::Answer { request, answer }) = decode(message) else { return from.close() };
        let mut state = shared.state.lock();
        let whole = state.complete_part(request, before, rest);
        let is_awaited = state.is_awaited(request);
        drop(state);
        match whole {
            Some(whole) => Self::answered(shared, request, answer, Some(whole)),
            // The next connection brings all of it.
            None if is_awaited => return from.close(),
            None => {}
        }
        Self::got(from, request);
    }
}

impl Receiver for FromData {
    fn message(&mut self, from: &Connection, head: &[u8], body: Option<Bytes>) {
        let Some(shared) = self.shared.upgrade() else { return from.close() };
        let reply = decode::<DataReply<'_>>(head);
        match reply {
            Ok(DataReply::Answer { request, answer }) => {
                let has_body = body.is_some();
                Self::answered(&shared, request, answer, body.map(|body| body.to_vec()));
                if has_body {
                    Self::got(from, request);
                }
                return;
            }
            Ok(DataReply::Rest { from: before, message }) => {
                return Self::rest(&shared, from, before, message, body.as_deref().unwrap_or_default());
            }
            _ => {}
        }
        let mut state = shared.state.lock();
        let is_home = state.home.as_ref().is_some_and(|home| home.id == self.worker);
        match reply {
            // The session has moved since it asked.
            Ok(DataReply::Attached { .. } | DataReply::Refused { .. }) if !is_home => from.close(),
            Ok(DataReply::Attached { uploads }) => {
                state.data = Some(from.clone());
                shared.recorder.forget();
                // What was on its way when the last connection broke goes out again; a worker that has it drops it.
                state.attach = false;
                state.resend_uploads = true;
                state.uploads_there = uploads.into_iter().collect();
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
            // Acks of values are for workers; the others were seen to above.
            Ok(DataReply::Taken { .. } | DataReply::Answer { .. } | DataReply::Rest { .. }) | Err(_) => from.close(),
        }
        drop(state);
        shared.changed.notify_all();
        shared.upkeep.notify_one();
    }

    fn cut_short(&mut self, _: &Connection, head: &[u8], arrived: &[u8]) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (before, message) = match decode::<DataReply<'_>>(head) {
            Ok(DataReply::Rest { from, message }) => (from, message),
            _ => (0, head),
        };
        let mut state = shared.state.lock();
        // What a lost worker has begun, another one does not go on with.
        let is_home = state.home.as_ref().is_some_and(|home| home.id == self.worker);
        if let (true, Ok(DataReply::Answer { request, .. })) = (is_home, decode(message)) {
            state.keep_part(request, before, arrived);
        }
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
