//! What a link knows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::{Bytes, Failure, FailureKind, HostTensor, TensorId, TensorType};
use gt_net::protocol::{Resumption, ToServer, WorkerInfo, encode};
use gt_net::{Connection, Outbox};

use super::live::Live;
use gt_client::link::WaitError;

/// Messages kept for a server that may ask for them again. Credits bound what is unexecuted; this bounds what is unacked.
const OUTBOX_BYTES: usize = 256 << 20;

/// What is said of the past when the worker is attached again: no more of each, as a stranger's message is short.
const MOST_RESUMED: usize = 1024;

/// What a request was answered with.
pub(super) enum Answer {
    Value(HostTensor),
    Done,
    Stats(String),
    Batch { types: Vec<TensorType>, note: Vec<u8> },
    Failed(Failure),
}

impl Answer {
    pub fn unexpected(self) -> WaitError {
        WaitError::Failed(Failure::new(FailureKind::Internal, "the worker's reply does not match the request"))
    }
}

/// Another worker of the client's, that the session's own cannot reach.
pub(super) struct OutOfReach {
    pub number: u32,
    pub epoch: u64,
    pub reason: String,
}

/// What a message takes until it has been executed.
struct Taken {
    seq: u64,
    instrs: u32,
    bytes: u64,
}

pub(super) struct State {
    pub control: Option<Connection>,
    pub data: Option<Connection>,
    /// The number of the session and what resumes it, once the server has welcomed it.
    pub session: Option<(u64, Box<[u8]>)>,
    /// How many workers the server has said are lost: said when resuming, so that none is missed or told twice.
    pub losses: u64,
    /// How long the server keeps the session once the connection is lost.
    pub lease: Duration,
    /// What was said of the last of them.
    pub last_loss: Option<Failure>,
    /// Loaders that were opened.
    pub loaders: u64,
    /// Threads that wait for a loader's next batch.
    pub batch_waiters: usize,
    pub workers: Vec<WorkerInfo>,
    pub home: Option<WorkerInfo>,
    /// As they go to the server.
    outbox: Outbox<Arc<[u8]>>,
    taken: VecDeque<Taken>,
    outstanding: (u64, u64),
    /// Windows came after the session had ended.
    pub has_dropped: bool,
    credits: (u64, u64),
    pub executed: u64,
    answers: HashMap<u64, Option<Answer>>,
    /// What has come of the bodies of answers whose connection broke meanwhile. They are awaited, all of them.
    parts: HashMap<u64, Vec<u8>>,
    requests: u64,
    ended: Option<Failure>,
    pub live: Live,
    /// Payloads that travel apart, with the numbers of the messages that take them, until these have been executed.
    uploads: Vec<(u64, TensorId, Bytes)>,
    /// Templates that the worker asked for.
    pub wanted_templates: Vec<u64>,
    /// The control connection is open again, or did not take a message: what is not acked goes out again.
    pub resend: bool,
    /// The data connection has to be opened.
    pub attach: bool,
    /// The data connection is a new one.
    pub resend_uploads: bool,
    /// How many bytes the worker said it has of uploads, when it was attached.
    pub uploads_there: HashMap<TensorId, u64>,
    /// Since when the worker refuses the session.
    pub refused_since: Option<Instant>,
    /// Since when the worker cannot be reached.
    pub unreached_since: Option<Instant>,
    /// A connection by which the session was said to be resumed; the server's answer has not come.
    pub knocking: Option<Connection>,
    /// Workers that were lost, and how, for the group that the session belongs to.
    pub lost_workers: Vec<(String, String)>,
    /// Workers that the session's worker has a value for and cannot reach.
    pub out_of_reach: Vec<OutOfReach>,
    /// Something happened that a group should look at.
    pub news: bool,
    /// For how long the server had been silent when its connection was given up.
    pub silent_for: Duration,
}

/// Why a session that was closed on purpose answers nothing.
pub(super) fn closed() -> Failure {
    Failure::new(FailureKind::WorkerLost, "the session was closed by gt.disconnect()")
}

impl State {
    pub fn new() -> State {
        State {
            control: None,
            data: None,
            session: None,
            losses: 0,
            lease: Duration::ZERO,
            last_loss: None,
            loaders: 0,
            batch_waiters: 0,
            workers: Vec::new(),
            home: None,
            outbox: Outbox::new(OUTBOX_BYTES),
            taken: VecDeque::new(),
            outstanding: (0, 0),
            has_dropped: false,
            credits: (1, 1),
            executed: 0,
            answers: HashMap::new(),
            parts: HashMap::new(),
            requests: 0,
            ended: None,
            live: Live::default(),
            uploads: Vec::new(),
            wanted_templates: Vec::new(),
            resend_uploads: false,
            uploads_there: HashMap::new(),
            refused_since: None,
            unreached_since: None,
            knocking: None,
            lost_workers: Vec::new(),
            out_of_reach: Vec::new(),
            news: false,
            silent_for: Duration::ZERO,
            resend: false,
            attach: false,
        }
    }

    /// Whether the server has taken the session, or refused it.
    pub fn is_open(&self) -> bool {
        self.session.is_some() && self.control.is_some()
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Why the session has ended, if it has.
    pub fn ended(&self) -> Option<Failure> {
        self.ended.clone()
    }

    /// Ends the session; the first reason counts (LINK-3).
    pub fn end(&mut self, why: Failure) {
        self.ended.get_or_insert(why);
        self.news = true;
        self.uploads.clear();
    }

    pub fn set_credits(&mut self, instrs: u64, bytes: u64) {
        self.credits = (instrs.max(1), bytes.max(1));
    }

    /// Whether another window may be sent. One that is larger than all credits passes when nothing is outstanding.
    pub fn has_room(&self) -> bool {
        (self.outstanding.0 < self.credits.0 && self.outstanding.1 < self.credits.1) || self.taken.is_empty()
    }

    /// Numbers a message of the stream and keeps it; gives its bytes, and the connection to send it by if it may go at once.
    /// None when the session has ended.
    pub fn push(&mut self, message: &[u8], instrs: u32, bytes: u64) -> Option<(Arc<[u8]>, Option<Connection>)> {
        if self.ended.is_some() {
            self.has_dropped |= instrs > 0;
            return None;
        }
        let seq = self.outbox.next();
        let head: Arc<[u8]> = encode(&ToServer::Stream { seq, instrs, bytes, message }).into();
        if self.outbox.push(head.clone(), head.len()).is_err() {
            self.end(Failure::new(
                FailureKind::WorkerLost,
                format!(
                    "the server has not acknowledged {} MiB of messages; the session was ended",
                    OUTBOX_BYTES >> 20
                ),
            ));
            return None;
        }
        if instrs > 0 {
            self.taken.push_back(Taken { seq, instrs, bytes });
            self.outstanding.0 += instrs as u64;
            self.outstanding.1 += bytes;
        }
        // While older messages wait to be sent again, this one waits behind them.
        Some((head, self.control.clone().filter(|_| !self.resend)))
    }

    /// The number of the next message, and below which all have been executed.
    pub fn watermarks(&self) -> (u64, u64) {
        (self.outbox.next(), self.executed)
    }

    /// Everything the server has not acked, as it goes out again.
    pub fn unreceived(&mut self) -> Vec<Arc<[u8]>> {
        // What was acked is not kept any more, so all that is kept is to be sent.
        let first = self.outbox.next() - self.outbox.len() as u64;
        self.outbox.resend(first).map(|kept| kept.map(|(_, head)| head.clone()).collect()).unwrap_or_default()
    }

    /// The server has received and executed so much.
    pub fn ack(&mut self, received: u64, executed: u64) -> Result<(), gt_net::NetError> {
        self.outbox.ack(received)?;
        self.executed = self.executed.max(executed);
        while let Some(taken) = self.taken.front().filter(|t| t.seq < executed) {
            self.outstanding.0 -= taken.instrs as u64;
            self.outstanding.1 -= taken.bytes;
            self.taken.pop_front();
        }
        self.uploads.retain(|(seq, ..)| *seq >= executed);
        Ok(())
    }

    /// Keeps payloads of the message that was pushed last.
    pub fn keep_uploads(&mut self, apart: &[(TensorId, Bytes)]) {
        let seq = self.outbox.next() - 1;
        self.uploads.extend(apart.iter().map(|(id, bytes)| (seq, *id, bytes.clone())));
    }

    /// The payloads that a new worker connection may not have seen.
    pub fn uploads(&self) -> Vec<(TensorId, Bytes)> {
        self.uploads.iter().map(|(_, id, bytes)| (*id, bytes.clone())).collect()
    }

    /// Whether everything sent has been executed.
    pub fn is_dry(&self) -> bool {
        self.taken.is_empty()
    }

    /// Whether something that was handed over has not run, be it because the session has ended.
    pub fn has_unrun(&self) -> bool {
        self.has_dropped || !self.is_dry()
    }

    /// A name for an answer.
    pub fn expect_answer(&mut self) -> u64 {
        self.requests += 1;
        self.answers.insert(self.requests, None);
        self.requests
    }

    /// The answer, if it is there.
    pub fn take_answer(&mut self, request: u64) -> Option<Answer> {
        self.answers.get_mut(&request)?.take()
    }

    /// Keeps an answer for who waits for it; one that nobody waits for any more is dropped.
    pub fn answer(&mut self, request: u64, answer: Answer) {
        if let Some(place) = self.answers.get_mut(&request) {
            *place = Some(answer);
        }
    }

    pub fn forget_answer(&mut self, request: u64) {
        self.answers.remove(&request);
        self.parts.remove(&request);
    }

    /// Whether somebody waits for an answer that has not come.
    pub fn is_awaited(&self, request: u64) -> bool {
        matches!(self.answers.get(&request), Some(None))
    }

    /// The body of an answer was cut short: `before` bytes of it had come earlier, and these. What nobody waits for is not kept.
    pub fn keep_part(&mut self, request: u64, before: u64, arrived: &[u8]) {
        let had = self.parts.get(&request).map_or(0, Vec::len);
        let is_awaited = self.is_awaited(request);
        let Some(before) = usize::try_from(before).ok().filter(|&before| is_awaited && before <= had) else { return };
        if before + arrived.len() > had {
            let part = self.parts.entry(request).or_default();
            part.truncate(before);
            part.extend_from_slice(arrived);
        }
    }

    /// The rest of a body has come: all of it, or nothing when what came before is not here.
    pub fn complete_part(&mut self, request: u64, before: u64, rest: &[u8]) -> Option<Vec<u8>> {
        let mut whole = self.parts.remove(&request)?;
        let before = usize::try_from(before).ok().filter(|&before| before <= whole.len())?;
        whole.truncate(before);
        whole.extend_from_slice(rest);
        Some(whole)
    }

    /// What a worker is told that is attached again.
    pub fn resumption(&self) -> Resumption {
        let is_awaited = |(request, answer): (&u64, &Option<Answer>)| answer.is_none().then_some(*request);
        let mut awaited: Vec<u64> = self.answers.iter().filter_map(is_awaited).collect();
        awaited.sort_unstable();
        // Of those that are not named, the worker sends everything again.
        let requests = awaited.get(MOST_RESUMED).copied().unwrap_or(self.requests + 1);
        awaited.truncate(MOST_RESUMED);
        let has = |request| (request, self.parts.get(&request).map_or(0, |part| part.len() as u64));
        Resumption {
            requests,
            awaited: awaited.into_iter().map(has).collect(),
            uploads: self.uploads.iter().take(MOST_RESUMED).map(|(_, id, _)| *id).collect(),
        }
    }

    /// A worker is gone: what it held is lost, and so are the answers it owed.
    pub fn worker_lost(&mut self, worker: &str, reason: &str) {
        self.losses += 1;
        self.lost_workers.push((worker.to_string(), reason.to_string()));
        self.news = true;
        let failure = self.live.lose(worker, reason);
        self.last_loss = Some(failure.clone());
        for answer in self.answers.values_mut().filter(|a| a.is_none()) {
            *answer = Some(Answer::Failed(failure.clone()));
        }
        self.parts.clear();
        // The server acks what went with the worker. What it had not received by then runs at the next home: it keeps what it
        // takes of the credits, and its payloads have to be sent there.
        self.workers.retain(|w| w.id != worker);
        self.home = None;
        self.data = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed_upload(state: &mut State, id: u64) {
        state.push(b"window", 1, 8).unwrap();
        state.keep_uploads(&[(TensorId(id), Bytes::from(vec![0; 8]))]);
    }

    fn kept(state: &State) -> Vec<u64> {
        state.uploads().iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn uploads_piled_up_while_a_worker_was_never_dry() {
        let mut state = State::new();
        (0..10).for_each(|id| pushed_upload(&mut state, id));
        state.ack(10, 4).unwrap();
        assert_eq!(kept(&state), [4, 5, 6, 7, 8, 9]);
        assert!(!state.is_dry());
    }

    #[test]
    fn a_large_answer_over_a_line_that_kept_breaking_began_anew_each_time() {
        let mut state = State::new();
        let (small, large, later) = (state.expect_answer(), state.expect_answer(), state.expect_answer());
        state.answer(small, Answer::Done);
        state.keep_part(large, 0, &[1, 2, 3]);
        state.keep_part(large, 3, &[4]);
        // A connection that was given up earlier says so later; and one that nobody waits for has nothing to keep.
        state.keep_part(large, 0, &[1]);
        state.keep_part(99, 0, &[1, 2]);
        let resumed = state.resumption();
        assert_eq!((resumed.requests, resumed.awaited), (later + 1, vec![(large, 4), (later, 0)]));
        assert_eq!(state.complete_part(later, 4, &[5]), None, "what came before is another's");
        assert_eq!(state.complete_part(large, 3, &[4, 5]), Some(vec![1, 2, 3, 4, 5]));
        state.keep_part(later, 0, &[9; 100]);
        state.forget_answer(later);
        assert!(state.parts.is_empty());
    }

    #[test]
    fn requests_that_are_not_named_are_not_taken_for_answered() {
        let mut state = State::new();
        let asked: Vec<u64> = (0..MOST_RESUMED + 5).map(|_| state.expect_answer()).collect();
        let resumed = state.resumption();
        assert_eq!((resumed.requests, resumed.awaited.len()), (asked[MOST_RESUMED], MOST_RESUMED));
    }

    #[test]
    fn uploads_under_way_when_a_worker_was_lost_never_reached_the_next_one() {
        let mut state = State::new();
        (0..3).for_each(|id| pushed_upload(&mut state, id));
        state.worker_lost("worker_0", "killed");
        // The server had received two of them; they went with the worker.
        state.ack(2, 2).unwrap();
        assert_eq!(kept(&state), [2]);
        assert!(!state.is_dry(), "the third still takes of the credits");
        state.ack(3, 3).unwrap();
        assert!(kept(&state).is_empty() && state.is_dry());
    }
}
