//! The way to a session's client: its data connection, and the answers that wait for one.
//!
//! OUTLET-1: answers leave in the order they were given, or wait in that order; with a body they may be overtaken on the way.
//! OUTLET-2: what waits is bounded, and counts on the session's account; a client that takes nothing loses its session, not the worker's
//! memory.
//! OUTLET-3: a network may lose what was sent. So answers with a body are kept until the client has them, which it says; of the others, which
//! nobody acks, the last ones for a while. A client that comes back says what it still awaits and how much of that it has: the rest goes
//! out again. One too large to be kept beside others goes as a failure: no wait is for ever.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gt_ir::{Bytes, Failure, FailureKind, HostTensor, TensorId, TensorType};
use gt_net::protocol::{DataReply, ReadAnswer, Resumption, encode};
use gt_net::{Connection, NetError};
use parking_lot::Mutex;

use super::arrivals::Origin;
use super::config::HeldLimits;
use gt_worker::{Charge, Copied, ReadError, SessionMemory};

/// Values up to this size travel in the head.
const IN_HEAD_BYTES: usize = 64 << 10;
/// What an answer takes besides its bytes.
const OVERHEAD_BYTES: usize = 128;

/// How long, and how much, of what was sent is kept for another connection.
const KEPT_FOR: Duration = Duration::from_secs(30);
const KEPT_ANSWERS: usize = 256;

struct Waiting {
    request: u64,
    head: Vec<u8>,
    /// It counts by itself.
    body: Option<Bytes>,
    _charge: Charge,
}

/// An answer that was sent over a network.
struct Sent {
    request: u64,
    answer: Option<Waiting>,
    since: Instant,
}

impl Sent {
    fn has_body(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.body.is_some())
    }
}

impl Waiting {
    fn len_bytes(&self) -> usize {
        self.head.len() + self.body.as_ref().map_or(0, |body| body.len()) + OVERHEAD_BYTES
    }

    fn send(&self, connection: &Connection) -> Result<(), NetError> {
        self.send_rest(connection, 0)
    }

    /// Sends it again to somebody who has the first bytes of its body.
    fn send_rest(&self, connection: &Connection, from: u64) -> Result<(), NetError> {
        let Some(body) = &self.body else { return connection.send(&self.head) };
        match usize::try_from(from) {
            Ok(before) if before > 0 && before <= body.len() => {
                let head = encode(&DataReply::Rest { from, message: &self.head });
                connection.send_with_rest(&head, body.clone(), before)
            }
            _ => connection.send_with_body(&self.head, body.clone()),
        }
    }
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// The session is over.
    closed: bool,
    /// More waits than may: nothing more is kept.
    overfull: bool,
    /// Questions without an answer.
    owed: u64,
    /// What the network may have lost (OUTLET-3).
    sent: VecDeque<Sent>,
    sent_bytes: usize,
    /// Workers that cannot be reached from here, as it is said: every connection hears of all of them, and a client knows which are news.
    out_of_reach: Vec<Vec<u8>>,
}

impl State {
    fn keep(&mut self, answer: Waiting, most_bytes: usize) {
        let (request, len_bytes) = (answer.request, answer.len_bytes());
        // A single large one is kept whatever it takes: it is in memory already, and goes when it has come.
        let is_only_large = answer.body.is_some() && !self.sent.iter().any(Sent::has_body);
        let kept = self.sent_bytes + len_bytes <= most_bytes || is_only_large;
        if kept {
            self.sent_bytes += len_bytes;
        }
        self.sent.push_back(Sent { request, answer: kept.then_some(answer), since: Instant::now() });
        let small = self.sent.iter().filter(|sent| !sent.has_body()).count();
        self.forget_small(small.saturating_sub(KEPT_ANSWERS));
    }

    /// Forgets the oldest answers without a body.
    fn forget_small(&mut self, mut count: usize) {
        self.forget(|sent| {
            let goes = count > 0 && !sent.has_body();
            count -= goes as usize;
            goes
        });
    }

    fn forget(&mut self, mut goes: impl FnMut(&Sent) -> bool) {
        let mut gone_bytes = 0;
        self.sent.retain(|sent| {
            let goes = goes(sent);
            if goes {
                gone_bytes += sent.answer.as_ref().map_or(0, Waiting::len_bytes);
            }
            !goes
        });
        self.sent_bytes -= gone_bytes;
    }

    /// Sends again what the last connection may have lost, as far as the client does not have it.
    fn send_again(&mut self, connection: &Connection, resume: Option<&Resumption>) {
        let has = |request: u64| -> Option<u64> {
            let Some(resume) = resume.filter(|resume| request < resume.requests) else { return Some(0) };
            let at = resume.awaited.binary_search_by_key(&request, |(awaited, _)| *awaited).ok()?;
            resume.awaited.get(at).map(|(_, bytes)| *bytes)
        };
        self.forget(|sent| has(sent.request).is_none());
        for Sent { request, answer, since } in &mut self.sent {
            *since = Instant::now();
            let _ = match answer {
                Some(answer) => answer.send_rest(connection, has(*request).unwrap_or(0)),
                None => {
                    let message = "the connection was lost while the value was being sent; read it again";
                    let failure = Failure::new(FailureKind::WorkerLost, message);
                    let answer = ReadAnswer::Failed { failure };
                    connection.send(&encode(&DataReply::Answer { request: *request, answer }))
                }
            };
        }
    }
}

/// One session's way out.
pub(super) struct Outlet {
    state: Mutex<State>,
    held: HeldLimits,
    memory: SessionMemory,
}

impl Outlet {
    pub(super) fn new(held: HeldLimits, memory: SessionMemory) -> Self {
        Outlet { state: Mutex::default(), held, memory }
    }

    /// A client has shown that it is the session's: it is told what has come of its uploads, and gets what waits. One that was here before
    /// is gone, or forgotten.
    pub(super) fn attach(&self, connection: &Connection, uploads: Vec<(TensorId, u64)>, resume: Option<&Resumption>) {
        let mut state = self.state.lock();
        let old = match state.closed {
            true => None,
            false => state.connection.replace(connection.clone()),
        };
        // Told under the lock, so that it comes before any answer.
        let _ = connection.send(&encode(&DataReply::Attached { uploads }));
        state.send_again(connection, resume);
        state.out_of_reach.iter().for_each(|head| _ = connection.send(head));
        self.send_waiting(&mut state);
        drop(state);
        if let Some(old) = old.filter(|old| !old.is_same(connection)) {
            old.close();
        }
    }

    /// The connection is gone.
    pub(super) fn detach(&self, connection: &Connection) {
        let mut state = self.state.lock();
        if state.connection.as_ref().is_some_and(|c| c.is_same(connection)) {
            state.connection = None;
        }
    }

    /// Tries again what had no room, and forgets what has surely come.
    pub(super) fn flush(&self) {
        let mut state = self.state.lock();
        self.send_waiting(&mut state);
        // One with a body may be on its way for long.
        if state.sent.front().is_some_and(|sent| sent.since.elapsed() > KEPT_FOR) {
            state.forget(|sent| !sent.has_body() && sent.since.elapsed() > KEPT_FOR);
        }
    }

    /// The client has this answer.
    pub(super) fn got(&self, request: u64) {
        self.state.lock().forget(|sent| sent.request == request);
    }

    /// A question was asked, and will be answered.
    pub(super) fn owe(&self) {
        self.state.lock().owed += 1;
    }

    /// Whether every question has been answered, and the answers are on their way.
    pub(super) fn is_even(&self) -> bool {
        let state = self.state.lock();
        state.owed == 0 && state.waiting.is_empty()
    }

    /// Says what came of a read. Not that the session has ended here: whoever ended it tells the client why, and what it lost.
    pub(super) fn value(&self, request: u64, value: Result<Copied, ReadError>) {
        match value {
            Ok(Copied { tensor: HostTensor { ty, bytes }, .. }) if bytes.len() <= IN_HEAD_BYTES => {
                self.answer(request, ReadAnswer::Value { ty, bytes: Some(&bytes) }, None)
            }
            Ok(Copied { tensor: HostTensor { ty, bytes }, charge }) => {
                let mut bytes = Bytes::from(bytes);
                if let Some(charge) = charge {
                    bytes = bytes.accompanied_by(Box::new(charge));
                }
                self.answer(request, ReadAnswer::Value { ty, bytes: None }, Some(bytes))
            }
            Err(ReadError::Stopped) => self.cancel_owed(),
            Err(error) => self.answer(request, ReadAnswer::Failed { failure: failure(error) }, None),
        }
    }

    /// Says what a loader's next batch is.
    pub(super) fn batch(&self, request: u64, types: Vec<TensorType>, note: Bytes) {
        match note.len() <= IN_HEAD_BYTES {
            true => self.answer(request, ReadAnswer::Batch { types, note: Some(&note) }, None),
            false => self.answer(request, ReadAnswer::Batch { types, note: None }, Some(note)),
        }
    }

    /// A question that nobody wants to be answered any more.
    pub(super) fn cancel_owed(&self) {
        let mut state = self.state.lock();
        state.owed = state.owed.saturating_sub(1);
    }

    /// Says that everything before has run.
    pub(super) fn done(&self, request: u64, result: Result<(), ReadError>) {
        let answer = match result {
            Ok(()) => ReadAnswer::Done {},
            Err(ReadError::Stopped) => return self.cancel_owed(),
            Err(error) => ReadAnswer::Failed { failure: failure(error) },
        };
        self.answer(request, answer, None)
    }

    /// Gives an answer.
    pub(super) fn answer(&self, request: u64, answer: ReadAnswer<'_>, body: Option<Bytes>) {
        let head = encode(&DataReply::Answer { request, answer });
        let charge = self.memory.hold_words(head.len() + OVERHEAD_BYTES);
        let mut state = self.state.lock();
        state.owed = state.owed.saturating_sub(1);
        if state.closed || state.overfull {
            return;
        }
        let Ok(_charge) = charge else {
            state.overfull = true;
            return;
        };
        let waiting = Waiting { request, head, body, _charge };
        state.waiting_bytes += waiting.len_bytes();
        state.waiting.push_back(waiting);
        self.send_waiting(&mut state);
        // A single answer may be as large as it is: it is in memory already.
        state.overfull = state.waiting.len() > 1 && state.waiting_bytes > self.held.answer_bytes;
    }

    /// Says that a worker cannot be reached from here.
    pub(super) fn out_of_reach(&self, worker: Origin, reason: &str) {
        let Origin { number, epoch } = worker;
        let head = encode(&DataReply::OutOfReach { number, epoch, reason: reason.to_string() });
        let mut state = self.state.lock();
        if let Some(connection) = &state.connection {
            let _ = connection.send(&head);
        }
        state.out_of_reach.push(head);
    }

    /// How many reports of workers out of reach are kept.
    pub(super) fn records(&self) -> usize {
        self.state.lock().out_of_reach.len()
    }

    /// Whether the client takes so little that answers were dropped (OUTLET-2).
    pub(super) fn is_overfull(&self) -> bool {
        self.state.lock().overfull
    }

    fn send_waiting(&self, state: &mut State) {
        let Some(connection) = state.connection.clone() else { return };
        while let Some(answer) = state.waiting.pop_front_if(|next| next.send(&connection).is_ok()) {
            state.waiting_bytes -= answer.len_bytes();
            if !connection.is_same_host() {
                state.keep(answer, self.held.sent_bytes);
            }
        }
    }

    /// The session is over: the client is told why, if there is something to tell.
    pub(super) fn close(&self, reason: Option<&str>) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
        state.sent.clear();
        (state.waiting_bytes, state.sent_bytes) = (0, 0);
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            if let Some(reason) = reason {
                let _ = connection.send(&encode(&DataReply::Refused { reason: reason.to_string() }));
            }
            connection.close();
        }
    }
}

/// What a client is told.
pub(super) fn failure(error: ReadError) -> Failure {
    match error {
        ReadError::Failed(failure) => (*failure).clone(),
        ReadError::Stopped | ReadError::Interrupted => {
            Failure::new(FailureKind::WorkerLost, "the worker has closed the session")
        }
    }
}
