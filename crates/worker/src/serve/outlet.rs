//! The way to a session's client: its data connection, and the answers that wait for one.
//!
//! OUTLET-1: answers leave in the order they were given, or wait in that order; with a body they may be overtaken on the way.
//! OUTLET-2: what waits is bounded; a client that takes nothing loses its session, not the worker's memory.

use std::collections::VecDeque;

use gt_ir::{Bytes, Failure, FailureKind, HostTensor};
use gt_net::protocol::{DataReply, ReadAnswer, encode};
use gt_net::{Connection, NetError};
use parking_lot::Mutex;

use crate::ReadError;

/// Values up to this size travel in the head.
const IN_HEAD_BYTES: usize = 64 << 10;
/// What an answer takes besides its bytes.
const OVERHEAD_BYTES: usize = 128;

struct Waiting {
    head: Vec<u8>,
    body: Option<Bytes>,
}

impl Waiting {
    fn len_bytes(&self) -> usize {
        self.head.len() + self.body.as_ref().map_or(0, |body| body.len()) + OVERHEAD_BYTES
    }

    fn send(&self, connection: &Connection) -> Result<(), NetError> {
        match &self.body {
            None => connection.send(&self.head),
            Some(body) => connection.send_with_body(&self.head, body.clone()),
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
}

/// One session's way out.
pub(super) struct Outlet {
    state: Mutex<State>,
    most_bytes: usize,
}

impl Outlet {
    pub(super) fn new(most_bytes: usize) -> Self {
        Outlet { state: Mutex::default(), most_bytes }
    }

    /// A client has shown that it is the session's: it gets what waits. One that was here before is gone, or forgotten.
    pub(super) fn attach(&self, connection: &Connection) {
        let mut state = self.state.lock();
        let old = match state.closed {
            true => None,
            false => state.connection.replace(connection.clone()),
        };
        // Told under the lock, so that it comes before any answer.
        let _ = connection.send(&encode(&DataReply::Attached {}));
        flush(&mut state);
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

    /// Tries again what had no room.
    pub(super) fn flush(&self) {
        flush(&mut self.state.lock());
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

    /// Says what came of a read.
    pub(super) fn value(&self, request: u64, value: Result<HostTensor, ReadError>) {
        match value {
            Ok(HostTensor { ty, bytes }) if bytes.len() <= IN_HEAD_BYTES => {
                self.answer(request, ReadAnswer::Value { ty, bytes: Some(&bytes) }, None)
            }
            Ok(HostTensor { ty, bytes }) => {
                self.answer(request, ReadAnswer::Value { ty, bytes: None }, Some(bytes.into()))
            }
            Err(error) => self.answer(request, ReadAnswer::Failed { failure: failure(error) }, None),
        }
    }

    /// Says that everything before has run.
    pub(super) fn done(&self, request: u64, result: Result<(), ReadError>) {
        let answer = match result {
            Ok(()) => ReadAnswer::Done {},
            Err(error) => ReadAnswer::Failed { failure: failure(error) },
        };
        self.answer(request, answer, None)
    }

    /// Gives an answer.
    pub(super) fn answer(&self, request: u64, answer: ReadAnswer<'_>, body: Option<Bytes>) {
        let waiting = Waiting { head: encode(&DataReply::Answer { request, answer }), body };
        let mut state = self.state.lock();
        state.owed = state.owed.saturating_sub(1);
        if state.closed || state.overfull {
            return;
        }
        state.waiting_bytes += waiting.len_bytes();
        state.waiting.push_back(waiting);
        flush(&mut state);
        // A single answer may be as large as it is: it is in memory already.
        state.overfull = state.waiting.len() > 1 && state.waiting_bytes > self.most_bytes;
    }

    /// Whether the client takes so little that answers were dropped (OUTLET-2).
    pub(super) fn is_overfull(&self) -> bool {
        self.state.lock().overfull
    }

    /// The session is over: the client is told why, if there is something to tell.
    pub(super) fn close(&self, reason: Option<&str>) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
        state.waiting_bytes = 0;
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

fn flush(state: &mut State) {
    let State { connection: Some(connection), waiting, waiting_bytes, .. } = state else { return };
    while let Some(next) = waiting.pop_front_if(|next| next.send(connection).is_ok()) {
        *waiting_bytes -= next.len_bytes();
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
